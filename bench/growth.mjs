#!/usr/bin/env node
// What CPU and latency do when there is more of something: turns, watchers of
// one turn, machines that share a store.
//
//   bench/growth.mjs [--axes=turns,watchers,machines] [--most=5000] [--docs]
//             [--nice=N]
//
// Everything is paced at 5 packets per second and stream, so that the largest
// number still fits into one core, and the latency is not that of a queue which
// only grows.  The result is a table, build/bench/growth.json, and with --docs
// a part of docs/performance.md and docs/growth.svg.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { WORK, compile, cpuOf, end, fail, freePort, launch, listening,
    parseOptions, setNice, setRealtime, sleep } from './common.mjs';
import { aligned, growth, machine, writeGrowth } from './report.mjs';
import { BRIDGE, Target, load, measure } from './target.mjs';

const options = parseOptions(process.argv.slice(2), { docs: false, nice: 0,
    most: 5000, axes: ['turns', 'watchers', 'machines'] });

const PACE = 200;                                   /* ms */
const NUMBERS = [1, 10, 100, 1000, 5000].filter((n) => n <= options.most);
const RAW = [1, 100, 5000];                         /* for comparison */
const MACHINES = [1, 3];
const PER_MACHINE = 300;                            /* turns */

const AXES = {
    turns: { title: 'turns', x: 'turns at once', measure: turns },
    watchers: { title: 'watchers of one turn', x: 'watchers',
                measure: watchers },
    machines: { title: 'machines that share a store', x: 'machines',
                measure: machines },
};


/* all turns are open at the same time, most of the time */

function turns() {
    return points((n) => ({ mode: 'paced', clients: n,
        turns: n, deltas: 40, pace: PACE, ramp: n }));
}


/* the turn waits until its watchers are there */

function watchers() {
    return points((n) => ({ kind: 'watch',
        watchers: n, deltas: 30, pace: PACE, hold: 2000 + n }));
}


async function points(cell) {
    const list = [];

    for (const x of NUMBERS) {
        const point = { x, targets: {} };

        for (const name of RAW.includes(x) ? ['agentstream', 'raw']
                                           : ['agentstream']) {
            const target = new Target(name);

            await target.start();
            await load(target, { clients: 4, turns: 20, deltas: 100 });
            point.targets[name] = summary(await measure(target, cell(x)));
            await target.stop();
        }

        list.push(said(point));
    }

    return list;
}


/* each machine has as many turns of its own; Redis is counted apart */

async function machines() {
    const list = [];

    for (const x of MACHINES) {
        const port = await freePort();
        const redis = launch('redis', BRIDGE, ['redis-server', '--port',
            String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly',
            'no', '--dir', WORK]);

        await listening(port, redis);

        const all = Array.from({ length: x }, (_, i) => new Target(
            `machine-${i + 1}`, { store: `redis://127.0.0.1:${port}/0` }));

        for (const target of all) {
            await target.start();
            await load(target, { clients: 4, turns: 20, deltas: 100 });
        }

        const before = cpuOf([redis.pid]);
        const results = await Promise.all(all.map((target) => measure(target,
            { mode: 'paced', clients: PER_MACHINE, turns: PER_MACHINE,
              deltas: 40, pace: PACE, ramp: 1000 })));
        const cpu = cpuOf([redis.pid]) - before;

        for (const process of [...all, { stop: () => end(redis) }]) {
            await process.stop();
        }

        list.push(said({ x, targets: together(results, cpu) }));
    }

    return list;
}


/* machines' results as one: the worst latency counts */

function together(results, cpu) {
    const sum = (get) => results.reduce((n, result) => n + get(result), 0);
    const worst = (key) => Math.max(...results.map((result) => result[key]));
    const events = sum((r) => r.events), bytes = sum((r) => r.bytes);

    return {
        agentstream: summary({ events, bytes,
            cpu_us: sum((r) => r.cpu_us * r.events) / events,
            p50_ms: worst('p50_ms'), p99_ms: worst('p99_ms'),
            failed: sum((r) => r.failed),
            failure: results.find((r) => r.failed)?.failure }),
        redis: summary({ events, bytes, cpu_us: cpu / events, failed: 0 }),
    };
}


function summary({ cpu_us, events, bytes, p50_ms, p99_ms, failed, failure }) {
    return { cpu_us, cpu: cpu_us * events, events, bytes, p50_ms, p99_ms,
             failed, failure };
}


function said(point) {
    process.stderr.write(`${point.x}: ${Object.entries(point.targets)
        .map(([name, t]) => `${name} ${t.cpu_us.toFixed(2)} µs`
            + (t.p99_ms ? `, p99 ${t.p99_ms.toFixed(1)} ms` : '')
            + (t.failed ? ` FAILED ${t.failed}: ${t.failure}` : ''))
        .join('; ')}\n`);

    return point;
}


async function main() {
    setNice(options.nice);
    options.realtime = setRealtime();
    compile();

    try {
        execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
    } catch {
        fail('no redis-server: try "apt-get install redis-server", '
             + 'or --axes=turns,watchers');
    }

    const result = { machine: machine(options), axes: [] };

    for (const name of options.axes) {
        const { title, x, measure } = AXES[name] ?? fail(`no axis ${name}`);

        process.stderr.write(`${title}\n`);
        result.axes.push({ title, x, points: await measure() });
        fs.writeFileSync(path.join(WORK, 'growth.json'),
                         JSON.stringify(result, null, 1) + '\n');
    }

    console.log(aligned(growth(result.axes)));

    if (options.docs) {
        writeGrowth(result);
    }

    process.exitCode = result.axes.some(({ points }) => points.some((point) =>
        Object.values(point.targets).some((t) => t.failed))) ? 1 : 0;
}


main().catch((e) => fail(e.stack));
