
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What has arrived from a platform, by a webhook or by polling: is it allowed,
 * and is it meant for the bot?  Then it is recorded.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


/* a stranger is refused politely once in this time */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_REFUSE  3600000


static void ngx_http_agentstream_delivery_tell_sender(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *text);
static void ngx_http_agentstream_delivery_kept(void *data, ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_delivery_received(
    ngx_http_agentstream_delivery_receipt_t *receipt, ngx_int_t rc);
static void ngx_http_agentstream_delivery_refuse(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update, ngx_pool_t *pool);


ngx_int_t
ngx_http_agentstream_delivery_receive(
    ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_uint_t known,
    ngx_pool_t *pool, ngx_http_agentstream_delivery_receipt_t *receipt)
{
    ngx_int_t  rc;

    if (!ngx_http_agentstream_delivery_allowed(site->conf, update)) {

        if (update->addressed) {
            ngx_http_agentstream_delivery_refuse(site->conf, update, pool);
        }

        return NGX_OK;
    }

    if (!update->addressed
        && update->kind != NGX_HTTP_AGENTSTREAM_CHAT_PRESS)
    {
        /* people talk to each other; or to the bot, which does not know its
           name yet */

        return known ? NGX_OK : NGX_BUSY;
    }

    receipt->later.handler = ngx_http_agentstream_delivery_kept;
    receipt->later.data = receipt;
    receipt->conf = site->conf;
    receipt->update = update;

    rc = ngx_http_agentstream_delivery_post(site, update, pool, receipt);

    return (rc == NGX_AGAIN) ? rc
                             : ngx_http_agentstream_delivery_received(receipt,
                                                                      rc);
}


/* the store has answered later */

static void
ngx_http_agentstream_delivery_kept(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_delivery_receipt_t *receipt = data;

    rc = ngx_http_agentstream_delivery_posted(receipt, rc);

    receipt->handler(receipt->data,
                     ngx_http_agentstream_delivery_received(receipt, rc));
}


static ngx_int_t
ngx_http_agentstream_delivery_received(
    ngx_http_agentstream_delivery_receipt_t *receipt, ngx_int_t rc)
{
    ngx_str_t  text;

    if (rc == NGX_BUSY) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream delivery: no room for an update, the "
                      "platform must send it again");
    }

    if (rc == NGX_ABORT) {
        ngx_str_set(&text, "This could not be read: it is too long, or too "
                    "much is waiting here already.");
        ngx_http_agentstream_delivery_tell_sender(receipt->conf,
                                                  receipt->update, &text);
        return NGX_OK;
    }

    return (rc == NGX_DECLINED) ? NGX_OK : rc;
}


/* in reply, if the platform takes it now */

static void
ngx_http_agentstream_delivery_tell_sender(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *text)
{
    ngx_http_agentstream_chat_action_t  action;

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_SEND;
    action.place = update->place;
    action.message = update->message;
    action.text = *text;

    if (ngx_http_agentstream_delivery_spend(conf, &action.place, update->group,
                                   action.kind,
                                   NGX_HTTP_AGENTSTREAM_SPEND_NOW)
        == 0)
    {
        ngx_http_agentstream_delivery_tell(conf, &action);
    }
}


void
ngx_http_agentstream_delivery_forget(
    ngx_http_agentstream_delivery_receipt_t *receipt)
{
    ngx_http_agentstream_store_chat_cancel(&receipt->later);
}


/* a stranger: told so once in a while */

static void
ngx_http_agentstream_delivery_refuse(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update, ngx_pool_t *pool)
{
    u_char     buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t  key, who, text;

    key.len = conf->name.len + 1 + update->place.chat.len;
    key.data = ngx_pnalloc(pool, key.len);

    if (key.data == NULL) {
        return;
    }

    ngx_sprintf(key.data, "%V %V", &conf->name, &update->place.chat);

    if (!ngx_http_agentstream_store_chat_rare(
                                        ngx_http_agentstream_worker->zone,
                                        &key,
                                        NGX_HTTP_AGENTSTREAM_DELIVERY_REFUSE))
    {
        return;
    }

    who.len = update->sender.len + sizeof(" in ") - 1 + update->place.chat.len;
    who.data = ngx_pnalloc(pool, who.len);

    if (who.data == NULL) {
        return;
    }

    ngx_sprintf(who.data, "%V in %V", &update->sender, &update->place.chat);

    text = ngx_http_agentstream_text_escape(buf, &who);

    ngx_log_error(NGX_LOG_WARN, pool->log, 0,
                  "agentstream delivery: \"agentstream_chat_allow\" does not "
                  "allow \"%V\"", &text);

    ngx_str_set(&text, "Sorry, I am not allowed to talk to you here.");
    ngx_http_agentstream_delivery_tell_sender(conf, update, &text);
}
