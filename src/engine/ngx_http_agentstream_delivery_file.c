
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The files of a message.  Pictures become a part of the prompt; all other
 * files are named to the sender as not read, and so is a picture that cannot be
 * had.  An album comes as several messages, which become one prompt.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


static ngx_int_t ngx_http_agentstream_delivery_join(
    ngx_http_agentstream_delivery_t *d, uint64_t number);
static ngx_int_t ngx_http_agentstream_delivery_join_read(
    ngx_http_agentstream_delivery_t *d, ngx_pool_t *pool, uint64_t number,
    ngx_http_agentstream_chat_update_t *update);
static ngx_int_t ngx_http_agentstream_delivery_join_text(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_delivery_result(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t i);


/* in the order of delivery_file_e; a name of a file, or several, follows */

static ngx_str_t  ngx_http_agentstream_delivery_sentences[] = {
    ngx_null_string,
    ngx_string("Files are not read here"),
    ngx_string("Too large to be read"),
    ngx_string("Not a picture that can be read"),
    ngx_string("Could not be fetched and was not read")
};


ngx_int_t
ngx_http_agentstream_delivery_join_album(ngx_http_agentstream_delivery_t *d)
{
    ngx_int_t   rc;
    ngx_uint_t  i, n, found;

    if (d->update.album.len == 0) {
        return NGX_DECLINED;
    }

    found = 0;

    for (i = 0, n = 0; i < d->nwaiting; i++) {
        rc = (d->nalbum < NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING)
             ? ngx_http_agentstream_delivery_join(d, d->waiting[i])
             : NGX_DECLINED;

        if (rc == NGX_OK) {
            d->album[d->nalbum++] = d->waiting[i];
            found = 1;

        } else {
            d->waiting[n++] = d->waiting[i];
        }
    }

    d->nwaiting = n;

    if (found) {
        return NGX_OK;
    }

    return (d->fetch
            && ngx_current_msec - d->fetch->began
               < NGX_HTTP_AGENTSTREAM_FILE_ALBUM) ? NGX_AGAIN : NGX_DECLINED;
}


/* NGX_DECLINED: this is not a part of the album; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_agentstream_delivery_join(ngx_http_agentstream_delivery_t *d,
    uint64_t number)
{
    ngx_int_t                            rc;
    ngx_uint_t                           i;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_chat_file_t    *files, *file;
    ngx_http_agentstream_chat_update_t   update;

    /* most messages are something else, and may be large */

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_delivery_join_read(d, pool, number, &update);

    ngx_destroy_pool(pool);

    if (rc != NGX_OK
        || ngx_http_agentstream_delivery_join_text(d, &update.text) != NGX_OK)
    {
        return (rc == NGX_OK) ? NGX_ERROR : rc;
    }

    files = update.files.elts;

    for (i = 0; i < update.files.nelts; i++) {
        file = ngx_array_push(&d->update.files);
        if (file == NULL) {
            return NGX_ERROR;
        }

        *file = files[i];
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_delivery_join_read(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool, uint64_t number,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_delivery_peek(d, pool, number, update);

    if (rc != NGX_OK) {
        return rc;
    }

    if (update->album.len != d->update.album.len
        || ngx_memcmp(update->album.data, d->update.album.data,
                      update->album.len)
           != 0)
    {
        return NGX_DECLINED;
    }

    return ngx_http_agentstream_delivery_peek(d, d->job, number, update);
}


static ngx_int_t
ngx_http_agentstream_delivery_join_text(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *text)
{
    u_char  *p;

    if (text->len == 0) {
        return NGX_OK;
    }

    p = ngx_pnalloc(d->job, d->update.text.len + 1 + text->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->len = ngx_sprintf(p, "%V%s%V", &d->update.text,
                            d->update.text.len ? "\n" : "", text)
                - p;

    d->update.text.len = text->len;
    d->update.text.data = p;

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_delivery_joined(ngx_http_agentstream_delivery_t *d)
{
    return d->update.album.len && d->job_entry <= d->state.upto
           && ngx_crc32_short(d->update.album.data, d->update.album.len)
              == d->state.album;
}


void
ngx_http_agentstream_delivery_take_out(ngx_http_agentstream_delivery_t *d,
    uint64_t entry)
{
    ngx_uint_t  i;

    /* if this worker dies in between, its successor knows the others by this */

    if (d->nalbum && entry) {
        d->state.album = ngx_crc32_short(d->update.album.data,
                                         d->update.album.len);
        d->state.upto = d->album[d->nalbum - 1];
    }

    ngx_http_agentstream_delivery_save(d, entry);

    for (i = 0; i < d->nalbum; i++) {
        ngx_http_agentstream_delivery_save(d, d->album[i]);
    }

    d->nalbum = 0;
}


ngx_uint_t
ngx_http_agentstream_delivery_unread(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool, ngx_http_agentstream_chat_update_t *update,
    uint64_t entry)
{
    size_t                                  len;
    u_char                                 *p;
    ngx_str_t                               text;
    ngx_uint_t                              i, k, n, read;
    ngx_http_agentstream_chat_file_t       *files;
    ngx_http_agentstream_delivery_fetch_t  *fetch;

    fetch = (update == &d->update) ? d->fetch : NULL;
    files = update->files.elts;

    len = 0;
    read = 0;

    for (k = 0; k < NGX_HTTP_AGENTSTREAM_FILE_RESULTS; k++) {
        len += ngx_http_agentstream_delivery_sentences[k].len
               + sizeof(": . ") - 1;
    }

    for (i = 0; i < update->files.nelts; i++) {
        len += files[i].name.len + sizeof(", ") - 1;
        read += (ngx_http_agentstream_delivery_result(fetch, i)
                 == NGX_HTTP_AGENTSTREAM_FILE_READ);
    }

    if (read == update->files.nelts) {
        return read;
    }

    if (entry && entry == d->named && (read || update->text.len)) {
        /* its prompt was postponed */
        return read;
    }

    text.data = ngx_pnalloc(pool, len);
    if (text.data == NULL) {
        return read;
    }

    p = text.data;

    for (k = NGX_HTTP_AGENTSTREAM_FILE_OTHER;
         k < NGX_HTTP_AGENTSTREAM_FILE_RESULTS;
         k++)
    {
        for (i = 0, n = 0; i < update->files.nelts; i++) {
            if (ngx_http_agentstream_delivery_result(fetch, i) != k) {
                continue;
            }

            if (n++ == 0) {
                p = ngx_sprintf(p, "%s%V: ", p == text.data ? "" : " ",
                                &ngx_http_agentstream_delivery_sentences[k]);

            } else {
                p = ngx_cpymem(p, ", ", sizeof(", ") - 1);
            }

            p = ngx_cpymem(p, files[i].name.data, files[i].name.len);
        }

        if (n) {
            *p++ = '.';
        }
    }

    text.len = p - text.data;

    ngx_http_agentstream_delivery_say(d, &update->message, &text,
                                      (read || update->text.len) ? 0 : entry);
    d->named = entry;

    return read;
}


static ngx_uint_t
ngx_http_agentstream_delivery_result(
    ngx_http_agentstream_delivery_fetch_t *fetch, ngx_uint_t i)
{
    ngx_http_agentstream_delivery_file_t  *file;

    if (fetch == NULL || i >= fetch->files.nelts) {
        return NGX_HTTP_AGENTSTREAM_FILE_OTHER;
    }

    file = fetch->files.elts;

    return file[i].result;
}


ngx_http_agentstream_enclosed_t *
ngx_http_agentstream_delivery_pictures(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t alone)
{
    ngx_uint_t                             i;
    ngx_http_agentstream_enclosed_t       *first, **next;
    ngx_http_agentstream_delivery_file_t  *file;

    if (d->fetch == NULL) {
        return NULL;
    }

    file = d->fetch->files.elts;
    first = NULL;
    next = &first;

    for (i = 0; i < d->fetch->files.nelts; i++) {

        if (file[i].result == NGX_HTTP_AGENTSTREAM_FILE_READ) {
            *next = file[i].enclosed;
            next = &file[i].enclosed->next;
        }
    }

    d->fetch->pictures = first;

    if (first && alone) {
        /* each begins with the comma that separates it from the one before */

        first->before.data++;
        first->before.len--;
        first->len--;
    }

    return first;
}
