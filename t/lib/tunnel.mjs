// TCP tunnels that a test cuts: each name is a port of its own in front of one
// upstream port.
//
//     node tunnel.mjs NAME=PORT[@HOST] ...     listens on HOST, prints "listening CONTROL PORT ..."
//
// The control port takes one line per connection and answers with one line.
//
//     hold NAME         nothing goes on in both directions, and nobody is told:
//                       a network that was cut; new connections hang
//     hold NAME in      the same, towards the upstream only; "out": the answers
//     up NAME           it goes on, with what was held; "in", "out": as above
//     reset NAME        all connections are reset, new ones too, until "up"
//     on NAME N HOW RE  the Nth time from now that bytes for the upstream match
//                       RE: "lose" forwards them and resets the connection
//                       instead of the answer, "drop" resets it before, "hold"
//                       forwards them and holds everything from then on
//                       "RE1 THEN RE2": those that match RE2, after RE1
//     fired NAME        how often that has happened

import net from 'node:net';

const tunnels = new Map();


class Tunnel {

    constructor(name, upstream) {
        this.upstream = upstream;
        this.held = { in: false, out: false };
        this.down = false;
        this.links = new Set();
        this.fired = 0;
        this.server = net.createServer((c) => this.open(c));
        tunnels.set(name, this);
    }

    listen(host) {
        return new Promise((resolve) => this.server.listen(0, host,
            () => resolve(this.server.address().port)));
    }

    open(client) {
        if (this.down) {
            client.resetAndDestroy();
            return;
        }

        const server = net.connect(this.upstream, '127.0.0.1');
        const link = { client, server };

        this.links.add(link);
        client.setNoDelay();
        server.setNoDelay();

        client.on('data', (data) => this.in(link, data));
        server.on('data', (data) => link.lost || client.write(data));

        for (const [a, b] of [[client, server], [server, client]]) {
            a.on('end', () => b.end());
            a.on('error', () => this.close(link));
            a.on('close', () => this.close(link));
        }

        this.apply(link);
    }

    in(link, data) {
        const rule = this.rule;

        if (rule?.re.test(data.toString('latin1')) && rule.then) {
            rule.re = rule.then;
            rule.then = null;

        } else if (rule?.re.test(data.toString('latin1')) && --rule.n === 0) {
            this.rule = null;
            this.fired++;

            if (rule.how === 'drop') {
                this.close(link);
                return;
            }

            if (rule.how === 'lose') {
                /* the upstream has it before the connection ends */
                link.lost = true;
                link.server.write(data);
                setTimeout(() => this.close(link), 100);
                return;
            }

            link.server.write(data);
            this.hold('in', true);
            this.hold('out', true);
            return;
        }

        link.server.write(data);
    }

    close(link) {
        if (this.links.delete(link)) {
            link.client.resetAndDestroy();
            link.server.destroy();
        }
    }

    hold(way, on) {
        this.held[way] = on;
        this.links.forEach((link) => this.apply(link));
    }

    apply({ client, server }) {
        this.held.in ? client.pause() : client.resume();
        this.held.out ? server.pause() : server.resume();
    }

    reset() {
        this.down = true;
        this.links.forEach((link) => this.close(link));
    }

    up() {
        this.down = false;
    }
}


const OPS = {
    hold(t, way) {
        for (const w of way ? [way] : ['in', 'out']) {
            t.hold(w, true);
        }
    },

    up(t, way) {
        t.up();

        for (const w of way ? [way] : ['in', 'out']) {
            t.hold(w, false);
        }
    },

    reset: (t) => t.reset(),
    on(t, n, how, ...re) {
        const [first, then] = re.join(' ').split(' THEN ')
                                .map((text) => new RegExp(text, 's'));

        t.rule = { n: Number(n), how, re: first, then };
    },
    fired: (t) => t.fired,
};


const control = net.createServer((c) => {
    let text = '';

    c.on('error', () => {});
    c.on('data', (data) => {
        text += data;

        if (text.endsWith('\n')) {
            const [op, name, ...args] = text.trim().split(' ');

            c.end(`${OPS[op](tunnels.get(name), ...args) ?? 'ok'}\n`);
        }
    });
});

const ports = [];

for (const arg of process.argv.slice(2)) {
    const [name, port, host] = arg.split(/[=@]/);

    ports.push(await new Tunnel(name, Number(port)).listen(host ?? '127.0.0.1'));
}

control.listen(0, '127.0.0.1', () => console.log(
    `listening ${control.address().port} ${ports.join(' ')}`));
