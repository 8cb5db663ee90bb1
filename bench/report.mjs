/*
 * The benchmark's results: tables, the bar, docs/performance.md.
 */

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ROOT, nginx } from './common.mjs';
import { plotCells, plotGrowth } from './plot.mjs';


const COLUMNS = [
    ['CPU µs/event', 'cpu_us', 2], ['× raw', 'to_raw', 2],
    ['× cheaper than Node', 'to_node', 1], ['CPU µs/turn', 'turn_us', 0],
    ['turns/s', 'turns_s', 0],
    ['p50 ms', 'p50_ms', 2], ['p99 ms', 'p99_ms', 1],
    ['first p99 ms', 'first99_ms', 1], ['core used', 'load', 2],
    ['KB/stream', 'kb_stream', 1], ['zone KB/stream', 'kb_shared', 1],
    ['fds/stream', 'fds_stream', 2], ['idle µs/s', 'idle_us_s', 0],
];

export function table(results) {
    const used = COLUMNS.filter(([, key]) => results.some((cell) =>
        Object.values(cell.targets).some((t) => t[key] !== undefined)));
    const rows = [['cell', 'target', ...used.map(([title]) => title)]];

    for (const cell of results) {
        for (const [name, target] of Object.entries(cell.targets)) {
            rows.push([cell.name, name + (target.failed ? ' (FAILED)' : '')
                + (target.late ? ' (late)' : ''),
                ...used.map(([, key, digits]) =>
                    target[key]?.toFixed(digits) ?? '')]);
        }
    }

    return rows;
}


export function aligned(rows) {
    const widths = rows[0].map((_, i) =>
        Math.max(...rows.map((row) => row[i].length)));

    return rows.map((row) => row.map((text, i) =>
        i < 2 ? text.padEnd(widths[i]) : text.padStart(widths[i])).join('  '))
        .join('\n');
}


export function markdown(rows) {
    const line = (row) => `| ${row.join(' | ')} |`;

    return [line(rows[0]), line(rows[0].map((_, i) => i < 2 ? '---' : '--:')),
            ...rows.slice(1).map(line)].join('\n');
}


/* the performance targets of the project, and whether they are met */

export function bar(results) {
    const cell = (name, target = 'agentstream') =>
        results.find((r) => r.name === name)?.targets[target];
    const checks = [];

    const add = (what, value, op, limit) => {
        if (Number.isFinite(value)) {
            checks.push([what, value.toFixed(2), `${op} ${limit}`,
                (op === '≤' ? value <= limit : value >= limit) ? 'yes' : 'NO']);
        }
    };

    /* what the module needs, as a multiple of what another target needs */

    const ratio = (name, key, other) =>
        cell(name)?.[key] / cell(name, other)?.[key];

    for (const [name, limit] of [['paced-1000-small', 1], ['flood-1-small', 2.2],
        ['flood-1-large', 3], ['flood-1-short', 2.2], ['flood-1-output', 2],
        ['paced-1000-short', 1]])
    {
        add(`${name} × raw`, cell(name)?.to_raw, '≤', limit);
    }

    for (const [name, limit] of [['paced-1000-small', 2.4],
        ['flood-1-small', 5], ['flood-1-large', 4], ['flood-100-small', 5],
        ['flood-1000-small', 3.5], ['paced-1000-short', 1.8]])
    {
        add(`${name} × cheaper than Node`, cell(name)?.to_node, '≥', limit);
    }

    for (const name of ['ai-sdk', 'ag-ui']) {
        add(`CPU of a turn as ${name} × packets, flood-100-small`,
            1 / ratio('flood-100-small', 'turn_us', name), '≤', 1.3);
    }

    add('CPU of an empty turn, µs', cell('flood-1-empty')?.turn_us, '≤', 150);
    add('KB per idle stream', cell('watch-1000')?.kb_stream, '≤', 10);
    add('KB per idle turn with its stream', cell('idle-1000')?.kb_stream, '≤',
        11);
    add('descriptors per stream', cell('idle-1000')?.fds_stream, '≤', 1.1);
    add('paced CPU/event, 1000 turns to 100',
        cell('paced-1000-small')?.cpu_us / cell('paced-100-small')?.cpu_us,
        '≤', 1.3);
    add('event of nobody, µs', cell('foreign')?.cpu_us, '≤', 0.3);
    add('event to a watcher, µs', cell('watch-1000')?.cpu_us, '≤', 2.5);
    add('p99 of 1000 paced watchers, ms', cell('watch-1000-paced')?.p99_ms,
        '≤', 20);
    add('CPU of 1000 paced watchers × bare writes',
        ratio('watch-1000-paced', 'cpu_us', 'write'), '≤', 1.2);
    add('first packet p99 at 1000 paced turns, ms',
        cell('paced-1000-small')?.first99_ms, '≤', 5);
    add('first packet p99 at paced-1000-large × raw',
        ratio('paced-1000-large', 'first99_ms', 'raw'), '≤', 2);

    return [['bar', 'measured', 'wanted', 'met'], ...checks];
}


export function machine(options) {
    const version = execFileSync('sh', ['-c', `"${nginx()}" -v 2>&1`],
        { encoding: 'utf8' }).replace(/.*nginx\//, '').trim();

    return { date: new Date().toISOString().slice(0, 10),
             cpu: os.cpus()[0].model.trim(), cores: os.cpus().length,
             kernel: os.release().replace(/-.*/, ''), nginx: version,
             node: process.versions.node, reps: options.reps,
             load: os.loadavg()[0].toFixed(1),
             harness: options.realtime ? ', fake and client in real time' : '' };
}


export function writeCells(result) {
    const m = result.machine;

    writeDocs('results', 'run.mjs', `${measured(m)}; medians of ${m.reps}
interleaved repetitions.

${markdown(bar(result.cells))}

![CPU per event against the number of turns](performance.svg)

${markdown(table(result.cells))}`);
    writeImage('performance.svg', plotCells(result));
}


export function writeGrowth(result) {
    writeDocs('growth', 'growth.mjs', `${measured(result.machine)}.

![CPU per event and latency against what grows](growth.svg)

${markdown(growth(result.axes))}`);
    writeImage('growth.svg', plotGrowth(result));
}


/*
 * "× bytes": how much more it is than one point before, divided by how much
 * more bytes were moved.  More than 1 would be steeper than linear.
 */

export function growth(axes) {
    const rows = [['axis', 'target', 'number', 'CPU µs/event', 'p50 ms',
                   'p99 ms', 'MB', 'CPU × bytes', 'p99 × bytes']];

    for (const { x, points } of axes) {
        for (const target of Object.keys(points[0].targets)) {
            let before = null;

            for (const point of points.filter((p) => p.targets[target])) {
                const now = point.targets[target];

                const steep = (key) => before?.[key] && now[key]
                    ? (now[key] / before[key] / (now.bytes / before.bytes))
                        .toFixed(2) : '';

                rows.push([x, target + (now.failed ? ' (FAILED)' : ''),
                    String(point.x), now.cpu_us.toFixed(2),
                    now.p50_ms?.toFixed(2) ?? '', now.p99_ms?.toFixed(1) ?? '',
                    (now.bytes / 1e6).toFixed(1), steep('cpu'),
                    steep('p99_ms')]);
                before = now;
            }
        }
    }

    return rows;
}


function measured(m) {
    return `Measured on ${m.date}: ${m.cpu}, ${m.cores} cores, Linux
${m.kernel}, nginx ${m.nginx}, Node ${m.node}; load average ${m.load}${m.harness}`;
}


/* replaces the part of the page that stands between its two comments */

function writeDocs(name, program, body) {
    const file = path.join(ROOT, 'docs', 'performance.md');
    const text = fs.readFileSync(file, 'utf8');

    fs.writeFileSync(file, text.replace(new RegExp(
        `<!-- ${name}[^]*<!-- end of ${name} -->`), () =>
        `<!-- ${name}: written by bench/${program} --docs -->\n\n${body}\n\n`
        + `<!-- end of ${name} -->`));
}


function writeImage(name, svg) {
    fs.writeFileSync(path.join(ROOT, 'docs', name), svg);
}
