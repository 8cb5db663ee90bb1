
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The session of a chat.  Its first one has the name of the chat; the command
 * "new" begins another one, whose name has a number.  The number is kept in
 * OpenCode, in the metadata of the first session, and so is whether an answer
 * is awaited: so both are found again when nginx was restarted.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


static void ngx_http_agentstream_delivery_found(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_delivery_remember(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *session);
static void ngx_http_agentstream_delivery_resolved(
    ngx_http_agentstream_delivery_t *d);
static void ngx_http_agentstream_delivery_failed(
    ngx_http_agentstream_delivery_t *d, ngx_http_agentstream_outcome_t
    *outcome);
static void ngx_http_agentstream_delivery_renewed(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static ngx_http_agentstream_verb_t *ngx_http_agentstream_delivery_keep(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool, ngx_uint_t fresh,
    ngx_uint_t awaited, ngx_http_agentstream_outcome_pt handler, void *data,
    ngx_int_t *rc);
static void ngx_http_agentstream_delivery_noted(void *data,
    ngx_http_agentstream_outcome_t *outcome);


void
ngx_http_agentstream_delivery_resolve(ngx_http_agentstream_delivery_t *d,
    void (*handler)(ngx_http_agentstream_delivery_t *d))
{
    ngx_http_agentstream_verb_t    *verb;
    ngx_http_agentstream_target_t   target;

    d->resolved = handler;

    if (d->state.known) {
        ngx_http_agentstream_delivery_resolved(d);
        return;
    }

    if (ngx_http_agentstream_delivery_target(d, d->job, 0, &target)
        != NGX_OK)
    {
        ngx_http_agentstream_delivery_failed(d, NULL);
        return;
    }

    verb = ngx_http_agentstream_verb_get_session(&target,
                                          ngx_http_agentstream_delivery_found,
                                          d);
    if (verb) {
        d->verb = verb;
    }
}


static void
ngx_http_agentstream_delivery_found(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_t *d = data;

    d->verb = NULL;

    if (outcome->code == NGX_HTTP_OK) {
        ngx_http_agentstream_delivery_remember(d, &outcome->body);

    } else if (outcome->code != NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_delivery_failed(d, outcome);
        return;
    }

    d->state.known = 1;
    ngx_http_agentstream_delivery_save(d, 0);

    ngx_http_agentstream_delivery_resolved(d);
}


/* what the metadata of the first session says */

static void
ngx_http_agentstream_delivery_remember(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *session)
{
    int64_t                      fresh;
    ngx_str_t                    text;
    ngx_uint_t                   value;
    ngx_http_agentstream_json_t  json;

    static ngx_str_t  nobody = ngx_null_string;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    if (ngx_http_agentstream_json_parse(&json, session->data, session->len)
        == NGX_OK)
    {
        value = ngx_http_agentstream_json_get(&json, json.root, "metadata");
        value = ngx_http_agentstream_json_get(&json, value, "agentstream");

        fresh = ngx_http_agentstream_json_integer(&json,
                    ngx_http_agentstream_json_get(&json, value, "number"), 0);

        if (fresh > 0 && fresh < 1000000000) {
            d->state.fresh = fresh;
        }

        if (ngx_http_agentstream_opencode_true(&json, value, "awaited")) {
            ngx_str_set(&text, "The server was restarted, and the answer to "
                        "your last message was interrupted. It may be "
                        "incomplete here. Ask again if you still need it.");
            ngx_http_agentstream_delivery_say(d, &nobody, &text, 0);
            d->state.noted = 1;
        }
    }

    ngx_http_agentstream_json_destroy(&json);
}


static void
ngx_http_agentstream_delivery_resolved(ngx_http_agentstream_delivery_t *d)
{
    if (ngx_http_agentstream_delivery_target(d, d->job, d->state.fresh,
                                             &d->target)
        != NGX_OK)
    {
        ngx_http_agentstream_delivery_failed(d, NULL);
        return;
    }

    d->resolved(d);
}


/* outcome NULL: no memory */

static void
ngx_http_agentstream_delivery_failed(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_outcome_t *outcome)
{
    u_char     *p;
    ngx_str_t   text;

    text.data = ngx_pnalloc(d->job, 512);

    if (text.data) {
        p = ngx_snprintf(text.data, 512, "The agent cannot be reached: %s.",
                         (outcome && outcome->reason) ? outcome->reason
                                                      : "there is no memory");
        text.len = p - text.data;

        ngx_http_agentstream_delivery_say(d, &d->update.message, &text,
                                          d->job_entry);
    }

    ngx_http_agentstream_delivery_end_job(d);
    ngx_http_agentstream_delivery_kick(d);
}


ngx_int_t
ngx_http_agentstream_delivery_target(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool, ngx_uint_t fresh, ngx_http_agentstream_target_t *target)
{
    ngx_str_t                          name, session;
    ngx_http_agentstream_name_scope_t  scope;

    scope.server = d->site.conf->server_name;
    scope.prefix = d->site.conf->prefix;
    scope.route = d->site.route;
    scope.owner = d->site.owner;
    scope.directory = d->site.directory;

    name.data = ngx_pnalloc(pool, d->name.len + 1 + NGX_INT_T_LEN);
    session.data = ngx_pnalloc(pool, NGX_HTTP_AGENTSTREAM_NAME_ID_LEN);

    if (name.data == NULL || session.data == NULL) {
        return NGX_ERROR;
    }

    name.len = (fresh ? ngx_sprintf(name.data, "%V~%ui", &d->name, fresh)
                      : ngx_sprintf(name.data, "%V", &d->name))
               - name.data;
    session.len = NGX_HTTP_AGENTSTREAM_NAME_ID_LEN;

    if (ngx_http_agentstream_name_id(&scope, &name, session.data) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_target_init(target, pool, d->site.conf,
                                            &d->site.route, &session);
}


void
ngx_http_agentstream_delivery_renew(ngx_http_agentstream_delivery_t *d)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_delivery_keep(d, d->job, d->state.fresh + 1, 0,
                                        ngx_http_agentstream_delivery_renewed,
                                        d, &rc);
    if (verb) {
        d->verb = verb;

    } else if (rc != NGX_OK) {
        ngx_http_agentstream_delivery_failed(d, NULL);
    }
}


static void
ngx_http_agentstream_delivery_renewed(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_t *d = data;

    ngx_str_t  text;

    d->verb = NULL;

    if (outcome->code != NGX_HTTP_OK) {
        ngx_http_agentstream_delivery_failed(d, outcome);
        return;
    }

    d->state.fresh++;
    ngx_http_agentstream_delivery_save(d, 0);

    ngx_str_set(&text, "A new conversation begins with your next message.");
    ngx_http_agentstream_delivery_say(d, &d->update.message, &text,
                                      d->job_entry);

    ngx_http_agentstream_delivery_end_job(d);
    ngx_http_agentstream_delivery_kick(d);
}


/* writes the metadata of the first session, which is created if it is not
   there; NULL: *rc says whether the outcome was reported already (NGX_OK) or
   there is no memory (NGX_ERROR) */

static ngx_http_agentstream_verb_t *
ngx_http_agentstream_delivery_keep(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool, ngx_uint_t fresh, ngx_uint_t awaited,
    ngx_http_agentstream_outcome_pt handler, void *data, ngx_int_t *rc)
{
    ngx_str_t                      make, update;
    ngx_http_agentstream_target_t  target;

    *rc = NGX_ERROR;

    update.data = ngx_pnalloc(pool, 128);

    if (update.data == NULL
        || ngx_http_agentstream_delivery_target(d, pool, 0, &target) != NGX_OK
        || ngx_http_agentstream_body_make(pool, NULL, &target.session,
                                          &d->site.directory, &make)
           != NGX_OK)
    {
        return NULL;
    }

    update.len = ngx_sprintf(update.data, "{\"metadata\":{\"agentstream\":"
                             "{\"number\":%ui,\"awaited\":%s}}}",
                             fresh, awaited ? "true" : "false")
                 - update.data;

    *rc = NGX_OK;

    return ngx_http_agentstream_verb_make_session(&target, &make, &update,
                                                  handler, data);
}


void
ngx_http_agentstream_delivery_note(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t awaited)
{
    ngx_int_t                                rc;
    ngx_pool_t                              *pool;
    ngx_http_agentstream_verb_t             *verb;
    ngx_http_agentstream_delivery_errand_t  *errand;

    /* one after the other, or the first could be the last to arrive */

    if (d->noting || d->state.noted == awaited) {
        return;
    }

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return;
    }

    errand = ngx_http_agentstream_delivery_errand(d, pool);
    if (errand == NULL) {
        return;
    }

    d->state.noted = awaited;
    d->noting = 1;

    verb = ngx_http_agentstream_delivery_keep(d, pool, d->state.fresh, awaited,
                                          ngx_http_agentstream_delivery_noted,
                                          errand, &rc);
    if (verb) {
        errand->verb = verb;

    } else if (rc != NGX_OK) {
        d->noting = 0;
        ngx_http_agentstream_delivery_end_errand(errand);
    }
}


/* if it fails, a restart of nginx is not noticed in this chat, or once too
   often */

static void
ngx_http_agentstream_delivery_noted(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_errand_t *errand = data;

    ngx_http_agentstream_delivery_t  *d;

    d = errand->delivery;
    d->noting = 0;

    errand->verb = NULL;
    ngx_http_agentstream_delivery_end_errand(errand);

    /* a turn may have ended in the meantime, or begun */

    if (d->state.running) {
        d->touched = 1;

    } else {
        ngx_http_agentstream_delivery_note(d, 0);
    }
}
