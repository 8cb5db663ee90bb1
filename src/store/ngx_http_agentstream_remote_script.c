
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The scripts that Redis runs.  Each is atomic, and each that changes a turn
 * refuses an owner or an epoch that is not the turn's.  Keys and fields are
 * described in docs/machines.md.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/*
 * ARGV: owner, time in ms, a new name, the name that the worker knows, or "".
 * Returns the name of what is in Redis, which is lost when Redis is emptied,
 * and whether the lease was over.  If the name is another one, all workers get
 * the time of two renewals to store their chats again.  It must work without
 * memory, too: an owner must not seem to be dead because Redis is full.
 */

static const char  ngx_http_agentstream_script_lease[] =
"#!lua flags=allow-oom\n"
"local call = redis.call\n"
"local lease, over = 'as1:w:' .. ARGV[1], '0'\n"
"if call('EXISTS', lease) == 0 then over = '1' end\n"
"call('SET', lease, 1, 'PX', ARGV[2])\n"
"local name = call('GET', 'as1:name')\n"
"if not name then\n"
"  name = ARGV[3]\n"
"  call('SET', 'as1:name', name)\n"
"end\n"
"if ARGV[4] ~= '' and ARGV[4] ~= name then\n"
"  call('SET', 'as1:e', 1, 'PX', 4000) end\n"
"return {name, over}\n";


/*
 * ARGV: base of the keys, turn, owner, request id, ticket, settings, time to
 * live.  A turn that was created by the same command before is not created
 * again.
 */

static const char  ngx_http_agentstream_script_create[] =
"#!lua\n"
"local base, turn, owner, req, ticket, set, ttl = unpack(ARGV)\n"
"local s, m, r, q = base .. 's', base .. 'm:' .. turn, base .. 'r:' .. req,"
" base .. 'q'\n"
"local call = redis.call\n"
"local old = call('HGET', m, 'rank')\n"
"if old then return {'OK', '0', old} end\n"
"if req ~= '' then\n"
"  local t = call('GET', r)\n"
"  if t and call('EXISTS', base .. 'm:' .. t) == 1 then\n"
"    return {'DECLINED', t} end\n"
"end\n"
"local h = call('HMGET', s, 'turn', 'run', 'unsure')\n"
"if h[2] == '1' and call('EXISTS', base .. 'm:' .. h[1]) == 1 then\n"
"  return {'BUSY', h[1]} end\n"
"while true do\n"
"  local head = call('LINDEX', q, 0)\n"
"  if not head then break end\n"
"  if head == ticket then call('LPOP', q) break end\n"
"  if call('EXISTS', 'as1:w:' .. string.match(head, '^%S+')) == 1 then\n"
"    return {'BUSY', ''} end\n"
"  call('LPOP', q)\n"
"end\n"
"local unsure = h[3] or '1'\n"
"if h[2] == '1' then unsure = '1' end\n"
"local rank = call('HINCRBY', s, 'rank', 1)\n"
"call('HSET', s, 'turn', turn, 'run', 1)\n"
"call('HSET', m, 'epoch', 0, 'owner', owner, 'last', 0, 'rank', rank,"
" 'set', set, 'req', req)\n"
"call('EXPIRE', s, ttl) call('EXPIRE', m, ttl)\n"
"if req ~= '' then call('SET', r, turn, 'EX', ttl) end\n"
"call('SPUBLISH', base .. 'c', 'B ' .. turn)\n"
"return {'OK', unsure, tostring(rank)}\n";


/*
 * ARGV: base, turn, epoch, owner, time to live ("": it was renewed a moment
 * ago, and nobody wants to know who reads the turn elsewhere), end ("", or
 * whether the session is unsure, "0" or "1"), number before the first record,
 * number of records, the epoch that made them, the id of the oldest record to
 * keep ("": all), the records, mode, then fields and values.  The mode "jump"
 * says that the records before these are not kept, "touch" that nobody need be
 * told.  A Redis that has an older epoch has forgotten a claim, as after a
 * failover.
 */

static const char  ngx_http_agentstream_script_put[] =
"#!lua\n"
"local base, turn, epoch, owner, ttl, fin = unpack(ARGV, 1, 6)\n"
"local before, n = tonumber(ARGV[7]), tonumber(ARGV[8])\n"
"local made, keep = ARGV[9], ARGV[10]\n"
"local call = redis.call\n"
"local m, t = base .. 'm:' .. turn, base .. 't:' .. turn\n"
"local h = call('HMGET', m, 'epoch', 'owner', 'last', 'int', 'end',"
" 'req')\n"
"if not h[1] then return {'NOKEY'} end\n"
"if h[1] ~= epoch and tonumber(h[1]) < tonumber(epoch) then\n"
"  return {'NOKEY'} end\n"
"if h[1] ~= epoch or h[2] ~= owner then return {'FENCED'} end\n"
"local last = tonumber(h[3])\n"
"local mode = ARGV[11 + n]\n"
"if mode == 'jump' and before > last then\n"
"  call('DEL', t)\n"
"  last = before\n"
"elseif before ~= last then return {'GAP', h[3]} end\n"
"local size, out = 0, {}\n"
"for i = 1, n do\n"
"  local b, id = ARGV[10 + i], made .. '-' .. (last + i)\n"
"  if i < n or keep == '' then call('XADD', t, id, 'r', b)\n"
"  else call('XADD', t, 'MINID', '~', keep, id, 'r', b) end\n"
"  size = size + #b\n"
"  if size <= 16384 then out[i] = struct.pack('<I4', #b) .. b end\n"
"end\n"
"local first = last + 1\n"
"last = last + n\n"
"call('HSET', m, 'last', last, unpack(ARGV, 12 + n))\n"
"if fin ~= '' and not h[5] then\n"
"  call('HSET', m, 'end', 1)\n"
"  local s = base .. 's'\n"
"  if call('HGET', s, 'turn') == turn then\n"
"    call('HSET', s, 'run', 0, 'unsure', fin)\n"
"    if call('HGET', m, 'refused') == '1' then call('HDEL', s, 'turn') end\n"
"  end\n"
"end\n"
"local read = 1\n"
"if ttl ~= '' then\n"
"  read = call('EXISTS', base .. 'v:' .. turn)\n"
"  call('EXPIRE', base .. 's', ttl) call('EXPIRE', m, ttl)\n"
"  call('EXPIRE', t, ttl) call('EXPIRE', base .. 'q', ttl)\n"
"  if (h[6] or '') ~= '' then call('EXPIRE', base .. 'r:' .. h[6], ttl) end\n"
"end\n"
"if size > 16384 then n = 0 out = {} end\n"
"if n > 0 and fin == '' and #ARGV == 11 + n then\n"
"  call('SPUBLISH', base .. 'c', 'A ' .. turn .. ' ' .. epoch .. ' '"
" .. first .. ' ' .. n .. '\\n' .. table.concat(out))\n"
"elseif mode ~= 'touch' then\n"
"  call('SPUBLISH', base .. 'c', 'M ' .. turn)\n"
"end\n"
"return {'OK', h[4] or '0', read}\n";


/* ARGV: base, turn, epoch, owner, settings, request id, time to live, ends of
   epochs: Redis has lost the turn, or its newest epoch.  If another turn was
   begun in the session meanwhile, this one is lost, and its readers on other
   machines are told so.  "1": its end was stored already, so if Redis does not
   know it at all, it does not matter */

static const char  ngx_http_agentstream_script_restore[] =
"#!lua\n"
"local base, turn, epoch, owner, set, req, ttl, ends, ended = unpack(ARGV)\n"
"local s, m = base .. 's', base .. 'm:' .. turn\n"
"local call = redis.call\n"
"local old = call('HMGET', m, 'epoch', 'rank')\n"
"if not old[1] and ended == '1' then return {'NONE'} end\n"
"if old[1] and tonumber(old[1]) >= tonumber(epoch) then return {'OK'} end\n"
"local h = call('HMGET', s, 'turn', 'run')\n"
"if h[2] == '1' and h[1] ~= turn"
" and call('EXISTS', base .. 'm:' .. h[1]) == 1 then\n"
"  call('SPUBLISH', base .. 'c', 'L ' .. turn)\n"
"  return {'FENCED'}\n"
"end\n"
"local rank = old[2] or call('HINCRBY', s, 'rank', 1)\n"
"call('DEL', m, base .. 't:' .. turn)\n"
"if ended == '0' or h[1] == turn then\n"
"  call('HSET', s, 'turn', turn, 'run', 1)\n"
"end\n"
"call('HSET', m, 'epoch', epoch, 'owner', owner, 'last', 0, 'rank', rank,"
" 'set', set, 'req', req, 'ends', ends)\n"
"call('EXPIRE', s, ttl) call('EXPIRE', m, ttl)\n"
"if req ~= '' then call('SET', base .. 'r:' .. req, turn, 'EX', ttl) end\n"
"return {'OK'}\n";


/* ARGV: base, turn, epoch, owner, "1": a worker of the same machine is dead, as
   we know ourselves, so that its lease does not count, number of the last
   record of this epoch that the new owner has: Redis may have forgotten some.
   It must work without memory, too: turns of the dead go on when Redis is
   full */

static const char  ngx_http_agentstream_script_claim[] =
"#!lua flags=allow-oom\n"
"local base, turn, epoch, owner, same, have = unpack(ARGV)\n"
"local call = redis.call\n"
"local m = base .. 'm:' .. turn\n"
"local h = call('HMGET', m, 'epoch', 'owner', 'last', 'ends', 'end')\n"
"if not h[1] then return {'NOKEY'} end\n"
"if h[5] then return {'DECLINED'} end\n"
"if h[2] == owner then return {'OK', h[1], h[3]} end\n"
"if h[1] ~= epoch then return {'DECLINED'} end\n"
"if same == '1' then\n"
"  call('HSET', m, 'owner', owner)\n"
"  return {'OK', h[1], h[3]}\n"
"end\n"
"if call('EXISTS', 'as1:w:' .. h[2]) == 1 then return {'DECLINED'} end\n"
"epoch = tostring(tonumber(epoch) + 1)\n"
"local last = h[3]\n"
"if tonumber(have) > tonumber(last) then last = have end\n"
"call('HSET', m, 'epoch', epoch, 'owner', owner,"
" 'ends', (h[4] or '') .. last .. ' ')\n"
"call('SPUBLISH', base .. 'c', 'M ' .. turn)\n"
"return {'OK', epoch, h[3]}\n";


/* ARGV: base, turn, owner: a turn that does not come about after all */

static const char  ngx_http_agentstream_script_undo[] =
"#!lua flags=allow-oom\n"
"local base, turn, owner = unpack(ARGV)\n"
"local call = redis.call\n"
"local m, s = base .. 'm:' .. turn, base .. 's'\n"
"local h = call('HMGET', m, 'owner', 'prompted', 'req')\n"
"if h[1] ~= owner or h[2] then return {'OK'} end\n"
"call('DEL', m, base .. 't:' .. turn)\n"
"if h[3] ~= '' then call('DEL', base .. 'r:' .. h[3]) end\n"
"if call('HGET', s, 'turn') == turn then\n"
"  call('HSET', s, 'run', 0) call('HDEL', s, 'turn') end\n"
"call('SPUBLISH', base .. 'c', 'M ' .. turn)\n"
"return {'OK'}\n";


/*
 * ARGV: base, turns.  The session's newest turn, and what is known of it and of
 * these: for each its id, whether it runs, whether its owner lives, and its
 * fields.
 */

static const char  ngx_http_agentstream_script_look[] =
"#!lua flags=no-writes\n"
"local call = redis.call\n"
"local base = ARGV[1]\n"
"local h = call('HMGET', base .. 's', 'turn', 'run', 'unsure')\n"
"local out = {h[3] or '1', h[1] or ''}\n"
"local function add(turn, run)\n"
"  local f = call('HGETALL', base .. 'm:' .. turn)\n"
"  if #f == 0 then out[#out + 1] = {turn, 'none'} return end\n"
"  local owner, live = call('HGET', base .. 'm:' .. turn, 'owner'), '0'\n"
"  if call('EXISTS', 'as1:w:' .. owner) == 1 then live = '1' end\n"
"  out[#out + 1] = {turn, run, live, f}\n"
"end\n"
"if h[1] then add(h[1], h[2]) end\n"
"for i = 2, #ARGV do\n"
"  if ARGV[i] ~= h[1] then add(ARGV[i], '0') end\n"
"end\n"
"return out\n";


/* ARGV: base: asks the owner of the running turn to end it */

static const char  ngx_http_agentstream_script_interrupt[] =
"#!lua flags=allow-oom\n"
"local call = redis.call\n"
"local base = ARGV[1]\n"
"local h = call('HMGET', base .. 's', 'turn', 'run')\n"
"if h[2] ~= '1' then return {'NONE'} end\n"
"local m = base .. 'm:' .. h[1]\n"
"local owner = call('HGET', m, 'owner')\n"
"if not owner then return {'NONE'} end\n"
"call('HSET', m, 'int', 1)\n"
"call('SPUBLISH', 'as1:i:' .. owner, 'I ' .. h[1])\n"
"return {'OK'}\n";


/* ARGV: base, ticket, "in", "first" or "out", time to live */

static const char  ngx_http_agentstream_script_queue[] =
"#!lua flags=allow-oom\n"
"local base, ticket, what, ttl = unpack(ARGV)\n"
"local call = redis.call\n"
"local q = base .. 'q'\n"
"if what == 'out' then\n"
"  if call('LREM', q, 1, ticket) == 1 then\n"
"    call('SPUBLISH', base .. 'c', 'Q ') end\n"
"elseif not call('LPOS', q, ticket) then\n"
"  call(what == 'in' and 'RPUSH' or 'LPUSH', q, ticket)\n"
"  call('EXPIRE', q, ttl)\n"
"end\n"
"return {'OK'}\n";


/*
 * Chats.  ARGV: base, key, place, two hashes of names, entry, the most entries,
 * time to live, number of the last name to be kept.  Its owner is told, if it
 * lives.
 */

static const char  ngx_http_agentstream_script_post[] =
"#!lua\n"
"local base, key, place, a, b, entry, max, ttl, seen = unpack(ARGV)\n"
"local call = redis.call\n"
"local h, e, d = base .. 'h', base .. 'e', base .. 'd'\n"
"if (a ~= '' and call('LPOS', d, a)) or (b ~= '' and call('LPOS', d, b))"
" then\n"
"  return {'DECLINED'} end\n"
"if call('HLEN', e) >= tonumber(max) then return {'BUSY'} end\n"
"local n = call('HINCRBY', h, 'number', 1)\n"
"local t = call('TIME')\n"
"call('HSET', h, 'place', place)\n"
"call('HSETNX', h, 'born', string.format('%d%06d', t[1], t[2]))\n"
"call('HSET', e, n, entry)\n"
"if a ~= '' then call('LPUSH', d, a) end\n"
"if b ~= '' then call('LPUSH', d, b) end\n"
"call('LTRIM', d, 0, seen)\n"
"call('EXPIRE', h, ttl) call('EXPIRE', e, ttl) call('EXPIRE', d, ttl)\n"
"local owner = call('HGET', h, 'owner') or '-'\n"
"call('SADD', 'as1:o:' .. owner, key) call('SADD', 'as1:o', owner)\n"
"if call('EXISTS', 'as1:w:' .. owner) == 1 then\n"
"  call('SPUBLISH', 'as1:i:' .. owner, 'C ' .. key) end\n"
"return {'OK'}\n";


/* the number of machines that have chats: a local function of a script */

#define NGX_HTTP_AGENTSTREAM_SCRIPT_MACHINES                                  \
"local function machines()\n"                                                 \
"  local seen, n = {}, 0\n"                                                   \
"  for _, owner in ipairs(call('SMEMBERS', 'as1:o')) do\n"                    \
"    local machine = string.match(owner, '^[^-]*')\n"                         \
"    if not seen[machine] and call('EXISTS', 'as1:w:' .. owner) == 1\n"       \
"        and call('EXISTS', 'as1:o:' .. owner) == 1 then\n"                   \
"      seen[machine] = true n = n + 1 end\n"                                  \
"  end\n"                                                                     \
"  return tostring(n)\n"                                                      \
"end\n"


/*
 * What several scripts need: time in ms; the entries after a number, in order,
 * added to a reply; whether an owner with this epoch of a chat made then must
 * give way to what is stored.  Of two chats the older one counts: the other one
 * was made because Redis had lost it.
 */

#define NGX_HTTP_AGENTSTREAM_SCRIPT_CHAT                                      \
"local call = redis.call\n"                                                   \
"local function now()\n"                                                      \
"  local t = call('TIME')\n"                                                  \
"  return t[1] * 1000 + math.floor(t[2] / 1000)\n"                            \
"end\n"                                                                       \
"local function add(out, e, last)\n"                                          \
"  local f, n = call('HGETALL', e), {}\n"                                     \
"  for i = 1, #f, 2 do\n"                                                     \
"    if tonumber(f[i]) > last then n[#n + 1] = {tonumber(f[i]), f[i + 1]}"    \
" end\n"                                                                      \
"  end\n"                                                                     \
"  table.sort(n, function(x, y) return x[1] < y[1] end)\n"                    \
"  for i = 1, #n do\n"                                                        \
"    out[#out + 1] = tostring(n[i][1]) out[#out + 1] = n[i][2] end\n"         \
"  return out\n"                                                              \
"end\n"                                                                       \
"local function fenced(epoch, born, my_epoch, my_born)\n"                     \
"  if not epoch or not born then return false end\n"                          \
"  if born ~= my_born then return tonumber(born) < tonumber(my_born) end\n"   \
"  return tonumber(epoch) >= tonumber(my_epoch)\n"                            \
"end\n"


/* ARGV: base, key, owner, time to live, place of a chat that is made if it is
   not there, "1": an owner without a lease is dead.  The number of machines is
   returned, too, because many chats may begin at once.  A chat that never had
   an owner may have lost it with everything else, when Redis was emptied: it is
   not taken before the owner had the time to say so */

static const char  ngx_http_agentstream_script_take[] =
"#!lua flags=allow-oom\n"
"local base, key, me, ttl, create, steady = unpack(ARGV)\n"
NGX_HTTP_AGENTSTREAM_SCRIPT_CHAT
NGX_HTTP_AGENTSTREAM_SCRIPT_MACHINES
"local h, e = base .. 'h', base .. 'e'\n"
"if call('HEXISTS', h, 'epoch') == 0 and (call('EXISTS', 'as1:name') == 0"
" or call('EXISTS', 'as1:e') == 1) then\n"
"  return {'DECLINED'} end\n"
"if create ~= '' then\n"
"  local t = call('TIME')\n"
"  call('HSET', h, 'place', create)\n"
"  call('HSETNX', h, 'born', string.format('%d%06d', t[1], t[2]))\n"
"end\n"
"local f = call('HMGET', h, 'owner', 'place', 'state', 'at', 'busy',"
" 'born')\n"
"if not f[2] then return {'NONE'} end\n"
"local old = f[1] or '-'\n"
"if old ~= me and old ~= '-'"
" and (steady == '0' or call('EXISTS', 'as1:w:' .. old) == 1) then\n"
"  return {'DECLINED'} end\n"
"local epoch = call('HINCRBY', h, 'epoch', 1)\n"
"call('HSET', h, 'owner', me)\n"
"call('SREM', 'as1:o:' .. old, key)\n"
"call('SADD', 'as1:o:' .. me, key) call('SADD', 'as1:o', me)\n"
"call('EXPIRE', h, ttl) call('EXPIRE', e, ttl)\n"
"local age = 0\n"
"if f[4] then age = now() - tonumber(f[4]) end\n"
"return add({'OK', tostring(epoch), f[2], f[3] or '', tostring(age),"
" f[5] or '0', f[6] or '0', machines()}, e, 0)\n";


/*
 * ARGV: base, key, owner, epoch, time to live, last entry that the owner has,
 * "1": the owner leaves, busy, state ("": it has not changed), when the chat
 * was made, entries to be taken out.  NOKEY: Redis has lost the chat, and
 * perhaps a new one was made.
 */

static const char  ngx_http_agentstream_script_save[] =
"#!lua flags=allow-oom\n"
"local base, key, me, epoch, ttl, last, leave, busy, state, born ="
" unpack(ARGV, 1, 10)\n"
NGX_HTTP_AGENTSTREAM_SCRIPT_CHAT
"local h, e = base .. 'h', base .. 'e'\n"
"local f = call('HMGET', h, 'owner', 'epoch', 'born')\n"
"if f[1] ~= me or f[2] ~= epoch or f[3] ~= born then\n"
"  return {fenced(f[2], f[3], epoch, born) and 'FENCED' or 'NOKEY'}\n"
"end\n"
"if state ~= '' then\n"
"  call('HSET', h, 'state', state, 'busy', busy, 'at', now()) end\n"
"for i = 11, #ARGV do call('HDEL', e, ARGV[i]) end\n"
"call('EXPIRE', h, ttl) call('EXPIRE', e, ttl)\n"
"if leave == '1' then\n"
"  call('HSET', h, 'owner', '-')\n"
"  call('SREM', 'as1:o:' .. me, key)\n"
"  if busy == '0' and call('HLEN', e) == 0 then return {'OK'} end\n"
"  call('SADD', 'as1:o:-', key) call('SADD', 'as1:o', '-')\n"
"  return {'OK', 'LEFT'}\n"
"end\n"
"return add({'OK'}, e, tonumber(last))\n";


/* ARGV: base, key, owner, epoch, time to live, number, busy, place, state, when
   it was made, then entries with their numbers: Redis has lost the chat, or
   only that it is ours.  What has come meanwhile is put behind them */

static const char  ngx_http_agentstream_script_mend[] =
"#!lua\n"
"local base, key, me, epoch, ttl, number, busy, place, state, born ="
" unpack(ARGV, 1, 10)\n"
NGX_HTTP_AGENTSTREAM_SCRIPT_CHAT
"local h, e = base .. 'h', base .. 'e'\n"
"local f = call('HMGET', h, 'owner', 'epoch', 'born')\n"
"if fenced(f[2], f[3], epoch, born) then return {'FENCED'} end\n"
"if f[1] then call('SREM', 'as1:o:' .. f[1], key) end\n"
"local more, mine = add({}, e, 0), {}\n"
"call('DEL', e)\n"
"for i = 11, #ARGV, 2 do\n"
"  call('HSET', e, ARGV[i], ARGV[i + 1])\n"
"  mine[ARGV[i + 1]] = true\n"
"end\n"
"for i = 2, #more, 2 do\n"
"  if not mine[more[i]] then\n"
"    number = tostring(tonumber(number) + 1)\n"
"    call('HSET', e, number, more[i])\n"
"  end\n"
"end\n"
"epoch = tostring(tonumber(epoch) + 1)\n"
"call('HSET', h, 'owner', me, 'epoch', epoch, 'number', number,"
" 'place', place, 'state', state, 'busy', busy, 'at', now(),"
" 'born', born)\n"
"call('SADD', 'as1:o:' .. me, key) call('SADD', 'as1:o', me)\n"
"call('EXPIRE', h, ttl) call('EXPIRE', e, ttl)\n"
"return {'OK', epoch}\n";


/*
 * ARGV: the name of our machine, then its workers that live: the leases of the
 * others are over, except those of workers without a slot, of which we do not
 * know.  Returns the number of machines that have chats, and some chats whose
 * owner is dead; one worker of all gets them, once a second.
 */

static const char  ngx_http_agentstream_script_seek[] =
"#!lua flags=allow-oom\n"
"local call = redis.call\n"
NGX_HTTP_AGENTSTREAM_SCRIPT_MACHINES
"local alive, out = {}, {}\n"
"for i = 2, #ARGV do alive[ARGV[i]] = true end\n"
"local first = call('SET', 'as1:l', 1, 'NX', 'PX', 900)\n"
"for _, owner in ipairs(call('SMEMBERS', 'as1:o')) do\n"
"  local w = 'as1:w:' .. owner\n"
"  if string.match(owner, '^[^-]*') == ARGV[1] and not alive[owner]"
" and not string.find(owner, '-256-', 1, true) then call('DEL', w) end\n"
"  if call('SCARD', 'as1:o:' .. owner) == 0 then\n"
"    call('SREM', 'as1:o', owner)\n"
"  elseif first and call('EXISTS', w) == 0 then\n"
"    for _, key in ipairs(call('SRANDMEMBER', 'as1:o:' .. owner, 64)) do\n"
"      if call('EXISTS', 'as1:{' .. key .. '}:h') == 1 then\n"
"        out[#out + 1] = key\n"
"      else call('SREM', 'as1:o:' .. owner, key) end\n"
"    end\n"
"  end\n"
"end\n"
"table.insert(out, 1, machines())\n"
"return out\n";


ngx_str_t  ngx_http_agentstream_scripts[] = {
    ngx_string(ngx_http_agentstream_script_lease),
    ngx_string(ngx_http_agentstream_script_create),
    ngx_string(ngx_http_agentstream_script_put),
    ngx_string(ngx_http_agentstream_script_restore),
    ngx_string(ngx_http_agentstream_script_claim),
    ngx_string(ngx_http_agentstream_script_undo),
    ngx_string(ngx_http_agentstream_script_look),
    ngx_string(ngx_http_agentstream_script_interrupt),
    ngx_string(ngx_http_agentstream_script_queue),
    ngx_string(ngx_http_agentstream_script_post),
    ngx_string(ngx_http_agentstream_script_take),
    ngx_string(ngx_http_agentstream_script_save),
    ngx_string(ngx_http_agentstream_script_mend),
    ngx_string(ngx_http_agentstream_script_seek)
};

#endif
