#!/usr/bin/env node
// What a store of several machines costs: the same turns through nginx alone
// and through nginx with a Redis server on the same machine, in turns, and how
// far a reader on another machine is behind.
//
//   bench/machines.mjs [--reps=3] [--nice=0] [--cells=REGEXP]
//
// The difference of the processor times is what counts; it includes the kernel's
// share.  Redis runs on the first core, beside the fake OpenCode and the client.

import { execFileSync } from 'node:child_process';
import http from 'node:http';
import { compile, cpuOf, end, fail, freePort, launch, listening, parseOptions,
         setNice, sleep } from './common.mjs';
import { HARNESS, Target, load } from './target.mjs';

const options = parseOptions(process.argv.slice(2), { reps: 3, nice: 0,
    cells: /./ });

/* of a packet: at most so many microseconds and milliseconds more */
const CELLS = [
    { name: 'flood-100', clients: 100, turns: 200, deltas: 400, tool: 200,
      snapshots: 2, bar_us: 2 },
    { name: 'paced-100', clients: 100, turns: 100, deltas: 60, pace: 33,
      ramp: 1000, tool: 200, snapshots: 2, bar_us: 8, bar_ms: 0.5 },
    { name: 'paced-1000', clients: 1000, turns: 1000, deltas: 60, pace: 33,
      ramp: 1000, tool: 200, snapshots: 2, bar_us: 8, bar_ms: 0.5 },
];

const BEHIND = 2;    /* ms, median */


function median(values) {
    return values.sort((a, b) => a - b)[values.length >> 1];
}


/* -> numbers of INFO */

function info(port) {
    const text = execFileSync('redis-cli', ['-p', String(port), 'INFO', 'all'],
        { encoding: 'utf8' });
    const number = (name) => Number(new RegExp(`^${name}:(\\d+)`, 'm')
        .exec(text)?.[1] ?? 0);
    const calls = (name) => Number(new RegExp(
        `^cmdstat_${name}:calls=(\\d+)`, 'm').exec(text)?.[1] ?? 0);

    return { scripts: calls('evalsha'), in: number('total_net_input_bytes'),
             out: number('total_net_output_bytes') };
}


async function measure(machine, cell, redis) {
    const pids = machine.pids, fake = [machine.fake.pid];
    const before = redis && info(port);
    const cpu = cpuOf(pids), redisCpu = redis ? cpuOf([redis.pid]) : 0;
    const fakeCpu = cpuOf(fake);
    const result = await load(machine, cell);

    await sleep(50);

    const after = redis && info(port);

    if (result.failed) {
        fail(`${cell.name}, ${machine.name}: ${result.failed} turns failed: `
             + result.failure);
    }

    return {
        us: (cpuOf(pids) - cpu) / result.events,
        redis_us: redis ? (cpuOf([redis.pid]) - redisCpu) / result.events : 0,
        p50: result.p50 / 1000,
        scripts: redis ? (after.scripts - before.scripts) / result.events : 0,
        in: redis ? (after.in - before.in) / result.events : 0,
        out: redis ? (after.out - before.out) / result.events : 0,
        size: result.bytes / result.events,
        fake_us: (cpuOf(fake) - fakeCpu) / result.events,
        rate: result.events / result.seconds,
    };
}


/* the times at which the packets of an event stream arrive, by their ids */

function read(url, body) {
    return new Promise((resolve, reject) => {
        const times = new Map();
        const request = http.request(url, { method: body ? 'POST' : 'GET',
            headers: body ? { 'Content-Type': 'application/json' } : {} },
            (response) => {
                response.setEncoding('utf8');
                response.on('data', (text) => {
                    const now = Number(process.hrtime.bigint()) / 1e6;

                    for (const [, id] of text.matchAll(/^id: (.*)$/mg)) {
                        times.set(id, now);
                    }
                });
                response.on('end', () => resolve(times));
                response.on('error', reject);
            });

        request.on('error', reject);
        request.end(body);
    });
}


/* how much later a reader of the second machine gets a packet */

async function behind(first, second) {
    const lags = [];

    for (let i = 0; i < 3; i++) {
        const session = `ses_behind${i}`;
        const here = read(`${first.sessions}/${session}/send-message`,
            JSON.stringify({ content: 'bench deltas=100 pace=20' }));

        await sleep(300);

        const there = await read(`${second.sessions}/${session}/events`);

        /* those that had been sent before it came are of no use */
        for (const [id, time] of [...await here].slice(30)) {
            if (there.has(id)) {
                lags.push(there.get(id) - time);
            }
        }
    }

    return { ms: median(lags), packets: lags.length };
}


compile();
setNice(options.nice);

const port = await freePort();
const redis = launch('redis', HARNESS, ['redis-server', '--port', String(port),
    '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']);
await listening(port, redis);

const store = `redis://127.0.0.1:${port}`;
const alone = new Target('alone');
const stored = new Target('stored', { store });
let missed = 0;

await alone.start();
await stored.start();
await sleep(1000);

for (const cell of CELLS.filter((c) => options.cells.test(c.name))) {
    const runs = { alone: [], stored: [] };

    for (let i = 0; i < options.reps; i++) {
        stored.freeze(true);
        runs.alone.push(await measure(alone, cell));
        stored.freeze(false);
        await sleep(3000);

        alone.freeze(true);
        runs.stored.push(await measure(stored, cell, redis));
        alone.freeze(false);
    }

    const of = (name, field) => median(runs[name].map((run) => run[field]));
    const share = (field) => (of('stored', field) * of('stored', 'rate') / 1e4)
        .toFixed(0);
    const more = of('stored', 'us') - of('alone', 'us');
    const later = of('stored', 'p50') - of('alone', 'p50');

    missed += more > cell.bar_us;
    missed += cell.bar_ms !== undefined && later > cell.bar_ms;

    console.log(`${cell.name}: nginx ${of('alone', 'us').toFixed(2)} µs per `
        + `packet alone, ${of('stored', 'us').toFixed(2)} with Redis: `
        + `${more.toFixed(2)} more (bar ${cell.bar_us}); `
        + `Redis itself ${of('stored', 'redis_us').toFixed(2)} µs; `
        + `p50 ${of('alone', 'p50').toFixed(2)} and `
        + `${of('stored', 'p50').toFixed(2)} ms`
        + `${cell.bar_ms === undefined ? '' : ` (bar + ${cell.bar_ms})`}; `
        + `${of('stored', 'scripts').toFixed(3)} scripts, `
        + `${of('stored', 'in').toFixed(0)} bytes to Redis and `
        + `${of('stored', 'out').toFixed(0)} from it, for `
        + `${of('stored', 'size').toFixed(0)} bytes of a packet; `
        + `of a core: nginx ${share('us')} %, Redis ${share('redis_us')} %, `
        + `the fake ${share('fake_us')} %`);
}

if (options.cells.test('behind')) {
    const second = new Target('beside', { store, upstream: stored.upstream });

    await second.start();
    await sleep(1000);

    const lag = await behind(stored, second);

    missed += !(lag.ms <= BEHIND);
    console.log(`behind: a reader on another machine is ${lag.ms?.toFixed(2)} `
        + `ms behind (p50 of ${lag.packets} packets, bar ${BEHIND})`);
    await second.stop();
}

await alone.stop();
await stored.stop();
await end(redis);

process.exit(missed ? 1 : 0);
