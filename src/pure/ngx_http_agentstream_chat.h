
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CHAT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CHAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * What the chat platforms say and want to hear: Telegram's Bot API, Slack's
 * Events and Web API, WhatsApp's Cloud API.  A platform is a table of functions
 * that read what it sends and spell what it is sent; no other part knows a
 * name, a limit or an error of any of them.
 *
 * Everything that a function returns is allocated in the pool that it is given,
 * and does not point into what it has read.  All functions return NGX_OK;
 * NGX_DECLINED: the input is not acceptable, or the platform has no such thing;
 * NGX_ERROR: no memory.
 */


/* whether libcrypto and libcjson were there when the module was built: without
   them there is no platform */
#if (NGX_HTTP_AGENTSTREAM_CRYPTO && NGX_HTTP_AGENTSTREAM_CJSON)
#define NGX_HTTP_AGENTSTREAM_CHATS          1
#else
#define NGX_HTTP_AGENTSTREAM_CHATS          0
#endif


/* the longest body that is read */
#define NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX   (1024 * 1024)

/* what a button carries, in bytes: Telegram allows no more */
#define NGX_HTTP_AGENTSTREAM_CHAT_TOKEN_MAX  64

/* how far the clocks of Slack and of this machine may differ, in seconds */
#define NGX_HTTP_AGENTSTREAM_CHAT_SKEW       300


typedef struct ngx_http_agentstream_chat_platform_s
    ngx_http_agentstream_chat_platform_t;


/* where a message is, or shall be */

typedef struct {
    ngx_str_t                            account;    /* Slack: the team;
                                                        WhatsApp: the id of our
                                                        number; else empty */
    ngx_str_t                            chat;       /* WhatsApp: the person */
    ngx_str_t                            thread;     /* Telegram: the topic;
                                                        Slack: "thread_ts"; may
                                                        be empty */
} ngx_http_agentstream_chat_place_t;


/* who the bot is: the platform's answer to the action ME; Slack's updates say
   it themselves, WhatsApp has no such thing; may be empty */

typedef struct {
    ngx_str_t                            id;
    ngx_str_t                            name;       /* without "@" */
} ngx_http_agentstream_chat_me_t;


/* what proves that a webhook comes from the platform */

typedef struct {
    ngx_str_t                            signature;  /* the header that
                                                        platform->signature
                                                        names, or empty */
    ngx_str_t                            timestamp;  /* likewise */
} ngx_http_agentstream_chat_proof_t;


/* something that is attached to a message */

typedef struct {
    ngx_str_t                            id;         /* for the action FILE, if
                                                        path is empty */
    ngx_str_t                            path;       /* for the action FETCH */
    ngx_str_t                            args;
    ngx_str_t                            mime;       /* may be empty */
    ngx_str_t                            name;       /* never empty: a file's
                                                        name, or "voice",
                                                        "location", … */
    off_t                                size;       /* -1: not known */
    unsigned                             picture:1;
} ngx_http_agentstream_chat_file_t;


typedef enum {
    NGX_HTTP_AGENTSTREAM_CHAT_MESSAGE = 0,
    NGX_HTTP_AGENTSTREAM_CHAT_COMMAND,       /* a message "/word argument" */
    NGX_HTTP_AGENTSTREAM_CHAT_PRESS,         /* somebody has pressed a button */
    NGX_HTTP_AGENTSTREAM_CHAT_HANDSHAKE      /* the platform tests the address:
                                                answer 200 with the text */
} ngx_http_agentstream_chat_kind_e;


/* something that somebody did in a chat */

typedef struct {
    ngx_uint_t                           kind;
    ngx_str_t                            id;         /* the same if the platform
                                                        sends it again */
    ngx_str_t                            key;        /* the same if it comes
                                                        under several ids; may
                                                        be empty */
    ngx_str_t                            session;    /* the name of the
                                                        session, valid as a
                                                        name */
    ngx_http_agentstream_chat_place_t    place;
    ngx_str_t                            sender;
    ngx_str_t                            message;    /* to reply to; of a press:
                                                        with the buttons */
    ngx_str_t                            text;       /* without the mention of
                                                        the bot at its
                                                        beginning; of a press:
                                                        the label, or empty */
    ngx_str_t                            command;    /* lower case, without
                                                        "/" */
    ngx_str_t                            argument;
    ngx_str_t                            token;      /* of the button */
    ngx_str_t                            callback;   /* for the action PRESSED,
                                                        or empty */
    ngx_array_t                          files;      /* of chat_file_t */
    ngx_str_t                            album;      /* the same for all
                                                        messages of an album,
                                                        or empty */
    unsigned                             group:1;    /* more than one person can
                                                        read it */
    unsigned                             addressed:1;    /* always, if it is no
                                                        group; else: mentions
                                                        the bot, replies to it,
                                                        or is a command for
                                                        it */
} ngx_http_agentstream_chat_update_t;


/* what is of no interest (edits, messages of bots, receipts, people who join,
   kinds that nobody knows yet) is not in the list */

typedef struct {
    ngx_array_t                          list;       /* of chat_update_t */
    int64_t                              offset;     /* of poll(): where to go
                                                        on, 0: where it was */
} ngx_http_agentstream_chat_updates_t;


typedef enum {
    NGX_HTTP_AGENTSTREAM_CHAT_ME = 0,        /* who the bot is */
    NGX_HTTP_AGENTSTREAM_CHAT_POLL,          /* wait for updates: offset,
                                                timeout */
    NGX_HTTP_AGENTSTREAM_CHAT_TYPING,        /* message: what is replied to */
    NGX_HTTP_AGENTSTREAM_CHAT_CREATE,        /* a message that rings no bell */
    NGX_HTTP_AGENTSTREAM_CHAT_EDIT,          /* message gets text; its buttons
                                                go */
    NGX_HTTP_AGENTSTREAM_CHAT_DELETE,        /* message */
    NGX_HTTP_AGENTSTREAM_CHAT_SEND,          /* text, in reply to message */
    NGX_HTTP_AGENTSTREAM_CHAT_ASK,           /* the same with buttons */
    NGX_HTTP_AGENTSTREAM_CHAT_PRESSED,       /* callback was seen; text may say
                                                something about it */
    NGX_HTTP_AGENTSTREAM_CHAT_SETTLE,        /* message loses its buttons; if
                                                there is a text, it gets it;
                                                the one that it had should be
                                                given */
    NGX_HTTP_AGENTSTREAM_CHAT_FILE,          /* where is the file "file"? */
    NGX_HTTP_AGENTSTREAM_CHAT_FETCH          /* the file at path and args */
} ngx_http_agentstream_chat_action_e;


typedef struct {
    ngx_str_t                            label;
    ngx_str_t                            token;
} ngx_http_agentstream_chat_button_t;


/* members that the kind does not name are ignored; all of them may be empty */

typedef struct {
    ngx_uint_t                           kind;
    ngx_http_agentstream_chat_place_t    place;
    ngx_str_t                            message;
    ngx_str_t                            text;
    ngx_http_agentstream_chat_button_t  *buttons;
    ngx_uint_t                           nbuttons;
    ngx_str_t                            callback;
    ngx_str_t                            file;
    ngx_str_t                            path;
    ngx_str_t                            args;
    int64_t                              offset;
    ngx_uint_t                           timeout;    /* in seconds */
    unsigned                             markup:1;   /* text has the platform's
                                                        markup: Telegram's
                                                        HTML, Slack's Markdown,
                                                        WhatsApp's marks; else
                                                        it is shown as it is */
} ngx_http_agentstream_chat_action_t;


/* an exchange with the platform */

typedef struct {
    ngx_str_t                            method;     /* "GET" or "POST" */
    ngx_str_t                            path;       /* appended to the prefix
                                                        of the location */
    ngx_str_t                            args;       /* without "?" */
    ngx_str_t                            body;       /* JSON, or empty */
} ngx_http_agentstream_chat_call_t;


/* how it went */

typedef struct {
    ngx_uint_t                           status;     /* 0: there is none */
    ngx_str_t                            retry_after;    /* the header, or
                                                        empty */
    ngx_str_t                            body;
    unsigned                             unsent:1;   /* not a byte was sent */
    unsigned                             complete:1; /* the body is whole */
} ngx_http_agentstream_chat_reply_t;


typedef enum {
    NGX_HTTP_AGENTSTREAM_CHAT_DONE = 0,      /* also "not modified" */
    NGX_HTTP_AGENTSTREAM_CHAT_LATER,         /* nothing was done: again, not
                                                before answer.wait has passed;
                                                0: the caller's own pause */
    NGX_HTTP_AGENTSTREAM_CHAT_LOST,          /* perhaps it was done */
    NGX_HTTP_AGENTSTREAM_CHAT_GONE,          /* the message is not there, or
                                                cannot be edited any more */
    NGX_HTTP_AGENTSTREAM_CHAT_MARKUP,        /* the markup is not accepted */
    NGX_HTTP_AGENTSTREAM_CHAT_LONG,          /* the text is too long */
    NGX_HTTP_AGENTSTREAM_CHAT_CLOSED,        /* this chat takes no message of
                                                ours any more */
    NGX_HTTP_AGENTSTREAM_CHAT_DENIED,        /* the token, or a permission, is
                                                wrong: for every chat */
    NGX_HTTP_AGENTSTREAM_CHAT_REFUSED        /* it would be refused again */
} ngx_http_agentstream_chat_result_e;


typedef struct {
    ngx_uint_t                           result;
    ngx_str_t                            message;    /* its id */
    ngx_str_t                            chat;       /* Telegram: where the
                                                        chat has moved to, of
                                                        CLOSED */
    ngx_str_t                            reason;     /* in the platform's own
                                                        words, for a log, not
                                                        escaped; never a
                                                        token */
    time_t                               wait;       /* in seconds */
    ngx_http_agentstream_chat_me_t       me;         /* of ME */
    ngx_str_t                            path;       /* of FILE: for FETCH */
    ngx_str_t                            args;
    off_t                                size;       /* -1: not known */
    unsigned                             unchanged:1;    /* it was so before */
} ngx_http_agentstream_chat_answer_t;


/* so many at once, then one in each interval, in milliseconds */

typedef struct {
    ngx_msec_t                           interval;   /* 0: not limited */
    ngx_uint_t                           burst;
} ngx_http_agentstream_chat_rate_t;


struct ngx_http_agentstream_chat_platform_s {
    ngx_str_t                            name;       /* "telegram" */
    ngx_str_t                            signature;  /* the name of a header,
                                                        lower case */
    ngx_str_t                            timestamp;  /* likewise, or empty */

    /* what the platform allows; times in milliseconds */
    size_t                               units;      /* of a message, in UTF-16
                                                        code units, without
                                                        markup */
    size_t                               bytes;      /* with markup */
    ngx_msec_t                           typing;     /* it is forgotten after a
                                                        little more; 0: it
                                                        lasts */
    ngx_msec_t                           edit;       /* between two edits; 0:
                                                        there are none */
    ngx_msec_t                           edit_group;     /* in a group */
    ngx_msec_t                           send;       /* between two messages of
                                                        one chat */
    ngx_uint_t                           buttons;    /* at one message */

    /* what it counts, so that no more is sent within any second, or minute,
       than it allows */
    ngx_http_agentstream_chat_rate_t     all;        /* messages and edits of
                                                        the bot */
    ngx_http_agentstream_chat_rate_t     chat;       /* of them, in one chat,
                                                        whatever the thread */
    ngx_http_agentstream_chat_rate_t     group;      /* in one group */
    ngx_http_agentstream_chat_rate_t     edits;      /* edits in one account, if
                                                        they are counted by
                                                        themselves */

    /* whether the body of a webhook comes from the platform; now: the time of
       day.  NGX_DECLINED: it does not */
    ngx_int_t                          (*genuine)(
                                  ngx_http_agentstream_chat_proof_t *proof,
                                  ngx_str_t *body, ngx_str_t *secret,
                                  time_t now);

    /* the answer to a GET of the platform, which proves that it knows the word
       verify; NULL: there is no GET */
    ngx_int_t                          (*challenge)(ngx_pool_t *pool,
                                  ngx_str_t *args, ngx_str_t *verify,
                                  ngx_str_t *answer);

    /* the body of a webhook */
    ngx_int_t                          (*parse)(ngx_pool_t *pool,
                                  ngx_str_t *body,
                                  ngx_http_agentstream_chat_me_t *me,
                                  ngx_http_agentstream_chat_updates_t *updates);

    /* the answer to the action POLL, after read() has found it DONE; NULL:
       cannot be polled */
    ngx_int_t                          (*poll)(ngx_pool_t *pool,
                                  ngx_str_t *body,
                                  ngx_http_agentstream_chat_me_t *me,
                                  ngx_http_agentstream_chat_updates_t *updates);

    /* NGX_DECLINED: the platform has no such action; leave it out */
    ngx_int_t                          (*spell)(ngx_pool_t *pool,
                                  ngx_http_agentstream_chat_action_t *action,
                                  ngx_http_agentstream_chat_call_t *call);

    /* action: what was asked for, ngx_http_agentstream_chat_action_e.  The
       answer to FETCH is the file itself: it is not read by this */
    ngx_int_t                          (*read)(ngx_pool_t *pool,
                                  ngx_uint_t action,
                                  ngx_http_agentstream_chat_reply_t *reply,
                                  ngx_http_agentstream_chat_answer_t *answer);
};


/* "telegram"; NULL: there is no platform of this name */
const ngx_http_agentstream_chat_platform_t *ngx_http_agentstream_chat_find(
    ngx_str_t *name);

/* the type of a picture that models can see, by its first bytes; empty: it is
   none */
ngx_str_t ngx_http_agentstream_chat_picture_type(ngx_str_t *bytes);


#endif /* _NGX_HTTP_AGENTSTREAM_CHAT_H_INCLUDED_ */
