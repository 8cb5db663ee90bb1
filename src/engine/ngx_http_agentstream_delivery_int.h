
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_DELIVERY_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_DELIVERY_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_asked.h"
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_delivery.h"
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_prompt.h"
#include "ngx_http_agentstream_sender.h"
#include "ngx_http_agentstream_store_chat.h"
#include "ngx_http_agentstream_verb.h"
#include "ngx_http_agentstream_view.h"


/*
 * Declarations that only the files of delivery use: chats that this worker
 * serves (delivery), what is kept of an update (delivery_entry), who may talk
 * and who the bot is (delivery_allow), the inbox (delivery_inbox) and commands
 * (delivery_command), the session of a chat (delivery_session), the files of a
 * message (delivery_file, delivery_fetch), its turn (delivery_turn), questions
 * (delivery_ask), what is sent (delivery_send), when (delivery_pace) and how
 * (delivery_call).
 */


#define NGX_HTTP_AGENTSTREAM_DELIVERY_ID_SIZE  64
#define NGX_HTTP_AGENTSTREAM_DELIVERY_REF_SIZE  256
#define NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS     4
#define NGX_HTTP_AGENTSTREAM_DELIVERY_KEY_MAX  512

/* messages of a chat that wait for their turn, at most; its inbox has room for
   more, so that presses and commands still get through */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING  32

/* the messages of an album arrive within this time */
#define NGX_HTTP_AGENTSTREAM_FILE_ALBUM     500


/* the id of a turn or of a message of ours, in memory that can be copied */

typedef struct {
    uint32_t                             len;
    u_char                               data[
                                       NGX_HTTP_AGENTSTREAM_DELIVERY_ID_SIZE];
} ngx_http_agentstream_delivery_id_t;


/* the id of somebody's message: WhatsApp's are long */

typedef struct {
    uint32_t                             len;
    u_char                               data[
                                      NGX_HTTP_AGENTSTREAM_DELIVERY_REF_SIZE];
} ngx_http_agentstream_delivery_ref_t;


/* what is being sent, and may have arrived although nobody knows it */

typedef enum {
    NGX_HTTP_AGENTSTREAM_SENDING_NOTHING = 0,
    NGX_HTTP_AGENTSTREAM_SENDING_PIECE,
    NGX_HTTP_AGENTSTREAM_SENDING_PROGRESS
} ngx_http_agentstream_sending_e;


/* what the zone keeps for a successor; a new chat's is zeroes */

typedef struct {
    uint32_t                             known;    /* the number of its session
                                                      is known */
    uint32_t                             fresh;    /* that number: how often a
                                                      new session was asked
                                                      for */
    uint32_t                             running;  /* a turn is being
                                                      delivered */
    uint32_t                             group;
    uint32_t                             sent;     /* pieces of the answer that
                                                      were sent */
    uint32_t                             sending;
    uint32_t                             mute;     /* no progress any more in
                                                      this turn */
    uint32_t                             noted;    /* OpenCode knows that its
                                                      answer is awaited */
    uint32_t                             album;    /* the hash of the album
                                                      that was prompted last,
                                                      with all its entries up
                                                      to this number */
    uint64_t                             upto;
    time_t                               ended;    /* when the answer was
                                                      complete, or 0 */
    ngx_msec_t                           at;       /* when this was saved */
    ngx_msec_t                           next;     /* no message before */
    ngx_msec_t                           frozen;   /* nothing at all before */
    ngx_http_agentstream_delivery_id_t   turn;
    ngx_http_agentstream_delivery_ref_t  reply;    /* the message that the
                                                      answer replies to */
    ngx_http_agentstream_delivery_id_t   shown;    /* the progress message */

    /* questions that the chat was asked */
    struct {
        uint32_t                             token;    /* 0: none */
        uint64_t                             after;    /* entries up to this
                                                          number were there
                                                          before, and do not
                                                          answer it */
        ngx_http_agentstream_delivery_id_t   message;
    }                                    asks[
                                          NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS];
} ngx_http_agentstream_delivery_state_t;


typedef struct ngx_http_agentstream_delivery_s
    ngx_http_agentstream_delivery_t;


/* something that must be sent, in order; it has its own pool */

typedef struct {
    ngx_queue_t                          queue;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_chat_action_t   action;
    ngx_str_t                            plain;    /* the text without markup,
                                                      or empty */
    uint64_t                             entry;    /* is taken out of the inbox
                                                      when this was sent; 0:
                                                      none */
    uint32_t                             token;    /* of a question */
    time_t                               since;
    ngx_uint_t                           full;     /* says that too many
                                                      messages wait */
} ngx_http_agentstream_delivery_out_t;


/* the text of a question that the chat was asked; its message has it again when
   it loses its buttons */

typedef struct {
    ngx_str_t                            text;     /* may be empty */
    ngx_uint_t                           markup;
} ngx_http_agentstream_delivery_question_t;


/* something that OpenCode is asked for beside the turn: an answer, an
   interrupt, a note; in its own pool */

typedef struct {
    ngx_queue_t                          queue;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_delivery_t     *delivery;
    ngx_http_agentstream_verb_t         *verb;
    ngx_http_agentstream_chat_update_t  *update;   /* or NULL */
    uint64_t                             entry;    /* of the update */
    ngx_str_t                            label;    /* of the button that was
                                                      pressed, or empty */
    unsigned                             held:1;   /* the command "cancel" waits
                                                      until there is a turn */
} ngx_http_agentstream_delivery_errand_t;


/* what became of a file */

typedef enum {
    NGX_HTTP_AGENTSTREAM_FILE_READ = 0,
    NGX_HTTP_AGENTSTREAM_FILE_OTHER,     /* no picture */
    NGX_HTTP_AGENTSTREAM_FILE_LARGE,
    NGX_HTTP_AGENTSTREAM_FILE_STRANGE,   /* it is not what it seems to be */
    NGX_HTTP_AGENTSTREAM_FILE_MISSING,
    NGX_HTTP_AGENTSTREAM_FILE_RESULTS
} ngx_http_agentstream_delivery_file_e;


typedef struct {
    ngx_uint_t                           result;
    size_t                               len;
    u_char                               head[12]; /* its first bytes, which
                                                      tell what it is */
    ngx_http_agentstream_enclosed_t     *enclosed; /* or NULL */
} ngx_http_agentstream_delivery_file_t;


/* in its own pool; until there is a turn, which then has the pictures */

typedef struct {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_delivery_t     *delivery;
    void                               (*handler)(
                                      ngx_http_agentstream_delivery_t *d);
    ngx_array_t                          files;    /* of delivery_file_t, as
                                                      many as were looked at */
    ngx_http_agentstream_enclosed_t     *pictures; /* those that were read, as
                                                      a list, when there will
                                                      be no more */
    size_t                               left;     /* bytes that pictures may
                                                      still have */
    ngx_msec_t                           began;
    ngx_uint_t                           tries;
    ngx_uint_t                           kind;     /* of the call: FILE or
                                                      FETCH */
    ngx_str_t                            path;     /* of the picture at hand */
    ngx_str_t                            args;
    ngx_http_agentstream_call_t         *call;     /* or NULL */
    ngx_event_t                          timer;
    unsigned                             large:1;  /* the call has ended because
                                                      of that */
} ngx_http_agentstream_delivery_fetch_t;


/* a chat that this worker serves; in its own pool */

struct ngx_http_agentstream_delivery_s {
    ngx_queue_t                          queue;
    ngx_pool_t                          *pool;
    ngx_str_t                            key;
    ngx_http_agentstream_chat_node_t    *node;     /* NULL: it is being
                                                      claimed */
    ngx_http_agentstream_store_chat_claim_t
                                         claim;
    ngx_http_agentstream_later_t         claiming;
    ngx_http_agentstream_delivery_state_t
                                         state;
    ngx_http_agentstream_delivery_site_t
                                         site;
    ngx_http_agentstream_chat_place_t    place;
    ngx_str_t                            name;     /* of its first session */
    const ngx_http_agentstream_chat_platform_t
                                        *platform;

    /* the inbox */
    uint64_t                             scanned;  /* entries up to this number
                                                      were looked at */
    uint64_t                             waiting[
                                       NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING];
    ngx_uint_t                           nwaiting; /* messages that are to be
                                                      prompted */
    ngx_msec_t                           postpone; /* the pause before the first
                                                      of them is tried again */
    ngx_msec_t                           resume;   /* when it is, 0: at once */
    uint64_t                             named;    /* the entry whose files
                                                      the sender was last told
                                                      of */
    time_t                               postponed;    /* since when */
    ngx_http_agentstream_waiter_t        waiter;

    /* what is done for one message: its pool, and what waits for OpenCode */
    ngx_pool_t                          *job;
    uint64_t                             job_entry;
    ngx_http_agentstream_chat_update_t   update;
    void                               (*resolved)(
                                      ngx_http_agentstream_delivery_t *d);
    ngx_http_agentstream_target_t        target;
    ngx_http_agentstream_sender_t        sender;
    ngx_http_agentstream_verb_t         *verb;     /* of the job, or NULL */
    ngx_http_agentstream_delivery_fetch_t
                                        *fetch;    /* its pictures, or NULL */
    uint64_t                             album[
                                       NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING];
    ngx_uint_t                           nalbum;   /* entries that are a part
                                                      of it */

    ngx_queue_t                          errands;  /* of delivery_errand_t */
    ngx_uint_t                           noting;   /* OpenCode is being told
                                                      whether an answer is
                                                      awaited */

    /* the turn */
    ngx_pool_t                          *turn;     /* NULL: none */
    ngx_http_agentstream_target_t        turn_target;
    ngx_http_agentstream_store_watch_t   watch;
    ngx_http_agentstream_later_t         looking;  /* for the turn, on other
                                                      machines */
    ngx_http_agentstream_follower_t      follower;
    ngx_http_agentstream_view_t          view;
    ngx_array_t                          pieces;   /* of piece_t, of the
                                                      answer */
    ngx_http_agentstream_delivery_question_t
                                         questions[
                                          NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS];
    ngx_msec_t                           began;
    ngx_uint_t                           version;  /* of the view, that is
                                                      shown */
    ngx_uint_t                           touched;  /* the follower has given
                                                      records */

    /* what is sent */
    ngx_queue_t                          outs;     /* of delivery_out_t */
    ngx_http_agentstream_call_t         *call;     /* one at a time */
    ngx_uint_t                           what;     /* of delivery_call() */
    ngx_uint_t                           kind;     /* of its action */
    ngx_msec_t                           typed;    /* when typing was shown */
    ngx_msec_t                           edited;   /* when the progress was */
    ngx_uint_t                           beats;    /* how often it was said that
                                                      the agent still works */
    ngx_msec_t                           pause;    /* before the next try */
    ngx_msec_t                           slot;     /* when it is this chat's
                                                      turn to send */
    ngx_uint_t                           reserved; /* what for, 0: nothing */
    ngx_event_t                          timer;
    ngx_event_t                          posted;

    ngx_uint_t                           tries;    /* to tidy up */
    unsigned                             typing:1; /* it is to be shown */
    unsigned                             recorded:1;   /* a successor will know
                                                      that a message is sent,
                                                      as soon as the state is
                                                      stored */
    unsigned                             plain:1;  /* the piece at hand is sent
                                                      without markup */
    unsigned                             unmarked:1;   /* so is the progress */
    unsigned                             tidied:1; /* the progress message was
                                                      brought to its end */
    unsigned                             refused:1;    /* the platform does not
                                                      know typing, or edits */
    unsigned                             leaving:1;
    unsigned                             again:1;  /* see delivery_again() */
};


/* delivery: tells that something has changed, so that the chat looks at what
   there is to do, from a posted event */
void ngx_http_agentstream_delivery_kick(ngx_http_agentstream_delivery_t *d);
/* there was no memory for something that must not be left out: the chat is
   given up as soon as nothing is being sent, and a worker that looks for such
   chats begins again with what was saved */
void ngx_http_agentstream_delivery_again(ngx_http_agentstream_delivery_t *d);
/* saves the state, and takes an entry out of the inbox unless it is 0 */
void ngx_http_agentstream_delivery_save(ngx_http_agentstream_delivery_t *d,
    uint64_t entry);
/* something has arrived, and is kept from now on; the results of
   delivery_receive(), or NGX_DECLINED: it had arrived before, NGX_ABORT: it is
   not taken, and must not keep others waiting */
ngx_int_t ngx_http_agentstream_delivery_post(
    ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_pool_t *pool,
    ngx_http_agentstream_delivery_receipt_t *receipt);
/* the same, when the store has answered */
ngx_int_t ngx_http_agentstream_delivery_posted(
    ngx_http_agentstream_delivery_receipt_t *receipt, ngx_int_t rc);
/* the chat that this worker serves, or NULL */
ngx_http_agentstream_delivery_t *ngx_http_agentstream_delivery_find(
    ngx_str_t *key);

/* of delivery_id_t or delivery_ref_t; one that is too long is left out */

#define ngx_http_agentstream_delivery_set_id(id, text)                        \
    (id)->len = ngx_http_agentstream_delivery_copy_id((id)->data,             \
                                                  sizeof((id)->data), (text))

#define ngx_http_agentstream_delivery_get_id(id)                              \
    ngx_http_agentstream_delivery_view_id((id)->data, (id)->len)

size_t ngx_http_agentstream_delivery_copy_id(u_char *id, size_t size,
    ngx_str_t *text);
ngx_str_t ngx_http_agentstream_delivery_view_id(u_char *id, size_t len);


/* delivery_entry: all strings are copied to the pool; NGX_DECLINED: this is
   not what was packed, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_delivery_pack(ngx_pool_t *pool,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *packed);
ngx_int_t ngx_http_agentstream_delivery_unpack(ngx_pool_t *pool,
    ngx_str_t *packed, ngx_http_agentstream_chat_update_t *update);

ngx_int_t ngx_http_agentstream_delivery_pack_site(ngx_pool_t *pool,
    ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *packed);
ngx_int_t ngx_http_agentstream_delivery_unpack_site(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *packed);

/* the key of a location that is polled, which is not that of a chat */
ngx_int_t ngx_http_agentstream_delivery_poll_key(ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *key);
ngx_uint_t ngx_http_agentstream_delivery_is_chat(ngx_str_t *key);
/* the key of a chat in the zone */
ngx_int_t ngx_http_agentstream_delivery_key(ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *name, ngx_str_t *key);


/* delivery_poll: the locations that are polled, if there are any; takes over
   those that no worker polls; leaves those of this worker */
ngx_int_t ngx_http_agentstream_delivery_poll_init(ngx_cycle_t *cycle);
void ngx_http_agentstream_delivery_poll(void);
void ngx_http_agentstream_delivery_poll_leave(void);


/* delivery_inbox: looks at new entries, and begins with the next message if
   nothing else is being done; NGX_DECLINED: there is nothing to do */
ngx_int_t ngx_http_agentstream_delivery_read(
    ngx_http_agentstream_delivery_t *d);
/* the errand's message waits until the ones before it are answered */
void ngx_http_agentstream_delivery_wait(
    ngx_http_agentstream_delivery_errand_t *errand);
/* what an entry of the inbox says; NGX_DECLINED: it is gone, NGX_ERROR: no
   memory */
ngx_int_t ngx_http_agentstream_delivery_peek(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool, uint64_t number,
    ngx_http_agentstream_chat_update_t *update);
/* there is no room for a turn: the message at hand is tried again later;
   NGX_DECLINED: this was done for too long */
ngx_int_t ngx_http_agentstream_delivery_postpone(
    ngx_http_agentstream_delivery_t *d);
/* the message at hand was dealt with */
void ngx_http_agentstream_delivery_end_job(ngx_http_agentstream_delivery_t *d);


/* an errand with the pool, which becomes its own; NULL: no memory, and the
   pool is destroyed */
ngx_http_agentstream_delivery_errand_t *ngx_http_agentstream_delivery_errand(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool);
void ngx_http_agentstream_delivery_end_errand(
    ngx_http_agentstream_delivery_errand_t *errand);


/* delivery_command: 0: this is no command of ours, but a message that begins
   with a slash */
ngx_uint_t ngx_http_agentstream_delivery_command(
    ngx_http_agentstream_delivery_errand_t *errand);
/* there is a turn now, or there will be none: this was waited for to cancel
   it */
void ngx_http_agentstream_delivery_release(ngx_http_agentstream_delivery_t *d);
/* the command that begins a new session */
ngx_uint_t ngx_http_agentstream_delivery_is_new(
    ngx_http_agentstream_chat_update_t *update);


/* delivery_session: the session of the chat becomes the job's target, and then
   d->resolved() is called, now or later; if it cannot be found, this is said
   to the sender, and the job ends */
void ngx_http_agentstream_delivery_resolve(ngx_http_agentstream_delivery_t *d,
    void (*handler)(ngx_http_agentstream_delivery_t *d));
/* the session with this number, in the pool */
ngx_int_t ngx_http_agentstream_delivery_target(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool, ngx_uint_t fresh,
    ngx_http_agentstream_target_t *target);
/* the job: the next message begins a new session */
void ngx_http_agentstream_delivery_renew(ngx_http_agentstream_delivery_t *d);
/* tells OpenCode whether an answer is awaited here */
void ngx_http_agentstream_delivery_note(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t awaited);


/* delivery_fetch: gets the pictures of the message at hand, then the handler is
   called, now or later */
void ngx_http_agentstream_delivery_fetch(ngx_http_agentstream_delivery_t *d,
    void (*handler)(ngx_http_agentstream_delivery_t *d));
/* frees them, and stops if they are not there yet */
void ngx_http_agentstream_delivery_end_fetch(
    ngx_http_agentstream_delivery_t *d);

/* delivery_file: the messages of the album at hand.  NGX_OK: some were waiting,
   and are a part of it now; NGX_AGAIN: more may come; NGX_DECLINED: there are
   no more */
ngx_int_t ngx_http_agentstream_delivery_join_album(
    ngx_http_agentstream_delivery_t *d);
/* tells which files of the message were not read; if it has nothing else, this
   is its answer, and the entry is taken out.  Returns the number of pictures
   that were read */
ngx_uint_t ngx_http_agentstream_delivery_unread(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool,
    ngx_http_agentstream_chat_update_t *update, uint64_t entry);
/* the pictures as a list of parts of a prompt, or NULL; alone: there is no
   other part before them */
ngx_http_agentstream_enclosed_t *ngx_http_agentstream_delivery_pictures(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t alone);
/* whether the message at hand was a part of an album that was prompted */
ngx_uint_t ngx_http_agentstream_delivery_joined(
    ngx_http_agentstream_delivery_t *d);
/* saves the state and takes the entry out, and the rest of its album; 0: only
   the rest */
void ngx_http_agentstream_delivery_take_out(
    ngx_http_agentstream_delivery_t *d, uint64_t entry);


/* delivery_turn: prompts the session with the message at hand */
void ngx_http_agentstream_delivery_prompt(ngx_http_agentstream_delivery_t *d);
/* reads the turn of the state; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_delivery_follow(
    ngx_http_agentstream_delivery_t *d);
/* the answer was delivered, or will never be */
void ngx_http_agentstream_delivery_finish(ngx_http_agentstream_delivery_t *d);
void ngx_http_agentstream_delivery_end_turn(
    ngx_http_agentstream_delivery_t *d);

/* how texts are shown on the platform */
void ngx_http_agentstream_delivery_view_args(
    ngx_http_agentstream_delivery_t *d, ngx_http_agentstream_view_args_t *args);
ngx_uint_t ngx_http_agentstream_delivery_form(
    const ngx_http_agentstream_chat_platform_t *platform);


/* delivery_ask: asks the chat what the turn asks, and forgets what was
   answered */
void ngx_http_agentstream_delivery_ask(ngx_http_agentstream_delivery_t *d);
/* the errand's update as an answer to it; NGX_DECLINED: nothing was asked, and
   the errand goes on */
ngx_int_t ngx_http_agentstream_delivery_answer(
    ngx_http_agentstream_delivery_errand_t *errand);
void ngx_http_agentstream_delivery_press(
    ngx_http_agentstream_delivery_errand_t *errand);


/* delivery_send: something that must be sent, after what is there already; set
   its action, then push it; NULL: no memory */
ngx_http_agentstream_delivery_out_t *ngx_http_agentstream_delivery_out(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t kind);
void ngx_http_agentstream_delivery_push(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out);
/* a sentence of our own, in reply to a message, which may be empty; then the
   entry is taken out; NULL: no memory */
ngx_http_agentstream_delivery_out_t *ngx_http_agentstream_delivery_say(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *reply, ngx_str_t *text,
    uint64_t entry);
/* sends what is due, if nothing is being sent; NGX_AGAIN: there is something
   left to send */
ngx_int_t ngx_http_agentstream_delivery_send(
    ngx_http_agentstream_delivery_t *d);


/* delivery_call: what a call is for */

typedef enum {
    NGX_HTTP_AGENTSTREAM_DELIVERY_OUT = 0,     /* the first of d->outs */
    NGX_HTTP_AGENTSTREAM_DELIVERY_PIECE,       /* of the answer */
    NGX_HTTP_AGENTSTREAM_DELIVERY_PROGRESS,
    NGX_HTTP_AGENTSTREAM_DELIVERY_TIDY,        /* the end of the progress */
    NGX_HTTP_AGENTSTREAM_DELIVERY_TYPING
} ngx_http_agentstream_delivery_what_e;

/* NGX_OK: it is on its way, and its end is told by kick(); NGX_DECLINED: the
   platform has no such action; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_delivery_call(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t what,
    ngx_http_agentstream_chat_action_t *action);
/* a call for a location, not opened yet; NULL: no memory; *rc NGX_DECLINED:
   the platform has no such action */
ngx_http_agentstream_call_t *ngx_http_agentstream_delivery_spell(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_action_t *action, ngx_int_t *rc);
/* how the platform has answered; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_delivery_answered(
    ngx_http_agentstream_loc_conf_t *conf, ngx_http_agentstream_call_t *call,
    ngx_uint_t kind, ngx_http_agentstream_chat_answer_t *answer);
/* the done_handler of a call whose answer does not matter */
void ngx_http_agentstream_delivery_ignore(void *data,
    ngx_http_agentstream_call_t *call);

/* delivery_pace: 1: the time has come; otherwise the wait is not longer than
   until then */
ngx_uint_t ngx_http_agentstream_delivery_due(ngx_msec_t at, ngx_msec_t *wait);
/* 1: something of this kind may be sent now; otherwise it has a place among all
   that the bot is to send, and the wait is not longer than until then */
ngx_uint_t ngx_http_agentstream_delivery_may(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t kind, ngx_msec_t *wait);
/* the same for the progress, which has no place: it is sent if nobody else
   wants to send, and tries again after a while, which is not the same for all
   chats */
ngx_uint_t ngx_http_agentstream_delivery_might(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t kind, ngx_msec_t *wait);
/* whether so many other things are to be sent that this one is not worth it */
ngx_uint_t ngx_http_agentstream_delivery_crowded(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t kind);
/* takes one of the sends that the platform allows, as store_chat_spend(); those
   that must be sent now leave some for others */
ngx_msec_t ngx_http_agentstream_delivery_spend(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_place_t *place, ngx_uint_t group,
    ngx_uint_t kind, ngx_http_agentstream_store_chat_spend_e how);

/* takes it out of the queue, as if it had been sent */
void ngx_http_agentstream_delivery_drop(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out);
/* gives up a piece of the answer that may have arrived */
void ngx_http_agentstream_delivery_doubt(ngx_http_agentstream_delivery_t *d);

/* delivery_settle: the call has ended with this */
void ngx_http_agentstream_delivery_settle(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);


#endif /* _NGX_HTTP_AGENTSTREAM_DELIVERY_INT_H_INCLUDED_ */
