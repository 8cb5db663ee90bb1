
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Whatever clients, OpenCode or variables say is escaped before
 * it goes to a log: a line end in it would make a line of its own.
 */


/* room for the text of one log line */
#define NGX_HTTP_AGENTSTREAM_TEXT_SIZE  512

/* what is not a printable ASCII character, and quotes and backslashes, become
   \xHH, as in nginx's own access logs; what finds no room is cut off, and "..."
   says so; buf has NGX_HTTP_AGENTSTREAM_TEXT_SIZE bytes, and is what the result
   points to */
ngx_str_t ngx_http_agentstream_text_escape(u_char *buf, ngx_str_t *src);


#endif /* _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_ */
