
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the unit tests of the chat platforms have in common.  Everything is read
 * from allocations of exactly its size.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TALK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TALK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat.h"
#include "ngx_http_agentstream_name.h"
#include "tap.h"


typedef ngx_http_agentstream_chat_platform_t  platform_t;
typedef ngx_http_agentstream_chat_update_t    update_t;
typedef ngx_http_agentstream_chat_updates_t   updates_t;
typedef ngx_http_agentstream_chat_file_t      file_t;
typedef ngx_http_agentstream_chat_action_t    action_t;
typedef ngx_http_agentstream_chat_button_t    button_t;
typedef ngx_http_agentstream_chat_call_t      call_t;
typedef ngx_http_agentstream_chat_answer_t    answer_t;

#define CHAT(name)  NGX_HTTP_AGENTSTREAM_CHAT_##name


extern ngx_log_t  ngx_unit_log;

static ngx_pool_t                      *pool;
static const platform_t                *platform;
static ngx_http_agentstream_chat_me_t   me;


static void chat_init(const char *name) __attribute__((unused));
static update_t chat_one(const char *body, const char *name)
    __attribute__((unused));
static void chat_nothing(const char *body, const char *name)
    __attribute__((unused));
static void chat_truncate(const char *body) __attribute__((unused));
static ngx_str_t chat_spell(action_t *action) __attribute__((unused));
static answer_t chat_read(ngx_uint_t action, ngx_uint_t status,
    const char *body) __attribute__((unused));


static void
chat_init(const char *name)
{
    ngx_str_t  s;

    pool = ngx_create_pool(4096, &ngx_unit_log);
    s = tap_str(name);
    platform = ngx_http_agentstream_chat_find(&s);

    tap_ok(platform != NULL, "there is a platform %s", name);

    if (platform == NULL) {
        exit(1);
    }
}


static int
chat_done(void)
{
    ngx_destroy_pool(pool);

    return tap_done();
}


/* the result of parse() or poll(), and how many updates there are */

static updates_t
chat_parse_len(const char *body, size_t len, ngx_int_t expected,
    ngx_uint_t polled, const char *name)
{
    ngx_int_t  rc;
    ngx_str_t  text;
    updates_t  updates;

    text.data = tap_copy(body, len);
    text.len = len;

    memset(&updates, 0, sizeof(updates));

    rc = polled ? platform->poll(pool, &text, &me, &updates)
                : platform->parse(pool, &text, &me, &updates);

    free(text.data);

    tap_is(rc, expected, name);

    return updates;
}


static updates_t
chat_parse(const char *body, const char *name)
{
    return chat_parse_len(body, strlen(body), NGX_OK, 0, name);
}


/* the only update of a body */

static update_t
chat_one(const char *body, const char *name)
{
    update_t   none;
    updates_t  updates;

    updates = chat_parse(body, name);

    if (!tap_is(updates.list.nelts, 1, name)) {
        memset(&none, 0, sizeof(none));
        return none;
    }

    return *(update_t *) updates.list.elts;
}


static void
chat_nothing(const char *body, const char *name)
{
    updates_t  updates;

    updates = chat_parse(body, name);
    tap_is(updates.list.nelts, 0, name);
}


/* every way to cut off a body is refused, and reads nothing behind it */

static void
chat_truncate(const char *body)
{
    size_t      len;
    ngx_str_t   text;
    updates_t   updates;
    ngx_uint_t  bad;

    bad = 0;

    for (len = 0; len < strlen(body); len++) {
        text.data = tap_copy(body, len);
        text.len = len;
        bad += (platform->parse(pool, &text, &me, &updates) != NGX_DECLINED);
        free(text.data);
    }

    tap_is(bad, 0, "a body that is cut off");
}


/* what an action becomes, as "METHOD path?args body" */

static ngx_str_t
chat_spell(action_t *action)
{
    call_t     call;
    ngx_str_t  text;

    ngx_str_null(&text);

    switch (platform->spell(pool, action, &call)) {

    case NGX_OK:
        text.data = ngx_pnalloc(pool, call.method.len + call.path.len
                                      + call.args.len + call.body.len + 3);
        text.len = ngx_sprintf(text.data, "%V %V%s%V %V", &call.method,
                               &call.path, call.args.len ? "?" : "",
                               &call.args, &call.body)
                   - text.data;
        break;

    case NGX_DECLINED:
        text = tap_str("declined");
        break;
    }

    return text;
}


static answer_t
chat_read(ngx_uint_t action, ngx_uint_t status, const char *body)
{
    answer_t                           answer;
    ngx_http_agentstream_chat_reply_t  reply;

    memset(&reply, 0, sizeof(reply));

    reply.status = status;
    reply.body.len = strlen(body);
    reply.body.data = tap_copy(body, reply.body.len);
    reply.complete = 1;

    tap_is(platform->read(pool, action, &reply, &answer), NGX_OK, "read()");

    free(reply.body.data);

    return answer;
}


#endif /* _NGX_HTTP_AGENTSTREAM_TALK_H_INCLUDED_ */
