
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The commands of a chat.  They are dealt with as they come, except "new",
 * which waits behind the messages that were sent before it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"


typedef struct {
    ngx_str_t                            name;
    void                               (*handler)(
                             ngx_http_agentstream_delivery_errand_t *errand);
} ngx_http_agentstream_delivery_command_t;


static void ngx_http_agentstream_delivery_cancel(
    ngx_http_agentstream_delivery_errand_t *errand);
static ngx_uint_t ngx_http_agentstream_delivery_take_back(
    ngx_http_agentstream_delivery_errand_t *errand);
static void ngx_http_agentstream_delivery_answer_after(
    ngx_http_agentstream_delivery_t *d, uint64_t entry);
static void ngx_http_agentstream_delivery_cancelled(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_delivery_status(
    ngx_http_agentstream_delivery_errand_t *errand);
static void ngx_http_agentstream_delivery_help(
    ngx_http_agentstream_delivery_errand_t *errand);
static void ngx_http_agentstream_delivery_reply(
    ngx_http_agentstream_delivery_errand_t *errand, ngx_str_t *text);


static ngx_str_t  ngx_http_agentstream_delivery_new = ngx_string("new");


static ngx_http_agentstream_delivery_command_t
    ngx_http_agentstream_delivery_commands[] =
{
    { ngx_string("cancel"), ngx_http_agentstream_delivery_cancel },
    { ngx_string("new"), ngx_http_agentstream_delivery_wait },
    { ngx_string("status"), ngx_http_agentstream_delivery_status },
    { ngx_string("help"), ngx_http_agentstream_delivery_help },
    { ngx_string("start"), ngx_http_agentstream_delivery_help },
    { ngx_null_string, NULL }
};


ngx_uint_t
ngx_http_agentstream_delivery_command(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_str_t                                *name;
    ngx_http_agentstream_delivery_command_t  *command;

    name = &errand->update->command;

    for (command = ngx_http_agentstream_delivery_commands;
         command->name.len;
         command++)
    {
        if (command->name.len == name->len
            && ngx_memcmp(command->name.data, name->data, name->len) == 0)
        {
            command->handler(errand);
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_agentstream_delivery_is_new(
    ngx_http_agentstream_chat_update_t *update)
{
    return update->kind == NGX_HTTP_AGENTSTREAM_CHAT_COMMAND
           && update->command.len == ngx_http_agentstream_delivery_new.len
           && ngx_memcmp(update->command.data,
                         ngx_http_agentstream_delivery_new.data,
                         ngx_http_agentstream_delivery_new.len)
              == 0;
}


static void
ngx_http_agentstream_delivery_cancel(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_str_t                         text;
    ngx_http_agentstream_verb_t      *verb;
    ngx_http_agentstream_delivery_t  *d;

    d = errand->delivery;

    if (!d->state.running && d->sender.creator.turn) {
        /* the store makes its turn: as soon as there is one, see
           delivery_release() */
        errand->held = 1;
        return;
    }

    if (!d->state.running || d->view.end) {

        if (ngx_http_agentstream_delivery_take_back(errand)) {
            ngx_str_set(&text, "Cancelled.");

        } else {
            ngx_str_set(&text, "There is nothing to cancel.");
        }

        ngx_http_agentstream_delivery_reply(errand, &text);
        return;
    }

    /* the next message is not meant for what this turn has asked */

    ngx_http_agentstream_delivery_answer_after(d, (uint64_t) -1);

    verb = ngx_http_agentstream_verb_interrupt(&d->turn_target,
                                      ngx_http_agentstream_delivery_cancelled,
                                      errand);
    if (verb) {
        errand->verb = verb;
    }
}


void
ngx_http_agentstream_delivery_release(ngx_http_agentstream_delivery_t *d)
{
    ngx_queue_t                             *q, *next;
    ngx_http_agentstream_delivery_errand_t  *errand;

    for (q = ngx_queue_head(&d->errands);
         q != ngx_queue_sentinel(&d->errands);
         q = next)
    {
        next = ngx_queue_next(q);
        errand = ngx_queue_data(q, ngx_http_agentstream_delivery_errand_t,
                                queue);

        if (errand->held) {
            errand->held = 0;
            ngx_http_agentstream_delivery_cancel(errand);
        }
    }
}


/*
 * The message at hand, or the first one that waits, with all of its album, is
 * taken out of the inbox.  OpenCode knows nothing of it: its session is looked
 * for, its pictures are on their way, there is no room for its turn, or it was
 * not looked at yet.  0: there is none.
 */

static ngx_uint_t
ngx_http_agentstream_delivery_take_back(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_int_t                            rc;
    ngx_str_t                            album;
    ngx_uint_t                           i, n, found;
    ngx_http_agentstream_delivery_t     *d;
    ngx_http_agentstream_chat_update_t   update;

    d = errand->delivery;

    if (d->job && !d->state.running && d->job_entry < errand->entry
        && !ngx_http_agentstream_delivery_is_new(&d->update))
    {
        (void) ngx_http_agentstream_delivery_join_album(d);
        ngx_http_agentstream_delivery_take_out(d, d->job_entry);
        ngx_http_agentstream_delivery_end_job(d);
        return 1;
    }

    found = 0;
    ngx_str_null(&album);

    for (i = 0, n = 0; i < d->nwaiting; i++) {
        rc = NGX_DECLINED;

        if (d->waiting[i] < errand->entry && (!found || album.len)) {
            rc = ngx_http_agentstream_delivery_peek(d, errand->pool,
                                                    d->waiting[i], &update);
        }

        if (rc == NGX_OK && !ngx_http_agentstream_delivery_is_new(&update)
            && (!found
                || (album.len == update.album.len
                    && ngx_memcmp(album.data, update.album.data, album.len)
                       == 0)))
        {
            found = 1;
            album = update.album;
            ngx_http_agentstream_delivery_save(d, d->waiting[i]);

        } else {
            d->waiting[n++] = d->waiting[i];
        }
    }

    d->nwaiting = n;

    return found;
}


/* only entries after this one answer what was asked so far */

static void
ngx_http_agentstream_delivery_answer_after(ngx_http_agentstream_delivery_t *d,
    uint64_t entry)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
        d->state.asks[i].after = entry;
    }
}


static void
ngx_http_agentstream_delivery_cancelled(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_errand_t *errand = data;

    ngx_str_t  text;

    errand->verb = NULL;

    if (outcome->code == NGX_HTTP_OK) {
        ngx_str_set(&text, "Cancelled.");

    } else if (outcome->code == NGX_HTTP_NO_CONTENT
               || outcome->code == NGX_HTTP_NOT_FOUND)
    {
        ngx_str_set(&text, "There is nothing to cancel.");

    } else {
        ngx_str_set(&text, "This could not be cancelled. Please try again.");
        ngx_http_agentstream_delivery_answer_after(errand->delivery,
                                                   errand->entry);
    }

    ngx_http_agentstream_delivery_reply(errand, &text);
}


static void
ngx_http_agentstream_delivery_status(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    u_char                           *p;
    ngx_str_t                         text;
    ngx_http_agentstream_delivery_t  *d;

    d = errand->delivery;

    text.data = ngx_pnalloc(errand->pool, 256);

    if (text.data == NULL) {
        ngx_http_agentstream_delivery_end_errand(errand);
        return;
    }

    if (d->state.running && d->view.nasked) {
        p = ngx_sprintf(text.data, "Waiting for your answer.");

    } else if (d->state.running ? !d->state.ended : d->job != NULL) {
        p = ngx_sprintf(text.data, "Working on your message for %M s.",
                        (ngx_current_msec - d->began) / 1000);

    } else {
        p = ngx_sprintf(text.data, "Ready.");
    }

    if (d->nwaiting) {
        p = ngx_sprintf(p, " %ui more in the queue.", d->nwaiting);
    }

    text.len = p - text.data;

    ngx_http_agentstream_delivery_reply(errand, &text);
}


static void
ngx_http_agentstream_delivery_help(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_str_t  text;

    ngx_str_set(&text, "Write to me, and the agent answers. "
                "While it works, further messages wait for their turn.\n"
                "/cancel - stop what it is doing\n"
                "/new - begin a new conversation\n"
                "/status - what it is doing\n"
                "/help - this text");

    ngx_http_agentstream_delivery_reply(errand, &text);
}


/* says something in reply to the update, and is done with it */

static void
ngx_http_agentstream_delivery_reply(
    ngx_http_agentstream_delivery_errand_t *errand, ngx_str_t *text)
{
    ngx_http_agentstream_delivery_say(errand->delivery,
                                      &errand->update->message, text,
                                      errand->entry);

    ngx_http_agentstream_delivery_end_errand(errand);
}
