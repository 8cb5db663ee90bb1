
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Epochs.  When another machine takes a turn over, it continues after the last
 * packet that the store of all machines has, but a client may have seen more
 * of the dead machine's packets.  So each takeover begins a new epoch, and the
 * number of a packet contains its epoch: a number never stands for two
 * packets, and a client whose last packet was not continued can be told so.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone.h"


uint32_t
ngx_http_agentstream_zone_epoch(ngx_http_agentstream_node_t *node,
    uint64_t seq)
{
    uint32_t  i;

    for (i = node->nends; i > 0 && seq <= node->ends[i - 1]; i--) {
        /* void */
    }

    return node->epoch - (node->nends - i);
}


uint64_t
ngx_http_agentstream_zone_number(ngx_http_agentstream_node_t *node,
    uint64_t seq)
{
    if (seq == 0 || node->epoch == 0) {
        return seq;
    }

    return ngx_http_agentstream_zone_epoch(node, seq)
           * NGX_HTTP_AGENTSTREAM_EPOCH + seq;
}


uint64_t
ngx_http_agentstream_zone_last(ngx_http_agentstream_node_t *node,
    uint64_t epoch)
{
    if (epoch == node->epoch) {
        return NGX_HTTP_AGENTSTREAM_EPOCH - 1;
    }

    if (epoch > node->epoch || node->epoch - epoch > node->nends) {
        return 0;
    }

    return node->ends[node->nends - (node->epoch - epoch)];
}


void
ngx_http_agentstream_zone_end_epoch(ngx_http_agentstream_node_t *node,
    uint64_t seq)
{
    if (node->nends == NGX_HTTP_AGENTSTREAM_EPOCHS) {
        ngx_memmove(&node->ends[0], &node->ends[1],
                    sizeof(node->ends) - sizeof(node->ends[0]));
        node->nends--;
    }

    node->ends[node->nends++] = seq;
    node->epoch++;
}
