
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TRANSLATE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TRANSLATE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_translate.h"


/*
 * Declarations that only the files of translate use.  Structs live in the
 * turn's pool and are never freed before it.  Messages, parts, held events and
 * buffers are malloc()ed: messages and parts that were not announced are
 * called strangers, and may be forgotten, see translate_memory.c.
 */


typedef struct ngx_http_agentstream_tr_session_s
    ngx_http_agentstream_tr_session_t;
typedef struct ngx_http_agentstream_tr_message_s
    ngx_http_agentstream_tr_message_t;
typedef struct ngx_http_agentstream_tr_part_s  ngx_http_agentstream_tr_part_t;
typedef struct ngx_http_agentstream_tr_tool_s  ngx_http_agentstream_tr_tool_t;
typedef struct ngx_http_agentstream_tr_run_s  ngx_http_agentstream_tr_run_t;
typedef struct ngx_http_agentstream_tr_ask_s  ngx_http_agentstream_tr_ask_t;


struct ngx_http_agentstream_tr_session_s {
    ngx_str_node_t                           sn;        /* by id */
    ngx_str_t                                id;
    ngx_str_t                                meta;      /* "null", or an
                                                           object */
    unsigned                                 root:1;
    ngx_str_t                                fields;    /* the same for the
                                                           _meta of a tool */
    ngx_http_agentstream_tr_message_t       *last;      /* the newest assistant
                                                           message */
    ngx_http_agentstream_tr_message_t       *summary;   /* of a compaction */
    uint32_t                                 number;    /* 0: the root */
};


typedef enum {
    NGX_HTTP_AGENTSTREAM_TR_NONE = 0,        /* no finish yet */
    NGX_HTTP_AGENTSTREAM_TR_GOES_ON,         /* tool-calls, unknown: another
                                                step follows */
    NGX_HTTP_AGENTSTREAM_TR_LENGTH,
    NGX_HTTP_AGENTSTREAM_TR_FILTER,
    NGX_HTTP_AGENTSTREAM_TR_STOP             /* stop and all others */
} ngx_http_agentstream_tr_finish_e;


/* a message, announced or only mentioned */

struct ngx_http_agentstream_tr_message_s {
    ngx_str_node_t                           sn;        /* by id */
    unsigned                                 known:1;
    unsigned                                 assistant:1;
    unsigned                                 ours:1;    /* it belongs to this
                                                           turn */
    unsigned                                 judged:1;  /* a user's message
                                                           whose parts were
                                                           seen */
    unsigned                                 foreign:1; /* somebody else's
                                                           prompt */
    unsigned                                 again:1;   /* our prompt, repeated
                                                           by a compaction */
    unsigned                                 summary:1;
    unsigned                                 open:1;    /* counted in nopen */
    unsigned                                 completed:1;
    unsigned                                 failed:1;
    unsigned                                 resolving:1;
    unsigned                                 removed:1;
    unsigned                                 stranger:1;
    /* it has tool calls whose results the model is told; one was rejected */
    unsigned                                 used_tools:1;
    unsigned                                 rejected:1;
    ngx_http_agentstream_tr_session_t       *session;
    ngx_http_agentstream_tr_part_t          *last;      /* the part that was
                                                           sent last */
    ngx_queue_t                              list;      /* in tr->strangers or
                                                           tr->kept */
    ngx_queue_t                              queue;     /* in tr->answers */
    ngx_queue_t                              parts;
    ngx_queue_t                              fresh;     /* its open parts */
    ngx_queue_t                              stale;     /* open parts that a
                                                           retry abandoned */
    ngx_queue_t                              held;      /* events that arrived
                                                           too early */
    ngx_http_agentstream_acp_usage_t         usage;
    uint32_t                                 cost;      /* a digest */
    int64_t                                  created;
    ngx_uint_t                               finish;
};


typedef enum {
    NGX_HTTP_AGENTSTREAM_TR_UNKNOWN = 0,
    NGX_HTTP_AGENTSTREAM_TR_TEXT,
    NGX_HTTP_AGENTSTREAM_TR_THOUGHT,
    NGX_HTTP_AGENTSTREAM_TR_TOOL,
    NGX_HTTP_AGENTSTREAM_TR_FILE,
    NGX_HTTP_AGENTSTREAM_TR_SILENT           /* not sent to a client */
} ngx_http_agentstream_tr_kind_e;


/* a run: chunks of one part, without a chunk of another part of its message in
   between */

struct ngx_http_agentstream_tr_run_s {
    uint64_t                                 from;
    uint64_t                                 to;
    ngx_http_agentstream_tr_run_t           *next;
};


struct ngx_http_agentstream_tr_part_s {
    ngx_str_node_t                           sn;        /* by id */
    ngx_http_agentstream_tr_message_t       *message;
    ngx_uint_t                               kind;
    u_char                                   half[6];   /* half of a surrogate
                                                           pair */
    unsigned                                 nhalf:3;
    unsigned                                 open:1;
    unsigned                                 final:1;
    unsigned                                 gap:1;     /* deltas are not
                                                           trusted */
    unsigned                                 stale:1;   /* a retry abandoned
                                                           it */
    unsigned                                 removed:1;
    unsigned                                 stranger:1;
    ngx_uint_t                               number;
    ngx_http_agentstream_json_hash_t         sent;
    ngx_http_agentstream_tr_run_t           *runs;      /* newest first */
    ngx_queue_t                              queue;     /* in its message */
    ngx_queue_t                              openq;     /* in tr->open, or of
                                                           a stranger in
                                                           tr->unknown */
    ngx_queue_t                              openm;     /* in fresh or stale of
                                                           its message */
    ngx_http_agentstream_tr_tool_t          *tool;      /* the tool call that
                                                           it describes */
    ngx_str_t                                text;      /* of a summary */
    ngx_uint_t                               mark;      /* see tr->mark */
};


/* a tool call; several parts may describe it, one after the other */

struct ngx_http_agentstream_tr_tool_s {
    ngx_str_node_t                           sn;        /* by session and
                                                           callID; only the
                                                           newest is in the
                                                           tree */
    ngx_str_node_t                           name;      /* by id */
    ngx_str_t                                id;        /* as clients know it,
                                                           perhaps with "#2" */
    ngx_queue_t                              queue;     /* in tr->pending */
    ngx_rbtree_node_t                        due;       /* in tr->due, by the
                                                           time of the last
                                                           state sent */
    ngx_queue_t                              asks;      /* its waiting
                                                           questions */
    ngx_http_agentstream_tr_session_t       *session;
    ngx_http_agentstream_acp_buf_t           pending;   /* the latest state, if
                                                           it was not sent */
    ngx_uint_t                               nsame;     /* of the first one:
                                                           tool calls with its
                                                           id */
    ngx_uint_t                               number;
    ngx_uint_t                               status;
    ngx_msec_t                               time;      /* time of the last
                                                           state sent */
    size_t                                   spent;     /* bytes of repeated
                                                           states */
    size_t                                   earned;    /* bytes of new
                                                           output */
    size_t                                   output;    /* length of the output
                                                           so far */
    size_t                                   len;       /* length of the last
                                                           state sent */
    uint32_t                                 digest;
    uint32_t                                 pending_digest;
    unsigned                                 waits:1;   /* in tr->pending */
    unsigned                                 timed:1;   /* in tr->due */
    unsigned                                 open:1;
};


/* a question or a permission request */

struct ngx_http_agentstream_tr_ask_s {
    ngx_str_node_t                           sn;        /* by id */
    ngx_http_agentstream_tr_session_t       *session;
    ngx_queue_t                              queue;     /* in tr->waiting */
    ngx_queue_t                              of_tool;   /* in asks of its
                                                           tool call, if it
                                                           has one */
    ngx_uint_t                               mark;      /* see tr->asked */
    unsigned                                 permission:1;
    unsigned                                 waits:1;
};


/* larger buffers are not kept for the next packet */
#define NGX_HTTP_AGENTSTREAM_TR_WORK_MAX  (64 * 1024)

struct ngx_http_agentstream_translate_work_s {
    ngx_http_agentstream_acp_buf_t           buf;       /* a packet */
    ngx_http_agentstream_acp_buf_t           joined;    /* a text */
    u_char                                   mark[256]; /* an origin */
};


struct ngx_http_agentstream_translate_s {
    /* the members that every delta needs come first, so that they share few
       cache lines */
    unsigned                                 gap:1;     /* there was one */
    unsigned                                 aborted:1;
    unsigned                                 finished:1;
    unsigned                                 restoring:1;
    unsigned                                 again:1;   /* a compaction will
                                                           repeat our prompt */
    unsigned                                 crowded:1; /* too much is held, or
                                                           too many strangers */
    unsigned                                 forgot:1;  /* ... were forgotten */
    ngx_http_agentstream_translate_conf_t    conf;
    ngx_http_agentstream_translate_sink_t   *sink;
    void                                    *ctx;
    u_char                                  *timestamp;
    ngx_msec_t                               now;
    ngx_http_agentstream_tr_session_t       *session;   /* found last */
    ngx_http_agentstream_tr_part_t          *part;      /* found last */
    ngx_str_t                                origin;    /* of the packet that
                                                           is sent next: at
                                                           most 256 bytes,
                                                           mostly empty */
    const char                              *reset;     /* reason of a reset
                                                           to be sent before
                                                           the next packet,
                                                           or NULL */
    ngx_http_agentstream_translate_state_t   state;
    ngx_http_agentstream_tr_session_t        root;

    ngx_pool_t                              *pool;
    ngx_str_t                                turn;
    int64_t                                  created;   /* when our message was
                                                           created */

    ngx_http_agentstream_tr_run_t           *free_runs;

    ngx_rbtree_t                             sessions;  /* without the root */
    ngx_rbtree_t                             messages;
    ngx_rbtree_t                             parts;
    ngx_rbtree_t                             tools;
    ngx_rbtree_t                             names;     /* tool calls by id */
    ngx_rbtree_t                             asks;
    ngx_rbtree_t                             due;       /* throttled tool calls
                                                           that only wait for
                                                           time to pass */
    ngx_rbtree_node_t                        sentinel;

    ngx_queue_t                              strangers; /* messages */
    ngx_queue_t                              kept;      /* all other
                                                           messages */
    ngx_queue_t                              unknown;   /* parts */

    ngx_queue_t                              answers;   /* the root's assistant
                                                           messages */
    ngx_queue_t                              open;      /* texts that are not
                                                           final, since the
                                                           last gap */
    ngx_queue_t                              pending;   /* throttled tool
                                                           calls */
    ngx_queue_t                              holding;   /* all held events */
    ngx_queue_t                              waiting;   /* asks, newest first */

    ngx_http_agentstream_acp_buf_t           error;     /* details of the first
                                                           one; empty: none */
    ngx_http_agentstream_translate_work_t   *work;
    ngx_http_agentstream_json_t              json;      /* of the error */

    ngx_array_t                             *restored;  /* parts by number */

    size_t                                   held;      /* bytes */
    size_t                                   throttled; /* bytes, in pending */
    size_t                                   memory;    /* bytes, without these
                                                           and buffers */
    ngx_uint_t                               nstrangers;
    uint32_t                                 nsessions;
    ngx_uint_t                               number;    /* of the last part or
                                                           tool call */
    ngx_uint_t                               mark;      /* of REST answers */
    ngx_uint_t                               asked;     /* number of lists that
                                                           were asked for */
};


#define ngx_http_agentstream_tr_eq(a, b)                                      \
    ((a)->len == (b)->len && ngx_memcmp((a)->data, (b)->data, (a)->len) == 0)

/* whether the content of the message is sent to the client */
#define ngx_http_agentstream_tr_speaks(tr, m)                                 \
    ((m)->ours && !(m)->summary && ((m)->assistant || (tr)->conf.history))

/* docs/directives.md, "agentstream_packets": "core" sends five types of
   packets, and only those of the root */
#define ngx_http_agentstream_tr_mute(tr, s)                                   \
    ((tr)->conf.core && !(s)->root)

/* activity of the root, other than coming to its end */
#define ngx_http_agentstream_tr_active(tr, s)                                 \
    do { if ((s)->root) { (tr)->state.idle = 0; } } while (0)


/* translate.c */

/*
 * Room for a record of at most size bytes of JSON and text, whose type and
 * part are set.  Its origin is set here.  Packets that must precede it are
 * sent first.  NULL: there is no room.
 */
u_char *ngx_http_agentstream_translate_reserve(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, size_t size);
/* sends tr->work->buf as the next packet, after which it may be empty */
ngx_int_t ngx_http_agentstream_translate_send(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t part);
/* the packet that is sent next is the first of its part; ids may be NULL from
   the right */
void ngx_http_agentstream_translate_mark(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *session, ngx_str_t *message, ngx_str_t *part, ngx_str_t *tool);


/* translate_memory.c; NULL and NGX_ERROR: no memory, or the turn's limit is
   reached */

/* frees the buffers of working memory, which grow again when they are needed */
void ngx_http_agentstream_translate_work_free(
    ngx_http_agentstream_translate_work_t *work);
/* zeroed, in the pool */
void *ngx_http_agentstream_translate_alloc(
    ngx_http_agentstream_translate_t *tr, size_t size);
/* a copy in the pool that is valid text by itself */
ngx_int_t ngx_http_agentstream_translate_copy(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *dst, ngx_str_t *src);
/* memory for a message or part, which begins with this node; it is a stranger
   at first */
ngx_str_node_t *ngx_http_agentstream_translate_node(
    ngx_http_agentstream_translate_t *tr, size_t size, ngx_str_t *id);
/* it is announced, and no longer a stranger */
void ngx_http_agentstream_translate_keep_message(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
void ngx_http_agentstream_translate_keep_part(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
/* forgets all strangers, and what is held of them; returns NGX_AGAIN */
ngx_int_t ngx_http_agentstream_translate_forget(
    ngx_http_agentstream_translate_t *tr);
/* frees all messages and parts */
void ngx_http_agentstream_translate_free(ngx_http_agentstream_translate_t *tr);


/* translate_session.c */

ngx_http_agentstream_tr_session_t *ngx_http_agentstream_translate_session_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
ngx_int_t ngx_http_agentstream_translate_session_child(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id, ngx_str_t *parent);
ngx_int_t ngx_http_agentstream_translate_session_status(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t status);
void ngx_http_agentstream_translate_session_idle(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s);
ngx_int_t ngx_http_agentstream_translate_session_error(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t error);
ngx_int_t ngx_http_agentstream_translate_session_compacted(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s);
ngx_int_t ngx_http_agentstream_translate_session_end(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled);


/* translate_error.c */

/* writes what a client may know of an error, as a JSON object */
ngx_int_t ngx_http_agentstream_translate_error_details(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t error);
/* "message" of an object, without the provider's answer; empty: nothing is
   left; valid until the next call, and as long as json */
ngx_int_t ngx_http_agentstream_translate_error_message(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t object, ngx_str_t *message);


/* translate_message.c */

/* or NULL */
ngx_http_agentstream_tr_message_t *ngx_http_agentstream_translate_message_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
/* found, or created as one that was only mentioned; NULL: no memory */
ngx_http_agentstream_tr_message_t *ngx_http_agentstream_translate_message_get(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* rest: it was fetched, so it may be older or newer than the events; listed:
   it follows our message in the list of all messages; NGX_AGAIN: only that
   list can tell which turn it belongs to */
ngx_int_t ngx_http_agentstream_translate_message_info(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t rest,
    ngx_uint_t listed);
/* a part of a user message of the root: it shows whether the message is
   somebody else's prompt, or was added to our turn by a compaction */
void ngx_http_agentstream_translate_message_prompt(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t part);
/* reads tokens and cost of the message from an object that has them */
ngx_int_t ngx_http_agentstream_translate_message_usage(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info);
ngx_int_t ngx_http_agentstream_translate_message_remove(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);


/* translate_part.c */

ngx_http_agentstream_tr_part_t *ngx_http_agentstream_translate_part_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
/* found, or created with an unknown kind; NULL: no memory */
ngx_http_agentstream_tr_part_t *ngx_http_agentstream_translate_part_get(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_str_t *id);
/* rest: as above */
ngx_int_t ngx_http_agentstream_translate_part_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t part, ngx_uint_t rest);
void ngx_http_agentstream_translate_part_open(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
/* deltas of the part are ignored from now on */
void ngx_http_agentstream_translate_part_close(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
ngx_int_t ngx_http_agentstream_translate_part_remove(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);


/* translate_hold.c */

ngx_int_t ngx_http_agentstream_translate_hold_add(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *raw, ngx_uint_t delta);
ngx_int_t ngx_http_agentstream_translate_hold_replay(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
void ngx_http_agentstream_translate_hold_forget(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
/* has the message looked up, unless this is already being done */
void ngx_http_agentstream_translate_hold_resolve(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);


/* translate_text.c */

ngx_int_t ngx_http_agentstream_translate_text_delta(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_event_t *ev);
ngx_int_t ngx_http_agentstream_translate_text_part(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *text);
ngx_int_t ngx_http_agentstream_translate_text_snapshot(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *text, ngx_uint_t final, ngx_uint_t rest);
/* notes that a chunk of the part was sent */
ngx_int_t ngx_http_agentstream_translate_text_run(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    uint64_t seq);
/* declares void what was sent of the part, as if nothing had been sent */
ngx_int_t ngx_http_agentstream_translate_text_discard(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
/* the session's model is asked again, so texts that were begun may be void */
void ngx_http_agentstream_translate_text_retry(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s);


/* translate_tool.c */

ngx_int_t ngx_http_agentstream_translate_tool_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value);
ngx_http_agentstream_tr_tool_t *ngx_http_agentstream_translate_tool_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* digest of a progress packet, independent of its time */
uint32_t ngx_http_agentstream_translate_tool_digest(
    ngx_http_agentstream_record_t *record);
/* the newest tool call of that id in the session, or NULL */
ngx_http_agentstream_tr_tool_t *ngx_http_agentstream_translate_tool_find(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* the tool call that clients know by that id, or NULL */
ngx_http_agentstream_tr_tool_t *ngx_http_agentstream_translate_tool_named(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
void ngx_http_agentstream_translate_tool_close(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool);
ngx_int_t ngx_http_agentstream_translate_tool_flush(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t *next);


/* translate_tool_state.c: the progress packet of one state, in tr->work->buf */

typedef struct {
    ngx_http_agentstream_json_t             *json;
    ngx_uint_t                               state;
    ngx_uint_t                               input;     /* an object or 0 */
    ngx_str_t                                output;    /* while running */
    ngx_http_agentstream_acp_tool_t          tool;
} ngx_http_agentstream_tr_state_t;

void ngx_http_agentstream_translate_tool_state_build(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_state_t *st);
ngx_uint_t ngx_http_agentstream_translate_tool_state_kind(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *name);


/* translate_file.c */

/* a file that is a picture, "data:image/png;base64,...": what follows the
   comma, and its type; NGX_DECLINED: it is something else */
ngx_int_t ngx_http_agentstream_translate_file_picture(
    ngx_http_agentstream_json_t *json, ngx_uint_t file, ngx_str_t *data,
    ngx_str_t *mime);
/* a file of the user's, in the history */
ngx_int_t ngx_http_agentstream_translate_file_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value);


/* translate_ask.c */

/* tool: the tool call that asks, or NULL */
ngx_http_agentstream_tr_ask_t *ngx_http_agentstream_translate_ask_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_tool_t *tool, ngx_str_t *id,
    ngx_uint_t permission);
ngx_http_agentstream_tr_ask_t *ngx_http_agentstream_translate_ask_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
/* it no longer waits */
void ngx_http_agentstream_translate_ask_answered(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask);
ngx_int_t ngx_http_agentstream_translate_ask_add(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_uint_t permission);
ngx_int_t ngx_http_agentstream_translate_ask_answer(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_uint_t permission, ngx_uint_t rejected);
/* the tool call that asked is about to end, and the answer was not seen */
ngx_int_t ngx_http_agentstream_translate_ask_missed(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_tr_state_t *st);
/* the tool call that asked has ended, answered or not */
void ngx_http_agentstream_translate_ask_done(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool);
ngx_int_t ngx_http_agentstream_translate_ask_plan(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t todos);


#endif /* _NGX_HTTP_AGENTSTREAM_TRANSLATE_INT_H_INCLUDED_ */
