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
import path from 'node:path';
import { ROOT, WORK, compile, fail, parseOptions, setNice, setRealtime }
    from './common.mjs';
import { aligned, bar, machine, table, writeCells } from './report.mjs';
import { Target, load, measure } from './target.mjs';

const options = parseOptions(process.argv.slice(2), { quick: false, docs: false,
    merge: false, reps: 0, nice: 0, cells: /./,
    targets: ['agentstream', 'ai-sdk', 'ag-ui', 'raw', 'hub', 'naive',
              'write'] });

options.reps ||= options.quick ? 1 : 3;


/* Cells */

/* ms; half of them later than this: the turns were not paced any more */
const LATE = 15;

/* a tool call: bytes of its output, states in which it grows */
const SIZES = {
    small: { tool: 200, snapshots: 2 },
    large: { tool: 30000, snapshots: 20 },
    short: { tool: 512, snapshots: 1 },     /* four states in all */
    output: { tool: 30000, snapshots: 5 },  /* eight */
};

const PROTOCOLS = ['ai-sdk', 'ag-ui'];
const ALL = ['agentstream', 'raw', 'hub', 'naive'];
const FAST = ['agentstream', 'raw', 'hub'];
const PACED = ['agentstream', 'raw', 'hub', 'write'];

function cells(quick) {
    const list = [];

    const add = (mode, clients, size, more) => list.push({
        name: `${mode}-${clients}-${size}`, mode, clients, size,
        ...SIZES[size], ...more });

    for (const size of ['small', 'large']) {
        add('flood', 1, size, { turns: quick ? 60 : 150, deltas: 400,
                                targets: ALL, quick: true });
        add('flood', 100, size, { turns: 200, deltas: 400,
                                  targets: size === 'large' ? FAST
                                      : [...quick ? FAST : ALL, ...PROTOCOLS],
                                  quick: size === 'small' });
        add('flood', 1000, size, { turns: 1000, deltas: 100, targets: FAST,
                                   quick: size === 'small' });
    }

    /* turns that are short, the turns of a client in one session: what a turn
       costs by itself */

    for (const size of ['short', 'output']) {
        add('flood', 1, size, { turns: quick ? 200 : 500, deltas: 100,
                                talk: 1, targets: FAST, quick: true });
    }

    add('flood', 1, 'empty', { turns: quick ? 300 : 1000, deltas: 0,
                               talk: 1, targets: FAST, quick: true });

    /* the same, each turn the first one of its session */

    add('flood', 1, 'first', { turns: quick ? 300 : 1000, deltas: 0,
                               targets: FAST, quick: true });
    add('flood', 1, 'first-short', { turns: quick ? 200 : 500, deltas: 100,
                                     ...SIZES.short, targets: FAST });

    add('paced', 1000, 'short', { turns: quick ? 2000 : 3000, deltas: 30,
                                  pace: 33, ramp: 1000, talk: 1, quick: true,
                                  targets: quick ? FAST : PACED });

    for (const size of ['small', 'large']) {
        add('paced', 1, size, { turns: 1, deltas: 100, pace: 33,
                                targets: ALL });
        add('paced', 100, size, { turns: 100, deltas: 100, pace: 33,
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
                turns: 200, deltas: 400, ...SIZES.small, slow: 10, rate: 40000,
                targets: FAST, size: 'slow' });
    list.push({ name: 'watch-1000', kind: 'watch', watchers: 1000,
                deltas: 1000, targets: ['agentstream'], quick: true });
    list.push({ name: 'watch-1000-paced', kind: 'watch', watchers: 1000,
                deltas: 100, pace: 33, targets: PACED });
    list.push({ name: 'resume-100', kind: 'resume', mode: 'paced',
                clients: 100, turns: 100, deltas: 100, pace: 33, ramp: 500,
                ...SIZES.small, cut: 40, targets: ['agentstream'], size: 'resume' });

    return list.filter((cell) => (!quick || cell.quick)
        && options.cells.test(cell.name))
        .map((cell) => ({ ...cell, targets: cell.targets.filter(
            (target) => options.targets.includes(target)) }));
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
    const reps = cell.kind || cell.clients <= 100 && cell.mode === 'paced'
        ? Math.min(2, options.reps) : options.reps;

    for (let rep = 0; rep < reps; rep++) {
        for (const name of cell.targets) {
            if (name === 'naive' && rep > 0) {
                continue;
            }

            let target = targets.get(name);

            if (cell.kind === 'idle' || cell.kind === 'watch') {
                /* memory that earlier turns left must not hide its need */
                target = new Target(name, { watched: cell.kind === 'watch' });
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
    const result = { machine: machine(options), cells: old };

    for (const name of names) {
        const target = new Target(name);

        await target.start();
        await load(target, { clients: 4, turns: 60, deltas: 200,
                             ...SIZES.small });
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
            .map(([name, t]) => `${name} `
                + (t.cpu_us ?? t.kb_stream)?.toFixed(2)
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
        writeCells(result);
    }

    const failed = result.cells.some((cell) =>
        Object.values(cell.targets).some((target) => target.failed));

    process.exitCode = failed ? 1 : 0;
}


main().catch((e) => fail(e.stack));
