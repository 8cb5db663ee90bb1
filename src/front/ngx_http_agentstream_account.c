
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Accounts.  They are kept while packets are written, because nothing else
 * knows afterwards what a client has got.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_account.h"


void
ngx_http_agentstream_account_turn(ngx_http_agentstream_account_t *account,
    ngx_str_t *turn)
{
    if (account == NULL || turn->len == 0
        || turn->len > NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE)
    {
        return;
    }

    account->turn_len = turn->len;
    ngx_memcpy(account->turn, turn->data, turn->len);
}


void
ngx_http_agentstream_account_start(ngx_http_agentstream_account_t *account,
    ngx_str_t *turn)
{
    if (account) {
        ngx_http_agentstream_account_turn(account, turn);
        account->reason_len = 0;
    }
}


void
ngx_http_agentstream_account_packet(ngx_http_agentstream_account_t *account,
    ngx_str_t *turn, ngx_http_agentstream_record_t *record)
{
    ngx_time_t          *tp;
    ngx_msec_int_t       ms;
    ngx_http_request_t  *r;

    if (account == NULL) {
        return;
    }

    if (account->packets++ == 0) {
        r = account->request;
        tp = ngx_timeofday();

        ms = (ngx_msec_int_t) ((tp->sec - r->start_sec) * 1000
                               + (tp->msec - r->start_msec));

        account->first = ngx_max(ms, 0);

        account->resumed = (account->seq
                            && record->seq == account->seq + 1
                            && turn->len == account->cursor.len
                            && ngx_memcmp(turn->data, account->cursor.data,
                                          turn->len)
                               == 0);

        ngx_http_agentstream_account_turn(account, turn);

    } else if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED) {
        /* a client that follows a session gets its next turn */
        ngx_http_agentstream_account_start(account, turn);
    }

    if (ngx_http_agentstream_record_terminal(record->type)) {
        ngx_http_agentstream_account_end(account, record);
    }
}


void
ngx_http_agentstream_account_end(ngx_http_agentstream_account_t *account,
    ngx_http_agentstream_record_t *record)
{
    u_char     *p, *last, *end;
    ngx_str_t   reason;

    static ngx_str_t  error = ngx_string("error");
    static ngx_str_t  name = ngx_string("\"stopReason\":\"");

    if (account == NULL) {
        return;
    }

    reason = error;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE) {
        last = record->json.data + record->json.len;

        p = ngx_strlcasestrn(record->json.data, last, name.data, name.len - 1);
        if (p == NULL) {
            return;
        }

        p += name.len;
        end = ngx_strlchr(p, last, '"');

        if (end == NULL || end - p > NGX_HTTP_AGENTSTREAM_ACCOUNT_REASON) {
            return;
        }

        reason.data = p;
        reason.len = end - p;
    }

    account->reason_len = reason.len;
    ngx_memcpy(account->reason, reason.data, reason.len);
}
