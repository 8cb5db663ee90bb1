// bench/plot.mjs result.json out.svg: CPU per delivered event against the
// number of turns, one panel per pace, one line per target; dashed: large tool
// outputs.  Both axes are logarithmic.

import fs from 'node:fs';

const [input, output] = process.argv.slice(2);
const { machine, cells } = JSON.parse(fs.readFileSync(input, 'utf8'));

const COLORS = { agentstream: '#0b7a3b', raw: '#777777', hub: '#c25b00',
                 naive: '#b3002d', write: '#2a6fbb' };
const LABELS = { agentstream: 'agentstream', raw: 'nginx proxy_pass (raw)',
                 hub: 'Node, shared hub', naive: 'Node, SDK per turn',
                 write: 'only written' };
const PANELS = ['flood', 'paced'];
const WIDTH = 420, HEIGHT = 320, LEFT = 56, TOP = 40, GAP = 40, LEGEND = 70;

const points = cells.flatMap((cell) => PANELS.includes(cell.mode)
    && ['small', 'large'].includes(cell.size)
    ? Object.entries(cell.targets).filter(([, t]) => t.cpu_us > 0)
        .map(([target, t]) => ({ mode: cell.mode, size: cell.size, target,
                                 x: cell.clients, y: t.cpu_us })) : []);

const low = Math.floor(Math.log10(Math.min(...points.map((p) => p.y))));
const high = Math.ceil(Math.log10(Math.max(...points.map((p) => p.y))));

const px = (n) => 24 + Math.log10(n) / 3 * (WIDTH - LEFT - 48);
const py = (n) => HEIGHT * (1 - (Math.log10(n) - low) / (high - low));

const text = (x, y, s, more = '') =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${s}</text>`;


function panel(mode, index) {
    const width = WIDTH - LEFT;
    const out = [`<g transform="translate(${LEFT + index * (WIDTH + GAP)},`
                 + `${TOP})">`,
        text(width / 2, -14, mode === 'flood' ? 'flood: as fast as read'
            : 'paced: 30 deltas/s per turn',
            'text-anchor="middle" font-weight="bold"')];

    for (let e = low; e <= high; e++) {
        const y = py(10 ** e);

        out.push(`<path d="M0 ${y.toFixed(1)}H${width}" stroke="#ddd"/>`,
            text(-6, y + 4, 10 ** e, 'text-anchor="end"'));
    }

    for (const n of [1, 10, 100, 1000]) {
        const x = px(n);

        out.push(`<path d="M${x.toFixed(1)} 0V${HEIGHT}" stroke="#eee"/>`,
            text(x, HEIGHT + 16, n, 'text-anchor="middle"'));
    }

    out.push(`<path d="M0 0V${HEIGHT}H${width}" stroke="#333" fill="none"/>`,
        text(width / 2, HEIGHT + 34, 'turns at once',
             'text-anchor="middle"'));

    for (const target of Object.keys(COLORS)) {
        for (const size of ['small', 'large']) {
            const line = points.filter((p) => p.mode === mode
                && p.size === size && p.target === target)
                .sort((a, b) => a.x - b.x);

            if (line.length === 0) {
                continue;
            }

            const d = line.map((p, i) => `${i ? 'L' : 'M'}${px(p.x).toFixed(1)}`
                + ` ${py(p.y).toFixed(1)}`).join('');

            out.push(`<path d="${d}" stroke="${COLORS[target]}" fill="none" `
                + `stroke-width="2"${size === 'large'
                    ? ' stroke-dasharray="5 4"' : ''}/>`);

            for (const p of line) {
                out.push(`<circle cx="${px(p.x).toFixed(1)}" `
                    + `cy="${py(p.y).toFixed(1)}" r="3" `
                    + `fill="${COLORS[target]}"><title>${LABELS[target]}, `
                    + `${mode}, ${size}, ${p.x} turns: ${p.y.toFixed(2)} µs`
                    + '</title></circle>');
            }
        }
    }

    return [...out, '</g>'].join('\n');
}


const total = { width: 2 * WIDTH + GAP + 16, height: TOP + HEIGHT + 40 + LEGEND };

const legend = Object.entries(LABELS).map(([target, label], i) => {
    const x = LEFT + i * 168, y = TOP + HEIGHT + 64;

    return `<path d="M${x} ${y}h24" stroke="${COLORS[target]}" `
        + `stroke-width="2"/>${text(x + 30, y + 4, label)}`;
});

fs.writeFileSync(output, `<svg xmlns="http://www.w3.org/2000/svg" \
width="${total.width}" height="${total.height}" \
viewBox="0 0 ${total.width} ${total.height}" \
font-family="sans-serif" font-size="12">
<title>CPU per delivered event against the number of turns</title>
<rect width="100%" height="100%" fill="#fff"/>
${text(14, TOP + HEIGHT / 2, 'CPU µs per event', `text-anchor="middle" \
transform="rotate(-90 14 ${TOP + HEIGHT / 2})"`)}
${PANELS.map(panel).join('\n')}
${legend.join('\n')}
${text(LEFT, TOP + HEIGHT + 90, `solid: small tool output, dashed: 30 kB; \
${machine.date}, ${machine.cpu}, ${machine.cores} cores, nginx \
${machine.nginx}, Node ${machine.node}`, 'fill="#555"')}
</svg>
`);
