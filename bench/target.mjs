/*
 * The programs that the benchmark measures, each with a fake OpenCode of its
 * own, and what is measured of them.  Targets run on the last core, the fakes
 * and the load client on the first.
 */

import path from 'node:path';
import { Server, WORK, allowedCpus, cpuOf, get, memoryOf, post, runClient, sleep }
    from './common.mjs';

const cpus = allowedCpus();

export const HARNESS = cpus[0];
export const BRIDGE = cpus.at(-1);


/* Targets */

export class Target extends Server {

    /* watched: others read its turns, too; store: the address of Redis;
       upstream: the port of an OpenCode that runs already */

    constructor(name, { watched = false, store = '', upstream } = {}) {
        super(name, HARNESS, BRIDGE, upstream);
        this.protocol = ['ai-sdk', 'ag-ui'].find((p) => p === name);
        this.nginx = !['hub', 'naive', 'write'].includes(name);
        this.watched = watched;
        this.store = store;
    }

    command() {
        switch (this.name) {

        case 'write':
            /* the fake again, where the others have their bridge */
            return [path.join(WORK, 'opencode'), String(this.port)];

        case 'hub':
        case 'naive':
            return [process.execPath,
                path.join(WORK, 'peers', `${this.name}.mjs`),
                String(this.port), `http://127.0.0.1:${this.upstream}`,
                ...this.watched ? ['watched'] : []];

        default:
            return super.command();
        }
    }

    get pids() {
        return this.nginx ? super.pids : [this.process.pid];
    }

    get sessions() {
        return `${this.url}/${this.name === 'write' ? 'raw' : 'sessions'}`;
    }

    conf() {
        const raw = this.name === 'raw';

        return {
            connections: 16384,
            level: 'warn',
            listen: 'backlog=4096',
            keepalive: 64,
            main: 'worker_rlimit_nofile 20000;',
            http: `keepalive_requests 1000000;
    ${raw ? '' : 'agentstream_zone 512m retain=5s;'}
    ${this.store && `agentstream_store ${this.store};`}`,
            location: this.protocol
                ? `agentstream_protocol ${this.protocol};` : '',
            locations: raw ? `location /sessions/ {
            proxy_pass http://opencode/raw/;
            proxy_buffering off;
        }` : null,
        };
    }

    cpu() {
        return cpuOf(this.pids);
    }

    memory() {
        return memoryOf(this.pids);
    }
}


/* Measuring */

function prompt(cell) {
    return ['deltas', 'pace', 'tool', 'snapshots', 'hold']
        .filter((name) => cell[name] !== undefined)
        .reduce((text, name) => `${text} ${name}=${cell[name]}`, 'bench');
}


/* -> the client's result; held() is called when all streams have begun */

export function load(target, cell, held) {
    const args = ['clients', 'turns', 'deltas', 'tool', 'ramp', 'slow', 'rate',
                  'cut', 'watchers', 'talk'].filter((name) => cell[name]
                                                      !== undefined);

    return runClient(`${target.name}-client`, HARNESS, {
        url: target.sessions, protocol: target.protocol ?? 'packets',
        timeout: 120, prompt: prompt(cell),
        ...Object.fromEntries(args.map((name) => [name, cell[name]])) }, held);
}


async function measureLoad(target, cell) {
    const before = target.cpu();
    const result = await load(target, cell);

    await sleep(30);

    const cpu = target.cpu() - before;

    return {
        cpu_us: cpu / result.events,
        turn_us: cpu / result.turns,
        turns_s: result.turns / result.seconds,
        events: result.events,
        bytes: result.bytes,
        ...cell.deltas && { p50_ms: result.p50 / 1000,
                            p99_ms: result.p99 / 1000 },
        first99_ms: result.first99 / 1000,
        load: cpu / 1e6 / result.seconds,
        failed: result.failed,
        failure: result.failure,
    };
}


/* streams that wait: what they cost while nothing comes */

async function measureIdle(target, cell) {
    const before = target.memory();
    let held, cpu;

    const result = await load(target, { ...cell, turns: cell.clients,
        deltas: 2, hold: 4000, ramp: 500 }, async () => {
            await sleep(500);
            held = target.memory();
            cpu = target.cpu();
            await sleep(1500);
            cpu = target.cpu() - cpu;
        });

    return {
        kb_stream: (held.anon - before.anon) / cell.clients,
        kb_shared: (held.shared - before.shared) / cell.clients,
        fds_stream: (held.fds - before.fds) / cell.clients,
        idle_us_s: cpu / 1.5,
        failed: result.failed,
        failure: result.failure,
    };
}


/* events of a session that nobody here asked for, while one turn is open */

async function measureForeign(target, cell) {
    let cpu;

    const result = await load(target, { clients: 1, turns: 1, deltas: 2,
        hold: 1500 }, async () => {
            const url = `http://127.0.0.1:${target.upstream}`;

            await sleep(100);
            cpu = target.cpu();
            await post(`${url}/session/ses_foreign0/prompt_async`,
                { parts: [{ type: 'text', text: prompt(cell) }] });

            for (let i = 0; i < 120; i++) {
                await sleep(10);

                if (!(await get(`${url}/session/status`)).includes('foreign'))
                {
                    break;
                }
            }

            await sleep(30);
            cpu = target.cpu() - cpu;
        });

    return { cpu_us: cpu / cell.deltas, events: cell.deltas,
             failed: result.failed, failure: result.failure };
}


/* one turn, many readers: the cost after all of them are there */

async function measureWatch(target, cell) {
    const before = target.memory();
    let cpu, held;

    const result = await load(target, { hold: 3000, ...cell, clients: 1,
        turns: 1 }, async () => {
            await sleep(300);
            held = target.memory();
            cpu = target.cpu();
        });

    await sleep(30);
    cpu = target.cpu() - cpu;

    return { cpu_us: cpu / (cell.deltas * (cell.watchers + 1)),
             events: result.events, bytes: result.bytes, p50_ms: result.p50 / 1000,
             p99_ms: result.p99 / 1000,
             kb_stream: (held.anon - before.anon) / cell.watchers,
             fds_stream: (held.fds - before.fds) / cell.watchers,
             failed: result.failed, failure: result.failure };
}


export async function measure(target, cell) {
    switch (cell.kind) {

    case 'idle':
        return measureIdle(target, cell);

    case 'foreign':
        return measureForeign(target, cell);

    case 'watch':
        return measureWatch(target, cell);

    default:
        return measureLoad(target, cell);
    }
}
