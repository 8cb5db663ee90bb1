
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_RECORD_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_RECORD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * A record: one packet as the module keeps it and passes it on, with its type,
 * what it belongs to, and its JSON.  How it looks to a client is decided when
 * it is read, see wire.
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_RECORD_NONE = 0,
    NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE,
    NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT,
    NGX_HTTP_AGENTSTREAM_RECORD_USER,
    NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START,
    NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS,
    NGX_HTTP_AGENTSTREAM_RECORD_PLAN,
    NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED,
    NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET,
    NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED,
    NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE,
    NGX_HTTP_AGENTSTREAM_RECORD_COMPACTION,
    NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED,
    NGX_HTTP_AGENTSTREAM_RECORD_SESSION_STATUS,
    NGX_HTTP_AGENTSTREAM_RECORD_QUESTION,
    NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED,
    NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION,
    NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED,
    NGX_HTTP_AGENTSTREAM_RECORD_HEARTBEAT,
    NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE,
    NGX_HTTP_AGENTSTREAM_RECORD_ERROR,

    NGX_HTTP_AGENTSTREAM_RECORD_TYPES
} ngx_http_agentstream_record_e;

/* the value of "type" in the packet's JSON, indexed by type */
extern ngx_str_t  ngx_http_agentstream_record_names[];

/* whether it is the last packet of its turn */
#define ngx_http_agentstream_record_terminal(type)                            \
    ((type) >= NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE)


/* how many times a shared text can occur in one packet */
#define NGX_HTTP_AGENTSTREAM_RECORD_HOLES  3


/*
 * A text that occurs in the packet more than once is kept once: json is the
 * packet without it, and text has to be inserted at each of the holes, which
 * are offsets in json, in ascending order.  A hole is always between two
 * quotes, so that json is valid JSON by itself.
 */

typedef struct {
    uint64_t                             seq;      /* from 1; 0: no number */
    ngx_uint_t                           type;
    ngx_uint_t                           part;     /* number of the text,
                                                      thought or tool call it
                                                      belongs to, 0: none */
    ngx_str_t                            origin;   /* its ids in OpenCode, if it
                                                      is the first of its part;
                                                      see translate_restore() */
    ngx_str_t                            json;
    ngx_str_t                            text;     /* directly follows json in
                                                      memory */
    ngx_uint_t                           nholes;
    uint32_t                             holes[
                                         NGX_HTTP_AGENTSTREAM_RECORD_HOLES];
} ngx_http_agentstream_record_t;


/* the length of the packet's complete JSON, and that JSON */
#define ngx_http_agentstream_record_len(record)                               \
    ((record)->json.len + (record)->nholes * (record)->text.len)

u_char *ngx_http_agentstream_record_json(u_char *p,
    ngx_http_agentstream_record_t *record);

/* the same for a value in it: slice lies within json.  All values together take
   no more than record_len() */
u_char *ngx_http_agentstream_record_slice(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_str_t *slice);


/*
 * A record as it is kept: this, aligned to 4 bytes, followed by json, text,
 * if there are holes the length of text and the holes, and origin.  Most
 * records are chunks of a few letters, so that every byte here counts.
 */

typedef struct {
    uint32_t                             len;      /* of json and text */
    uint32_t                             part;
    uint16_t                             origin;   /* length, at most 256 */
    unsigned                             type:8;
    unsigned                             nholes:7;
    unsigned                             pieces:1; /* the journal's: json and
                                                      text are elsewhere */
} ngx_http_agentstream_packed_t;

/* bytes of the holes, with the length of what is inserted there */
#define ngx_http_agentstream_record_holes(nholes)                             \
    ((nholes) ? ((nholes) + 1) * sizeof(uint32_t) : 0)

/* bytes that follow json and text */
#define ngx_http_agentstream_record_extra(record)                             \
    (ngx_http_agentstream_record_holes((record)->nholes)                      \
     + (record)->origin.len)

#define ngx_http_agentstream_packed_extra(packed)                             \
    (ngx_http_agentstream_record_holes((packed)->nholes) + (packed)->origin)

/* the size of a record with size bytes after the header */
#define ngx_http_agentstream_packed_size(size)                                \
    ngx_align(sizeof(ngx_http_agentstream_packed_t) + (size),                 \
              sizeof(uint32_t))

/* fills in the header, and writes what follows json and text to p */
void ngx_http_agentstream_record_pack(ngx_http_agentstream_packed_t *packed,
    ngx_http_agentstream_record_t *record, u_char *p);
/* json and text begin at data, what follows them begins at p; seq is not
   changed */
void ngx_http_agentstream_record_unpack(ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_packed_t *packed, u_char *data, u_char *p);


/* a packed record that comes from outside, which need not be aligned, and is
   not followed by anything; NGX_ERROR: it is none */
ngx_int_t ngx_http_agentstream_record_read(
    ngx_http_agentstream_record_t *record, ngx_str_t *text);


/* records in memory, one after the other, as journal_read_locked() copies
   them */

typedef struct {
    u_char                              *pos;
    u_char                              *last;
    uint64_t                             seq;      /* of the first one */
} ngx_http_agentstream_records_t;

/* the next record, which points into that memory; NGX_DONE: there is none
   left */
ngx_int_t ngx_http_agentstream_record_next(
    ngx_http_agentstream_records_t *records,
    ngx_http_agentstream_record_t *record);


#endif /* _NGX_HTTP_AGENTSTREAM_RECORD_H_INCLUDED_ */
