
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Records of the model: made from a seed, appended in each of the ways that a
 * journal has, and compared with what comes out.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_RECORDS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_RECORDS_H_INCLUDED_


#include "store_check.h"


#define RECORD_MAX  120000

#define zone()  (world.current->zone)


/* for what is written, and for what is read */
static u_char                        buffer[RECORD_MAX + 4096]
    __attribute__((aligned(8)));
static ngx_http_agentstream_later_t  later;


/* a random one that the current worker owns; pinned: of either kind (2) */

static turn_t *
own_turn(ngx_uint_t pinned)
{
    turn_t      *found;
    ngx_uint_t   i, n;

    found = NULL;
    n = 0;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->state == RUNNING
            && model.kept[i]->pid == world.current->pid
            && (pinned == 2 || model.kept[i]->pinned == pinned)
            && model_random(++n) == 0)
        {
            found = model.kept[i];
        }
    }

    return found;
}


static void
fill(u_char *p, size_t len, uint32_t seed)
{
    while (len--) {
        seed = seed * 1664525 + 1013904223;
        *p++ = seed >> 24;
    }
}


static ngx_uint_t
same(u_char *p, size_t len, uint32_t seed)
{
    while (len--) {
        seed = seed * 1664525 + 1013904223;

        if (*p++ != (u_char) (seed >> 24)) {
            return 0;
        }
    }

    return 1;
}


static void
random_record(record_t *record, ngx_uint_t terminal)
{
    static size_t  sizes[] = {
        40, 80, 200, 200, 400, 400, 1000, 2000, 4200, 20000, RECORD_MAX
    };

    ngx_memzero(record, sizeof(record_t));

    record->json = terminal ? 1 + model_random(200)
                   : 1 + model_random(sizes[model_random(sizeof(sizes)
                                                         / sizeof(size_t))]);
    record->type = 1 + model_random(NGX_HTTP_AGENTSTREAM_RECORD_TYPES - 1);
    record->part = model_random(5);
    record->origin = model_random(3) ? 0 : 1 + model_random(64);
    record->seed = model_random(0xffffffff);

    if (!terminal && model_random(4) == 0) {
        record->text = record->json / 2;
        record->json -= record->text;
        record->nholes = 1 + model_random(NGX_HTTP_AGENTSTREAM_RECORD_HOLES);
    }
}


/* what it takes in a block, without its header */

static size_t
record_size(record_t *record)
{
    return record->json + record->text + record->origin
           + ngx_http_agentstream_record_holes(record->nholes);
}


/* ... and in a reader's buffer */

static size_t
record_packed(record_t *record)
{
    return ngx_http_agentstream_packed_size(record_size(record));
}


/* as the journal wants it, with its bytes at p */

static void
record_make(record_t *record, ngx_http_agentstream_record_t *r, u_char *p)
{
    ngx_uint_t  i;

    static u_char  origin[64];

    fill(p, record->json + record->text, record->seed);
    fill(origin, record->origin, ~record->seed);

    ngx_memzero(r, sizeof(ngx_http_agentstream_record_t));

    r->type = record->type;
    r->part = record->part;
    r->origin.len = record->origin;
    r->origin.data = origin;
    r->json.len = record->json;
    r->json.data = p;
    r->text.len = record->text;
    r->text.data = p + record->json;
    r->nholes = record->nholes;

    for (i = 0; i < record->nholes; i++) {
        r->holes[i] = record->json * i / 3;
    }
}


static void
record_compare(turn_t *turn, uint64_t seq, ngx_http_agentstream_record_t *r)
{
    record_t    *record;
    ngx_uint_t   i;

    model_is(seq <= turn->last && r->seq == seq, "%s: %llu comes as %llu",
             turn->id, (unsigned long long) seq, (unsigned long long) r->seq);

    record = &turn->records[seq - 1];

    model_is(r->type == record->type && r->part == record->part
             && r->json.len == record->json && r->text.len == record->text
             && r->nholes == record->nholes && r->origin.len == record->origin
             && r->text.data == r->json.data + r->json.len
             && same(r->json.data, record->json + record->text, record->seed)
             && same(r->origin.data, record->origin, ~record->seed),
             "%s: record %llu is another one", turn->id,
             (unsigned long long) seq);

    for (i = 0; i < record->nholes; i++) {
        model_is(r->holes[i] == record->json * i / 3,
                 "%s: record %llu has other holes", turn->id,
                 (unsigned long long) seq);
    }
}


static void
add_record(turn_t *turn, record_t *record, ngx_uint_t skipped)
{
    turn->records = realloc(turn->records,
                            (turn->last + 1) * sizeof(record_t));
    if (turn->records == NULL) {
        abort();
    }

    turn->records[turn->last++] = *record;

    if (!zone()->held) {
        turn->shown = turn->last;
    }

    if (!skipped) {
        model.stats[NGX_HTTP_AGENTSTREAM_STAT_PACKETS]++;
        model.stats[NGX_HTTP_AGENTSTREAM_STAT_BYTES]
            += record->json + record->nholes * record->text;
    }
}


static ngx_int_t
append_pieces(turn_t *turn, record_t *record)
{
    size_t                          extra;
    ngx_int_t                       rc;
    ngx_http_agentstream_block_t   *last;
    ngx_http_agentstream_record_t   r;

    last = turn->node->journal.last;
    extra = last->extra;

    record_make(record, &r, buffer);

    rc = ngx_http_agentstream_journal_append_pieces(zone(), turn->node, &r,
                                                    turn->limit);

    if (rc == NGX_OK) {
        add_record(turn, record, 0);
        saw[SAW_PIECES]++;

    } else {
        model_is(rc == NGX_DECLINED
                 && (model_nothing_left()
                     || record->json + record->text
                        > (size_t) (zone()->shpool->end
                                    - zone()->shpool->start) / 4),
                 "%s: no pieces", turn->id);

        if (turn->node->journal.last != last) {
            extra = 0;
        }

        model_is(turn->node->journal.last->extra == extra,
                 "%s: pieces of no packet", turn->id);
    }

    return rc;
}


/* a record for which the zone has no room as it is */

static const char *
squeeze(turn_t *turn, record_t *record, ngx_uint_t terminal)
{
    u_char                         *p;
    ngx_http_agentstream_record_t   r;

    p = terminal ? ngx_http_agentstream_journal_reserve_tail(zone(),
                                            turn->node, record_size(record))
                 : NULL;

    model_is(!terminal || p || record_size(record) > 256,
             "%s: no room for the last packet", turn->id);

    if (p == NULL && model_random(2)
        && append_pieces(turn, record) == NGX_OK)
    {
        return "in pieces";
    }

    saw[SAW_TAIL] += (p != NULL);

    if (p == NULL) {
        p = ngx_http_agentstream_journal_reserve_last(zone(), turn->node,
                                                      record_size(record));
        saw[SAW_LAST] += (p != NULL);
    }

    if (p) {
        record_make(record, &r, p);
        ngx_http_agentstream_journal_append(zone(), turn->node, &r);
        add_record(turn, record, 0);

        model_is((u_char *) turn->node->journal.last != turn->node->tail
                 || ngx_http_agentstream_journal_reserve_tail(zone(),
                                                       turn->node, 1) == NULL,
                 "%s: room for a second last packet", turn->id);

        return "squeezed";
    }

    ngx_http_agentstream_journal_skip(zone(), turn->node);

    add_record(turn, record, 1);
    saw[SAW_SKIP]++;

    model_is(turn->node->journal.first_seq == turn->last + 1,
             "%s: what was skipped is kept", turn->id);

    return "skipped";
}


static void
append(turn_t *turn, ngx_uint_t terminal)
{
    u_char                         *p;
    record_t                        record;
    const char                     *how;
    ngx_http_agentstream_record_t   r;

    random_record(&record, terminal);

    model_begin(turn, 2 + (record_size(&record) + 4095) / 4000, 1, 0);

    how = "appended";

    /* now and then as if there was no room */

    p = model_random(20) ? ngx_http_agentstream_journal_reserve(zone(),
                                         turn->node, record_size(&record),
                                         turn->limit)
                         : NULL;

    if (p) {
        record_make(&record, &r, p);
        ngx_http_agentstream_journal_append(zone(), turn->node, &r);
        add_record(turn, &record, 0);
        saw[SAW_LARGE] += (record.json > 2 * ngx_pagesize);

    } else {
        how = squeeze(turn, &record, terminal);
    }

    model_say("%d append %s, %u bytes, text %u, origin %u, limit %zu: %s",
              (int) world.current->pid, turn->id, record.json, record.text,
              record.origin, turn->limit, how);

    model_is(turn->node->journal.last_seq == turn->last
             && (turn->node->journal.first_seq <= turn->last
                 || strcmp(how, "skipped") == 0),
             "%s: the last packet is not kept", turn->id);

    /* with two blocks it may be: the last one is never dropped */

    model_is(terminal || turn->node->journal.size <= turn->limit
             || turn->node->journal.first == turn->node->journal.last
             || turn->node->journal.first->next == turn->node->journal.last,
             "%s: the journal takes %zu bytes", turn->id,
             turn->node->journal.size);
}


static void
verb_append(void)
{
    turn_t      *turn;
    ngx_uint_t   n;

    turn = own_turn(0);

    if (turn == NULL) {
        return;
    }

    for (n = model_random(4); n; n--) {
        append(turn, 0);
        model_check();
    }

    append(turn, 0);
}


/* the records up to one of them are acknowledged; the owner of a turn that was
   taken over has to show what the dead one has not */

static void
verb_show(void)
{
    turn_t    *turn;
    uint64_t   seq;

    turn = own_turn(2);

    if (turn == NULL) {
        return;
    }

    seq = model_random(turn->last + 2);

    model_begin(turn, 0, 0, 0);
    model_say("%d show %s:%llu", (int) world.current->pid, turn->id,
              (unsigned long long) seq);

    ngx_http_agentstream_zone_lock(zone());
    ngx_http_agentstream_journal_show_locked(turn->node, seq);
    ngx_http_agentstream_zone_unlock(zone());

    if (seq > turn->shown) {
        turn->shown = ngx_min(seq, turn->last);
    }

    /* whether somebody would have to be asked */

    model_is(turn->shown != turn->last
             || ngx_http_agentstream_store_show(zone(), turn->node, &later)
                == NGX_OK, "%s: all is shown, but more is awaited", turn->id);
}


/* a worker that dies while it writes, or thinks better of it */

static void
verb_reserve(void)
{
    u_char    *p;
    turn_t    *turn;
    record_t   record;

    turn = own_turn(0);

    if (turn == NULL) {
        return;
    }

    random_record(&record, 0);

    model_begin(turn, 2 + (record_size(&record) + 4095) / 4000, 1, 0);

    p = ngx_http_agentstream_journal_reserve(zone(), turn->node,
                                             record_size(&record),
                                             turn->limit);
    if (p) {
        fill(p, record_size(&record), 1);

    } else {
        model_is(model_nothing_left() || record_size(&record) > 3900,
                 "%s: no room with room left", turn->id);
    }

    model_say("%d reserve %s, %zu bytes%s", (int) world.current->pid, turn->id,
              record_size(&record), p ? "" : ": none");
}


/* what a successor reads of a journal */

static ngx_int_t
walk_handler(void *data, ngx_http_agentstream_record_t *record)
{
    turn_t *turn = data;

    record_compare(turn, ++turn->before, record);

    return NGX_OK;
}


static void
walk(turn_t *turn)
{
    turn->before = turn->first - 1;

    (void) ngx_http_agentstream_journal_walk(turn->node, walk_handler, turn);

    model_is(turn->before == turn->last, "%s: walked to %llu of %llu",
             turn->id, (unsigned long long) turn->before,
             (unsigned long long) turn->last);
    model_is(ngx_http_agentstream_store_whole(turn->node)
             == (turn->first == 1), "%s: whole or not", turn->id);

    turn->before = turn->first;
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_RECORDS_H_INCLUDED_ */
