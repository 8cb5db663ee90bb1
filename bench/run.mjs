#!/usr/bin/env node
// The benchmark: the same turns through the module and through other programs
// that could serve them, in one run.
//
//   bench/run.mjs [--quick] [--reps=N] [--cells=REGEXP] [--targets=a,b] [--docs]
//             [--nice=N] [--merge]
//
// Each target has a fake OpenCode of its own.  Targets run on the last core,
// the fakes and the load client on the first.  Per cell the targets take turns
// (a repetition of each, then the next one), and the median counts.  The result
// is a table, build/bench/result.json, and with --docs the tables and the plot
// of docs/performance.md.  On a machine that others use, --nice=-10 (as root)
// keeps paced turns paced: when a bridge is starved, packets pile up and are
// sent together, which makes all of them look cheaper.  Such cells are marked
// "late".  --merge keeps the other cells of the last result.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { ROOT, Server, WORK, allowedCpus, compile, cpuOf, fail, get, memoryOf,
    nginx, parseOptions, post, runClient, setNice, setRealtime, sleep }
    from './common.mjs';

const options = parseOptions(process.argv.slice(2), { quick: false, docs: false,
    merge: false, reps: 0, nice: 0, cells: /./,
    targets: ['agentstream', 'raw', 'hub', 'naive', 'write'] });
const cpus = allowedCpus();
const HARNESS = cpus[0], BRIDGE = cpus.at(-1);

options.reps ||= options.quick ? 1 : 3;


/* Cells */

/* ms; half of them later than this: the turns were not paced any more */
const LATE = 15;

const SMALL = { tool: 200, snapshots: 2 };
const LARGE = { tool: 30000, snapshots: 20 };
const ALL = ['agentstream', 'raw', 'hub', 'naive'];
const FAST = ['agentstream', 'raw', 'hub'];
const PACED = ['agentstream', 'raw', 'hub', 'write'];

function cells(quick) {
    const list = [];

    const add = (mode, clients, size, more) => list.push({
        name: `${mode}-${clients}-${size}`, mode, clients, size,
        ...(size === 'large' ? LARGE : SMALL), ...more });

    for (const size of ['small', 'large']) {
        add('flood', 1, size, { turns: quick ? 60 : 150, deltas: 400,
                                targets: ALL, quick: true });
        add('flood', 100, size, { turns: 200, deltas: 400,
                                  targets: size === 'small' && !quick ? ALL
                                                                      : FAST,
                                  quick: size === 'small' });
        add('flood', 1000, size, { turns: 1000, deltas: 100, targets: FAST,
                                   quick: size === 'small' });
    }

    for (const size of ['small', 'large']) {
        add('paced', 1, size, { turns: 1, deltas: 150, pace: 33,
                                targets: ALL });
        add('paced', 100, size, { turns: 100, deltas: 150, pace: 33,
                                  ramp: 1000, targets: PACED });
        add('paced', 1000, size, { turns: 1000, deltas: quick ? 60 : 150,
                                   pace: 33, ramp: 1000, targets: PACED,
                                   quick: size === 'small' });
    }

    list.push({ name: 'idle-1000', kind: 'idle', clients: 1000,
                targets: FAST, quick: true });
    list.push({ name: 'foreign', kind: 'foreign', quick: true,
                deltas: 200000, targets: ['agentstream', 'hub'] });
    list.push({ name: 'slow-10-of-100', mode: 'flood', clients: 100,
                turns: 200, deltas: 400, ...SMALL, slow: 10, rate: 40000,
                targets: FAST, size: 'slow' });
    list.push({ name: 'watch-1000', kind: 'watch', watchers: 1000,
                deltas: 1000, targets: ['agentstream'], quick: true });
    list.push({ name: 'watch-1000-paced', kind: 'watch', watchers: 1000,
                deltas: 100, pace: 33, targets: ['agentstream'] });
    list.push({ name: 'resume-100', kind: 'resume', mode: 'paced',
                clients: 100, turns: 100, deltas: 100, pace: 33, ramp: 500,
                ...SMALL, cut: 40, targets: ['agentstream'], size: 'resume' });

    return list.filter((cell) => (!quick || cell.quick)
        && options.cells.test(cell.name))
        .map((cell) => ({ ...cell, targets: cell.targets.filter(
            (target) => options.targets.includes(target)) }));
}


/* Targets */

class Target extends Server {

    constructor(name) {
        super(name, HARNESS, BRIDGE);
        this.nginx = name === 'agentstream' || name === 'raw';
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
                String(this.port), `http://127.0.0.1:${this.upstream}`];

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
            connections: 8192,
            level: 'warn',
            listen: 'backlog=4096',
            keepalive: 64,
            main: 'worker_rlimit_nofile 16384;',
            http: `keepalive_requests 1000000;
    ${raw ? '' : 'agentstream_zone 512m retain=5s;'}`,
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
        .filter((name) => cell[name])
        .reduce((text, name) => `${text} ${name}=${cell[name]}`, 'bench');
}


/* -> the client's result; held() is called when all streams have begun */

function load(target, cell, held) {
    const args = ['clients', 'turns', 'deltas', 'tool', 'ramp', 'slow', 'rate',
                  'cut', 'watchers'].filter((name) => cell[name]);

    return runClient(`${target.name}-client`, HARNESS, {
        url: target.sessions,
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
        turns_s: result.turns / result.seconds,
        events: result.events,
        mb: result.bytes / 1e6,
        p50_ms: result.p50 / 1000,
        p99_ms: result.p99 / 1000,
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
    if (!await hasEvents(target)) {
        return { skipped: 'no GET /sessions/{id}/events' };
    }

    const before = target.memory();
    let cpu, held;

    const result = await load(target, { ...cell, clients: 1, turns: 1,
        hold: 3000 }, async () => {
            await sleep(300);
            held = target.memory();
            cpu = target.cpu();
        });

    await sleep(30);
    cpu = target.cpu() - cpu;

    return { cpu_us: cpu / (cell.deltas * (cell.watchers + 1)),
             events: result.events, p50_ms: result.p50 / 1000,
             p99_ms: result.p99 / 1000,
             kb_stream: (held.anon - before.anon) / cell.watchers,
             fds_stream: (held.fds - before.fds) / cell.watchers,
             failed: result.failed, failure: result.failure };
}


async function hasEvents(target) {
    const status = await new Promise((resolve, reject) => {
        http.get(`${target.url}/sessions/ses_nobody00/events`, (response) => {
            response.destroy();
            resolve(response.statusCode);
        }).on('error', reject);
    });

    return status < 300;
}


async function measure(target, cell) {
    switch (cell.kind) {

    case 'idle':
        return measureIdle(target, cell);

    case 'foreign':
        return measureForeign(target, cell);

    case 'watch':
        return measureWatch(target, cell);

    case 'resume':
        if (!await hasEvents(target)) {
            return { skipped: 'no GET /sessions/{id}/events' };
        }

        return measureLoad(target, cell);

    default:
        return measureLoad(target, cell);
    }
}


function median(values) {
    const sorted = values.filter((n) => Number.isFinite(n))
        .sort((a, b) => a - b);

    return sorted.length ? (sorted[(sorted.length - 1) >> 1]
                            + sorted[sorted.length >> 1]) / 2 : undefined;
}


function summary(samples) {
    const out = { reps: samples.length };

    for (const name of Object.keys(samples[0])) {
        const values = samples.map((sample) => sample[name]);

        out[name] = typeof values[0] === 'number' ? median(values)
                                                  : values.find(Boolean);
    }

    out.failed = samples.reduce((n, sample) => n + (sample.failed ?? 0), 0);

    return out;
}


/* per cell: target -> summary, and the ratios to raw and to the best Node */

async function runCell(cell, targets) {
    const samples = new Map(cell.targets.map((name) => [name, []]));
    const reps = cell.kind || cell.clients === 1 && cell.mode === 'paced'
        ? Math.min(2, options.reps) : options.reps;

    for (let rep = 0; rep < reps; rep++) {
        for (const name of cell.targets) {
            if (name === 'naive' && rep > 0) {
                continue;
            }

            let target = targets.get(name);

            if (cell.kind === 'idle' || cell.kind === 'watch') {
                /* memory that earlier turns left must not hide its need */
                target = new Target(name);
                await target.start();
                await load(target, { clients: 1, turns: 3, deltas: 10 });

            } else {
                target.freeze(false);
            }

            /* a subscription per turn is quadratic: shorter turns will do */
            const mine = name === 'naive' && cell.clients > 1
                ? { ...cell, turns: cell.clients, deltas: 100 } : cell;

            samples.get(name).push(await measure(target, mine));

            if (target !== targets.get(name)) {
                await target.stop();

            } else {
                target.freeze(true);
            }
        }
    }

    const late = (target) => cell.mode === 'paced' && target.p50_ms > LATE;

    const result = { name: cell.name, mode: cell.mode, clients: cell.clients,
                     size: cell.size, targets: {} };

    for (const [name, list] of samples) {
        result.targets[name] = summary(list);
        result.targets[name].late = late(result.targets[name]) || undefined;
    }

    const cpu = (name) => result.targets[name]?.cpu_us;
    const node = Math.min(...['hub', 'naive'].map(cpu).filter(Boolean));

    for (const [name, target] of Object.entries(result.targets)) {
        if (target.cpu_us && cpu('raw')) {
            target.to_raw = target.cpu_us / cpu('raw');
        }

        if (target.cpu_us && Number.isFinite(node)) {
            target.to_node = node / target.cpu_us;
        }
    }

    return result;
}


/* Output */

const COLUMNS = [
    ['CPU µs/event', 'cpu_us', 2], ['× raw', 'to_raw', 2],
    ['× cheaper than Node', 'to_node', 1], ['turns/s', 'turns_s', 0],
    ['p50 ms', 'p50_ms', 2], ['p99 ms', 'p99_ms', 1],
    ['first p99 ms', 'first99_ms', 1], ['core used', 'load', 2],
    ['KB/stream', 'kb_stream', 1], ['zone KB/stream', 'kb_shared', 1],
    ['fds/stream', 'fds_stream', 2], ['idle µs/s', 'idle_us_s', 0],
];

function table(results) {
    const used = COLUMNS.filter(([, key]) => results.some((cell) =>
        Object.values(cell.targets).some((t) => t[key] !== undefined)));
    const rows = [['cell', 'target', ...used.map(([title]) => title)]];

    for (const cell of results) {
        for (const [name, target] of Object.entries(cell.targets)) {
            rows.push([cell.name, name + (target.failed ? ' (FAILED)' : '')
                + (target.late ? ' (late)' : ''),
                ...used.map(([, key, digits], i) => target.skipped
                    ? (i ? '' : `skipped: ${target.skipped}`)
                    : target[key]?.toFixed(digits) ?? '')]);
        }
    }

    return rows;
}


function aligned(rows) {
    const widths = rows[0].map((_, i) => Math.max(...rows.map((row) =>
        /^skipped/.test(row[i]) ? 0 : row[i].length)));

    return rows.map((row) => row.map((text, i) =>
        i < 2 ? text.padEnd(widths[i]) : text.padStart(widths[i])).join('  '))
        .join('\n');
}


function markdown(rows) {
    const line = (row) => `| ${row.join(' | ')} |`;

    return [line(rows[0]), line(rows[0].map((_, i) => i < 2 ? '---' : '--:')),
            ...rows.slice(1).map(line)].join('\n');
}


/* issue 7's bar; memory and growth included */

function bar(results) {
    const cell = (name) => results.find((r) => r.name === name)
        ?.targets.agentstream;
    const checks = [];

    const add = (what, value, op, limit) => {
        if (Number.isFinite(value)) {
            checks.push([what, value.toFixed(2), `${op} ${limit}`,
                (op === '≤' ? value <= limit : value >= limit) ? 'yes' : 'NO']);
        }
    };

    add('paced-1000-small × raw', cell('paced-1000-small')?.to_raw, '≤', 1.0);
    add('flood-1-small × raw', cell('flood-1-small')?.to_raw, '≤', 2.2);
    add('flood-1-large × raw', cell('flood-1-large')?.to_raw, '≤', 3.0);

    for (const [name, limit] of [['paced-1000-small', 2.4],
        ['flood-1-small', 5], ['flood-1-large', 4], ['flood-100-small', 5],
        ['flood-1000-small', 3.5]])
    {
        add(`${name} × cheaper than Node`, cell(name)?.to_node, '≥', limit);
    }

    add('KB per idle stream', cell('watch-1000')?.kb_stream, '≤', 10);
    add('KB per idle turn with its stream', cell('idle-1000')?.kb_stream, '≤',
        20);
    add('descriptors per stream', cell('idle-1000')?.fds_stream, '≤', 1.1);
    add('paced CPU/event, 1000 turns to 100',
        cell('paced-1000-small')?.cpu_us / cell('paced-100-small')?.cpu_us,
        '≤', 1.3);
    add('event of nobody, µs', cell('foreign')?.cpu_us, '≤', 0.3);
    add('event to a watcher, µs', cell('watch-1000')?.cpu_us, '≤', 2.5);
    add('first packet p99 at 1000 paced turns, ms',
        cell('paced-1000-small')?.first99_ms, '≤', 5);

    return [['bar', 'measured', 'wanted', 'met'], ...checks];
}


function machine() {
    const version = execFileSync('sh', ['-c', `"${nginx()}" -v 2>&1`],
        { encoding: 'utf8' }).replace(/.*nginx\//, '').trim();

    return { date: new Date().toISOString().slice(0, 10),
             cpu: os.cpus()[0].model.trim(), cores: os.cpus().length,
             kernel: os.release().replace(/-.*/, ''), nginx: version,
             node: process.versions.node, reps: options.reps,
             load: os.loadavg()[0].toFixed(1),
             harness: options.realtime ? ', fake and client in real time' : '' };
}


function writeDocs(result) {
    const file = path.join(ROOT, 'docs', 'performance.md');
    const text = fs.readFileSync(file, 'utf8');
    const m = result.machine;
    const part = `<!-- results: written by bench/run.mjs --docs -->

Measured on ${m.date}: ${m.cpu}, ${m.cores} cores, Linux ${m.kernel}, nginx
${m.nginx}, Node ${m.node}; medians of ${m.reps} interleaved repetitions; load
average ${m.load}${m.harness}.

${markdown(bar(result.cells))}

![CPU per event against the number of turns](performance.svg)

${markdown(table(result.cells))}

<!-- end of results -->`;

    fs.writeFileSync(file, text.replace(
        /<!-- results[^]*<!-- end of results -->/, () => part));
}


/* compiles the two programs and installs the SDK for the naive peer */

function prepare() {
    setNice(options.nice);
    options.realtime = setRealtime();
    compile();

    fs.rmSync(path.join(WORK, 'peers'), { recursive: true, force: true });
    fs.cpSync(path.join(ROOT, 'bench', 'peers'), path.join(WORK, 'peers'),
              { recursive: true });

    if (options.targets.includes('naive')
        && !fs.existsSync(path.join(WORK, 'node_modules/@opencode-ai/sdk')))
    {
        fs.copyFileSync(path.join(ROOT, 'bench/package.json'),
                        path.join(WORK, 'package.json'));

        try {
            execFileSync('npm', ['install', '--ignore-scripts', '--no-audit',
                '--no-fund', '--no-package-lock', '--no-update-notifier'],
                { cwd: WORK, stdio: 'ignore', timeout: 120000 });
        } catch {
            console.error('bench: npm could not install @opencode-ai/sdk, '
                          + 'the naive peer is left out');
            options.targets = options.targets.filter((n) => n !== 'naive');
        }
    }
}


async function main() {
    prepare();

    const list = cells(options.quick);
    const names = [...new Set(list.flatMap((cell) => cell.targets))];
    const targets = new Map();
    const file = path.join(WORK, 'result.json');
    const old = options.merge && fs.existsSync(file)
        ? JSON.parse(fs.readFileSync(file, 'utf8')).cells : [];
    const result = { machine: machine(), cells: old };

    for (const name of names) {
        const target = new Target(name);

        await target.start();
        await load(target, { clients: 4, turns: 60, deltas: 200, ...SMALL });
        target.freeze(true);
        targets.set(name, target);
    }

    for (const cell of list) {
        const began = Date.now();
        const one = await runCell(cell, targets);

        const known = result.cells.findIndex((r) => r.name === one.name);

        result.cells.splice(known < 0 ? result.cells.length : known,
                            known < 0 ? 0 : 1, one);
        fs.writeFileSync(file, JSON.stringify(result, null, 1) + '\n');
        process.stderr.write(`${cell.name}: ${Object.entries(one.targets)
            .map(([name, t]) => `${name} ${t.skipped ? 'skipped'
                : (t.cpu_us ?? t.kb_stream)?.toFixed(2)}`
                + (t.failed ? ` FAILED ${t.failed}: ${t.failure}` : ''))
            .join(', ')} (${((Date.now() - began) / 1000).toFixed(1)} s)\n`);
    }

    for (const target of targets.values()) {
        await target.stop();
    }

    console.log(aligned(table(result.cells)));
    console.log();
    console.log(aligned(bar(result.cells)));

    if (options.docs) {
        writeDocs(result);
        execFileSync(process.execPath, [path.join(ROOT, 'bench/plot.mjs'),
            path.join(WORK, 'result.json'),
            path.join(ROOT, 'docs/performance.svg')]);
    }

    const failed = result.cells.some((cell) =>
        Object.values(cell.targets).some((target) => target.failed));

    process.exitCode = failed ? 1 : 0;
}


main().catch((e) => fail(e.stack));
