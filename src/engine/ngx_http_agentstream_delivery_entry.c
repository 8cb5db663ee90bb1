
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the zone keeps of an update, and of where its chat is: numbers and
 * strings, one after the other, each string with its length in front.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"


/* the most files of a message that are kept */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_FILES  16

/* strings of an update, of a file, and of a chat's place */
#define NGX_HTTP_AGENTSTREAM_PACK_UPDATE     14
#define NGX_HTTP_AGENTSTREAM_PACK_FILE       5
#define NGX_HTTP_AGENTSTREAM_PACK_SITE       11


typedef struct {
    uint32_t                             kind;
    uint32_t                             group;
    uint32_t                             addressed;
    uint32_t                             nfiles;
} ngx_http_agentstream_pack_update_t;


typedef struct {
    off_t                                size;
    uint32_t                             picture;
} ngx_http_agentstream_pack_file_t;


static void ngx_http_agentstream_delivery_list_update(
    ngx_http_agentstream_chat_update_t *update, ngx_str_t **list);
static void ngx_http_agentstream_delivery_list_file(
    ngx_http_agentstream_chat_file_t *file, ngx_str_t **list);
static size_t ngx_http_agentstream_delivery_strings(ngx_str_t **list,
    ngx_uint_t n);
static u_char *ngx_http_agentstream_delivery_put_strings(u_char *p,
    ngx_str_t **list, ngx_uint_t n);
static ngx_int_t ngx_http_agentstream_delivery_get_strings(ngx_pool_t *pool,
    ngx_str_t *in, ngx_str_t **list, ngx_uint_t n);
static ngx_int_t ngx_http_agentstream_delivery_get_bytes(ngx_str_t *in,
    void *dst, size_t size);


static void
ngx_http_agentstream_delivery_list_update(
    ngx_http_agentstream_chat_update_t *update, ngx_str_t **list)
{
    list[0] = &update->id;
    list[1] = &update->key;
    list[2] = &update->session;
    list[3] = &update->place.account;
    list[4] = &update->place.chat;
    list[5] = &update->place.thread;
    list[6] = &update->sender;
    list[7] = &update->message;
    list[8] = &update->text;
    list[9] = &update->command;
    list[10] = &update->argument;
    list[11] = &update->token;
    list[12] = &update->callback;
    list[13] = &update->album;
}


static void
ngx_http_agentstream_delivery_list_file(ngx_http_agentstream_chat_file_t *file,
    ngx_str_t **list)
{
    list[0] = &file->id;
    list[1] = &file->path;
    list[2] = &file->args;
    list[3] = &file->mime;
    list[4] = &file->name;
}


ngx_int_t
ngx_http_agentstream_delivery_pack(ngx_pool_t *pool,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *packed)
{
    size_t                               size;
    u_char                              *p;
    ngx_str_t                           *list[NGX_HTTP_AGENTSTREAM_PACK_UPDATE];
    ngx_uint_t                           i;
    ngx_http_agentstream_chat_file_t    *files;
    ngx_http_agentstream_pack_file_t     file;
    ngx_http_agentstream_pack_update_t   head;

    files = update->files.elts;

    head.kind = update->kind;
    head.group = update->group;
    head.addressed = update->addressed;
    head.nfiles = ngx_min(update->files.nelts,
                          NGX_HTTP_AGENTSTREAM_DELIVERY_FILES);

    ngx_http_agentstream_delivery_list_update(update, list);

    size = sizeof(head)
           + ngx_http_agentstream_delivery_strings(list,
                                           NGX_HTTP_AGENTSTREAM_PACK_UPDATE);

    for (i = 0; i < head.nfiles; i++) {
        ngx_http_agentstream_delivery_list_file(&files[i], list);
        size += sizeof(file)
                + ngx_http_agentstream_delivery_strings(list,
                                             NGX_HTTP_AGENTSTREAM_PACK_FILE);
    }

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    packed->data = p;
    packed->len = size;

    p = ngx_cpymem(p, &head, sizeof(head));

    ngx_http_agentstream_delivery_list_update(update, list);
    p = ngx_http_agentstream_delivery_put_strings(p, list,
                                        NGX_HTTP_AGENTSTREAM_PACK_UPDATE);

    for (i = 0; i < head.nfiles; i++) {
        ngx_memzero(&file, sizeof(file));
        file.size = files[i].size;
        file.picture = files[i].picture;

        p = ngx_cpymem(p, &file, sizeof(file));

        ngx_http_agentstream_delivery_list_file(&files[i], list);
        p = ngx_http_agentstream_delivery_put_strings(p, list,
                                            NGX_HTTP_AGENTSTREAM_PACK_FILE);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_delivery_unpack(ngx_pool_t *pool, ngx_str_t *packed,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_int_t                            rc;
    ngx_str_t                            in;
    ngx_str_t                           *list[NGX_HTTP_AGENTSTREAM_PACK_UPDATE];
    ngx_uint_t                           i;
    ngx_http_agentstream_chat_file_t    *file;
    ngx_http_agentstream_pack_file_t     packed_file;
    ngx_http_agentstream_pack_update_t   head;

    in = *packed;

    ngx_memzero(update, sizeof(ngx_http_agentstream_chat_update_t));

    if (ngx_http_agentstream_delivery_get_bytes(&in, &head, sizeof(head))
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    update->kind = head.kind;
    update->group = head.group;
    update->addressed = head.addressed;

    ngx_http_agentstream_delivery_list_update(update, list);

    rc = ngx_http_agentstream_delivery_get_strings(pool, &in, list,
                                        NGX_HTTP_AGENTSTREAM_PACK_UPDATE);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_array_init(&update->files, pool, ngx_max(head.nfiles, 1),
                       sizeof(ngx_http_agentstream_chat_file_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < head.nfiles; i++) {
        file = ngx_array_push(&update->files);
        if (file == NULL) {
            return NGX_ERROR;
        }

        if (ngx_http_agentstream_delivery_get_bytes(&in, &packed_file,
                                           sizeof(packed_file))
            != NGX_OK)
        {
            return NGX_DECLINED;
        }

        file->size = packed_file.size;
        file->picture = packed_file.picture;

        ngx_http_agentstream_delivery_list_file(file, list);

        rc = ngx_http_agentstream_delivery_get_strings(pool, &in, list,
                                            NGX_HTTP_AGENTSTREAM_PACK_FILE);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_delivery_pack_site(ngx_pool_t *pool,
    ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *packed)
{
    ngx_str_t  *list[NGX_HTTP_AGENTSTREAM_PACK_SITE];

    list[0] = &site->conf->server_name;
    list[1] = &site->conf->name;
    list[2] = &site->route;
    list[3] = &site->owner;
    list[4] = &site->directory;
    list[5] = &site->agent;
    list[6] = &site->model;
    list[7] = &update->session;
    list[8] = &update->place.account;
    list[9] = &update->place.chat;
    list[10] = &update->place.thread;

    packed->len = ngx_http_agentstream_delivery_strings(list,
                                             NGX_HTTP_AGENTSTREAM_PACK_SITE);
    packed->data = ngx_pnalloc(pool, packed->len);

    if (packed->data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_agentstream_delivery_put_strings(packed->data, list,
                                           NGX_HTTP_AGENTSTREAM_PACK_SITE);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_delivery_unpack_site(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *packed)
{
    ngx_int_t                           rc;
    ngx_str_t                           in, server, name;
    ngx_str_t                          *list[NGX_HTTP_AGENTSTREAM_PACK_SITE];
    ngx_uint_t                          i;
    ngx_http_agentstream_loc_conf_t   **conf;
    ngx_http_agentstream_main_conf_t   *amcf;

    in = *packed;

    list[0] = &server;
    list[1] = &name;
    list[2] = &d->site.route;
    list[3] = &d->site.owner;
    list[4] = &d->site.directory;
    list[5] = &d->site.agent;
    list[6] = &d->site.model;
    list[7] = &d->name;
    list[8] = &d->place.account;
    list[9] = &d->place.chat;
    list[10] = &d->place.thread;

    rc = ngx_http_agentstream_delivery_get_strings(d->pool, &in, list,
                                        NGX_HTTP_AGENTSTREAM_PACK_SITE);
    if (rc != NGX_OK) {
        return rc;
    }

    amcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_agentstream_module);
    conf = amcf->chats.elts;

    for (i = 0; i < amcf->chats.nelts; i++) {

        if (conf[i]->server_name.len == server.len
            && conf[i]->name.len == name.len
            && ngx_memcmp(conf[i]->server_name.data, server.data, server.len)
               == 0
            && ngx_memcmp(conf[i]->name.data, name.data, name.len) == 0)
        {
            d->site.conf = conf[i];
            d->platform = conf[i]->chat->platform;
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_delivery_key(ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *name, ngx_str_t *key)
{
    key->len = sizeof("chat   ") - 1 + conf->server_name.len + conf->name.len
               + name->len;
    key->data = ngx_pnalloc(pool, key->len);

    if (key->data == NULL
        || key->len > NGX_HTTP_AGENTSTREAM_DELIVERY_KEY_MAX)
    {
        return NGX_ERROR;
    }

    ngx_sprintf(key->data, "chat %V %V %V", &conf->server_name, &conf->name,
                name);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_delivery_poll_key(ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *key)
{
    key->len = sizeof("poll  ") - 1 + conf->server_name.len + conf->name.len;
    key->data = ngx_pnalloc(pool, key->len);

    if (key->data == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(key->data, "poll %V %V", &conf->server_name, &conf->name);

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_delivery_is_chat(ngx_str_t *key)
{
    return key->data[0] == 'c';
}


static size_t
ngx_http_agentstream_delivery_strings(ngx_str_t **list, ngx_uint_t n)
{
    size_t      size;
    ngx_uint_t  i;

    for (i = 0, size = 0; i < n; i++) {
        size += sizeof(uint32_t) + list[i]->len;
    }

    return size;
}


static u_char *
ngx_http_agentstream_delivery_put_strings(u_char *p, ngx_str_t **list,
    ngx_uint_t n)
{
    uint32_t    len;
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        len = list[i]->len;
        p = ngx_cpymem(p, &len, sizeof(len));

        if (len) {
            p = ngx_cpymem(p, list[i]->data, len);
        }
    }

    return p;
}


/* what is read is taken from the beginning of in */

static ngx_int_t
ngx_http_agentstream_delivery_get_strings(ngx_pool_t *pool, ngx_str_t *in,
    ngx_str_t **list, ngx_uint_t n)
{
    u_char      *p;
    uint32_t     len;
    ngx_uint_t   i;

    for (i = 0; i < n; i++) {

        if (ngx_http_agentstream_delivery_get_bytes(in, &len, sizeof(len))
            != NGX_OK
            || len > in->len)
        {
            return NGX_DECLINED;
        }

        p = ngx_pnalloc(pool, ngx_max(len, 1));
        if (p == NULL) {
            return NGX_ERROR;
        }

        (void) ngx_http_agentstream_delivery_get_bytes(in, p, len);

        list[i]->data = p;
        list[i]->len = len;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_delivery_get_bytes(ngx_str_t *in, void *dst, size_t size)
{
    if (in->len < size) {
        return NGX_DECLINED;
    }

    if (size) {
        ngx_memcpy(dst, in->data, size);
    }

    in->data += size;
    in->len -= size;

    return NGX_OK;
}
