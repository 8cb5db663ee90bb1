
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Who may talk to the agent, and who the bot is.  Nobody may, unless it was
 * said so; in a group both the person and the group must be allowed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* how often a bot that does not know its name asks for it */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_ASK_ME  5000


typedef struct ngx_http_agentstream_delivery_me_s {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_http_agentstream_chat_me_t       me;
    ngx_msec_t                           asked;    /* 0: never */
    ngx_uint_t                           known;
    ngx_uint_t                           asking;
} ngx_http_agentstream_delivery_me_t;


static ngx_uint_t ngx_http_agentstream_delivery_listed(ngx_array_t *list,
    ngx_str_t *id);
static ngx_http_agentstream_delivery_me_t *
    ngx_http_agentstream_delivery_find_me(
    ngx_http_agentstream_loc_conf_t *conf);
static void ngx_http_agentstream_delivery_me_done(void *data,
    ngx_http_agentstream_call_t *call);


ngx_uint_t
ngx_http_agentstream_delivery_allowed(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t  all;

    if (conf->chat_allow == NULL) {
        return 0;
    }

    ngx_str_set(&all, "all");

    if (ngx_http_agentstream_delivery_listed(conf->chat_allow, &all)) {
        return 1;
    }

    if (!ngx_http_agentstream_delivery_listed(conf->chat_allow,
                                              &update->sender))
    {
        return 0;
    }

    return !update->group
           || ngx_http_agentstream_delivery_listed(conf->chat_allow,
                                                   &update->place.chat);
}


static ngx_uint_t
ngx_http_agentstream_delivery_listed(ngx_array_t *list, ngx_str_t *id)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = list->elts;

    for (i = 0; i < list->nelts; i++) {
        if (id->len && value[i].len == id->len
            && ngx_memcmp(value[i].data, id->data, id->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_agentstream_delivery_me(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_me_t *me)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_chat_action_t   action;
    ngx_http_agentstream_delivery_me_t  *m;

    ngx_memzero(me, sizeof(ngx_http_agentstream_chat_me_t));

    m = ngx_http_agentstream_delivery_find_me(conf);

    if (m == NULL) {
        return NGX_AGAIN;
    }

    if (m->known) {
        *me = m->me;
        return NGX_OK;
    }

    if (m->asking
        || (m->asked && ngx_current_msec - m->asked
                        < NGX_HTTP_AGENTSTREAM_DELIVERY_ASK_ME))
    {
        return NGX_AGAIN;
    }

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));
    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_ME;

    call = ngx_http_agentstream_delivery_spell(conf, &action, &rc);

    if (call == NULL) {
        /* a platform on which updates say it themselves */
        m->known = (rc == NGX_DECLINED);
        return m->known ? NGX_OK : NGX_AGAIN;
    }

    m->asked = ngx_current_msec;
    m->asking = 1;

    call->done_handler = ngx_http_agentstream_delivery_me_done;
    call->data = m;

    ngx_http_agentstream_call_open(call);

    return NGX_AGAIN;
}


static ngx_http_agentstream_delivery_me_t *
ngx_http_agentstream_delivery_find_me(ngx_http_agentstream_loc_conf_t *conf)
{
    ngx_uint_t                            i;
    ngx_http_agentstream_loc_conf_t     **confs;
    ngx_http_agentstream_main_conf_t     *amcf;
    ngx_http_agentstream_delivery_me_t   *m;

    amcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_agentstream_module);
    confs = amcf->chats.elts;

    m = ngx_http_agentstream_worker->bots;

    if (m == NULL) {
        m = ngx_pcalloc(ngx_cycle->pool, amcf->chats.nelts
                                * sizeof(ngx_http_agentstream_delivery_me_t));
        if (m == NULL) {
            return NULL;
        }

        ngx_http_agentstream_worker->bots = m;
    }

    for (i = 0; i < amcf->chats.nelts; i++) {
        if (confs[i] == conf) {
            m[i].conf = conf;
            return &m[i];
        }
    }

    return NULL;
}


static void
ngx_http_agentstream_delivery_me_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_delivery_me_t *m = data;

    u_char                              *id, *name;
    ngx_http_agentstream_chat_answer_t   answer;

    m->asking = 0;

    if (ngx_http_agentstream_delivery_answered(m->conf, call,
                                               NGX_HTTP_AGENTSTREAM_CHAT_ME,
                                               &answer)
        != NGX_OK
        || answer.result != NGX_HTTP_AGENTSTREAM_CHAT_DONE)
    {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "agentstream delivery: the platform does not say who "
                      "the bot is, status: %ui", call->status);
        return;
    }

    id = ngx_pstrdup(ngx_cycle->pool, &answer.me.id);
    name = ngx_pstrdup(ngx_cycle->pool, &answer.me.name);

    if (id == NULL || name == NULL) {
        return;
    }

    m->me.id.data = id;
    m->me.id.len = answer.me.id.len;
    m->me.name.data = name;
    m->me.name.len = answer.me.name.len;
    m->known = 1;
}
