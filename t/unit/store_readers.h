
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The verbs for code that does not own a turn: find it, read it, watch it.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_READERS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_READERS_H_INCLUDED_


#include "store_turns.h"


#define READERS     12


typedef struct {
    turn_t                              *turn;       /* NULL: no reader */
    ngx_http_agentstream_store_place_t   place;
} reader_t;


static reader_t  readers[READERS];


/* a session's newest turn, or the one behind the number */

static turn_t *
expect_next(ngx_uint_t session, uint64_t number)
{
    turn_t      *turn;
    ngx_uint_t   i;

    turn = NULL;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->session != session || model.kept[i]->refused) {
            continue;
        }

        if (number == NGX_HTTP_AGENTSTREAM_NEWEST) {
            turn = model.kept[i];

        } else if (model.kept[i]->number > number) {
            return model.kept[i];
        }
    }

    return turn;
}


static void
verb_next(void)
{
    turn_t                              *turn;
    uint64_t                             number;
    ngx_int_t                            rc;
    ngx_uint_t                           session;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_store_turn_t    next;
    ngx_http_agentstream_store_state_t   state;

    session = random_session();
    number = model_random(3) ? model_random(model.number + 1)
                             : NGX_HTTP_AGENTSTREAM_NEWEST;
    turn = expect_next(session, number);

    model_begin(NULL, 0, 0, 0);

    rc = ngx_http_agentstream_store_next(zone(), &model_keys[session], number,
                                         &next);

    model_is(rc == (turn ? NGX_OK : NGX_DECLINED), "next: %d", (int) rc);
    model_is(next.number == (turn ? turn->number : model.number),
             "next is %llu", (unsigned long long) next.number);
    model_is(turn == NULL || next.request_id.len == turn->request * 20,
             "next: another request id");

    turn = expect_next(session, NGX_HTTP_AGENTSTREAM_NEWEST);
    pool = ngx_create_pool(1024, &ngx_unit_log);

    rc = ngx_http_agentstream_store_state(zone(), &model_keys[session], pool,
                                          &state);

    model_is(rc == (turn ? NGX_OK : NGX_DECLINED), "state: %d", (int) rc);
    model_is(turn == NULL
             || (state.running == (turn->state == RUNNING)
                 && state.packets == turn->shown
                 && state.nasks == turn->nasks
                 && state.stop_reason.len
                    == (turn->reason ? strlen(turn->reason) : 0)
                 && ngx_memcmp(state.id.data, turn->id, turn->name.len) == 0),
             "another state of %s", turn->id);

    ngx_destroy_pool(pool);
}


/* readers: they come with what they have of a turn, or with nothing */

static void
verb_find(void)
{
    turn_t                              *turn, *found;
    uint64_t                             seq, wanted;
    reader_t                            *reader;
    ngx_str_t                            name;
    ngx_uint_t                           session, over, refused;
    ngx_http_agentstream_store_found_t   f;

    turn = any_turn();
    session = (turn && model_random(8)) ? turn->session
                                        : random_session();
    seq = turn ? model_random(turn->shown + 2) : 0;

    ngx_str_null(&name);

    if (turn) {
        name = turn->name;
    }

    model_begin(NULL, 0, 0, 0);

    model_is(turn == NULL
             || (ngx_http_agentstream_store_kept(zone(), &name, &refused)
                 == (turn->state != GONE)
                 && refused == (turn->state != GONE && turn->refused)),
             "%s: kept or not", turn->id);

    ngx_http_agentstream_store_find(zone(), &model_keys[session], &name, seq,
                                    &f);

    wanted = 1;
    over = 0;

    if (turn == NULL || turn->state == GONE || turn->session != session) {
        found = expect_next(session, NGX_HTTP_AGENTSTREAM_NEWEST);

    } else if (turn->state == FINISHED && seq >= turn->last) {
        found = expect_next(session, turn->number);
        over = 1;

    } else {
        found = turn;
        wanted = seq + 1;
    }

    model_is((found != NULL) == (f.turn.len != 0) && f.over == over
             && f.newest == model.number,
             "found \"%.*s\"", (int) f.turn.len, f.turn.data);

    if (found == NULL) {
        return;
    }

    model_is(ngx_memcmp(f.turn.data, found->id, found->name.len) == 0
             && f.number == found->number && f.seq == wanted,
             "found %.*s:%llu, not %s:%llu", (int) f.turn.len, f.turn.data,
             (unsigned long long) f.seq, found->id,
             (unsigned long long) wanted);

    reader = &readers[model_random(READERS)];

    ngx_memzero(reader, sizeof(reader_t));

    reader->turn = found;
    reader->place.turn = found->name;
    reader->place.cursor.seq = wanted;
}


static void
verb_read(void)
{
    size_t                              size, used, packed;
    turn_t                             *turn;
    uint64_t                            n, seq;
    reader_t                           *reader;
    ngx_uint_t                          lost;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_store_view_t   view;

    reader = &readers[model_random(READERS)];
    turn = reader->turn;

    if (turn == NULL) {
        return;
    }

    size = model_random(3) ? model_random(3000) : model_random(sizeof(buffer));
    seq = reader->place.cursor.seq;
    lost = (turn->state == GONE || seq < turn->first);

    model_begin(NULL, 0, 0, 0);

    ngx_http_agentstream_store_read(zone(), &reader->place, buffer, size,
                                    &view);

    model_say("%d read %s:%llu, room %zu: to %llu", (int) world.current->pid,
              turn->id, (unsigned long long) seq, size,
              (unsigned long long) reader->place.cursor.seq);

    model_is(view.lost == lost, "%s: lost: %u", turn->id, view.lost);

    if (lost) {
        model_is(view.records.pos == view.records.last,
                 "%s: lost, but read", turn->id);
        reader->turn = NULL;
        saw[SAW_LOST]++;
        saw[SAW_HELD_LOST] += (turn->state == RUNNING && seq > turn->shown);
        return;
    }

    saw[SAW_HELD] += (turn->shown != turn->last);

    used = view.records.last - view.records.pos;

    for (n = seq;
         ngx_http_agentstream_record_next(&view.records, &record) == NGX_OK;
         n++)
    {
        model_is(n <= turn->shown, "%s: %llu is read before it is shown",
                 turn->id, (unsigned long long) n);

        record_compare(turn, n, &record);
    }

    model_is(n == reader->place.cursor.seq, "%s: read to %llu", turn->id,
             (unsigned long long) n);

    model_is(view.all == (n > turn->shown)
             && view.ended == (view.all && turn->state == FINISHED)
             && view.begun == (turn->shown != 0)
             && view.refused == turn->refused
             && view.status == turn->status,
             "%s: another view", turn->id);

    model_is(!view.orphan || (turn->state == RUNNING
                              && !world_alive(turn->pid)),
             "%s is no orphan", turn->id);

    packed = view.all ? 0 : record_packed(&turn->records[n - 1]);

    model_is(view.all || used + packed > size, "%s: there was room for %llu",
             turn->id, (unsigned long long) n);
    model_is(view.need == (used ? 0 : packed), "%s: need %zu", turn->id,
             view.need);

    if (view.ended) {
        reader->turn = NULL;
    }
}


static void
verb_watch(void)
{
    turn_t      *turn;
    uint64_t     bit, mask;
    ngx_uint_t   set, i, watched;
    ngx_msec_t   seen_at;

    turn = kept_turn();

    if (turn == NULL) {
        return;
    }

    bit = (uint64_t) 1 << zone()->self.slot;
    set = !(turn->watchers & bit);

    model_begin(NULL, 0, 0, 0);
    model_say("%d %swatch %s", (int) world.current->pid, set ? "" : "un",
              turn->id);

    ngx_http_agentstream_zone_lock(zone());
    ngx_http_agentstream_zone_watch_locked(zone(), turn->node,
                                           zone()->self.slot, set);
    ngx_http_agentstream_zone_unlock(zone());

    turn->watchers ^= bit;

    /* those of the dead do not count */

    mask = 0;

    for (i = 0; i < WORKERS; i++) {
        if (world.workers[i].zone) {
            mask |= (uint64_t) 1 << world.workers[i].zone->self.slot;
        }
    }

    watched = ngx_http_agentstream_store_watched(zone(), turn->node, &seen_at);

    model_is(watched == ((turn->watchers & mask) != 0), "%s: watched: %u",
             turn->id, (unsigned) watched);
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_READERS_H_INCLUDED_ */
