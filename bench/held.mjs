#!/usr/bin/env node
// The held load: many turns that are all open at once, each slow, for a while.
//
//   bench/held.mjs [--turns=2000] [--rate=5] [--seconds=60] [--workers=1,2]
//              [--p50=50] [--p99=50] [--kb=20] [--nice=N] [--together]
//
// Each number of workers is a run of its own, with its own nginx and its own
// fake OpenCode.  The turns come within turns/500 seconds and then stay, all of
// them, for so many seconds, at `rate` packets a second.  The client verifies
// each: sequence, count and digest of its packets, one terminal packet.
//
// A packet's added latency is the time from when the fake OpenCode made its
// delta to when the client had read the packet, everything between included.
// Memory is what the workers have more while all turns are open than before the
// first one, their part of the zone apart.
//
// "waited" is the time that all of them were ready to run and had no processor,
// per second: on a machine that others use it is the latency that is not ours.
// --nice=-10 (as root) keeps it small there.
//
// One worker has the last processor for itself, unless --together; two share
// all processors with the fake and the client.  Exit code 1 when the bar is
// missed: a packet lost, p50 and p99 (ms), kilobytes per turn, a line of warn or
// worse in the error log, a connection left.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Server, WORK, allowedCpus, compile, cpuOf, delayOf, fail, get,
    memoryOf, parseOptions, runClient, setNice, sleep } from './common.mjs';

const RAMP = 500;               /* turns that come per second */
const SPARE = 3;                /* seconds that turns go on after the time */

const options = parseOptions(process.argv.slice(2), { turns: 2000, rate: 5,
    seconds: 60, p50: 50, p99: 50, kb: 20, nice: 0, workers: [1, 2],
    together: false });
const cpus = allowedCpus();


class Held extends Server {

    constructor(workers) {
        const apart = workers === 1 && cpus.length > 1 && !options.together;

        super(`held-${workers}`, apart ? cpus[0] : cpus.join(),
              apart ? cpus.at(-1) : cpus.join());
        this.workers = workers;
        this.ramp = options.turns / RAMP;
        this.deltas = Math.ceil((options.seconds + this.ramp + SPARE)
                                * options.rate);
    }

    /* one packet is about 330 bytes, and blocks of memory are not full */

    conf() {
        const zone = Math.max(32, Math.ceil(options.turns
            * (this.deltas * 700 + 8192) / 1048576));

        return {
            workers: this.workers,
            connections: options.turns + 512,
            listen: 'backlog=4096',
            keepalive: 64,
            main: `worker_rlimit_nofile ${files()};`,
            http: `agentstream_zone ${zone}m;`,
            server: 'location = /status { stub_status; }',
        };
    }

    client(args, held) {
        return runClient('held-client', this.harness, { timeout:
            options.seconds + this.ramp + SPARE + 60,
            url: `${this.url}/sessions`, ...args }, held);
    }

    /* connections of clients, this request apart */

    async active() {
        return Number(/connections: (\d+)/.exec(
            await get(`${this.url}/status`))[1]) - 1;
    }

    async measure() {
        const { turns, rate, seconds } = options;
        let held, cpu, fake, open, waited;

        /* what a worker needs once is not what a turn needs */

        await this.client({ clients: 8, turns: 40, deltas: 10,
                            prompt: 'bench deltas=10' });

        const before = this.memory();

        const result = await this.client({ clients: turns, turns,
            deltas: this.deltas, ramp: this.ramp * 1000,
            prompt: `bench deltas=${this.deltas} pace=${1000 / rate}` },
            async (client) => {
                const since = Date.now();
                const all = [...this.pids, this.fake.pid, client];

                waited = delayOf(all);
                cpu = cpuOf(this.pids);
                fake = cpuOf([this.fake.pid]);

                for (let n = 1; n <= 4; n++) {
                    await sleep(since + seconds * 250 * n - Date.now());
                    held = larger(held, this.memory());
                }

                const took = (Date.now() - since) * 1000;

                waited = (delayOf(all) - waited) / took;
                open = await this.active();
                cpu = (cpuOf(this.pids) - cpu) / took;
                fake = (cpuOf([this.fake.pid]) - fake) / took;
            });

        return { workers: this.workers, open, packets: result.events,
            wrong: result.failed, failure: result.failure,
            p50: result.p50 / 1000, p99: result.p99 / 1000,
            p999: result.p999 / 1000, max: result.max / 1000,
            kb: (held.anon - before.anon) / turns,
            zone: (held.zone - before.zone) / turns,
            fds: (held.fds - before.fds) / turns, cpu, fake, waited,
            client: result.cpu / result.seconds,
            left: await this.left(), log: this.log() };
    }

    /* the zone's pages are counted once, not once per worker */

    memory() {
        const memory = memoryOf(this.pids);

        memory.zone = 0;

        for (const pid of [this.process.pid, ...this.pids]) {
            const text = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');

            memory.zone += Number(/Pss_Shmem:\s+(\d+)/.exec(text)?.[1] ?? 0);
        }

        return memory;
    }

    /* an idle event stream may still be open in each worker */

    async left() {
        let n;

        for (let i = 0; i < 50; i++) {
            n = await this.active();

            if (n <= this.workers) {
                return 0;
            }

            await sleep(100);
        }

        return n - this.workers;
    }
}


function larger(a, b) {
    return a && a.anon > b.anon ? a : b;
}


/* a client each, calls in flight (three each), event streams, eventfds */

function files() {
    return options.turns + 3 * 64 + 512;
}


function checkFiles() {
    const [, hard] = /Max open files\s+\d+\s+(\d+)/.exec(
        fs.readFileSync('/proc/self/limits', 'utf8'));

    if (Number(hard) < files()) {
        fail(`${files()} open files are needed, ${hard} are allowed: `
             + `try "ulimit -n ${files()}"`);
    }
}


const COLUMNS = [
    ['workers', 'workers', 0], ['open turns', 'open', 0],
    ['packets', 'packets', 0], ['wrong turns', 'wrong', 0],
    ['p50 ms', 'p50', 2], ['p99 ms', 'p99', 2], ['p99.9 ms', 'p999', 2],
    ['max ms', 'max', 1], ['KB/turn', 'kb', 1], ['zone KB/turn', 'zone', 1],
    ['fds/turn', 'fds', 2], ['nginx cores', 'cpu', 2],
    ['OpenCode cores', 'fake', 2], ['client cores', 'client', 2],
    ['waited', 'waited', 2],
];

function table(results) {
    const rows = [COLUMNS.map(([title]) => title), ...results.map((result) =>
        COLUMNS.map(([, key, digits]) => result[key].toFixed(digits)))];
    const widths = rows[0].map((_, i) =>
        Math.max(...rows.map((row) => row[i].length)));

    return rows.map((row) => row.map((text, i) =>
        text.padStart(widths[i])).join('  ')).join('\n');
}


/* what is wrong with a result, in words */

function misses(r) {
    const { turns, p50, p99, kb } = options;
    const list = [];

    const miss = (bad, text) => { if (bad) { list.push(text); } };

    miss(r.wrong, `${r.wrong} of ${turns} turns are wrong: ${r.failure}`);
    miss(r.open < turns, `only ${r.open} were open in the end`);
    miss(r.p50 >= p50, `p50 is ${r.p50.toFixed(1)} ms, not under ${p50}`);
    miss(r.p99 >= p99, `p99 is ${r.p99.toFixed(1)} ms, not under ${p99}`);
    miss(r.kb >= kb, `${r.kb.toFixed(1)} KB per turn, not under ${kb}`);
    miss(r.left, `${r.left} connections are left`);
    miss(r.log.length, `in the log: ${r.log[0]} (${r.log.length} in all)`);

    return list.map((text) => `${r.workers} workers: ${text}`);
}


async function main() {
    setNice(options.nice);
    compile();
    checkFiles();

    console.log(`${options.turns} turns, ${options.rate} packets/s each, for `
        + `${options.seconds} s; load average ${os.loadavg()[0].toFixed(1)}, `
        + `${cpus.length} processors`);

    const results = [];

    for (const workers of options.workers) {
        const held = new Held(workers);

        await held.start();
        results.push(await held.measure());
        await held.stop();
    }

    const missed = results.flatMap(misses);

    fs.writeFileSync(path.join(WORK, 'held.json'),
                     JSON.stringify(results, null, 1) + '\n');
    console.log(table(results));
    console.log(missed.length ? missed.join('\n') : 'the bar is met');

    process.exitCode = missed.length ? 1 : 0;
}


main().catch((e) => fail(e.stack));
