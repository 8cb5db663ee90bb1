
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


/*
 * Checks a JSON object that a client sends, field by field, with a table, and
 * writes a new object for OpenCode, in one line.  Fields that are not in the
 * table, or that the configuration forbids, are refused.
 */


/* the fields that "agentstream_fields" can list */

#define NGX_HTTP_AGENTSTREAM_FIELD_CONTENT     0x0002
#define NGX_HTTP_AGENTSTREAM_FIELD_PARTS       0x0004
#define NGX_HTTP_AGENTSTREAM_FIELD_MODEL       0x0008
#define NGX_HTTP_AGENTSTREAM_FIELD_AGENT       0x0010
#define NGX_HTTP_AGENTSTREAM_FIELD_SYSTEM      0x0020
#define NGX_HTTP_AGENTSTREAM_FIELD_VARIANT     0x0040
#define NGX_HTTP_AGENTSTREAM_FIELD_TOOLS       0x0080
#define NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID  0x0100
#define NGX_HTTP_AGENTSTREAM_FIELD_TITLE       0x0200
#define NGX_HTTP_AGENTSTREAM_FIELD_NAME        0x0400
#define NGX_HTTP_AGENTSTREAM_FIELD_ALL         0x07fe


/* the configuration of these fields */

typedef struct {
    ngx_uint_t                           allowed;  /* bits of the fields
                                                      above */

    /* set by the configuration instead of the client, not escaped; or empty */
    ngx_str_t                            agent;
    ngx_str_t                            provider; /* provider and model: both
                                                      or none */
    ngx_str_t                            model;
} ngx_http_agentstream_fields_conf_t;


/* tells what is wrong, and with which field */

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


/* a row of a table; the table ends with a name that is NULL */

typedef struct {
    const char                          *name;
    ngx_uint_t                           bit;      /* 0: cannot be forbidden */
    ngx_uint_t                           required;
    ngx_http_agentstream_fields_pt       handler;
} ngx_http_agentstream_field_t;


/* one object that is being built; the caller sets the members up to data, and
   zeroes the others */

struct ngx_http_agentstream_fields_s {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_field_t        *table;
    ngx_http_agentstream_fields_conf_t  *conf;     /* NULL: all is allowed */
    ngx_str_t                            head;     /* the beginning of the
                                                      body: "{", perhaps
                                                      followed by members */
    const char                          *model_id; /* OpenCode's name for
                                                      "modelID" of a model */
    ngx_http_agentstream_fields_error_t *error;
    void                                *data;

    ngx_uint_t                           refused;  /* bits, set by build() */
    ngx_http_agentstream_json_t          json;     /* exists while the body is
                                                      built */
    ngx_str_t                            body;     /* for OpenCode */
    u_char                              *last;
};


/* NGX_OK: body is complete; NGX_DECLINED: error tells why not; NGX_ERROR: no
   memory.  Strings in text may be decoded in place. */
ngx_int_t ngx_http_agentstream_fields_build(
    ngx_http_agentstream_fields_t *fields, ngx_str_t *text);

/* splits "provider/model", both of which must not be empty; NGX_OK,
   NGX_DECLINED */
ngx_int_t ngx_http_agentstream_fields_split(ngx_str_t *value,
    ngx_str_t *provider, ngx_str_t *model);

/* handlers that several tables use: a string that is not empty; {"providerID":
   string, "modelID": string} */
ngx_int_t ngx_http_agentstream_fields_string(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
ngx_int_t ngx_http_agentstream_fields_model(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);

/* functions for handlers */

/* a name that the client chose, shortened for a message */
ngx_str_t ngx_http_agentstream_fields_shown(
    ngx_http_agentstream_fields_t *fields, ngx_uint_t name);

/* formats the error, and returns NGX_DECLINED */
ngx_int_t ngx_http_agentstream_fields_refuse(
    ngx_http_agentstream_fields_t *fields, const char *fmt, ...);

/* writes the name and then the value, unchanged except that it is in one line;
   returns NGX_OK */
ngx_int_t ngx_http_agentstream_fields_member(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);

/* write a value, an escaped slice, or a text as it is; there is room for the
   client's text and 64 bytes more for each value in it */
void ngx_http_agentstream_fields_name(ngx_http_agentstream_fields_t *fields,
    const char *name);
void ngx_http_agentstream_fields_value(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t value);
void ngx_http_agentstream_fields_copy(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *escaped);
void ngx_http_agentstream_fields_write(ngx_http_agentstream_fields_t *fields,
    const char *text);


#endif /* _NGX_HTTP_AGENTSTREAM_FIELDS_H_INCLUDED_ */
