
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
 * What the files of the translator share; for nobody else.  Structs live in the
 * turn's pool and are never freed before it.  Messages, parts, what is held and
 * what is put together are malloc()ed: messages and parts that nobody has
 * announced are strangers, and may be forgotten, see translate_memory.c.
 */


typedef struct ngx_http_agentstream_tr_session_s
    ngx_http_agentstream_tr_session_t;
typedef struct ngx_http_agentstream_tr_message_s
    ngx_http_agentstream_tr_message_t;
typedef struct ngx_http_agentstream_tr_part_s  ngx_http_agentstream_tr_part_t;
typedef struct ngx_http_agentstream_tr_call_s  ngx_http_agentstream_tr_call_t;
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
    ngx_http_agentstream_tr_message_t       *last;      /* newest assistant's */
    ngx_http_agentstream_tr_message_t       *summary;   /* of a compaction */
    uint32_t                                 number;    /* 0: the root */
};


typedef enum {
    NGX_HTTP_AGENTSTREAM_TR_NONE = 0,        /* no finish yet */
    NGX_HTTP_AGENTSTREAM_TR_GOES_ON,         /* tool-calls, unknown */
    NGX_HTTP_AGENTSTREAM_TR_LENGTH,
    NGX_HTTP_AGENTSTREAM_TR_FILTER,
    NGX_HTTP_AGENTSTREAM_TR_STOP             /* stop and all others */
} ngx_http_agentstream_tr_finish_e;


/* a message, known or only heard of */

struct ngx_http_agentstream_tr_message_s {
    ngx_str_node_t                           sn;        /* by id */
    unsigned                                 known:1;
    unsigned                                 assistant:1;
    unsigned                                 ours:1;    /* of this turn */
    unsigned                                 judged:1;  /* a user's: its parts
                                                           were seen */
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
    unsigned                                 called:1;  /* tools, of which the
                                                           model is told */
    unsigned                                 rejected:1; /* one of them was */
    ngx_http_agentstream_tr_session_t       *session;
    ngx_http_agentstream_tr_part_t          *last;      /* sent last */
    ngx_queue_t                              list;      /* in tr->strangers or
                                                           tr->kept */
    ngx_queue_t                              queue;     /* in tr->answers */
    ngx_queue_t                              parts;
    ngx_queue_t                              fresh;     /* open parts */
    ngx_queue_t                              stale;     /* ... a retry left */
    ngx_queue_t                              held;      /* what came early */
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
    NGX_HTTP_AGENTSTREAM_TR_SILENT           /* nothing for a client */
} ngx_http_agentstream_tr_kind_e;


/* chunks of one part without a chunk of another part of its message between */

struct ngx_http_agentstream_tr_run_s {
    uint64_t                                 from;
    uint64_t                                 to;
    ngx_http_agentstream_tr_run_t           *next;
};


struct ngx_http_agentstream_tr_part_s {
    ngx_str_node_t                           sn;        /* by id */
    ngx_http_agentstream_tr_message_t       *message;
    ngx_uint_t                               kind;
    u_char                                   half[6];   /* of a pair */
    unsigned                                 nhalf:3;
    unsigned                                 open:1;
    unsigned                                 final:1;
    unsigned                                 gap:1;     /* trust no delta */
    unsigned                                 stale:1;   /* a retry left it */
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
    ngx_http_agentstream_tr_call_t          *call;      /* of a tool */
    ngx_str_t                                text;      /* of a summary */
    ngx_uint_t                               mark;      /* see tr->mark */
};


/* a tool call; several parts may speak of it, one after the other */

struct ngx_http_agentstream_tr_call_s {
    ngx_str_node_t                           sn;        /* by session and
                                                           callID; only the
                                                           newest is in the
                                                           tree */
    ngx_str_node_t                           name;      /* by id */
    ngx_str_t                                id;        /* with "#2" */
    ngx_queue_t                              queue;     /* in tr->pending */
    ngx_rbtree_node_t                        due;       /* in tr->due, by the
                                                           time of the last
                                                           sent */
    ngx_queue_t                              asks;      /* that wait */
    ngx_http_agentstream_tr_session_t       *session;
    ngx_http_agentstream_acp_buf_t           pending;   /* state not sent */
    ngx_uint_t                               ncalls;    /* of the first: named
                                                           like it */
    ngx_uint_t                               number;
    ngx_uint_t                               status;
    ngx_msec_t                               time;      /* of the last sent */
    size_t                                   spent;     /* on repeated states */
    size_t                                   earned;    /* by new output */
    size_t                                   output;    /* length so far */
    size_t                                   len;       /* of the state sent
                                                           last */
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
    ngx_queue_t                              of_call;   /* in asks of its call,
                                                           if it has one */
    ngx_uint_t                               mark;      /* see tr->asked */
    unsigned                                 permission:1;
    unsigned                                 waits:1;
};


struct ngx_http_agentstream_translate_s {
    /* what every delta needs comes first, in few cache lines */
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
                                                           is sent next: at most
                                                           256 bytes, empty for
                                                           most */
    const char                              *reset;     /* to be said before
                                                           the next packet, or
                                                           NULL */
    ngx_http_agentstream_translate_state_t   state;
    ngx_http_agentstream_tr_session_t        root;

    ngx_pool_t                              *pool;
    ngx_str_t                                turn;
    int64_t                                  created;   /* our message was */

    ngx_http_agentstream_tr_run_t           *free_runs;

    ngx_rbtree_t                             sessions;  /* but the root */
    ngx_rbtree_t                             messages;
    ngx_rbtree_t                             parts;
    ngx_rbtree_t                             calls;
    ngx_rbtree_t                             names;     /* of calls */
    ngx_rbtree_t                             asks;
    ngx_rbtree_t                             due;       /* calls throttled that
                                                           only time holds up */
    ngx_rbtree_node_t                        sentinel;

    ngx_queue_t                              strangers; /* messages */
    ngx_queue_t                              kept;      /* all other ones */
    ngx_queue_t                              unknown;   /* parts */

    ngx_queue_t                              answers;   /* the root's assistant
                                                           messages */
    ngx_queue_t                              open;      /* texts not final,
                                                           since the last gap */
    ngx_queue_t                              pending;   /* calls throttled */
    ngx_queue_t                              holding;   /* all that is held */
    ngx_queue_t                              waiting;   /* asks, newest first */

    ngx_http_agentstream_acp_buf_t           error;     /* details of the first
                                                           one; empty: none */
    ngx_http_agentstream_acp_buf_t           buf;       /* a packet */
    ngx_http_agentstream_acp_buf_t           joined;    /* a text */
    ngx_http_agentstream_json_t              json;      /* of the error */

    u_char                                   mark_buf[256];
    ngx_array_t                             *restored;  /* parts by number */

    size_t                                   held;      /* bytes */
    size_t                                   throttled; /* bytes, in pending */
    size_t                                   memory;    /* bytes, but for these
                                                           and buffers */
    ngx_uint_t                               nstrangers;
    uint32_t                                 nsessions;
    ngx_uint_t                               number;    /* of parts, calls */
    ngx_uint_t                               mark;      /* of REST answers */
    ngx_uint_t                               asked;     /* lists asked for */
};


#define ngx_http_agentstream_tr_eq(a, b)                                      \
    ((a)->len == (b)->len && ngx_memcmp((a)->data, (b)->data, (a)->len) == 0)

/* whether what the message says is said to the client */
#define ngx_http_agentstream_tr_speaks(tr, m)                                 \
    ((m)->ours && !(m)->summary && ((m)->assistant || (tr)->conf.history))

/* contract 3: "core" is the seed's five types, and only of the root */
#define ngx_http_agentstream_tr_mute(tr, s)                                   \
    ((tr)->conf.core && !(s)->root)

/* something the root does, other than to come to its end */
#define ngx_http_agentstream_tr_active(tr, s)                                 \
    do { if ((s)->root) { (tr)->state.idle = 0; } } while (0)


/* translate.c */

/*
 * Room for a record of at most size bytes of JSON and text, whose type and part
 * are set.  Its origin is set here.  What must come before it is sent first.
 * NULL: there is none.
 */
u_char *ngx_http_agentstream_translate_reserve(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, size_t size);
/* tr->buf as the next packet */
ngx_int_t ngx_http_agentstream_translate_send(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t part);
/* the packet sent next is the first of its part; ids may be NULL from the
   right */
void ngx_http_agentstream_translate_mark(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *session, ngx_str_t *message, ngx_str_t *part, ngx_str_t *call);


/* translate_memory.c; NULL and NGX_ERROR: no memory, or it is all spent */

/* zeroed, in the pool */
void *ngx_http_agentstream_translate_alloc(
    ngx_http_agentstream_translate_t *tr, size_t size);
/* a copy in the pool that is text by itself */
ngx_int_t ngx_http_agentstream_translate_copy(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *dst, ngx_str_t *src);
/* of a message or part, which begins with it; a stranger at first */
ngx_str_node_t *ngx_http_agentstream_translate_node(
    ngx_http_agentstream_translate_t *tr, size_t size, ngx_str_t *id);
/* no stranger any more */
void ngx_http_agentstream_translate_keep_message(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
void ngx_http_agentstream_translate_keep_part(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
/* all strangers, and what is held of them: NGX_AGAIN */
ngx_int_t ngx_http_agentstream_translate_forget(
    ngx_http_agentstream_translate_t *tr);
/* all messages and parts */
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

/* what a client may know of an error, as a JSON object */
ngx_int_t ngx_http_agentstream_translate_error_details(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t error);
/* "message" of an object without a provider's answer in it; empty: none is
   left; valid until the next call, and as long as json */
ngx_int_t ngx_http_agentstream_translate_error_message(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t object, ngx_str_t *message);


/* translate_message.c */

/* found, or made as one only heard of; NULL: no memory */
ngx_http_agentstream_tr_message_t *ngx_http_agentstream_translate_message_get(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* rest: it was fetched, so it may be older or newer than the events seen;
   listed: it stands behind our message in the list of all messages;
   NGX_AGAIN: only that list can tell whose it is */
ngx_int_t ngx_http_agentstream_translate_message_info(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t rest,
    ngx_uint_t listed);
/* a part of a user message of the root: it tells a prompt of somebody else from
   what a compaction puts into our turn */
void ngx_http_agentstream_translate_message_prompt(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t part);
/* tokens and cost of the message, in an object that has them */
ngx_int_t ngx_http_agentstream_translate_message_usage(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info);
ngx_int_t ngx_http_agentstream_translate_message_remove(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);


/* translate_part.c */

ngx_http_agentstream_tr_part_t *ngx_http_agentstream_translate_part_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
/* found, or made with its kind unknown; NULL: no memory */
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
/* no delta counts any more */
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
/* have the message looked up, unless it is being */
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
/* a chunk of the part was sent */
ngx_int_t ngx_http_agentstream_translate_text_run(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    uint64_t seq);
/* what was sent of the part is void, as if nothing had been */
ngx_int_t ngx_http_agentstream_translate_text_discard(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);
/* the session's model is asked again: what was begun may be void */
void ngx_http_agentstream_translate_text_retry(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s);


/* translate_tool.c */

ngx_int_t ngx_http_agentstream_translate_tool_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value);
ngx_http_agentstream_tr_call_t *ngx_http_agentstream_translate_tool_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* of a progress packet, whatever its time is */
uint32_t ngx_http_agentstream_translate_tool_digest(
    ngx_http_agentstream_record_t *record);
/* the newest call of that id in the session, or NULL */
ngx_http_agentstream_tr_call_t *ngx_http_agentstream_translate_tool_find(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id);
/* the call that clients know by that id, or NULL */
ngx_http_agentstream_tr_call_t *ngx_http_agentstream_translate_tool_named(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
void ngx_http_agentstream_translate_tool_close(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call);
ngx_int_t ngx_http_agentstream_translate_tool_flush(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t *next);


/* translate_tool_state.c: the progress packet of one state, in tr->buf */

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


/* translate_ask.c */

/* call: that asks, or NULL */
ngx_http_agentstream_tr_ask_t *ngx_http_agentstream_translate_ask_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_call_t *call, ngx_str_t *id,
    ngx_uint_t permission);
ngx_http_agentstream_tr_ask_t *ngx_http_agentstream_translate_ask_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id);
/* it waits no more */
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
/* the call that asked is about to end, and the answer was not heard of */
ngx_int_t ngx_http_agentstream_translate_ask_missed(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_call_t *call,
    ngx_http_agentstream_tr_state_t *st);
/* the call that asked has ended, answered or not */
void ngx_http_agentstream_translate_ask_done(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call);
ngx_int_t ngx_http_agentstream_translate_ask_plan(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t todos);


#endif /* _NGX_HTTP_AGENTSTREAM_TRANSLATE_INT_H_INCLUDED_ */
