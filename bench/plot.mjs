/*
 * Charts as SVG: panels beside and below each other, one line per target, both
 * axes logarithmic.
 */

const COLORS = { agentstream: '#0b7a3b', raw: '#777777', hub: '#c25b00',
                 naive: '#b3002d', write: '#2a6fbb', redis: '#8a2be2' };
const LABELS = { agentstream: 'agentstream', raw: 'nginx proxy_pass (raw)',
                 hub: 'Node, shared hub', naive: 'Node, SDK per turn',
                 write: 'only written', redis: 'Redis' };
const LEFT = 56, TOP = 40, GAP = 40, BOTTOM = 56, LEGEND = 44;

const text = (x, y, s, more = '') =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${s}</text>`;


/*
 * CPU per event against the number of turns, from the cells of bench/run.mjs:
 * a panel per pace; dashed: large tool outputs
 */

export function plotCells({ machine, cells }) {
    const panels = ['flood', 'paced'].map((mode) => ({
        title: mode === 'flood' ? 'flood: as fast as read'
                                : 'paced: 30 deltas/s per turn',
        x: 'turns at once', y: 'CPU µs per event', row: 'cpu',
        lines: ['small', 'large'].flatMap((size) => linesOf(cells.filter(
            (cell) => cell.mode === mode && cell.size === size)
            .map((cell) => ({ x: cell.clients, targets: cell.targets })),
            'cpu_us', size === 'large')),
    }));

    return chart('CPU per delivered event against the number of turns',
                 [panels], 'solid: small tool output, dashed: 30 kB; '
                           + place(machine));
}


/* from bench/growth.mjs: a panel per axis, CPU above, latency below */

export function plotGrowth({ machine, axes }) {
    const panel = (axis, row, key, y) => ({ title: axis.title, x: axis.x, y,
        row, lines: linesOf(axis.points, key) });

    return chart('CPU per event and latency against what grows', [
        axes.map((axis) => panel(axis, 'cpu', 'cpu_us', 'CPU µs per event')),
        axes.map((axis) => panel(axis, 'p99', 'p99_ms', 'p99 ms')),
    ], place(machine));
}


/* points: x, targets -> lines of one value */

function linesOf(points, key, dashed = false) {
    return Object.keys(COLORS).map((target) => ({ target, dashed,
        points: points.filter((p) => p.targets[target]?.[key] > 0)
            .map((p) => ({ x: p.x, y: p.targets[target][key] }))
            .sort((a, b) => a.x - b.x) }))
        .filter((line) => line.points.length);
}


function place(m) {
    return `${m.date}, ${m.cpu}, ${m.cores} cores, nginx ${m.nginx}, `
           + `Node ${m.node}`;
}


/* panels of one row have the same y axis, those of one column the same x */

function chart(title, rows, note) {
    const wide = rows[0].length > 2 ? 300 : 420, high = rows.length > 1 ? 220
                                                                        : 320;
    const width = Math.max(rows[0].length * (wide + GAP) + 16, 800);
    const height = rows.length * (high + TOP + BOTTOM) + LEGEND;
    const used = Object.keys(LABELS).filter((target) =>
        rows.flat().some((p) => p.lines.some((l) => l.target === target)));

    const panels = rows.flatMap((row, j) => {
        const all = row.flatMap((p) => p.lines.flatMap((l) => l.points));
        const range = decades(all.map((p) => p.y));

        return row.map((panel, i) => draw(panel, LEFT + i * (wide + GAP),
            TOP + j * (high + TOP + BOTTOM), wide - LEFT, high, range));
    });

    const legend = used.map((target, i) => {
        const x = LEFT + i * 176, y = height - 30;

        return `<path d="M${x} ${y}h24" stroke="${COLORS[target]}" `
            + `stroke-width="2"/>${text(x + 30, y + 4, LABELS[target])}`;
    });

    return `<svg xmlns="http://www.w3.org/2000/svg" \
width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" \
font-family="sans-serif" font-size="12">
<title>${title}</title>
<rect width="100%" height="100%" fill="#fff"/>
${panels.join('\n')}
${legend.join('\n')}
${text(LEFT, height - 8, note, 'fill="#555"')}
</svg>
`;
}


function decades(values) {
    return [Math.floor(Math.log10(Math.min(...values))),
            Math.ceil(Math.log10(Math.max(...values)) || 1)];
}


function draw(panel, left, top, width, height, [low, high]) {
    const xs = [...new Set(panel.lines.flatMap((l) =>
        l.points.map((p) => p.x)))].sort((a, b) => a - b);
    const last = Math.max(xs.at(-1), 2);
    const px = (n) => 16 + Math.log(n) / Math.log(last) * (width - 40);
    const py = (n) => height * (1 - (Math.log10(n) - low) / (high - low));

    const out = [`<g transform="translate(${left},${top})">`,
        text(width / 2, -14, panel.title,
             'text-anchor="middle" font-weight="bold"'),
        text(-42, height / 2, panel.y, 'text-anchor="middle" '
             + `transform="rotate(-90 -42 ${height / 2})"`)];

    for (let e = low; e <= high; e++) {
        const y = py(10 ** e);

        out.push(`<path d="M0 ${y.toFixed(1)}H${width}" stroke="#ddd"/>`,
            text(-6, y + 4, 10 ** e, 'text-anchor="end"'));
    }

    for (const n of xs) {
        const x = px(n);

        out.push(`<path d="M${x.toFixed(1)} 0V${height}" stroke="#eee"/>`,
            text(x, height + 16, n, 'text-anchor="middle"'));
    }

    out.push(`<path d="M0 0V${height}H${width}" stroke="#333" fill="none"/>`,
        text(width / 2, height + 34, panel.x, 'text-anchor="middle"'));

    for (const { target, dashed, points } of panel.lines) {
        const d = points.map((p, i) => `${i ? 'L' : 'M'}${px(p.x).toFixed(1)}`
            + ` ${py(p.y).toFixed(1)}`).join('');

        out.push(`<path d="${d}" stroke="${COLORS[target]}" fill="none" `
            + `stroke-width="2"${dashed ? ' stroke-dasharray="5 4"' : ''}/>`);

        for (const p of points) {
            out.push(`<circle cx="${px(p.x).toFixed(1)}" `
                + `cy="${py(p.y).toFixed(1)}" r="3" `
                + `fill="${COLORS[target]}"><title>${LABELS[target]}, `
                + `${p.x} ${panel.x}: ${p.y.toFixed(2)} ${panel.y}`
                + '</title></circle>');
        }
    }

    return [...out, '</g>'].join('\n');
}
