
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Checks each location that has "agentstream" against the rest of the
 * configuration.  Which location a prefix leads to is found as nginx finds it
 * for a request, with the address of a typical call.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_module_check.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_webhook.h"


/* where a directive "agentstream" is */

typedef struct {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_http_core_loc_conf_t            *location;
    ngx_str_t                            file;
    ngx_uint_t                           line;
} ngx_http_agentstream_place_t;


static ngx_int_t ngx_http_agentstream_module_check_place(ngx_conf_t *cf,
    ngx_http_agentstream_place_t *place, size_t zone_size);
static ngx_int_t ngx_http_agentstream_module_check_prefix(ngx_conf_t *cf,
    ngx_http_agentstream_place_t *place);
static ngx_int_t ngx_http_agentstream_module_find(
    ngx_http_core_loc_conf_t **location, ngx_str_t *uri);
static ngx_int_t ngx_http_agentstream_module_find_static(
    ngx_http_core_loc_conf_t **location, ngx_str_t *uri);


/* what each turn calls first */
static ngx_str_t  ngx_http_agentstream_module_call = ngx_string("session/ses_");


char *
ngx_http_agentstream_module_place(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *conf)
{
    ngx_http_agentstream_place_t      *place;
    ngx_http_agentstream_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    if (amcf->places == NULL) {
        amcf->places = ngx_array_create(cf->pool, 4,
                                        sizeof(ngx_http_agentstream_place_t));
        if (amcf->places == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    place = ngx_array_push(amcf->places);
    if (place == NULL) {
        return NGX_CONF_ERROR;
    }

    place->conf = conf;
    place->location = ngx_http_conf_get_module_loc_conf(cf,
                                                        ngx_http_core_module);
    place->file = cf->conf_file->file.name;
    place->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_agentstream_module_check(ngx_conf_t *cf)
{
    ngx_int_t                          rc;
    ngx_uint_t                         i;
    ngx_conf_t                         at;
    ngx_conf_file_t                    file;
    ngx_http_agentstream_place_t      *place;
    ngx_http_agentstream_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    if (amcf->places == NULL) {
        return NGX_OK;
    }

    rc = NGX_OK;
    place = amcf->places->elts;

    /* messages name the line of the directive, not the end of the file */

    at = *cf;
    file = *cf->conf_file;
    at.conf_file = &file;

    for (i = 0; i < amcf->places->nelts; i++) {
        file.file.name = place[i].file;
        file.line = place[i].line;

        if (ngx_http_agentstream_module_check_place(&at, &place[i],
                                                    amcf->zone_size)
            != NGX_OK)
        {
            rc = NGX_ERROR;
        }
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_module_check_place(ngx_conf_t *cf,
    ngx_http_agentstream_place_t *place, size_t zone_size)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = place->conf;

    if (place->location->handler != (conf->chat
                                     ? ngx_http_agentstream_webhook_handler
                                     : ngx_http_agentstream_request_handler))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"agentstream\" %s",
                           NGX_HTTP_AGENTSTREAM_MODULE_BESIDE);
        return NGX_ERROR;
    }

    if (conf->turn_size > zone_size) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"agentstream_turn_size\" is larger than "
                           "\"agentstream_zone\", which can never keep as much "
                           "of a turn");
    }

    if (conf->detach_timeout
        && conf->on_disconnect != NGX_HTTP_AGENTSTREAM_ABORT_TURN)
    {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"agentstream_detach_timeout\" has no effect "
                           "without \"agentstream_on_disconnect abort\"");
    }

    return ngx_http_agentstream_module_check_prefix(cf, place);
}


static ngx_int_t
ngx_http_agentstream_module_check_prefix(ngx_conf_t *cf,
    ngx_http_agentstream_place_t *place)
{
    u_char                           *p;
    ngx_str_t                         uri, *prefix;
    ngx_http_core_loc_conf_t         *location;
    ngx_http_agentstream_loc_conf_t  *conf;

    prefix = &place->conf->prefix;

    uri.len = prefix->len + ngx_http_agentstream_module_call.len;
    uri.data = ngx_pnalloc(cf->temp_pool, uri.len);

    if (uri.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(uri.data, prefix->data, prefix->len);
    ngx_memcpy(p, ngx_http_agentstream_module_call.data,
               ngx_http_agentstream_module_call.len);

    location = place->conf->server->loc_conf[ngx_http_core_module.ctx_index];

    if (ngx_http_agentstream_module_find(&location, &uri) == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "there is no location for the prefix \"%V\" of "
                           "\"agentstream\"", prefix);
        return NGX_ERROR;
    }

    conf = location->loc_conf[ngx_http_agentstream_module.ctx_index];

    if (conf->prefix.len || conf->status) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the prefix \"%V\" of \"agentstream\" leads back "
                           "to \"agentstream\", in the location \"%V\"",
                           prefix, &location->name);
        return NGX_ERROR;
    }

    if (!location->internal) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "the prefix \"%V\" of \"agentstream\" leads to the "
                           "location \"%V\", which is not \"internal\": "
                           "clients can use OpenCode itself through it",
                           prefix, &location->name);
    }

    return NGX_OK;
}


/*
 * As nginx does it: the longest prefix, then regular expressions, then the
 * same within what was found.  NGX_OK: found; NGX_AGAIN: found, but a regular
 * expression of an outer location would be preferred; NGX_DECLINED: location
 * was not changed.
 */

static ngx_int_t
ngx_http_agentstream_module_find(ngx_http_core_loc_conf_t **location,
    ngx_str_t *uri)
{
    ngx_int_t                   rc;
    ngx_uint_t                  noregex;
    ngx_http_core_loc_conf_t   *outer;
#if (NGX_PCRE)
    ngx_http_core_loc_conf_t  **regex;
#endif

    outer = *location;
    noregex = 0;

    rc = ngx_http_agentstream_module_find_static(location, uri);

    if (rc == NGX_AGAIN) {
        noregex = (*location)->noregex;

        if (ngx_http_agentstream_module_find(location, uri) == NGX_OK) {
            return NGX_OK;
        }
    }

    if (rc == NGX_OK) {
        return NGX_OK;
    }

#if (NGX_PCRE)

    if (noregex || outer->regex_locations == NULL) {
        return rc;
    }

    for (regex = outer->regex_locations; *regex; regex++) {

        if (ngx_regex_exec((*regex)->regex->regex, uri, NULL, 0) >= 0) {
            *location = *regex;
            (void) ngx_http_agentstream_module_find(location, uri);
            return NGX_OK;
        }
    }

#endif

    return rc;
}


/* the tree that nginx has made of the prefixes; NGX_OK: an exact match,
   NGX_AGAIN: a prefix, NGX_DECLINED: nothing */

static ngx_int_t
ngx_http_agentstream_module_find_static(ngx_http_core_loc_conf_t **location,
    ngx_str_t *uri)
{
    size_t                          len, n;
    u_char                         *p;
    ngx_int_t                       rc, result;
    ngx_http_location_tree_node_t  *node;

    p = uri->data;
    len = uri->len;
    node = (*location)->static_locations;
    result = NGX_DECLINED;

    while (node) {
        n = ngx_min(len, (size_t) node->len);

        rc = ngx_filename_cmp(p, node->name, n);

        if (rc != 0 || len < (size_t) node->len) {
            node = (rc <= 0) ? node->left : node->right;
            continue;
        }

        if (len == (size_t) node->len && node->exact) {
            *location = node->exact;
            return NGX_OK;
        }

        if (node->inclusive == NULL) {
            node = node->right;
            continue;
        }

        *location = node->inclusive;
        result = NGX_AGAIN;

        node = node->tree;
        p += n;
        len -= n;
    }

    return result;
}
