
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


/*
 * A JSON object that a client sends, checked field by field
 * with a table and written anew for OpenCode, in one line.  What is not in the
 * table is refused, and so is what the configuration forbids.
 */


/* what "agentstream_fields" can list */

#define NGX_HTTP_AGENTSTREAM_FIELD_CONTENT     0x0002
#define NGX_HTTP_AGENTSTREAM_FIELD_PARTS       0x0004
#define NGX_HTTP_AGENTSTREAM_FIELD_MODEL       0x0008
#define NGX_HTTP_AGENTSTREAM_FIELD_AGENT       0x0010
#define NGX_HTTP_AGENTSTREAM_FIELD_SYSTEM      0x0020
#define NGX_HTTP_AGENTSTREAM_FIELD_VARIANT     0x0040
#define NGX_HTTP_AGENTSTREAM_FIELD_TOOLS       0x0080
#define NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID  0x0100
#define NGX_HTTP_AGENTSTREAM_FIELD_TITLE       0x0200
#define NGX_HTTP_AGENTSTREAM_FIELD_ALL         0x03fe


/* what the configuration says of them */

typedef struct {
    ngx_uint_t                           allowed;  /* bits of those above */

    /* set here and not by the client; as they are, not escaped; or empty */
    ngx_str_t                            agent;
    ngx_str_t                            provider; /* both or none */
    ngx_str_t                            model;
} ngx_http_agentstream_fields_conf_t;


/* what is wrong, and with which field */

typedef struct {
    size_t                               len;
    u_char                               data[128];
} ngx_http_agentstream_fields_error_t;


typedef struct ngx_http_agentstream_fields_s  ngx_http_agentstream_fields_t;

/* checks a value and writes it; NGX_OK, NGX_DECLINED: refused, NGX_ERROR: no
   memory */
typedef ngx_int_t (*ngx_http_agentstream_fields_pt)(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);


/* a table of them ends with a name that is NULL */

typedef struct {
    const char                          *name;
    ngx_uint_t                           bit;      /* 0: cannot be forbidden */
    ngx_uint_t                           required;
    ngx_http_agentstream_fields_pt       handler;
} ngx_http_agentstream_field_t;


/* one object on its way; set by who builds it, all else zeroed */

struct ngx_http_agentstream_fields_s {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_field_t        *table;
    ngx_http_agentstream_fields_conf_t  *conf;     /* NULL: all is allowed */
    ngx_str_t                            head;     /* how it begins: "{", and
                                                      perhaps members */
    const char                          *model_id; /* OpenCode's name of a
                                                      model's "modelID" */
    ngx_http_agentstream_fields_error_t *error;
    void                                *data;

    ngx_uint_t                           refused;  /* bits, set by build() */
    ngx_http_agentstream_json_t          json;     /* while it is built */
    ngx_str_t                            body;     /* for OpenCode */
    u_char                              *last;
};


/* NGX_OK: body is complete; NGX_DECLINED: error says why; NGX_ERROR: no
   memory.  Strings in text may be decoded in place. */
ngx_int_t ngx_http_agentstream_fields_build(
    ngx_http_agentstream_fields_t *fields, ngx_str_t *text);

/* "provider/model", both not empty; NGX_OK, NGX_DECLINED */
ngx_int_t ngx_http_agentstream_fields_split(ngx_str_t *value,
    ngx_str_t *provider, ngx_str_t *model);

/* handlers that tables share: a string that is not empty; {"providerID":
   string, "modelID": string} */
ngx_int_t ngx_http_agentstream_fields_string(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
ngx_int_t ngx_http_agentstream_fields_model(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);

/* for handlers */

/* a name that a client made up, as a message can show it */
ngx_str_t ngx_http_agentstream_fields_shown(
    ngx_http_agentstream_fields_t *fields, ngx_uint_t name);

/* says why, and is NGX_DECLINED */
ngx_int_t ngx_http_agentstream_fields_refuse(
    ngx_http_agentstream_fields_t *fields, const char *fmt, ...);

/* the name and then the value, as it came but in one line; NGX_OK */
ngx_int_t ngx_http_agentstream_fields_member(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);

/* a value, an escaped slice, a text as it is; there is room for what came and
   64 bytes more for each value in it */
void ngx_http_agentstream_fields_name(ngx_http_agentstream_fields_t *fields,
    const char *name);
void ngx_http_agentstream_fields_value(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t value);
void ngx_http_agentstream_fields_copy(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *escaped);
void ngx_http_agentstream_fields_write(ngx_http_agentstream_fields_t *fields,
    const char *text);


#endif /* _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_ */
