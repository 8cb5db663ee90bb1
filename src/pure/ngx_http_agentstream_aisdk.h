
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_AISDK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_AISDK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_fields.h"
#include "ngx_http_agentstream_wire.h"


/*
 * The protocol of the AI SDK, docs/protocols.md, "ai-sdk": how the records of a
 * turn become the chunks of a UI message stream, and what the body of a chat
 * asks for.
 */


/* a turn as a UI message stream; it ends when something is asked.  The request
   of its state is the aisdk_chat_t that it continues, or NULL */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_aisdk_wire;
/* an error alone: its sentence, as the library shows it */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_aisdk_error;


typedef struct {
    ngx_str_t                            name;     /* "id" of the chat, a valid
                                                      name */

    /* a new message: for prompt_build() */
    ngx_str_t                            prompt;

    /* no new message: the turn that the client continues, the last record of it
       that the client has, the last records of the responses before that one,
       in ascending order, and what it has answered */
    ngx_str_t                            turn;
    uint64_t                             seq;
    ngx_array_t                          ends;     /* of uint64_t */
    ngx_array_t                          answers;  /* of body_answer_t */

    ngx_http_agentstream_fields_error_t  error;
} ngx_http_agentstream_aisdk_chat_t;


/* the bytes that the end of a response takes for where the earlier ones have
   ended: what is pending in a state whose request is this one from the
   beginning */
#define ngx_http_agentstream_aisdk_ends(chat)                                 \
    (((chat)->ends.nelts + 1) * (NGX_INT64_LEN + 1))


/* reads the body of a chat; prompt is empty if the client continues a turn.
   Everything is in the pool.  NGX_OK, NGX_DECLINED: error tells why, NGX_ERROR:
   no memory */
ngx_int_t ngx_http_agentstream_aisdk_chat(ngx_pool_t *pool, ngx_str_t *text,
    ngx_http_agentstream_aisdk_chat_t *chat);


#endif /* _NGX_HTTP_AGENTSTREAM_AISDK_H_INCLUDED_ */
