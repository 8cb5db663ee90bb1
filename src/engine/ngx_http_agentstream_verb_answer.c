
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Answers to questions and permission requests.  OpenCode does not check which
 * session they belong to, so only answers to something that waits in the
 * session are passed on.  The zone lists what waits in a turn that it knows.
 * For other turns OpenCode's lists show what waits in which session; if that
 * is a subagent's session, one of its parents must be the session that the
 * client named.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_verb_int.h"


/* the most parents that are looked up */
#define NGX_HTTP_AGENTSTREAM_ANSWER_DEPTH  8

/* records that are looked at together, in words of 8 bytes */
#define NGX_HTTP_AGENTSTREAM_ASKED_WORDS   1536


static void ngx_http_agentstream_verb_answer_found(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_verb_answer_owned(
    ngx_http_agentstream_verb_t *verb);
static void ngx_http_agentstream_verb_parent_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_verb_asked_here(
    ngx_http_agentstream_records_t *records, ngx_array_t *ids,
    ngx_uint_t *found);


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_answer(ngx_http_agentstream_target_t *target,
    ngx_uint_t request, ngx_str_t *id, ngx_str_t *content,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_int_t                     rc;
    ngx_uint_t                    permission;
    const char                   *missing;
    ngx_http_agentstream_verb_t  *verb;

    permission = (request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION);

    missing = permission ? "No such permission request waits in this session"
                         : "No such question waits in this session";

    verb = ngx_http_agentstream_verb_create(target, request, missing, handler,
                                            data);
    if (verb == NULL) {
        return NULL;
    }

    verb->id.len = id->len;
    verb->id.data = ngx_pstrdup(verb->pool, id);

    if (content) {
        verb->content.len = content->len;
        verb->content.data = ngx_pstrdup(verb->pool, content);
    }

    if (verb->id.data == NULL || (content && verb->content.data == NULL)) {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    rc = ngx_http_agentstream_store_asked(ngx_http_agentstream_worker->zone,
                                          &verb->target.key, &verb->id,
                                          permission, verb->pool,
                                          &verb->directory);

    switch (rc) {

    case NGX_OK:
        return ngx_http_agentstream_verb_call(verb);

    case NGX_DECLINED:
        ngx_http_agentstream_verb_fail(verb, NGX_HTTP_NOT_FOUND, missing);
        return NULL;

    case NGX_ABORT:
        /* the zone knows no turn */
        return ngx_http_agentstream_verb_look(verb,
                                   permission
                                   ? NGX_HTTP_AGENTSTREAM_GET_PERMISSIONS
                                   : NGX_HTTP_AGENTSTREAM_GET_QUESTIONS,
                                   ngx_http_agentstream_verb_answer_found);

    default: /* NGX_ERROR */
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }
}


static void
ngx_http_agentstream_verb_answer_found(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t  rc;

    if (ngx_http_agentstream_verb_answered(verb, call) != NGX_OK) {
        return;
    }

    rc = ngx_http_agentstream_opencode_waits(verb->pool, &call->body,
                                             &verb->id, &verb->session);
    if (rc != NGX_OK) {
        ngx_http_agentstream_verb_unread(verb, rc);
        return;
    }

    ngx_http_agentstream_verb_answer_owned(verb);
}


static void
ngx_http_agentstream_verb_answer_owned(ngx_http_agentstream_verb_t *verb)
{
    ngx_str_t  *named;

    named = &verb->target.session;

    if (verb->session.len == named->len
        && ngx_memcmp(verb->session.data, named->data, named->len) == 0)
    {
        (void) ngx_http_agentstream_verb_call(verb);
        return;
    }

    if (verb->session.len == 0
        || verb->depth++ == NGX_HTTP_AGENTSTREAM_ANSWER_DEPTH)
    {
        ngx_http_agentstream_verb_fail(verb, NGX_HTTP_NOT_FOUND,
                                       verb->missing);
        return;
    }

    (void) ngx_http_agentstream_verb_ask(verb,
                                       NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                       &verb->session,
                                       ngx_http_agentstream_verb_parent_done);
}


static void
ngx_http_agentstream_verb_parent_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t  rc;
    ngx_str_t  session;

    if (ngx_http_agentstream_verb_answered(verb, call) != NGX_OK) {
        return;
    }

    session = verb->session;

    rc = ngx_http_agentstream_opencode_parent(verb->pool, &call->body,
                                              &session, &verb->session);
    if (rc != NGX_OK) {
        ngx_http_agentstream_verb_unread(verb, rc);
        return;
    }

    ngx_http_agentstream_verb_answer_owned(verb);
}


ngx_int_t
ngx_http_agentstream_verb_asked(ngx_str_t *turn, ngx_array_t *ids)
{
    size_t                               size;
    u_char                              *large;
    uint64_t                             buf[NGX_HTTP_AGENTSTREAM_ASKED_WORDS];
    ngx_int_t                            rc;
    ngx_uint_t                           found;
    ngx_http_agentstream_store_view_t    view;
    ngx_http_agentstream_store_place_t   place;

    ngx_memzero(&place, sizeof(ngx_http_agentstream_store_place_t));

    place.turn = *turn;
    place.cursor.seq = 1;
    found = 0;

    do {
        large = NULL;

        ngx_http_agentstream_store_read(ngx_http_agentstream_worker->zone,
                                        &place, (u_char *) buf, sizeof(buf),
                                        &view);

        while (view.need) {
            size = view.need;

            if (large) {
                ngx_free(large);
            }

            large = ngx_alloc(size, ngx_cycle->log);
            if (large == NULL) {
                return NGX_ERROR;
            }

            ngx_http_agentstream_store_read(ngx_http_agentstream_worker->zone,
                                            &place, large, size, &view);
        }

        if (view.lost) {
            rc = NGX_OK;

        } else if (view.records.pos == view.records.last) {
            rc = NGX_DECLINED;

        } else {
            rc = ngx_http_agentstream_verb_asked_here(&view.records, ids,
                                                      &found);
        }

        if (large) {
            ngx_free(large);
        }

    } while (rc == NGX_AGAIN);

    return rc;
}


/* each id is asked for once, so that it is enough to count; NGX_AGAIN: not all
   of them are here */

static ngx_int_t
ngx_http_agentstream_verb_asked_here(ngx_http_agentstream_records_t *records,
    ngx_array_t *ids, ngx_uint_t *found)
{
    ngx_int_t                      rc;
    ngx_str_t                      text, *id;
    ngx_uint_t                     i, v;
    ngx_http_agentstream_json_t    json;
    ngx_http_agentstream_record_t  record;

    id = ids->elts;
    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    while (ngx_http_agentstream_record_next(records, &record) == NGX_OK) {

        if (record.type != NGX_HTTP_AGENTSTREAM_RECORD_QUESTION
            && record.type != NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION)
        {
            continue;
        }

        rc = ngx_http_agentstream_json_parse(&json, record.json.data,
                                             record.json.len);
        if (rc == NGX_ERROR) {
            ngx_http_agentstream_json_destroy(&json);
            return NGX_ERROR;
        }

        v = ngx_http_agentstream_json_get(&json, json.root, "questionId");

        if (v == 0) {
            v = ngx_http_agentstream_json_get(&json, json.root,
                                              "permissionId");
        }

        text = ngx_http_agentstream_json_string(&json, v);

        for (i = 0; i < ids->nelts; i++) {
            if (id[i].len == text.len
                && ngx_memcmp(id[i].data, text.data, text.len) == 0)
            {
                (*found)++;
            }
        }
    }

    ngx_http_agentstream_json_destroy(&json);

    return (*found >= ids->nelts) ? NGX_OK : NGX_AGAIN;
}
