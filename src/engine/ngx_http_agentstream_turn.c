
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The life of a turn, from its place in the zone to the wake-up that frees it.
 * One timer serves all the clocks of a turn.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* what every turn needs, and a little more; there may be thousands of turns, so
   a whole page for each would be felt */
#define NGX_HTTP_AGENTSTREAM_TURN_POOL  2560


static void ngx_http_agentstream_turn_id(u_char *dst);
static ngx_int_t ngx_http_agentstream_turn_created(
    ngx_http_agentstream_turn_t *turn, ngx_int_t rc, ngx_str_t *id);
static void ngx_http_agentstream_turn_created_handler(void *data,
    ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_turn_copy_prompt(
    ngx_http_agentstream_turn_t *turn, ngx_str_t *prompt);
static void ngx_http_agentstream_turn_init(ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_wake_handler(ngx_event_t *ev);
static void ngx_http_agentstream_turn_shown_handler(void *data,
    ngx_int_t rc);


ngx_int_t
ngx_http_agentstream_turn_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_turns_t  *turns;

    turns = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_turns_t));
    if (turns == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&turns->turns);

    turns->work = ngx_http_agentstream_translate_work_create(cycle->pool);
    if (turns->work == NULL) {
        return NGX_ERROR;
    }

    turns->leave.handler = ngx_http_agentstream_turn_leave_handler;
    turns->leave.data = turns;
    turns->leave.log = cycle->log;
    turns->leave.cancelable = 1;

    turns->expire.handler = ngx_http_agentstream_turn_expire_handler;
    turns->expire.data = turns;
    turns->expire.log = cycle->log;
    turns->expire.cancelable = 1;

    ngx_add_timer(&turns->expire, NGX_HTTP_AGENTSTREAM_TURN_EXPIRE);

    ngx_http_agentstream_worker->turns = turns;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_turn_create(ngx_http_agentstream_turn_args_t *args,
    ngx_http_agentstream_turn_creator_t *creator, ngx_str_t *id)
{
    u_char                                buf[
                                          NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN];
    ngx_int_t                             rc;
    ngx_str_t                             own;
    ngx_http_agentstream_turn_t          *turn;
    ngx_http_agentstream_zone_t          *zone;
    ngx_http_agentstream_store_create_t   create;
    ngx_http_agentstream_store_created_t  created;

    zone = ngx_http_agentstream_worker->zone;

    /* a waiting sender asks again and again, so find out cheaply whether it
       can start */

    rc = ngx_http_agentstream_store_taken(zone, &args->target.key,
                                          &args->request_id, args->ticket,
                                          &created);
    if (rc != NGX_OK) {
        id->len = created.other.len;
        ngx_memcpy(id->data, created.other.data, created.other.len);
        return rc;
    }

    /* ids ascend, so this one is made only now: it must be later than all ids
       of the turn before */

    own.data = buf;
    own.len = sizeof(buf);

    ngx_http_agentstream_turn_id(own.data);

    turn = ngx_http_agentstream_turn_alloc(args, &own);
    if (turn == NULL) {
        id->len = 0;
        return NGX_ERROR;
    }

    create.key = args->target.key;
    create.id = turn->id;
    create.request_id = args->request_id;
    create.ticket = args->ticket;
    create.packets = turn->conf->packets;
    create.tool_kinds = turn->conf->tool_kinds;

    turn->later.handler = ngx_http_agentstream_turn_created_handler;
    turn->waits = (args->ticket != NULL);

    rc = ngx_http_agentstream_store_create(zone, &create, &turn->created,
                                           &turn->later);

    if (rc == NGX_AGAIN) {
        turn->creator = creator;
        creator->turn = turn;

        ngx_queue_insert_tail(&ngx_http_agentstream_worker->turns->turns,
                              &turn->queue);
        return NGX_AGAIN;
    }

    return ngx_http_agentstream_turn_created(turn, rc, id);
}


/* the store has answered, now or later */

static ngx_int_t
ngx_http_agentstream_turn_created(ngx_http_agentstream_turn_t *turn,
    ngx_int_t rc, ngx_str_t *id)
{
    ngx_http_agentstream_store_created_t  *created;

    created = &turn->created;

    if (rc != NGX_OK) {
        id->len = created->other.len;
        ngx_memcpy(id->data, created->other.data, created->other.len);

        if (rc == NGX_ERROR) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "agentstream turn: no room in the zone for a turn "
                          "of %V", &turn->session);
        }

        /* others may wait to know that it does not come about; a sender that
           stays in front of them would only ask again at once */

        if (rc != NGX_BUSY || !turn->waits
            || turn->conf->busy != NGX_HTTP_AGENTSTREAM_BUSY_QUEUE)
        {
            ngx_http_agentstream_notify_tell(&turn->session);
        }

        ngx_http_agentstream_turn_destroy(turn);
        return rc;
    }

    id->len = turn->id.len;
    ngx_memcpy(id->data, turn->id.data, turn->id.len);

    turn->node = created->node;
    turn->others = created->unsure ? ngx_http_agentstream_turn_others_unknown
                                   : ngx_http_agentstream_turn_others_none;
    turn->announce = 1;

    ngx_post_event(&turn->wake, &ngx_posted_events);

    ngx_http_agentstream_turn_begin(turn);

    return NGX_OK;
}


static void
ngx_http_agentstream_turn_created_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_t *turn = data;

    u_char                                buf[
                                          NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    ngx_str_t                             id;
    ngx_http_agentstream_turn_creator_t  *creator;

    creator = turn->creator;
    turn->creator = NULL;
    turn->waits &= (creator != NULL);
    id.data = buf;

    rc = ngx_http_agentstream_turn_created(turn, rc, &id);

    if (creator) {
        creator->turn = NULL;
        creator->handler(creator->data, rc, &id);
        return;
    }

    if (rc == NGX_OK) {
        /* who sent it has left meanwhile */
        ngx_http_agentstream_store_sender(ngx_http_agentstream_worker->zone,
                                          &id, -1);
    }
}


void
ngx_http_agentstream_turn_forget_creator(
    ngx_http_agentstream_turn_creator_t *creator)
{
    ngx_http_agentstream_turn_t  *turn;

    turn = creator->turn;

    if (turn) {
        turn->creator = NULL;
        creator->turn = NULL;
    }
}


static void
ngx_http_agentstream_turn_id(u_char *dst)
{
    u_char                         bytes[16];
    uint64_t                       msec;
    uint32_t                       n;
    ngx_uint_t                     i;
    ngx_time_t                    *tp;
    ngx_http_agentstream_turns_t  *turns;

    turns = ngx_http_agentstream_worker->turns;

    tp = ngx_timeofday();
    msec = (uint64_t) tp->sec * 1000 + tp->msec;

    if (msec != turns->msec) {
        turns->msec = msec;
        turns->counter = 0;
    }

    for (i = 0; i < sizeof(bytes); i += sizeof(n)) {
        n = (uint32_t) ngx_random() ^ ((uint32_t) ngx_random() << 16);
        ngx_memcpy(&bytes[i], &n, sizeof(n));
    }

    ngx_http_agentstream_opencode_message_id(dst, msec, ++turns->counter,
                                             bytes);
}


void
ngx_http_agentstream_turn_begin(ngx_http_agentstream_turn_t *turn)
{
    ngx_queue_remove(&turn->queue);
    ngx_queue_insert_tail(&ngx_http_agentstream_worker->turns->turns,
                          &turn->queue);

    ngx_http_agentstream_turn_set_phase(turn,
                                        ngx_http_agentstream_turn_resolving);

    turn->started_at = ngx_current_msec;
    turn->heard_at = ngx_current_msec;
    turn->beat_at = ngx_current_msec;
    turn->watched_at = ngx_current_msec;

    if (ngx_http_agentstream_notify_follow(&turn->waiter, &turn->session)
        != NGX_OK)
    {
        /* without this the turn could not be interrupted */
        ngx_http_agentstream_turn_abort(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                        "Out of memory");
        return;
    }

    ngx_http_agentstream_turn_schedule(turn);
    ngx_http_agentstream_turn_locate(turn);
}


ngx_http_agentstream_turn_t *
ngx_http_agentstream_turn_alloc(ngx_http_agentstream_turn_args_t *args,
    ngx_str_t *id)
{
    ngx_pool_t                   *pool;
    ngx_http_agentstream_turn_t  *turn;

    pool = ngx_create_pool(NGX_HTTP_AGENTSTREAM_TURN_POOL, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    turn = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_turn_t));
    if (turn == NULL) {
        goto failed;
    }

    turn->pool = pool;
    turn->conf = args->target.conf;

    turn->route.len = args->target.route.len;
    turn->route.data = ngx_pstrdup(pool, &args->target.route);
    turn->session.len = args->target.session.len;
    turn->session.data = ngx_pstrdup(pool, &args->target.session);
    turn->id.len = id->len;
    turn->id.data = ngx_pstrdup(pool, id);
    turn->make.len = args->make.len;
    turn->make.data = ngx_pstrdup(pool, &args->make);
    turn->files.len = args->files.len;
    turn->files.data = ngx_pstrdup(pool, &args->files);

    if (turn->route.data == NULL || turn->session.data == NULL
        || turn->id.data == NULL
        || ngx_http_agentstream_turn_copy_prompt(turn, &args->prompt) != NGX_OK
        || turn->make.data == NULL || turn->files.data == NULL
        || ngx_array_init(&turn->sessions, pool, 4, sizeof(ngx_str_t *))
           != NGX_OK
        || ngx_array_init(&turn->hub_sessions, pool, 4,
                          sizeof(ngx_http_agentstream_hub_session_t *))
           != NGX_OK)
    {
        goto failed;
    }

    if (ngx_http_agentstream_turn_child(turn, &turn->session) != NGX_OK) {
        goto failed;
    }

    ngx_http_agentstream_turn_init(turn);

    if (ngx_http_agentstream_turn_translator(turn) != NGX_OK) {
        goto failed;
    }

    turn->enclosed = args->enclosed;
    turn->enclosed_at = args->enclosed_at;
    ngx_http_agentstream_enclosed_hold(turn->enclosed);

    return turn;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


/* the prompt gets memory of its own, which is freed when OpenCode has it */

static ngx_int_t
ngx_http_agentstream_turn_copy_prompt(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *prompt)
{
    if (prompt->len == 0) {
        return NGX_OK;
    }

    turn->prompt.data = ngx_pmemalign(turn->pool, prompt->len, NGX_ALIGNMENT);
    if (turn->prompt.data == NULL) {
        return NGX_ERROR;
    }

    turn->prompt.len = prompt->len;
    ngx_memcpy(turn->prompt.data, prompt->data, prompt->len);

    ngx_http_agentstream_prompt_set_id(&turn->prompt, &turn->id);

    return NGX_OK;
}


/* sets up its empty lists, and the data of its callbacks */

static void
ngx_http_agentstream_turn_init(ngx_http_agentstream_turn_t *turn)
{
    ngx_queue_init(&turn->queue);
    ngx_queue_init(&turn->lookups);
    ngx_queue_init(&turn->held_events);
    ngx_http_agentstream_turn_ask_init(turn);

    turn->waiter.handler = ngx_http_agentstream_turn_interrupt_handler;
    turn->waiter.data = turn;

    turn->timer.handler = ngx_http_agentstream_turn_timer_handler;
    turn->timer.data = turn;
    turn->timer.log = ngx_cycle->log;

    turn->showing.handler = ngx_http_agentstream_turn_shown_handler;
    turn->showing.data = turn;
    turn->later.data = turn;

    turn->wake.handler = ngx_http_agentstream_turn_wake_handler;
    turn->wake.data = turn;
    turn->wake.log = ngx_cycle->log;

    turn->sub.ready = ngx_http_agentstream_turn_ready;
    turn->sub.event = ngx_http_agentstream_turn_event;
    turn->sub.skipped = ngx_http_agentstream_turn_skipped;
    turn->sub.broken = ngx_http_agentstream_turn_broken;
    turn->sub.data = turn;

    turn->reconcile.conf = turn->conf;
    turn->reconcile.route = &turn->route;
    turn->reconcile.directory = &turn->directory;
    turn->reconcile.sessions = &turn->sessions;
    turn->reconcile.handler = ngx_http_agentstream_turn_reconciled;
    turn->reconcile.data = turn;
}


ngx_int_t
ngx_http_agentstream_turn_translator(ngx_http_agentstream_turn_t *turn)
{
    ngx_uint_t                              packets, kinds;
    ngx_http_agentstream_loc_conf_t        *conf;
    ngx_http_agentstream_translate_t       *tr;
    ngx_http_agentstream_translate_conf_t   tcf;

    conf = turn->conf;

    ngx_memzero(&tcf, sizeof(ngx_http_agentstream_translate_conf_t));

    tcf.work = ngx_http_agentstream_worker->turns->work;
    tcf.tool_throttle = conf->tool_throttle;
    tcf.acp_kinds = (conf->tool_kinds == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
    tcf.core = (conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);
    tcf.announce = 1;

    if (turn->adopted) {
        /* docs/directives.md: the settings of the location that started the
           turn apply */
        ngx_http_agentstream_store_settings(turn->node, &packets, &kinds);

        tcf.acp_kinds = (kinds == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
        tcf.core = (packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);
    }

    tr = ngx_http_agentstream_translate_create(turn->pool, &tcf,
                                              &ngx_http_agentstream_turn_sink,
                                              turn, &turn->session, &turn->id);
    if (tr == NULL) {
        return NGX_ERROR;
    }

    if (turn->translate) {
        ngx_http_agentstream_translate_destroy(turn->translate);
    }

    turn->translate = tr;
    turn->reconcile.translate = tr;

    return NGX_OK;
}


static void
ngx_http_agentstream_turn_wake_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_turn_t  *turn;

    turn = ev->data;

    if (turn->phase != ngx_http_agentstream_turn_finished) {

        if (ngx_http_agentstream_store_show(ngx_http_agentstream_worker->zone,
                                            turn->node, &turn->showing)
            == NGX_OK)
        {
            ngx_http_agentstream_notify_wake(&turn->id,
                               ngx_http_agentstream_store_watchers(turn->node),
                               &turn->watch);
        }

        if (turn->announce) {
            turn->announce = 0;
            ngx_http_agentstream_notify_announce(&turn->session);
        }

        return;
    }

    if (!turn->ended) {
        /* readers would not see its end yet */
        return;
    }

    ngx_http_agentstream_notify_wake(&turn->id, turn->end.watchers,
                                     &turn->watch);
    ngx_http_agentstream_notify_forget(&turn->watch);
    ngx_http_agentstream_notify_announce(&turn->session);

    ngx_http_agentstream_turn_destroy(turn);
}


/* the store has answered later: readers see more than before */

static void
ngx_http_agentstream_turn_shown_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (rc != NGX_OK) {
        ngx_http_agentstream_turn_fenced(turn);
        return;
    }

    /* perhaps not all of it */

    (void) ngx_http_agentstream_store_show(ngx_http_agentstream_worker->zone,
                                           turn->node, &turn->showing);

    ngx_http_agentstream_notify_wake(&turn->id,
                               ngx_http_agentstream_store_watchers(turn->node),
                               &turn->watch);
}
