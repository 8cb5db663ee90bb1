
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for turns and their streams.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_reader.h"
#include "ngx_http_agentstream_rebuild.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"


static ngx_int_t ngx_http_agentstream_request_lost(ngx_http_request_t *r,
    ngx_str_t *turn, uint64_t number, void *data);
static ngx_int_t ngx_http_agentstream_request_rebuild(
    ngx_http_agentstream_request_t *req, ngx_str_t *turn, const char *reason);
static ngx_uint_t ngx_http_agentstream_request_kept(void *data);
static ngx_int_t ngx_http_agentstream_request_follow(ngx_http_request_t *r,
    void *data);
static void ngx_http_agentstream_request_orphan(ngx_str_t *turn, void *data);
static u_char *ngx_http_agentstream_request_asks(u_char *p,
    ngx_http_agentstream_node_t *node, ngx_uint_t permission);
static ngx_int_t ngx_http_agentstream_request_cursor(
    ngx_http_agentstream_request_t *req, ngx_str_t *turn, uint64_t *seq);
static ngx_int_t ngx_http_agentstream_request_last_event_id(
    ngx_http_request_t *r, ngx_str_t *value);


ngx_int_t
ngx_http_agentstream_request_events(ngx_http_agentstream_request_t *req)
{
    u_char                        id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    uint64_t                      seq, last, number;
    ngx_str_t                    *key, turn, wanted, value;
    ngx_uint_t                    found, over;
    ngx_http_request_t           *r;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    r = req->request;
    key = &req->target.key;
    zone = ngx_http_agentstream_worker->zone;

    if (ngx_http_agentstream_request_cursor(req, &wanted, &seq) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    last = seq;

    req->retry = 1;
    req->follow = (ngx_http_arg(r, (u_char *) "follow", 6, &value) == NGX_OK
                   && value.len == 1 && value.data[0] == '1');

    turn.data = id;
    turn.len = 0;
    number = 0;
    over = 0;

    ngx_http_agentstream_zone_lock(zone);

    node = wanted.len ? ngx_http_agentstream_zone_find_locked(zone, &wanted)
                      : NULL;

    if (node && (node->session->sn.str.len != key->len
                 || ngx_memcmp(node->session->key, key->data, key->len) != 0))
    {
        node = NULL;
    }

    if (node
        && node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
        && seq >= node->journal.last_seq)
    {
        /* it has that turn to the end: the session's next one, if any */

        over = 1;
        seq = 0;
        number = node->number;
        node = ngx_http_agentstream_zone_turn_locked(zone, key, number);

    } else if (node == NULL) {
        seq = 0;
        node = ngx_http_agentstream_zone_turn_locked(zone, key,
                                                  NGX_HTTP_AGENTSTREAM_NEWEST);
    }

    found = (node != NULL);

    /* where to go on after what is not kept here */

    req->number = zone->sh->number;

    if (found) {
        turn.len = node->sn.str.len;
        ngx_memcpy(turn.data, node->sn.str.data, node->sn.str.len);
        number = node->number;
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (found) {
        return ngx_http_agentstream_request_read(req, &turn, number, seq + 1);
    }

    if (wanted.len && last == NGX_HTTP_AGENTSTREAM_REBUILD_LAST) {
        over = 1;
    }

    if (over && !req->follow) {
        return ngx_http_agentstream_request_nothing(req);
    }

    if (over) {
        return ngx_http_agentstream_request_read(req, &turn, number, 1);
    }

    /* nothing of the session is kept here: OpenCode may still know */

    return ngx_http_agentstream_request_rebuild(req, &wanted, "not_retained");
}


ngx_int_t
ngx_http_agentstream_request_read(ngx_http_agentstream_request_t *req,
    ngx_str_t *turn, uint64_t number, uint64_t seq)
{
    ngx_http_agentstream_reader_args_t  args;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.output = &req->output;
    args.conf = req->conf;
    args.turn = *turn;
    args.seq = seq;
    args.session = req->target.session;
    args.key = req->target.key;
    args.number = number;
    args.retry = req->retry;
    args.follow = req->follow;
    args.attach = (req->route->method == NGX_HTTP_GET
                   || req->conf->busy == NGX_HTTP_AGENTSTREAM_BUSY_ATTACH);
    args.lost = ngx_http_agentstream_request_lost;
    args.orphan = ngx_http_agentstream_request_orphan;
    args.data = req;

    return ngx_http_agentstream_reader_attach(req->request, &args);
}


static ngx_int_t
ngx_http_agentstream_request_lost(ngx_http_request_t *r, ngx_str_t *turn,
    uint64_t number, void *data)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_uint_t                    kept;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    req->number = number;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);
    kept = (node != NULL);

    if (kept && node->refused) {
        /* the one that OpenCode works on instead */
        turn->len = 0;
        kept = 0;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return ngx_http_agentstream_request_rebuild(req, turn,
                                                kept ? "journal_dropped"
                                                     : "not_retained");
}


static ngx_int_t
ngx_http_agentstream_request_rebuild(ngx_http_agentstream_request_t *req,
    ngx_str_t *turn, const char *reason)
{
    ngx_http_agentstream_rebuild_args_t  args;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_rebuild_args_t));

    args.output = &req->output;
    args.conf = req->conf;
    args.route = req->target.route;
    args.session = req->target.session;
    args.turn = *turn;
    args.reason = reason;

    if (req->follow) {
        args.kept = ngx_http_agentstream_request_kept;
        args.after = ngx_http_agentstream_request_follow;
        args.data = req;
    }

    return ngx_http_agentstream_rebuild_attach(req->request, &args);
}


/* a turn that began meanwhile would be told twice */

static ngx_uint_t
ngx_http_agentstream_request_kept(void *data)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_uint_t                    kept;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);

    kept = (ngx_http_agentstream_zone_turn_locked(zone, &req->target.key,
                                                  req->number)
            != NULL);

    ngx_http_agentstream_zone_unlock(zone);

    return kept;
}


/* the turn is over, or there was none: the session's next ones */

static ngx_int_t
ngx_http_agentstream_request_follow(ngx_http_request_t *r, void *data)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_str_t  turn;

    ngx_str_null(&turn);

    return ngx_http_agentstream_request_read(req, &turn, req->number, 1);
}


static void
ngx_http_agentstream_request_orphan(ngx_str_t *turn, void *data)
{
    ngx_http_agentstream_request_t *req = data;

    (void) ngx_http_agentstream_turn_adopt(&req->target, turn);
}


/* contract 2: "Last-Event-ID", or "last_event_id=" where no header can be
   set; what does not look like one of ours counts as none */

static ngx_int_t
ngx_http_agentstream_request_cursor(ngx_http_agentstream_request_t *req,
    ngx_str_t *turn, uint64_t *seq)
{
    u_char     *colon, *p, *last;
    ngx_str_t   value;

    if (ngx_http_agentstream_request_last_event_id(req->request, &value)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    turn->len = 0;
    turn->data = value.data;
    *seq = 0;

    last = value.data + value.len;
    colon = ngx_strlchr(value.data, last, ':');

    if (colon == NULL || last - colon > 17) {
        return NGX_OK;
    }

    for (p = colon + 1; p < last; p++) {

        if (*p < '0' || *p > '9') {
            *seq = 0;
            return NGX_OK;
        }

        *seq = *seq * 10 + (*p - '0');
    }

    turn->len = colon - value.data;

    if (turn->len > NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE
        || !ngx_http_agentstream_opencode_id(turn))
    {
        turn->len = 0;
        *seq = 0;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_last_event_id(ngx_http_request_t *r,
    ngx_str_t *value)
{
    u_char           *dst, *src;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    part = &r->headers_in.headers.part;
    header = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            header = part->elts;
            i = 0;
        }

        if (header[i].key.len == sizeof("Last-Event-ID") - 1
            && ngx_strncasecmp(header[i].key.data,
                               (u_char *) "Last-Event-ID",
                               sizeof("Last-Event-ID") - 1)
               == 0)
        {
            *value = header[i].value;
            return NGX_OK;
        }
    }

    if (ngx_http_arg(r, (u_char *) "last_event_id",
                     sizeof("last_event_id") - 1, value)
        != NGX_OK)
    {
        ngx_str_null(value);
        return NGX_OK;
    }

    src = value->data;
    dst = ngx_pnalloc(r->pool, value->len);

    if (dst == NULL) {
        return NGX_ERROR;
    }

    value->data = dst;
    ngx_unescape_uri(&dst, &src, value->len, 0);
    value->len = dst - value->data;

    return NGX_OK;
}


/* what is known of the session's current or last turn */

ngx_int_t
ngx_http_agentstream_request_turn(ngx_http_agentstream_request_t *req)
{
    size_t                        size;
    u_char                       *p;
    ngx_str_t                     body;
    ngx_http_agentstream_ask_t   *ask;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    size = 256;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_turn_locked(zone, &req->target.key,
                                                 NGX_HTTP_AGENTSTREAM_NEWEST);

    for (ask = node ? node->asks : NULL; ask; ask = ask->next) {
        size += ask->id_len + sizeof("\"\",") - 1;
    }

    p = ngx_pnalloc(req->request->pool, size);
    if (p == NULL) {
        ngx_http_agentstream_zone_unlock(zone);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    body.data = p;

    if (node) {
        p = ngx_sprintf(body.data, "{\"turnId\":\"%V\",\"running\":%s,"
                        "\"stopReason\":", &node->sn.str,
                        node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
                        ? "false" : "true");

        p = node->stop_reason[0] ? ngx_sprintf(p, "\"%s\"", node->stop_reason)
                                 : ngx_sprintf(p, "null");

        p = ngx_sprintf(p, ",\"packets\":%uL,\"questions\":[",
                        node->journal.last_seq);
        p = ngx_http_agentstream_request_asks(p, node, 0);
        p = ngx_sprintf(p, "],\"permissions\":[");
        p = ngx_http_agentstream_request_asks(p, node, 1);
        p = ngx_sprintf(p, "]}");

    } else {
        p = ngx_sprintf(body.data, "{\"turnId\":null,\"running\":false,"
                        "\"stopReason\":null,\"packets\":0,"
                        "\"questions\":[],\"permissions\":[]}");
    }

    ngx_http_agentstream_zone_unlock(zone);

    body.len = p - body.data;

    return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &body);
}


static u_char *
ngx_http_agentstream_request_asks(u_char *p, ngx_http_agentstream_node_t *node,
    ngx_uint_t permission)
{
    ngx_uint_t                   n;
    ngx_http_agentstream_ask_t  *ask;

    n = 0;

    for (ask = node->asks; ask; ask = ask->next) {
        if (ask->permission == permission) {
            p = ngx_sprintf(p, "%s\"%*s\"", n++ ? "," : "",
                            (size_t) ask->id_len, ask->id);
        }
    }

    return p;
}
