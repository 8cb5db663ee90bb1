
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_NAME_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_NAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Names and owners of sessions.  A name becomes a session id by computation
 * alone, and an id tells by itself whether it belongs to an owner.  So every
 * worker, every machine and every restart finds the same session, and no table
 * is kept anywhere.
 *
 * An id is "ses_", 10 digits that say which session of its owner it is, and 16
 * digits, the seal, that say whose it is.  All digits are base 62.  The .c file
 * says how safe this is, and what an attacker can choose.
 */


/* whether libcrypto was there when the module was built: without it a name is
   only checked, and all else is NGX_ERROR */
#if (NGX_HTTP_AGENTSTREAM_CRYPTO)
#define NGX_HTTP_AGENTSTREAM_NAMES        1
#else
#define NGX_HTTP_AGENTSTREAM_NAMES        0
#endif


#define NGX_HTTP_AGENTSTREAM_NAME_MAX     80

#define NGX_HTTP_AGENTSTREAM_NAME_DIGITS  10
#define NGX_HTTP_AGENTSTREAM_NAME_SEAL    16

/* of a session id that was made here */
#define NGX_HTTP_AGENTSTREAM_NAME_ID_LEN                                      \
    (sizeof("ses_") - 1 + NGX_HTTP_AGENTSTREAM_NAME_DIGITS                    \
     + NGX_HTTP_AGENTSTREAM_NAME_SEAL)


/* within one scope a name is one session; any member may be empty */

typedef struct {
    ngx_str_t                            server;     /* its first name */
    ngx_str_t                            prefix;     /* "agentstream" */
    ngx_str_t                            route;      /* "agentstream_route" */
    ngx_str_t                            owner;      /* "agentstream_owner" */
    ngx_str_t                            directory;  /* "agentstream_directory"
                                                      */
} ngx_http_agentstream_name_scope_t;


/* whether it is 1 to 80 of A-Z a-z 0-9 . _ : ~ - */
ngx_uint_t ngx_http_agentstream_name_valid(ngx_str_t *name);

/* the id of the session that has this name; id has room for NAME_ID_LEN bytes.
   NGX_ERROR: libcrypto has no memory */
ngx_int_t ngx_http_agentstream_name_id(
    ngx_http_agentstream_name_scope_t *scope, ngx_str_t *name, u_char *id);

/* the id of a session without a name: seed has 8 bytes that nobody has used
   before; NULL: random ones are taken */
ngx_int_t ngx_http_agentstream_name_new(ngx_str_t *owner, u_char *seed,
    u_char *id);

/* NGX_OK: a session with this id is the owner's; NGX_DECLINED: it is somebody
   else's, or was not made here */
ngx_int_t ngx_http_agentstream_name_owned(ngx_str_t *owner, ngx_str_t *id);


#endif /* _NGX_HTTP_AGENTSTREAM_NAME_H_INCLUDED_ */
