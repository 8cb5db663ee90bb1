
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The verbs on turns and queues, and what the model expects of them: create,
 * wait in line, ask, finish.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_TURNS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_TURNS_H_INCLUDED_


#include "store_records.h"


static ngx_uint_t  asked;


static ngx_str_t
request_id(ngx_uint_t n)
{
    ngx_str_t  id;

    static u_char  data[REQUESTS * 20];

    ngx_memset(data, 'r', sizeof(data));

    id.data = data;
    id.len = n * 20;

    return id;
}


static ngx_str_t
ask_id(ngx_uint_t n)
{
    ngx_str_t  id;

    static u_char  data[32];

    id.data = data;
    id.len = ngx_sprintf(data, "que_%ui", n) - data;

    return id;
}


/* some are used more than others */

static ngx_uint_t
random_session(void)
{
    return model_random(model_random(3) ? 4 : SESSIONS);
}


static turn_t *
kept_turn(void)
{
    return model.nkept ? model.kept[model_random(model.nkept)] : NULL;
}


/* kept, or not any more, or never */

static turn_t *
any_turn(void)
{
    if (model.nturns == 0 || model_random(4)) {
        return kept_turn();
    }

    return model.turns[model_random(model.nturns)];
}


static ticket_t *
own_ticket(void)
{
    ticket_t    *found;
    ngx_uint_t   i, n;

    found = NULL;
    n = 0;

    for (i = 0; i < model.ntickets; i++) {
        if (model.tickets[i].pid == world.current->pid
            && model_random(++n) == 0)
        {
            found = &model.tickets[i];
        }
    }

    return found;
}


/* what the queue says of a new turn; tickets of the dead go on the way */

static ngx_int_t
expect_taken(ngx_uint_t session, ngx_uint_t request,
    ngx_http_agentstream_ticket_t *ticket, turn_t **other)
{
    ngx_uint_t  i;

    *other = NULL;

    for (i = 0; request && i < model.nkept; i++) {
        if (model.kept[i]->session == session
            && model.kept[i]->request == request && !model.kept[i]->refused)
        {
            *other = model.kept[i];
            saw[SAW_REPEAT]++;
            return NGX_DECLINED;
        }
    }

    *other = model_running(session);

    if (*other) {
        return NGX_BUSY;
    }

    for (i = 0; i < model.ntickets; /* void */ ) {
        if (model.tickets[i].session != session) {
            i++;
            continue;
        }

        if (world_alive(model.tickets[i].pid)) {
            return (model.tickets[i].ticket == ticket) ? NGX_OK : NGX_BUSY;
        }

        model_drop_ticket(i);
        saw[SAW_DEAD_TICKET]++;
    }

    return NGX_OK;
}


/* the zone forgets a session with its last turn, if nobody waits for it; that
   may have been evicted for the new one before the session was looked up, or
   after it */

static void
expect_session(ngx_uint_t session, ngx_uint_t unsure)
{
    ngx_uint_t  i, evicted;

    evicted = 0;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->session == session) {
            if (ngx_http_agentstream_zone_find_locked(zone(),
                                                      &model.kept[i]->name))
            {
                return;
            }

            evicted = 1;
        }
    }

    for (i = 0; i < model.ntickets; i++) {
        if (model.tickets[i].session == session) {
            return;
        }
    }

    if (!evicted || unsure) {
        model.unsure[session] = 1;
    }

    /* a new one knows no directory */

    if (ngx_http_agentstream_zone_session_locked(zone(), &model_keys[session])
        ->directory.len == 0)
    {
        model.directory[session] = 0;
    }
}


static void
expect_other(ngx_http_agentstream_store_created_t *created, turn_t *other)
{
    model_is(other ? created->other.len == other->name.len
                     && ngx_memcmp(created->other.data, other->id,
                                   other->name.len) == 0
                   : created->other.len == 0,
             "the other turn is \"%.*s\", not %s", (int) created->other.len,
             created->other.data, other ? other->id : "none");
}


static void
add_turn(ngx_uint_t session, ngx_uint_t request, char *id,
    ngx_http_agentstream_store_created_t *created)
{
    turn_t  *turn;

    model_is(model.nturns < TURNS, "too many turns for the model");

    turn = calloc(1, sizeof(turn_t));
    if (turn == NULL) {
        abort();
    }

    strcpy(turn->id, id);
    turn->name.data = (u_char *) turn->id;
    turn->name.len = strlen(turn->id);
    turn->session = session;
    turn->request = request;
    turn->number = ++model.number;
    turn->node = created->node;
    turn->owner = zone()->self;
    turn->pid = world.current->pid;
    turn->senders = 1;
    turn->first = 1;
    turn->limit = (size_t) 4096 << model_random(8);

    model.turns[model.nturns++] = turn;
    model.kept[model.nkept++] = turn;
    model.stats[NGX_HTTP_AGENTSTREAM_STAT_STARTED]++;
    model.turn = turn;

    model_is(!created->unsure == !model.unsure[session],
             "%s: another doubt", turn->id);
}


static void
verb_create(void)
{
    char                                   id[32];
    turn_t                                *other;
    ticket_t                              *ticket;
    ngx_int_t                              rc, expected;
    ngx_uint_t                             session, request;
    ngx_http_agentstream_store_create_t    args;
    ngx_http_agentstream_store_created_t   created;

    ticket = own_ticket();

    session = ticket ? ticket->session : random_session();
    request = model_random(2) ? 0 : 1 + model_random(REQUESTS);
    snprintf(id, sizeof(id), "msg_%05u", (unsigned) model.nturns + 1);

    ngx_memzero(&args, sizeof(ngx_http_agentstream_store_create_t));

    args.key = model_keys[session];
    args.id.data = (u_char *) id;
    args.id.len = strlen(id);
    args.request_id = request_id(request);
    args.ticket = ticket ? ticket->ticket : NULL;

    model_begin(NULL, 4, 0, 0);

    rc = ngx_http_agentstream_store_create(zone(), &args, &created, &later);

    model_say("%d create %s in %u, request %u, %s: %d",
              (int) world.current->pid, id, (unsigned) session,
              (unsigned) request, ticket ? "ticket" : "no ticket", (int) rc);

    expected = expect_taken(session, request, args.ticket, &other);

    if (rc == NGX_ERROR && expected == NGX_OK) {
        model_is(model_nothing_left(), "a new turn failed with room left");
        saw[SAW_NO_TURN]++;

        /* it may have got as far as its number */
        model_is(world.master->sh->number - model.number <= 1,
                 "the number of a turn that is not there");
        model.number = world.master->sh->number;
        return;
    }

    model_is(rc == expected, "it is %d, not %d", (int) rc, (int) expected);
    expect_other(&created, other);

    if (rc == NGX_OK) {
        expect_session(session, created.unsure);
        add_turn(session, request, id, &created);
    }
}


static void
verb_taken(void)
{
    turn_t                                *other;
    ngx_int_t                              rc, expected;
    ngx_str_t                              id;
    ngx_uint_t                             session, request;
    ngx_http_agentstream_store_created_t   created;

    session = random_session();
    request = model_random(REQUESTS + 1);
    id = request_id(request);

    model_begin(NULL, 0, 0, 0);

    rc = ngx_http_agentstream_store_taken(zone(), &model_keys[session], &id,
                                          NULL, &created);

    model_say("%d taken %u, request %u: %d", (int) world.current->pid,
              (unsigned) session, (unsigned) request, (int) rc);

    expected = expect_taken(session, request, NULL, &other);

    model_is(rc == expected, "it is %d, not %d", (int) rc, (int) expected);
    expect_other(&created, other);
}


static void
add_ticket(ngx_uint_t at, ngx_uint_t session,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_memmove(&model.tickets[at + 1], &model.tickets[at],
                (model.ntickets - at) * sizeof(ticket_t));

    model.tickets[at].ticket = ticket;
    model.tickets[at].session = session;
    model.tickets[at].owner = zone()->self;
    model.tickets[at].pid = world.current->pid;
    model.ntickets++;
}


static void
verb_queue(void)
{
    ngx_int_t                       rc;
    ngx_uint_t                      session, hold, known;
    ngx_http_agentstream_ticket_t  *ticket;

    if (model.ntickets == TICKETS) {
        return;
    }

    session = random_session();
    hold = (model_random(4) == 0);
    known = model_known(session);

    model_begin(NULL, 3, 0, 0);

    rc = hold ? ngx_http_agentstream_store_hold(zone(), &model_keys[session],
                                                &ticket)
              : ngx_http_agentstream_store_queue(zone(), &model_keys[session],
                                                 &ticket);

    model_say("%d %s %u: %d", (int) world.current->pid, hold ? "hold" : "queue",
              (unsigned) session, (int) rc);

    if (rc == NGX_OK) {
        model_is(known || hold, "a ticket for a session that nobody knows");
        model_is(!hold || model_running(session) == NULL,
                 "held while a turn runs");
        add_ticket(hold ? 0 : model.ntickets, session, ticket);
        return;
    }

    if (rc == NGX_ERROR) {
        model_is(model_nothing_left(), "no ticket with room left");
        saw[SAW_NO_TICKET]++;
        return;
    }

    if (hold) {
        model_is(rc == NGX_BUSY && model_running(session), "not held");

    } else {
        /* the last turn of the session may have been evicted for it */

        model_is(rc == NGX_DECLINED
                 && (!known || (ngx_http_agentstream_zone_session_locked(
                                        zone(), &model_keys[session]) == NULL
                                && model.pfree < model.room)),
                 "not queued");
    }
}


static void
verb_unqueue(void)
{
    ticket_t                       *ticket;
    ngx_http_agentstream_ticket_t  *t;

    ticket = own_ticket();

    if (ticket == NULL) {
        return;
    }

    model_begin(NULL, 0, 0, 0);
    model_say("%d unqueue %u", (int) world.current->pid,
              (unsigned) ticket->session);

    t = ticket->ticket;
    ngx_http_agentstream_store_unqueue(zone(), &t);

    model_is(t == NULL, "the ticket is still there");
    model_drop_ticket(ticket - model.tickets);
}


static void
finish(turn_t *turn)
{
    ngx_uint_t                        unsure;
    ngx_http_agentstream_store_end_t  end;

    static char  *reasons[] = { "end_turn", "cancelled", "error" };

    unsure = model_random(2);
    turn->reason = reasons[model_random(3)];
    end.stop_reason = tap_str(turn->reason);
    end.unsure = unsure;

    model_begin(turn, 0, 0, 1);
    model_say("%d finish %s: %s", (int) world.current->pid, turn->id,
              turn->reason);

    (void) ngx_http_agentstream_store_finish(zone(), turn->node, &end, NULL);

    model_is(end.watchers[0] == turn->watchers, "%s: others read it", turn->id);

    turn->state = FINISHED;
    turn->ended = world.now.sec;
    turn->pinned = 0;
    turn->shown = turn->last;
    turn->nasks = 0;

    if (turn->prompted || unsure) {
        model.unsure[turn->session] = unsure;
    }

    model.stats[turn->reason[0] == 'c' ? NGX_HTTP_AGENTSTREAM_STAT_CANCELLED
                : turn->reason[1] == 'r' ? NGX_HTTP_AGENTSTREAM_STAT_FAILED
                : NGX_HTTP_AGENTSTREAM_STAT_COMPLETED]++;
}


static void
verb_finish(void)
{
    turn_t  *turn;

    turn = own_turn(0);

    if (turn == NULL) {
        return;
    }

    if (model_random(8) == 0 && !turn->prompted && !turn->refused) {
        model_begin(turn, 0, 0, 0);
        model_say("%d refuse %s", (int) world.current->pid, turn->id);

        ngx_http_agentstream_store_refuse(zone(), turn->node);
        turn->refused = 1;
        model_check();
    }

    append(turn, 1);
    model_check();

    finish(turn);
}


static void
verb_flags(void)
{
    turn_t      *turn;
    ngx_uint_t   packets, kinds;

    turn = own_turn(2);

    if (turn == NULL) {
        return;
    }

    model_begin(turn, 0, 0, 0);

    switch (model_random(3)) {

    case 0:
        (void) ngx_http_agentstream_store_prompting(zone(), turn->node,
                                                    &later);
        turn->prompted = 1;
        break;

    case 1:
        ngx_http_agentstream_store_stop(turn->node);
        turn->interrupted = 1;
        break;

    default:
        turn->status = 400 + model_random(100);
        ngx_http_agentstream_store_status(turn->node, turn->status);
        break;
    }

    ngx_http_agentstream_store_settings(turn->node, &packets, &kinds);

    model_is(ngx_http_agentstream_store_prompted(turn->node) == turn->prompted
             && ngx_http_agentstream_store_interrupted(turn->node)
                == turn->interrupted
             && ngx_http_agentstream_store_senders(zone(), turn->node)
                == turn->senders
             && ngx_http_agentstream_store_last(turn->node) == turn->last
             && packets == 0 && kinds == 0,
             "%s: another flag", turn->id);
}


static void
verb_interrupt(void)
{
    u_char       id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    turn_t      *turn;
    ngx_int_t    rc;
    ngx_str_t    name;
    ngx_uint_t   session;

    session = random_session();
    turn = model_running(session);

    model_begin(turn, 0, 0, 0);

    if (model_random(4) == 0) {
        rc = ngx_http_agentstream_store_interrupt(zone(), &model_keys[session]);

        model_is(rc == (turn ? NGX_OK : NGX_DECLINED), "interrupted: %d",
                 (int) rc);

        if (turn) {
            turn->interrupted = 1;
        }

        return;
    }

    name.data = id;

    rc = ngx_http_agentstream_store_running(zone(), &model_keys[session],
                                            &name);

    model_is(rc == (turn != NULL), "running: %d", (int) rc);
    model_is(turn == NULL
             || (name.len == turn->name.len
                 && ngx_memcmp(id, turn->id, name.len) == 0),
             "another one runs than %s", turn->id);
}


static void
verb_sender(void)
{
    turn_t     *turn;
    ngx_int_t   n;

    turn = any_turn();

    if (turn == NULL) {
        return;
    }

    n = (turn->senders && model_random(2)) ? -1 : 1;

    model_begin(NULL, 0, 0, 0);
    ngx_http_agentstream_store_sender(zone(), &turn->name, n);

    turn->senders += n;
}


/* questions, and where the answers go to */

static void
verb_ask(void)
{
    turn_t      *turn;
    ngx_int_t    rc;
    ngx_str_t    id;
    ngx_uint_t   permission;

    turn = own_turn(2);

    if (turn == NULL || turn->nasks == ASKS) {
        return;
    }

    permission = model_random(2);
    id = ask_id(++asked);

    model_begin(turn, 2, 0, 0);

    rc = ngx_http_agentstream_store_ask(zone(), turn->node, &id, permission,
                                        &later);

    model_say("%d ask %s: %d", (int) world.current->pid, turn->id, (int) rc);

    if (rc == NGX_ERROR) {
        model_is(model_nothing_left(), "no question with room left");
        saw[SAW_NO_ASK]++;
        return;
    }

    model_is(rc == NGX_OK, "asked: %d", (int) rc);

    turn->asks[turn->nasks].number = asked;
    turn->asks[turn->nasks++].permission = permission;

    rc = ngx_http_agentstream_store_ask(zone(), turn->node, &id, permission,
                                        &later);

    model_is(rc == NGX_OK, "asked again: %d", (int) rc);
}


static void
verb_answered(void)
{
    turn_t      *turn;
    ngx_str_t    id;
    ngx_uint_t   i;

    turn = own_turn(2);

    if (turn == NULL || turn->nasks == 0) {
        return;
    }

    i = model_random(turn->nasks);
    id = ask_id(turn->asks[i].number);

    model_begin(turn, 0, 0, 0);
    ngx_http_agentstream_store_answered(zone(), turn->node, &id);

    turn->nasks--;
    ngx_memmove(&turn->asks[i], &turn->asks[i + 1],
                (turn->nasks - i) * sizeof(ask_t));
}


static void
verb_directory(void)
{
    size_t      len;
    turn_t     *turn;
    ngx_int_t   rc;
    ngx_str_t   directory;

    turn = own_turn(2);

    if (turn == NULL) {
        return;
    }

    len = model_random(300);

    directory.len = len;
    directory.data = buffer;
    ngx_memset(buffer, '/', len);

    model_begin(turn, 2, 0, 0);

    rc = ngx_http_agentstream_store_directory(zone(), turn->node, &directory);

    if (rc == NGX_OK) {
        model.directory[turn->session] = len;

    } else {
        model_is(model_nothing_left(), "no directory with room left");
    }
}


static void
verb_asked(void)
{
    turn_t      *turn;
    ngx_int_t    rc;
    ngx_str_t    id, directory;
    ngx_pool_t  *pool;
    ngx_uint_t   session, n, permission, waits;

    session = random_session();
    turn = model_running(session);

    n = 0;
    permission = model_random(2);
    waits = 0;

    if (turn && turn->nasks) {
        n = turn->asks[0].number;
        waits = (turn->asks[0].permission == permission);
    }

    id = ask_id(n);
    pool = ngx_create_pool(1024, &ngx_unit_log);

    model_begin(turn, 0, 0, 0);

    rc = ngx_http_agentstream_store_asked(zone(), &model_keys[session], &id,
                                          permission, pool, &directory);

    model_is(rc == (turn == NULL ? NGX_ABORT : waits ? NGX_OK : NGX_DECLINED),
             "asked: %d", (int) rc);
    model_is(rc != NGX_OK || directory.len == model.directory[session],
             "another directory");

    ngx_destroy_pool(pool);
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_TURNS_H_INCLUDED_ */
