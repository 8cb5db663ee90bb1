
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Gets the pictures of a message from the platform, one after the other,
 * before the session is prompted.  The message stays in the inbox in the
 * meantime, so a successor begins again if this worker dies.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* how long all pictures of a message together may take, and one try */
#define NGX_HTTP_AGENTSTREAM_FILE_DEADLINE  60000
#define NGX_HTTP_AGENTSTREAM_FILE_TIMEOUT   30000

/* how often a picture is tried to get, and the pause before the next try */
#define NGX_HTTP_AGENTSTREAM_FILE_TRIES     3
#define NGX_HTTP_AGENTSTREAM_FILE_PAUSE     1000


static void ngx_http_agentstream_delivery_fetch_next(
    ngx_http_agentstream_delivery_fetch_t *fetch);
static ngx_int_t ngx_http_agentstream_delivery_fetch_one(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_delivery_file_t *file);
static ngx_http_agentstream_chat_file_t *ngx_http_agentstream_delivery_from(
    ngx_http_agentstream_delivery_fetch_t *fetch);
static ngx_http_agentstream_delivery_file_t *ngx_http_agentstream_delivery_to(
    ngx_http_agentstream_delivery_fetch_t *fetch);
static ngx_int_t ngx_http_agentstream_delivery_fetch_call(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t kind);
static ngx_int_t ngx_http_agentstream_delivery_fetch_body(void *data,
    u_char *pos, size_t len);
static void ngx_http_agentstream_delivery_fetch_forget(
    ngx_http_agentstream_delivery_fetch_t *fetch);
static ngx_uint_t ngx_http_agentstream_delivery_fetch_part(
    ngx_http_agentstream_delivery_fetch_t *fetch);
static void ngx_http_agentstream_delivery_fetch_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_delivery_fetch_located(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_delivery_fetch_failed(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_call_t *call, ngx_uint_t again);
static void ngx_http_agentstream_delivery_fetch_end(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t result);
static void ngx_http_agentstream_delivery_fetch_handler(ngx_event_t *ev);


void
ngx_http_agentstream_delivery_fetch(ngx_http_agentstream_delivery_t *d,
    void (*handler)(ngx_http_agentstream_delivery_t *d))
{
    ngx_pool_t                             *pool;
    ngx_http_agentstream_delivery_fetch_t  *fetch;

    d->nalbum = 0;

    if (d->update.files.nelts == 0) {
        handler(d);
        return;
    }

    pool = ngx_create_pool(4096, ngx_cycle->log);

    fetch = pool ? ngx_pcalloc(pool,
                               sizeof(ngx_http_agentstream_delivery_fetch_t))
                 : NULL;

    if (fetch == NULL
        || ngx_array_init(&fetch->files, pool, d->update.files.nelts,
                          sizeof(ngx_http_agentstream_delivery_file_t))
           != NGX_OK)
    {
        if (pool) {
            ngx_destroy_pool(pool);
        }

        /* without its pictures, which are named as not read */

        handler(d);
        return;
    }

    fetch->pool = pool;
    fetch->delivery = d;
    fetch->handler = handler;
    fetch->left = d->site.conf->chat_picture_size;
    fetch->began = ngx_current_msec;

    fetch->timer.handler = ngx_http_agentstream_delivery_fetch_handler;
    fetch->timer.data = fetch;
    fetch->timer.log = ngx_cycle->log;
    fetch->timer.cancelable = 1;

    d->fetch = fetch;

    ngx_http_agentstream_delivery_fetch_next(fetch);
}


/* looks at the files that were not looked at yet; returns when there is one to
   wait for */

static void
ngx_http_agentstream_delivery_fetch_next(
    ngx_http_agentstream_delivery_fetch_t *fetch)
{
    ngx_int_t                              rc;
    ngx_http_agentstream_delivery_t       *d;
    ngx_http_agentstream_delivery_file_t  *file;

    d = fetch->delivery;

    for ( ;; ) {

        if (fetch->files.nelts == d->update.files.nelts) {
            rc = ngx_http_agentstream_delivery_join_album(d);

            if (rc == NGX_AGAIN) {
                ngx_add_timer(&fetch->timer,
                              NGX_HTTP_AGENTSTREAM_FILE_ALBUM);
                return;
            }

            if (rc != NGX_OK) {
                break;
            }

            continue;
        }

        file = ngx_array_push(&fetch->files);
        if (file == NULL) {
            break;
        }

        ngx_memzero(file, sizeof(ngx_http_agentstream_delivery_file_t));

        if (ngx_http_agentstream_delivery_fetch_one(fetch, file) == NGX_OK) {
            return;
        }
    }

    fetch->handler(d);
}


/* NGX_OK: it is being fetched; NGX_DECLINED: it will not be */

static ngx_int_t
ngx_http_agentstream_delivery_fetch_one(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_delivery_file_t *file)
{
    ngx_http_agentstream_chat_file_t  *from;

    from = ngx_http_agentstream_delivery_from(fetch);

    if (!from->picture
        || fetch->delivery->site.conf->chat_picture_size == 0)
    {
        file->result = NGX_HTTP_AGENTSTREAM_FILE_OTHER;
        return NGX_DECLINED;
    }

    if (from->size > (off_t) fetch->left) {
        file->result = NGX_HTTP_AGENTSTREAM_FILE_LARGE;
        return NGX_DECLINED;
    }

    file->result = NGX_HTTP_AGENTSTREAM_FILE_MISSING;

    if (ngx_current_msec - fetch->began >= NGX_HTTP_AGENTSTREAM_FILE_DEADLINE)
    {
        return NGX_DECLINED;
    }

    fetch->tries = 0;
    fetch->path = from->path;
    fetch->args = from->args;

    return ngx_http_agentstream_delivery_fetch_call(fetch,
                                     from->path.len
                                     ? NGX_HTTP_AGENTSTREAM_CHAT_FETCH
                                     : NGX_HTTP_AGENTSTREAM_CHAT_FILE);
}


/* the file at hand, as the platform has described it, and what becomes of
   it */

static ngx_http_agentstream_chat_file_t *
ngx_http_agentstream_delivery_from(
    ngx_http_agentstream_delivery_fetch_t *fetch)
{
    ngx_http_agentstream_chat_file_t  *from;

    from = fetch->delivery->update.files.elts;

    return &from[fetch->files.nelts - 1];
}


static ngx_http_agentstream_delivery_file_t *
ngx_http_agentstream_delivery_to(ngx_http_agentstream_delivery_fetch_t *fetch)
{
    ngx_http_agentstream_delivery_file_t  *file;

    file = fetch->files.elts;

    return &file[fetch->files.nelts - 1];
}


static ngx_int_t
ngx_http_agentstream_delivery_fetch_call(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t kind)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_chat_action_t   action;

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = kind;
    action.file = ngx_http_agentstream_delivery_from(fetch)->id;
    action.path = fetch->path;
    action.args = fetch->args;

    call = ngx_http_agentstream_delivery_spell(fetch->delivery->site.conf,
                                               &action, &rc);
    if (call == NULL) {
        return NGX_DECLINED;
    }

    /* messages do not wait for the places that large files take */

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_LOOKUP;
    call->timeout = NGX_HTTP_AGENTSTREAM_FILE_TIMEOUT;
    call->done_handler = ngx_http_agentstream_delivery_fetch_done;
    call->data = fetch;

    if (kind == NGX_HTTP_AGENTSTREAM_CHAT_FETCH) {
        call->body_handler = ngx_http_agentstream_delivery_fetch_body;
        ngx_http_agentstream_delivery_fetch_forget(fetch);
    }

    fetch->kind = kind;
    fetch->large = 0;
    fetch->call = call;

    ngx_http_agentstream_call_open(call);

    return NGX_OK;
}


/* encodes what arrives at once; the call lets others have their turn */

static ngx_int_t
ngx_http_agentstream_delivery_fetch_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_delivery_fetch_t *fetch = data;

    size_t                                 n;
    ngx_http_agentstream_delivery_file_t  *file;

    file = ngx_http_agentstream_delivery_to(fetch);

    if (len > fetch->left - file->len) {
        fetch->large = 1;
        return NGX_ERROR;
    }

    if (file->enclosed == NULL) {
        file->enclosed = ngx_http_agentstream_enclosed_create();

        if (file->enclosed == NULL) {
            return NGX_ERROR;
        }
    }

    if (file->len < sizeof(file->head)) {
        n = ngx_min(len, sizeof(file->head) - file->len);
        ngx_memcpy(file->head + file->len, pos, n);
    }

    file->len += len;

    return ngx_http_agentstream_enclosed_write(file->enclosed, pos, len);
}


/* frees what there is of the picture at hand */

static void
ngx_http_agentstream_delivery_fetch_forget(
    ngx_http_agentstream_delivery_fetch_t *fetch)
{
    ngx_http_agentstream_delivery_file_t  *file;

    file = ngx_http_agentstream_delivery_to(fetch);

    ngx_http_agentstream_enclosed_release(file->enclosed);

    file->enclosed = NULL;
    file->len = 0;
}


/* what the picture at hand is, as a part of a prompt */

static ngx_uint_t
ngx_http_agentstream_delivery_fetch_part(
    ngx_http_agentstream_delivery_fetch_t *fetch)
{
    u_char                                 buf[128];
    ngx_str_t                              head, type, before, after;
    ngx_http_agentstream_delivery_file_t  *file;

    file = ngx_http_agentstream_delivery_to(fetch);

    head.data = file->head;
    head.len = ngx_min(file->len, sizeof(file->head));

    type = ngx_http_agentstream_chat_picture_type(&head);

    if (type.len == 0) {
        return NGX_HTTP_AGENTSTREAM_FILE_STRANGE;
    }

    before.data = buf;
    before.len = ngx_sprintf(buf, ",{\"type\":\"file\",\"mime\":\"%V\","
                             "\"url\":\"data:%V;base64,", &type, &type)
                 - buf;
    ngx_str_set(&after, "\"}");

    return (ngx_http_agentstream_enclosed_end(file->enclosed, &before, &after)
            == NGX_OK) ? NGX_HTTP_AGENTSTREAM_FILE_READ
                       : NGX_HTTP_AGENTSTREAM_FILE_MISSING;
}


static void
ngx_http_agentstream_delivery_fetch_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_delivery_fetch_t *fetch = data;

    fetch->call = NULL;

    if (fetch->kind == NGX_HTTP_AGENTSTREAM_CHAT_FILE) {
        ngx_http_agentstream_delivery_fetch_located(fetch, call);
        return;
    }

    if (fetch->large) {
        ngx_http_agentstream_delivery_fetch_end(fetch,
                                             NGX_HTTP_AGENTSTREAM_FILE_LARGE);
        return;
    }

    if (call->status != NGX_HTTP_OK || !call->answered || !call->complete) {
        ngx_http_agentstream_count(CHAT_FAILED, 1);
        ngx_http_agentstream_delivery_fetch_failed(fetch, call,
                               !call->answered || call->status == NGX_HTTP_OK
                               || call->status == NGX_HTTP_TOO_MANY_REQUESTS
                               || call->status
                                  >= NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ngx_http_agentstream_delivery_fetch_end(fetch,
                           ngx_http_agentstream_delivery_fetch_part(fetch));
}


/* the platform has said where the picture is */

static void
ngx_http_agentstream_delivery_fetch_located(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_chat_answer_t  answer;

    (void) ngx_http_agentstream_delivery_answered(
                                             fetch->delivery->site.conf, call,
                                             NGX_HTTP_AGENTSTREAM_CHAT_FILE,
                                             &answer);

    if (answer.result != NGX_HTTP_AGENTSTREAM_CHAT_DONE) {
        ngx_http_agentstream_delivery_fetch_failed(fetch, call,
                          answer.result == NGX_HTTP_AGENTSTREAM_CHAT_LATER
                          || answer.result == NGX_HTTP_AGENTSTREAM_CHAT_LOST);
        return;
    }

    if (answer.size > (off_t) fetch->left) {
        ngx_http_agentstream_delivery_fetch_end(fetch,
                                             NGX_HTTP_AGENTSTREAM_FILE_LARGE);
        return;
    }

    /* the call is freed after this */

    fetch->path.len = answer.path.len;
    fetch->path.data = ngx_pstrdup(fetch->pool, &answer.path);
    fetch->args.len = answer.args.len;
    fetch->args.data = ngx_pstrdup(fetch->pool, &answer.args);

    if (fetch->path.data == NULL
        || (fetch->args.len && fetch->args.data == NULL)
        || ngx_http_agentstream_delivery_fetch_call(fetch,
                                              NGX_HTTP_AGENTSTREAM_CHAT_FETCH)
           != NGX_OK)
    {
        ngx_http_agentstream_delivery_fetch_end(fetch,
                                           NGX_HTTP_AGENTSTREAM_FILE_MISSING);
    }
}


/* again: another try may help */

static void
ngx_http_agentstream_delivery_fetch_failed(
    ngx_http_agentstream_delivery_fetch_t *fetch,
    ngx_http_agentstream_call_t *call, ngx_uint_t again)
{
    ngx_int_t   seconds;
    ngx_msec_t  pause;

    seconds = ngx_atoi(call->retry_after.data, call->retry_after.len);
    seconds = ngx_min(seconds, NGX_HTTP_AGENTSTREAM_FILE_DEADLINE / 1000);

    pause = ngx_max(seconds * 1000, NGX_HTTP_AGENTSTREAM_FILE_PAUSE);

    if (again && ++fetch->tries < NGX_HTTP_AGENTSTREAM_FILE_TRIES
        && ngx_current_msec - fetch->began + pause
           < NGX_HTTP_AGENTSTREAM_FILE_DEADLINE)
    {
        ngx_add_timer(&fetch->timer, pause);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream delivery: a picture could not be fetched, "
                  "status: %ui", call->answered ? call->status : 0);

    ngx_http_agentstream_delivery_fetch_end(fetch,
                                           NGX_HTTP_AGENTSTREAM_FILE_MISSING);
}


/* this was the picture at hand */

static void
ngx_http_agentstream_delivery_fetch_end(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t result)
{
    ngx_http_agentstream_delivery_file_t  *file;

    file = ngx_http_agentstream_delivery_to(fetch);
    file->result = result;

    if (result == NGX_HTTP_AGENTSTREAM_FILE_READ) {
        fetch->left -= file->len;

    } else {
        ngx_http_agentstream_delivery_fetch_forget(fetch);
    }

    fetch->tries = 0;

    ngx_http_agentstream_delivery_fetch_next(fetch);
}


/* another try, or the rest of an album */

static void
ngx_http_agentstream_delivery_fetch_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_delivery_fetch_t *fetch = ev->data;

    if (fetch->tries == 0) {
        ngx_http_agentstream_delivery_fetch_next(fetch);
        return;
    }

    if (ngx_http_agentstream_delivery_fetch_call(fetch, fetch->kind) != NGX_OK)
    {
        ngx_http_agentstream_delivery_fetch_end(fetch,
                                           NGX_HTTP_AGENTSTREAM_FILE_MISSING);
    }
}


void
ngx_http_agentstream_delivery_end_fetch(ngx_http_agentstream_delivery_t *d)
{
    ngx_uint_t                              i;
    ngx_http_agentstream_delivery_file_t   *file;
    ngx_http_agentstream_delivery_fetch_t  *fetch;

    fetch = d->fetch;

    if (fetch == NULL) {
        return;
    }

    d->fetch = NULL;

    if (fetch->call) {
        ngx_http_agentstream_call_close(fetch->call);
    }

    if (fetch->timer.timer_set) {
        ngx_del_timer(&fetch->timer);
    }

    file = fetch->files.elts;

    for (i = 0; i < fetch->files.nelts && fetch->pictures == NULL; i++) {
        ngx_http_agentstream_enclosed_release(file[i].enclosed);
    }

    ngx_http_agentstream_enclosed_release(fetch->pictures);

    ngx_destroy_pool(fetch->pool);
}
