
/*
 * Copyright (C) agentstream contributors
 */


/*
 * model_check() compares the zone with the model after every verb: all fields,
 * all lists and trees, the structure of every journal, every allocation, the
 * counters.  The model does not predict which turn gives way when the zone is
 * full; in that case the rules of zone_room.c are checked, and the model is
 * updated.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_CHECK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_CHECK_H_INCLUDED_


#include "store_model.h"


/* a turn is not in the zone any more */

static void
model_gone(turn_t *turn)
{
    turn_t      *other;
    ngx_uint_t   i;

    model_is(turn->state == FINISHED, "%s runs, and is gone", turn->id);

    turn->state = GONE;
    turn->node = NULL;

    if (model.expires && model_expired(turn) && !model_watched(turn)) {
        model.expired++;
        saw[SAW_EXPIRED]++;
        model_is(model.expired <= EXPIRE_MAX, "too many went at once");
        goto order;
    }

    saw[model_watched(turn) ? SAW_EVICTED_READ : SAW_EVICTED]++;

    model_is(model.room, "%s was evicted for nothing", turn->id);
    model_is(model.large || model.pfree < model.room,
             "%s was evicted, with %llu pages free", turn->id,
             (unsigned long long) model.pfree);

    if (!model_expired(turn)) {
        model.stats[NGX_HTTP_AGENTSTREAM_STAT_EVICTED]++;
    }

    if (turn->spare) {
        model.slack += turn->last + 1 - turn->first;
    }

order:

    for (i = 0; i < model.nkept; i++) {
        other = model.kept[i];

        if (other == turn || other->state != FINISHED || other == model.turn
            || other->node == NULL
            || ngx_http_agentstream_zone_find_locked(world.master,
                                                     &other->name) == NULL)
        {
            continue;
        }

        if (model_watched(turn)) {
            model_is(model_watched(other), "%s is read, and went before %s",
                     turn->id, other->id);
            model_is(other->node->place != &world.master->sh->spare,
                     "%s went while %s had blocks to give", turn->id,
                     other->id);
        }

        model_is(model_watched(other) || other->ended >= turn->ended,
                 "%s went before %s, which is older", turn->id, other->id);
    }
}


/* who lost packets, and whether it was its turn to */

static void
model_check_losses(void)
{
    turn_t      *turn, *largest;
    ngx_uint_t   i, lost;

    lost = 0;
    largest = NULL;

    for (i = 0; i < model.nkept; i++) {
        turn = model.kept[i];

        if (turn->spare
            && (largest == NULL || turn->size > largest->size
                || (turn->size == largest->size
                    && turn->node->journal.dropped != turn->dropped)))
        {
            largest = turn;
        }

        if (turn->first != turn->before && turn != model.turn) {
            lost = 1;
            saw[SAW_LOSS]++;

            model_is(!turn->pinned, "%s lost packets while it was read",
                     turn->id);
            model_is(model.room && model.pfree < model.room,
                     "%s lost packets, with %llu pages free", turn->id,
                     (unsigned long long) model.pfree);
        }
    }

    if (!lost) {
        return;
    }

    model_is(largest->node->journal.dropped != largest->dropped
             || largest == model.turn, "%s had most, and lost nothing",
             largest->id);
    model_is(ngx_http_agentstream_zone_first_locked(
                                       &world.master->sh->finished) == NULL
             || (model.turn && model.turn->state == FINISHED),
             "a turn lost packets, with others to be evicted");
}


static ngx_uint_t
model_slab_slot(size_t size)
{
    size_t      s;
    ngx_uint_t  shift;

    if (size <= 8) {
        return 0;
    }

    shift = 1;
    for (s = size - 1; s >>= 1; shift++) { /* void */ }

    return shift - 3;
}


static ngx_uint_t  model_used[64];
static ngx_uint_t  model_pages;


static void
model_count_memory(void *p, size_t size)
{
    model_is((u_char *) p > world.master->shpool->start
             && (u_char *) p + size <= world.master->shpool->end,
             "memory outside of the zone");

    if (size > ngx_pagesize / 2) {
        model_pages += (size + ngx_pagesize - 1) / ngx_pagesize;

    } else {
        model_used[model_slab_slot(size)]++;
    }
}


/* all of the zone's memory is accounted for: nothing leaks, and nothing that is
   used was freed */

static void
model_check_memory(void)
{
    ngx_uint_t        i, n, pages;
    ngx_slab_pool_t  *sp;

    sp = world.master->shpool;
    pages = world_slab_pages(sp) + world.whole + model_pages;

    n = ngx_pagesize_shift - sp->min_shift;

    for (i = 0; i < n; i++) {
        model_is(sp->stats[i].used == world.used[i] + model_used[i],
                 "%llu blocks of %u bytes, and %llu are known",
                 (unsigned long long) sp->stats[i].used, 8 << i,
                 (unsigned long long) (world.used[i] + model_used[i]));
    }

    model_is(pages == (ngx_uint_t) (sp->last - sp->pages),
             "%lld pages are not known",
             (long long) (sp->last - sp->pages) - (long long) pages);
}


static void
model_check_journal(turn_t *turn, ngx_http_agentstream_journal_t *journal)
{
    size_t                         size, extra;
    uint64_t                       seq;
    ngx_uint_t                     tail;
    ngx_http_agentstream_block_t  *block;
    ngx_http_agentstream_piece_t  *piece;

    model_is(journal->shown_seq == turn->shown
             && (turn->state == RUNNING || turn->shown == turn->last),
             "%s: shown is %llu, not %llu", turn->id,
             (unsigned long long) journal->shown_seq,
             (unsigned long long) turn->shown);

    model_is(journal->last_seq == turn->last, "%s: last is %llu, not %llu",
             turn->id, (unsigned long long) journal->last_seq,
             (unsigned long long) turn->last);
    model_is(journal->first_seq >= turn->first
             && journal->first_seq <= turn->last + 1,
             "%s: first was %llu, is %llu", turn->id,
             (unsigned long long) turn->first,
             (unsigned long long) journal->first_seq);

    model.stats[NGX_HTTP_AGENTSTREAM_STAT_DROPPED]
        += journal->first_seq - turn->first;
    turn->first = journal->first_seq;

    size = 0;
    seq = journal->first_seq;

    for (block = journal->first; block; block = block->next) {
        model_is(block->seq == seq, "%s: a block begins with %llu, not %llu",
                 turn->id, (unsigned long long) block->seq,
                 (unsigned long long) seq);
        model_is(block->used <= block->size, "%s: a block is too full",
                 turn->id);

        seq = block->next ? block->next->seq : turn->last + 1;

        model_is(seq >= block->seq && (seq != block->seq) == (block->used != 0),
                 "%s: a block of %u bytes has packets %llu to %llu", turn->id,
                 block->used, (unsigned long long) block->seq,
                 (unsigned long long) seq);

        extra = 0;

        for (piece = block->pieces; piece; piece = piece->other) {
            extra += offsetof(ngx_http_agentstream_piece_t, data) + piece->len;
            model_count_memory(piece,
                               offsetof(ngx_http_agentstream_piece_t, data)
                               + piece->len);
        }

        model_is(extra == block->extra, "%s: %zu bytes in pieces, not %zu",
                 turn->id, extra, block->extra);

        tail = ((u_char *) block == turn->node->tail);

        if (!tail) {
            model_count_memory(block,
                               offsetof(ngx_http_agentstream_block_t, data)
                               + block->size);
        }

        size += offsetof(ngx_http_agentstream_block_t, data) + block->size
                + extra;

        model_is((block->next == NULL) == (journal->last == block),
                 "%s: the last block is not the last", turn->id);
    }

    model_is(size == journal->size, "%s: %zu bytes of blocks, not %zu",
             turn->id, size, journal->size);
}


/* in which order it gives way */

static void
model_check_place(turn_t *turn)
{
    ngx_rbtree_t                   *place;
    ngx_http_agentstream_node_t    *node;
    ngx_http_agentstream_shared_t  *sh;

    sh = world.master->sh;
    node = turn->node;

    if (turn->state == FINISHED && !model_watched(turn)) {
        place = &sh->finished;

    } else if (node->journal.first != node->journal.last && !turn->pinned) {
        place = &sh->spare;

    } else {
        place = (turn->state == FINISHED) ? &sh->watched : NULL;
    }

    model_is(node->place == place, "%s is in the wrong place", turn->id);

    if (place == &sh->spare) {
        model_is(node->order.key == ~node->journal.size,
                 "%s: place by another size", turn->id);

    } else if (place) {
        model_is(node->order.key == (ngx_rbtree_key_t) turn->ended,
                 "%s: place by another time", turn->id);
    }
}


static void
model_check_asks(turn_t *turn)
{
    u_char                       id[32];
    ngx_uint_t                   i, n;
    ngx_http_agentstream_ask_t  *ask;

    i = 0;

    for (ask = turn->node->asks; ask; ask = ask->next, i++) {
        model_count_memory(ask, sizeof(ngx_http_agentstream_ask_t));

        model_is(i < turn->nasks, "%s: too many questions", turn->id);

        n = ngx_sprintf(id, "que_%ui", turn->asks[i].number) - id;

        model_is(ask->permission == turn->asks[i].permission
                 && ask->id_len == n && ngx_memcmp(ask->id, id, n) == 0,
                 "%s: another question", turn->id);
    }

    model_is(i == turn->nasks && i == turn->node->nasks,
             "%s: %llu questions, not %llu", turn->id, (unsigned long long) i,
             (unsigned long long) turn->nasks);
}


static void
model_check_turn(turn_t *turn)
{
    u_char                       *watchers;
    ngx_http_agentstream_node_t  *node;

    node = turn->node;

    model_count_memory(node, sizeof(ngx_http_agentstream_node_t));

    model_is((node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED)
             == (turn->state == FINISHED), "%s: another state", turn->id);
    model_is(node->session->sn.str.len == model_keys[turn->session].len
             && ngx_memcmp(node->session->key, model_keys[turn->session].data,
                           node->session->sn.str.len) == 0,
             "%s: another session", turn->id);
    model_is(node->number == turn->number, "%s: another number", turn->id);
    model_is(node->refused == turn->refused
             && node->interrupted == turn->interrupted
             && node->prompted == turn->prompted
             && node->pinned == turn->pinned
             && node->status == turn->status
             && node->senders == turn->senders, "%s: another flag", turn->id);
    model_is(node->owner.slot == turn->owner.slot
             && node->owner.generation == turn->owner.generation,
             "%s: another owner", turn->id);
    model_is(node->ended == turn->ended, "%s: ended at %lld, not %lld",
             turn->id, (long long) node->ended, (long long) turn->ended);
    model_is(ngx_strcmp(node->stop_reason, turn->reason ? turn->reason : "")
             == 0, "%s: another stop reason", turn->id);

    watchers = (u_char *) node->watchers;

    model_is(node->watchers[0] == turn->watchers
             && watchers[8] == 0
             && ngx_memcmp(watchers + 8, watchers + 9,
                           sizeof(node->watchers) - 9) == 0,
             "%s: other watchers", turn->id);

    if (turn->request && !turn->refused) {
        model_is(node->request.str.len == turn->request * 20
                 && node->request.str.data[0] == 'r',
                 "%s: another request id", turn->id);
        model_count_memory(node->request.str.data, node->request.str.len);

    } else {
        model_is(node->request.str.len == 0, "%s: a request id", turn->id);
    }

    model_check_journal(turn, &node->journal);
    model_check_place(turn);
    model_check_asks(turn);
}


static ngx_uint_t
model_count_tree(ngx_rbtree_t *tree)
{
    ngx_uint_t          n;
    ngx_rbtree_node_t  *node;

    if (tree->root == tree->sentinel) {
        return 0;
    }

    n = 1;

    for (node = ngx_rbtree_min(tree->root, tree->sentinel);
         (node = ngx_rbtree_next(tree, node)) != NULL;
         n++)
    {
        /* void */
    }

    return n;
}


static void
model_check_session(ngx_uint_t s, ngx_http_agentstream_session_t *session)
{
    ngx_uint_t                      i, n, requests, refused;
    ngx_queue_t                    *q;
    ngx_http_agentstream_node_t    *node;
    ngx_http_agentstream_ticket_t  *ticket;

    model_count_memory(session, sizeof(ngx_http_agentstream_session_t)
                                + model_keys[s].len);

    q = ngx_queue_head(&session->turns);
    requests = 0;
    refused = 0;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->session != s) {
            continue;
        }

        if (model.kept[i]->refused) {
            refused++;
            continue;
        }

        model_is(q != ngx_queue_sentinel(&session->turns),
                 "session %u has not %s", (unsigned) s, model.kept[i]->id);

        node = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        model_is(node == model.kept[i]->node, "session %u: another order",
                 (unsigned) s);

        requests += (model.kept[i]->request != 0);
        q = ngx_queue_next(q);
    }

    model_is(q == ngx_queue_sentinel(&session->turns)
             && session->nrefused == refused
             && model_count_tree(&session->requests) == requests,
             "session %u has other turns", (unsigned) s);
    model_is(session->running == (model_running(s) ? model_running(s)->node
                                                   : NULL),
             "session %u: another one runs", (unsigned) s);
    model_is(!session->unsure == !model.unsure[s],
             "session %u: another doubt", (unsigned) s);
    model_is(session->directory.len == model.directory[s],
             "session %u: another directory", (unsigned) s);

    if (session->directory.data) {
        model_count_memory(session->directory.data, model.directory[s]);
    }

    q = ngx_queue_head(&session->tickets);
    n = 0;

    for (i = 0; i < model.ntickets; i++) {
        if (model.tickets[i].session != s) {
            continue;
        }

        model_is(q != ngx_queue_sentinel(&session->tickets),
                 "session %u: no ticket", (unsigned) s);

        ticket = ngx_queue_data(q, ngx_http_agentstream_ticket_t, queue);
        model_count_memory(ticket, sizeof(ngx_http_agentstream_ticket_t));

        model_is(ticket == model.tickets[i].ticket
                 && ticket->session == session
                 && ticket->owner.slot == model.tickets[i].owner.slot
                 && ticket->owner.generation
                    == model.tickets[i].owner.generation,
                 "session %u: another ticket", (unsigned) s);

        q = ngx_queue_next(q);
        n++;
    }

    model_is(q == ngx_queue_sentinel(&session->tickets),
             "session %u: more than %u tickets", (unsigned) s, (unsigned) n);
}


static void
model_check_counters(void)
{
    ngx_uint_t                          i, running, workers;
    ngx_http_agentstream_store_stats_t  stats;

    static ngx_uint_t  counted[] = {
        NGX_HTTP_AGENTSTREAM_STAT_STARTED,
        NGX_HTTP_AGENTSTREAM_STAT_COMPLETED,
        NGX_HTTP_AGENTSTREAM_STAT_CANCELLED,
        NGX_HTTP_AGENTSTREAM_STAT_FAILED,
        NGX_HTTP_AGENTSTREAM_STAT_EVICTED,
        NGX_HTTP_AGENTSTREAM_STAT_PACKETS,
        NGX_HTTP_AGENTSTREAM_STAT_BYTES,
        NGX_HTTP_AGENTSTREAM_STAT_DROPPED
    };

    ngx_http_agentstream_store_stats(world.master, &stats);

    i = NGX_HTTP_AGENTSTREAM_STAT_DROPPED;

    if (stats.stats[i] > model.stats[i]
        && stats.stats[i] <= model.stats[i] + model.slack)
    {
        model.stats[i] = stats.stats[i];
    }

    for (i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        model_is(stats.stats[counted[i]] == model.stats[counted[i]],
                 "counter %u is %llu, not %llu", (unsigned) counted[i],
                 (unsigned long long) stats.stats[counted[i]],
                 (unsigned long long) model.stats[counted[i]]);
    }

    running = 0;

    for (i = 0; i < model.nkept; i++) {
        running += (model.kept[i]->state == RUNNING);
    }

    workers = 0;

    for (i = 0; i < WORKERS; i++) {
        workers += (world.workers[i].zone != NULL);
    }

    model_is(stats.running == running
             && stats.finished == model.nkept - running
             && stats.workers == workers
             && stats.free == world.master->shpool->pfree * ngx_pagesize
             && world.master->sh->ntickets == model.ntickets,
             "other numbers of turns, workers or tickets");
}


/* to be called after each verb, when the model has done the same */

static void
model_check(void)
{
    ngx_uint_t                       i, n, known;
    ngx_http_agentstream_session_t  *session;

    model_is(*world.master->shpool->mutex.lock == 0, "the lock is held");

    for (n = 0, i = 0; i < model.nkept; i++) {
        if (ngx_http_agentstream_zone_find_locked(world.master,
                                                  &model.kept[i]->name)
            == NULL)
        {
            model_gone(model.kept[i]);
        }
    }

    for (n = 0, i = 0; i < model.nkept; i++) {
        if (model.kept[i]->state != GONE) {
            model.kept[n++] = model.kept[i];
        }
    }

    model.nkept = n;

    ngx_memzero(model_used, sizeof(model_used));
    model_pages = 0;

    for (i = 0; i < model.nkept; i++) {
        model_check_turn(model.kept[i]);
    }

    known = 0;

    for (i = 0; i < SESSIONS; i++) {
        session = ngx_http_agentstream_zone_session_locked(world.master,
                                                           &model_keys[i]);

        model_is((session != NULL) == model_known(i), "session %u is %sknown",
                 (unsigned) i, session ? "" : "not ");

        if (session) {
            known++;
            model_check_session(i, session);

        } else {
            model.unsure[i] = 1;
            model.directory[i] = 0;
        }
    }

    model_is(model_count_tree(&world.master->sh->turns) == model.nkept
             && model_count_tree(&world.master->sh->sessions) == known,
             "there are turns or sessions that nobody has made");

    model_check_losses();
    model_check_memory();
    model_check_counters();
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_CHECK_H_INCLUDED_ */
