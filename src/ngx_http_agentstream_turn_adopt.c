#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"
ngx_int_t
ngx_http_agentstream_turn_adopt(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session, ngx_str_t *id) { return NGX_DECLINED; }
