#!/usr/bin/env node
// The compressed soak: streams that are open as long as others are in a day.
//
//   bench/soak.mjs [--packets=86400] [--turns=5000] [--ticks=30000] [--kb=32]
//              [--only=long,follow,keepalive,heartbeat]
//
//   long       one turn of so many packets, a millisecond apart: each is a
//              write of its own, as it is when they come once a second
//   follow     one GET …/events?follow=1 across so many turns of its session,
//              which two workers run
//   keepalive  a turn that says nothing for so many milliseconds, a comment
//              after each
//   heartbeat  the same with heartbeat packets
//
// Each has an nginx of its own.  After a tenth of it, its workers' memory must
// not grow any more: exit code 1 when it has grown by kb kilobytes or more, or
// when a packet is missing.

import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { Server, allowedCpus, compile, fail, parseOptions, runClient, sleep }
    from './common.mjs';

const options = parseOptions(process.argv.slice(2), { packets: 86400,
    turns: 5000, ticks: 30000, kb: 32,
    only: ['long', 'follow', 'keepalive', 'heartbeat'] });
const cpus = allowedCpus().join();


class Soak extends Server {

    constructor(test) {
        super(`soak-${test}`, cpus, cpus);
        this.test = test;
        this.samples = [];
    }

    async start() {
        await super.start();

        /* what bursts need is there from now on; more of them would leave
           free memory behind, in which growth is not seen */

        await runClient(`${this.name}-warm`, cpus, { timeout: 60,
            url: `${this.url}/sessions`, clients: 1, turns: 2, deltas: 400,
            prompt: 'bench deltas=400' });
    }

    conf() {
        return {
            workers: this.test === 'follow' ? 2 : 1,
            connections: 512,
            listen: 'reuseport',
            http: `keepalive_requests 1000000;
    agentstream_zone 4m;`,
            location: `agentstream_turn_timeout 24h;
            agentstream_turn_size 1m;
            agentstream_keepalive ${this.test === 'keepalive' ? '1ms' : '15s'};
            agentstream_heartbeat ${this.test === 'heartbeat' ? '1ms' : '60s'};`,
        };
    }

    /* done: how much of it, from 0 to 1 */

    sample(done) {
        const text = this.pids.map((pid) =>
            fs.readFileSync(`/proc/${pid}/status`, 'utf8')).join('');
        const sum = (name) => [...text.matchAll(name)]
            .reduce((n, [, kb]) => n + Number(kb), 0);

        this.samples.push({ done, rss: sum(/RssAnon:\s+(\d+)/g),
                            data: sum(/VmData:\s+(\d+)/g) });
    }

    async run() {
        const result = await this[this.test]();
        const warm = this.samples.filter(({ done }) => done >= 0.1);

        if (warm.length < 5) {
            fail(`${this.test}: looked ${warm.length} times only`);
        }

        return { name: this.test, ...result, samples: warm.length,
            kb: warm[0].rss, growth: warm.at(-1).rss - warm[0].rss,
            data: warm.at(-1).data - warm[0].data, log: this.log() };
    }

    /* the last bit is left out: the whole text comes again when it ends */

    async long() {
        const { packets } = options;

        const result = await runClient('soak-long-client', cpus, {
            url: `${this.url}/sessions`, clients: 1, turns: 1, deltas: packets,
            prompt: `bench deltas=${packets} pace=1`,
            timeout: packets / 1000 + 120 }, () => this.watch(packets));

        return { count: result.events, wrong: result.failed
                 ? `a turn is wrong: ${result.failure}` : '' };
    }

    async watch(ms) {
        const since = Date.now();

        for (;;) {
            const done = (Date.now() - since) / ms;

            if (done > 0.9) {
                return;
            }

            this.sample(done);
            await sleep(ms / 100);
        }
    }

    async follow() {
        const session = 'ses_000000000001SoakFollow0000';
        const agent = new http.Agent();
        const reader = new Reader();
        const follower = http.get(
            `${this.url}/sessions/${session}/events?follow=1`,
            (response) => response.on('data', (text) => reader.read(text)));

        follower.on('error', (e) => { reader.wrong ||= String(e); });

        for (let n = 0; n < options.turns; n++) {
            await this.turn(session, agent);

            if (n % Math.ceil(options.turns / 100) === 0) {
                this.sample(n / options.turns);
            }
        }

        for (let i = 0; i < 100 && reader.turns < options.turns; i++) {
            await sleep(50);
        }

        this.sample(1);
        follower.destroy();
        agent.destroy();

        if (reader.turns !== options.turns) {
            reader.wrong ||= `${reader.turns} of ${options.turns} turns came`;
        }

        return { count: reader.packets, wrong: reader.wrong };
    }

    /* one small turn; what comes is read and not looked at */

    turn(session, agent) {
        return new Promise((resolve, reject) => {
            http.request(`${this.url}/sessions/${session}/send-message`, {
                method: 'POST', agent,
                headers: { 'Content-Type': 'application/json' },
            }, (response) => {
                response.resume();
                response.on('end', resolve);
            }).on('error', reject)
                .end('{"content":"bench deltas=3"}');
        });
    }

    keepalive() {
        return this.silent((reader) => reader.comments);
    }

    heartbeat() {
        return this.silent((reader) => reader.types.heartbeat ?? 0);
    }

    async silent(count) {
        const { ticks } = options;
        const reader = new Reader();

        const ended = new Promise((resolve, reject) => {
            http.request(`${this.url}/sessions/ses_000000000001SoakSilent00`
                         + '/send-message', { method: 'POST',
                headers: { 'Content-Type': 'application/json' },
            }, (response) => {
                response.on('data', (text) => reader.read(text));
                response.on('end', resolve);
            }).on('error', reject)
                .end(`{"content":"bench deltas=3 hold=${ticks}"}`);
        });

        await this.watch(ticks);
        await ended;

        /* a loaded machine skips some */

        const n = count(reader);

        return { count: n, wrong: reader.wrong || (reader.turns !== 1
                 ? 'the turn has no end' : n < ticks / 20
                 ? `only ${n} of ${ticks}` : '') };
    }
}


/* counts packets and turns of a stream, and sees that nothing is missing */

class Reader {

    constructor() {
        Object.assign(this, { text: '', turn: '', seq: 0, over: true, turns: 0,
                              packets: 0, comments: 0, wrong: '', types: {} });
    }

    read(text) {
        const lines = (this.text + text).split('\n');

        this.text = lines.pop();

        for (const line of lines) {
            if (line[0] === ':') {
                this.comments++;

            } else if (line.startsWith('id: ')) {
                this.id(line.slice(4).split(':'));

            } else if (line.startsWith('data: ')) {
                this.data(/^data: \{"type":"(\w+)"/.exec(line)?.[1]);
            }
        }
    }

    id([turn, seq]) {
        if (turn !== this.turn) {
            if (!this.over) {
                this.wrong ||= `turn ${this.turn} has no end`;
            }

            Object.assign(this, { turn, seq: 0, over: false });
        }

        if (Number(seq) !== ++this.seq) {
            this.wrong ||= `${turn}:${seq} after ${this.seq - 1}`;
        }
    }

    data(type) {
        this.packets++;
        this.types[type] = (this.types[type] ?? 0) + 1;

        if (type === 'prompt_response') {
            this.turns++;
            this.over = true;

        } else if (type === 'error' || type === undefined) {
            this.wrong ||= `packet ${type}`;
        }
    }
}


function misses(r) {
    const list = [];

    if (r.wrong) {
        list.push(r.wrong);
    }

    if (r.growth >= options.kb) {
        list.push(`grew by ${r.growth} KB, not under ${options.kb}`);
    }

    if (r.log.length) {
        list.push(`in the log: ${r.log[0]} (${r.log.length} in all)`);
    }

    return list.map((text) => `${r.name}: ${text}`);
}


async function main() {
    compile();

    /* side by side: none of them needs much of a processor */

    const results = await Promise.all(options.only.map(async (name) => {
        const soak = new Soak(name);

        await soak.start();
        const result = await soak.run();
        await soak.stop();

        return result;
    }));

    const missed = results.flatMap(misses);

    for (const r of results) {
        console.log(`${r.name.padEnd(10)} ${String(r.count).padStart(7)} `
            + `${r.name === 'keepalive' ? 'comments' : 'packets'}: `
            + `${r.kb} KB after a tenth of it, then ${r.growth} more `
            + `(of heap: ${r.data}), looked ${r.samples} times`);
    }

    console.log(missed.length ? missed.join('\n') : 'nothing grows');
    process.exitCode = missed.length ? 1 : 0;
}


main().catch((e) => fail(e.stack));
