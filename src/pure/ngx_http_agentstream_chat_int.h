
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CHAT_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CHAT_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat.h"
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_name.h"


extern const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_telegram;
extern const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_slack;
extern const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_whatsapp;


/* of the id, the type or the name of a file, and of a message's id */
#define NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX  256

/* a longer pause that a platform asks for is as long as this, in seconds */
#define NGX_HTTP_AGENTSTREAM_CHAT_WAIT_MAX  86400


/* chat.c */

/* whether it is the type of a picture that models can see */
ngx_uint_t ngx_http_agentstream_chat_picture(ngx_str_t *mime);


/* chat_proof.c */

/* whether both are the same; takes the same time wherever they differ */
ngx_uint_t ngx_http_agentstream_chat_same(ngx_str_t *one, ngx_str_t *other);

/* NGX_OK: signature is prefix and the HMAC-SHA256, in lower case, of the texts
   in the list, whose last one is NULL, with this secret; escaped: of what they
   are if each character that is not ASCII is written as \uXXXX.
   NGX_DECLINED: it is not, or the secret is empty */
ngx_int_t ngx_http_agentstream_chat_signed(ngx_str_t *signature,
    const char *prefix, ngx_str_t *secret, ngx_str_t **list,
    ngx_uint_t escaped);


/*
 * chat_input.c: reading JSON.  An input is a body that was found to be valid;
 * when memory ran out for one of its texts, failed is set, and the texts that
 * follow are empty.
 */

typedef struct {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_json_t          json;
    ngx_uint_t                           failed;
} ngx_http_agentstream_chat_input_t;

ngx_int_t ngx_http_agentstream_chat_input(
    ngx_http_agentstream_chat_input_t *in, ngx_pool_t *pool,
    ngx_str_t *body);
/* rc, or NGX_ERROR if something failed */
ngx_int_t ngx_http_agentstream_chat_input_done(
    ngx_http_agentstream_chat_input_t *in, ngx_int_t rc);

ngx_uint_t ngx_http_agentstream_chat_get(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t object,
    const char *name);
ngx_uint_t ngx_http_agentstream_chat_true(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value);

/* the text of a string; empty for all other values */
ngx_str_t ngx_http_agentstream_chat_text(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value);

/* an integer as it is written, or a string of up to 64 characters that may
   stand in the name of a session, but no colon; else empty */
ngx_str_t ngx_http_agentstream_chat_id(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value);

/* a string of 1 to max bytes, without control characters; else empty */
ngx_str_t ngx_http_agentstream_chat_token(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value, size_t max);

/* a size in bytes, -1: not known */
off_t ngx_http_agentstream_chat_size(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value);

/* a copy of the texts in the list, one after the other; its
   last one is NULL */
ngx_str_t ngx_http_agentstream_chat_join(
    ngx_http_agentstream_chat_input_t *in, ngx_str_t **list);

ngx_int_t ngx_http_agentstream_chat_updates_init(ngx_pool_t *pool,
    ngx_http_agentstream_chat_updates_t *updates);
/* a new element, zeroed, with an empty list of files; NULL: no memory, noted in
   the input */
ngx_http_agentstream_chat_update_t *ngx_http_agentstream_chat_update_add(
    ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_updates_t *updates);
/* removes the element that was added last */
void ngx_http_agentstream_chat_update_drop(
    ngx_http_agentstream_chat_updates_t *updates);
ngx_http_agentstream_chat_file_t *ngx_http_agentstream_chat_file_add(
    ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update);

/* if the text is "/word argument", or "/word@name argument", the update is a
   command; name is what follows "@", or empty.  Who only mentions the bot wants
   help */
void ngx_http_agentstream_chat_command(
    ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *name);

/* removes white space around a text */
ngx_str_t ngx_http_agentstream_chat_trim(ngx_str_t text);

/* NGX_OK: the reply has a body for the platform to read; NGX_DECLINED: it has
   none, and answer says what that means; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_chat_answered(
    ngx_http_agentstream_chat_input_t *in, ngx_pool_t *pool,
    ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer);

/* a row of a table of errors: text is found anywhere in the platform's words,
   in any case */

typedef struct {
    const char                          *text;
    ngx_uint_t                           result;
} ngx_http_agentstream_chat_error_t;

/* the result of the first row that fits; the last row of the table has no text,
   and fits always */
ngx_uint_t ngx_http_agentstream_chat_error(
    const ngx_http_agentstream_chat_error_t *table, ngx_str_t *reason);

/* the value of a name in a form, or a query, decoded; empty if there is none */
ngx_str_t ngx_http_agentstream_chat_form(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *form, const char *name);

/* path and args of a file that is at an address, if the address begins with
   base; NGX_DECLINED: it does not */
ngx_int_t ngx_http_agentstream_chat_locate_url(
    ngx_http_agentstream_chat_input_t *in, ngx_str_t *url, const char *base,
    ngx_str_t *path, ngx_str_t *args);

/* the path of a file, for the action FETCH, if it can stand in an address as it
   is; NGX_DECLINED: it cannot */
ngx_int_t ngx_http_agentstream_chat_locate(
    ngx_http_agentstream_chat_input_t *in, ngx_str_t *path, ngx_str_t *file);


/*
 * chat_body.c: writing JSON.  Control characters are left out of texts, but not
 * ends of lines and tabs; what is not UTF-8 becomes U+FFFD.  Objects and arrays
 * are void, because only that file knows the library.  After a failure nothing
 * more is done, and finish() reports it.
 */

typedef struct {
    ngx_pool_t                          *pool;
    void                                *root;
    ngx_uint_t                           failed;
} ngx_http_agentstream_chat_body_t;

/* returns the object that is the body */
void *ngx_http_agentstream_chat_begin(ngx_http_agentstream_chat_body_t *body,
    ngx_pool_t *pool);
/* frees everything but the text */
ngx_int_t ngx_http_agentstream_chat_finish(
    ngx_http_agentstream_chat_body_t *body, ngx_str_t *text);

/* name is NULL in an array */
void *ngx_http_agentstream_chat_add_object(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name);
void *ngx_http_agentstream_chat_add_array(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name);
void ngx_http_agentstream_chat_add_text(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    ngx_str_t *text);
void ngx_http_agentstream_chat_add_word(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    const char *word);
/* digits: as chat_id() has read them */
void ngx_http_agentstream_chat_add_number(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    ngx_str_t *digits);
void ngx_http_agentstream_chat_add_integer(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    int64_t value);
void ngx_http_agentstream_chat_add_flag(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    ngx_uint_t value);

/* copies a text without its control characters, before anybody looks for
   something in it that they could hide; dst has room for the text; returns the
   end */
u_char *ngx_http_agentstream_chat_clean(u_char *dst, ngx_str_t *text);

/* writes "&lt;", "&gt;" and "&amp;"; dst has room for five times the text;
   returns the end */
u_char *ngx_http_agentstream_chat_escape(u_char *dst, ngx_str_t *text);

/* at most n characters, the last of which is "…" if some are missing */
ngx_str_t ngx_http_agentstream_chat_cut(ngx_http_agentstream_chat_body_t *body,
    ngx_str_t *text, ngx_uint_t n);


/* chat_telegram_call.c */

ngx_int_t ngx_http_agentstream_chat_telegram_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call);
ngx_int_t ngx_http_agentstream_chat_telegram_read(ngx_pool_t *pool,
    ngx_uint_t action, ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer);


/* chat_slack_call.c */

ngx_int_t ngx_http_agentstream_chat_slack_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call);
ngx_int_t ngx_http_agentstream_chat_slack_read(ngx_pool_t *pool,
    ngx_uint_t action, ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer);


/* chat_whatsapp_call.c */

ngx_int_t ngx_http_agentstream_chat_whatsapp_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call);
ngx_int_t ngx_http_agentstream_chat_whatsapp_read(ngx_pool_t *pool,
    ngx_uint_t action, ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer);


#endif /* _NGX_HTTP_AGENTSTREAM_CHAT_INT_H_INCLUDED_ */
