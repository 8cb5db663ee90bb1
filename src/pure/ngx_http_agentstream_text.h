
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Texts of clients, OpenCode or variables are escaped before they are written
 * to a log, because a line end in them would begin a new line of the log.
 */


/* the size of a buffer for one escaped text */
#define NGX_HTTP_AGENTSTREAM_TEXT_SIZE  512

/* characters that are not printable ASCII, quotes and backslashes become \xHH,
   as in nginx's own access logs; a text that is too long is cut off, and "..."
   is appended; the result points into buf, which has
   NGX_HTTP_AGENTSTREAM_TEXT_SIZE bytes */
ngx_str_t ngx_http_agentstream_text_escape(u_char *buf, ngx_str_t *src);


#endif /* _NGX_HTTP_AGENTSTREAM_TEXT_H_INCLUDED_ */
