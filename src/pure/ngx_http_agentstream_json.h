
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_JSON_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * One pass over a text validates it (RFC 8259 and UTF-8) and leaves a flat
 * index of its values; nothing is decoded or copied.  A value is known by the
 * number of its token.  Number 0 belongs to no value and means "absent":
 * a lookup that finds nothing returns it, and every function below accepts it,
 * so that lookups can be chained without a test in between.  Slices point into
 * the text they came from.
 */


#define NGX_HTTP_AGENTSTREAM_JSON_MAX_DEPTH  512


typedef enum {
    NGX_HTTP_AGENTSTREAM_JSON_NONE = 0,
    NGX_HTTP_AGENTSTREAM_JSON_OBJECT,
    NGX_HTTP_AGENTSTREAM_JSON_ARRAY,
    NGX_HTTP_AGENTSTREAM_JSON_STRING,
    NGX_HTTP_AGENTSTREAM_JSON_NUMBER,
    NGX_HTTP_AGENTSTREAM_JSON_TRUE,
    NGX_HTTP_AGENTSTREAM_JSON_FALSE,
    NGX_HTTP_AGENTSTREAM_JSON_NULL
} ngx_http_agentstream_json_type_e;


typedef struct {
    uint32_t                             start;   /* includes quotes, braces */
    uint32_t                             end;
    uint32_t                             next;    /* the token after the value
                                                     and all it contains */
    uint32_t                             type;    /* a type, with the flag
                                                     below */
} ngx_http_agentstream_json_token_t;


/* a flag in a token's type: the string contains a backslash */
#define NGX_HTTP_AGENTSTREAM_JSON_ESCAPED    0x100


/* owned by whoever created it; tokens are reused from parse to parse */

typedef struct {
    u_char                              *text;
    ngx_uint_t                           root;    /* the value of the text;
                                                     0 unless it is valid */
    ngx_http_agentstream_json_token_t   *tokens;  /* the first is reserved */
    ngx_uint_t                           ntokens;
    ngx_uint_t                           nalloc;
} ngx_http_agentstream_json_t;


/* the running hash of a decoded string, see json_hash() */

typedef struct {
    uint64_t                             hash;
    size_t                               len;     /* decoded bytes */
} ngx_http_agentstream_json_hash_t;


/* a zeroed json is ready for parse; NGX_OK, NGX_DECLINED: not a valid JSON
   text, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_json_parse(ngx_http_agentstream_json_t *json,
    u_char *text, size_t len);
void ngx_http_agentstream_json_destroy(ngx_http_agentstream_json_t *json);

ngx_uint_t ngx_http_agentstream_json_type(ngx_http_agentstream_json_t *json,
    ngx_uint_t value);

/* the value of an object's member; the last one if the name is repeated; 0 if
   there is none, or if the value is not an object */
ngx_uint_t ngx_http_agentstream_json_get(ngx_http_agentstream_json_t *json,
    ngx_uint_t object, const char *name);

/*
 * Iterates over the elements of an array, or the names of an object (the
 * member's value is the token after its name); 0 ends the loop:
 * for (v = json_first(j, a); v; v = json_next(j, a, v))
 */
ngx_uint_t ngx_http_agentstream_json_first(ngx_http_agentstream_json_t *json,
    ngx_uint_t container);
ngx_uint_t ngx_http_agentstream_json_next(ngx_http_agentstream_json_t *json,
    ngx_uint_t container, ngx_uint_t value);

/* the value as it stands in the text, quotes included; empty when absent */
ngx_str_t ngx_http_agentstream_json_raw(ngx_http_agentstream_json_t *json,
    ngx_uint_t value);

/* a string's contents, still escaped, without quotes; empty for all other
   values */
ngx_str_t ngx_http_agentstream_json_string(ngx_http_agentstream_json_t *json,
    ngx_uint_t value);

/* whether the value is a string that decodes to the given text */
ngx_uint_t ngx_http_agentstream_json_is(ngx_http_agentstream_json_t *json,
    ngx_uint_t value, const char *text);

/* an integer within the range of int64_t; dflt for all other values, also for
   a fraction */
int64_t ngx_http_agentstream_json_integer(ngx_http_agentstream_json_t *json,
    ngx_uint_t value, int64_t dflt);

/* decodes a valid escaped slice; dst has room for src->len bytes, and may be
   the slice itself; a surrogate without its other half becomes U+FFFD; returns
   the end */
u_char *ngx_http_agentstream_json_decode(u_char *dst, ngx_str_t *src);

/* the most bytes that json_escape() writes */
#define ngx_http_agentstream_json_escape_size(len)  ((len) * 6)

/* escapes UTF-8 text for a JSON string; bytes that are not UTF-8 become
   U+FFFD; returns the end */
u_char *ngx_http_agentstream_json_escape(u_char *dst, u_char *src, size_t len);

/*
 * Copies an escaped slice, or a raw value, so that the copy is one line of
 * valid text: a surrogate escape without its other half becomes \ufffd, CR and
 * LF between tokens become spaces.  The length stays the same.
 */
u_char *ngx_http_agentstream_json_copy(u_char *dst, ngx_str_t *src);

/* length of a trailing \ud8xx..\udbxx escape that lacks its other half, or 0 */
size_t ngx_http_agentstream_json_half_pair(ngx_str_t *escaped);

/*
 * Hashes the decoded text of escaped slices, one slice after the other: the
 * same text has the same hash, however it was escaped or cut.  A slice must
 * not end between the halves of a surrogate pair.  Start with
 * json_hash_init().
 */
void ngx_http_agentstream_json_hash_init(ngx_http_agentstream_json_hash_t *h);
void ngx_http_agentstream_json_hash(ngx_http_agentstream_json_hash_t *h,
    ngx_str_t *escaped);

/*
 * Whether escaped begins with the text that was hashed in h.  NGX_OK: it does,
 * and rest is the remainder, which may be empty; NGX_DECLINED: it does not.
 */
ngx_int_t ngx_http_agentstream_json_hash_prefix(
    ngx_http_agentstream_json_hash_t *h, ngx_str_t *escaped, ngx_str_t *rest);


/*
 * Cuts an array into its elements while it arrives. handler gets each element
 * whole; it is valid only during the call.  Any result of the handler but
 * NGX_OK stops feed(), which returns it; feed() can then be called again with
 * the rest of the input.  Zero the struct, and set limit (of an element, 0:
 * none), handler and ctx.
 */

#define NGX_HTTP_AGENTSTREAM_JSON_SPLIT_KEEP  65536

typedef struct {
    size_t                               limit;
    ngx_int_t                          (*handler)(void *ctx, u_char *text,
                                             size_t len);
    void                                *ctx;

    u_char                              *buf;     /* an element that continues
                                                     in the next input,
                                                     malloc()ed */
    size_t                               len;
    size_t                               size;
    ngx_uint_t                           state;
    ngx_uint_t                           depth;
    size_t                               consumed;    /* bytes of the input,
                                                         when feed() was
                                                         stopped */
} ngx_http_agentstream_json_split_t;

/* NGX_OK, NGX_DECLINED: not an array, or an element exceeds the limit,
   NGX_ERROR: no memory, or what the handler returned */
ngx_int_t ngx_http_agentstream_json_split_feed(
    ngx_http_agentstream_json_split_t *split, u_char *data, size_t len);
/* whether the end of the array was reached */
ngx_uint_t ngx_http_agentstream_json_split_complete(
    ngx_http_agentstream_json_split_t *split);
void ngx_http_agentstream_json_split_destroy(
    ngx_http_agentstream_json_split_t *split);


/* returns the end of the string whose opening quote is at p, NULL if it is not
   valid; sets only the type of the token */
u_char *ngx_http_agentstream_json_scan_string(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token);

/* used between json.c and json_string.c: whether a slice with escapes decodes
   to the given text */
ngx_uint_t ngx_http_agentstream_json_decodes_to(ngx_str_t *escaped,
    const char *text, size_t len);


#endif /* _NGX_HTTP_AGENTSTREAM_JSON_H_INCLUDED_ */
