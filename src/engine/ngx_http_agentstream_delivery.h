
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_DELIVERY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_DELIVERY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_chat.h"
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_store.h"


/*
 * Chats: what people write becomes prompts, answers and commands, and what
 * becomes of them is delivered to the platform.  Each chat is served by one
 * worker at a time, and taken over when this worker dies.
 */


/* where a chat is: the location, and the values of its directives, evaluated
   when something has arrived */

typedef struct {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            route;
    ngx_str_t                            owner;
    ngx_str_t                            directory;
    ngx_str_t                            agent;
    ngx_str_t                            model;
} ngx_http_agentstream_delivery_site_t;


ngx_int_t ngx_http_agentstream_delivery_init_worker(ngx_cycle_t *cycle);

/* the worker is to exit: its chats are left to other workers, as soon as what
   is being sent was answered */
void ngx_http_agentstream_delivery_leave(void);

/* who waits until an update is kept; part of its owner */

typedef struct {
    ngx_http_agentstream_later_pt        handler;  /* with the results of
                                                      delivery_receive() */
    void                                *data;

    /* its own */
    ngx_http_agentstream_later_t         later;
    ngx_str_t                            key;
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_http_agentstream_chat_update_t  *update;
} ngx_http_agentstream_delivery_receipt_t;

/* says something without keeping it: if it does not arrive, it is lost */
void ngx_http_agentstream_delivery_tell(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_action_t *action);

/*
 * Something has arrived.  If it is allowed and meant for the bot, it is kept
 * from now on, whatever happens to this worker; known: the bot knows its name.
 * NGX_OK: nothing more is to be done; NGX_BUSY: the platform should send it
 * again; NGX_ERROR: no memory; NGX_AGAIN: the handler is called later, and the
 * pool is needed until then.
 */
ngx_int_t ngx_http_agentstream_delivery_receive(
    ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_uint_t known,
    ngx_pool_t *pool, ngx_http_agentstream_delivery_receipt_t *receipt);
/* whoever waits is gone */
void ngx_http_agentstream_delivery_forget(
    ngx_http_agentstream_delivery_receipt_t *receipt);

/* who the bot is, as far as this worker knows; NGX_AGAIN: it is being asked
   for */
ngx_int_t ngx_http_agentstream_delivery_me(
    ngx_http_agentstream_loc_conf_t *conf, ngx_http_agentstream_chat_me_t *me);

/* whether this person may talk to the agent, in this chat */
ngx_uint_t ngx_http_agentstream_delivery_allowed(
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_update_t *update);


#endif /* _NGX_HTTP_AGENTSTREAM_DELIVERY_H_INCLUDED_ */
