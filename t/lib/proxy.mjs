// A TCP proxy in front of an OpenCode, which makes faults on request.
//
//     node proxy.mjs UPSTREAM_PORT       prints "listening PORT"
//
// That port is for the test: POST / with {op, …} and JSON back.
//
//     room   {rules: [RULE], upstream?}  -> {port}: a listener of its own
//     report {port}                      -> {fired, prompts, trace}
//     cut    {port, ms, how?}            resets or ends all connections, and
//                                        refuses new ones for so long, or
//     up     {port}                      until this
//     close  {port}
//
// All that comes through a room's port is one connection per request (nginx
// has no keepalive there).  A RULE is
//
//     {name, on: KIND, skip: N, times: N, then: BOOL, do: ACTION, …}
//
// for so many connections of that KIND (of KINDS below), after the first N of
// them; `then`: of those after a fault of that name happened.
// What is done when the request is there:
//
//     answer    {status, type, body}     and nothing is forwarded
//     drop      {how: reset | fin | hang}, nothing is forwarded
//     lose      {how}                    forwarded, and the answer is not
//     slow      {ms, late: ms}           before it is forwarded, or answered
//     raw       {body}                   these bytes instead of an answer
//
// What is done to an answer, at the part `at` (0 to 1) of a body whose length
// is known; else with the first event after `bytes` of them, counted from the
// room's first prompt on, or, with `mark`, in place of the event that something
// is asked (asked) or was answered (resolved), or right behind the former
// (behind):
//
//     reset, fin, half                   RST; FIN; FIN while it still reads
//     close                              an end that looks regular
//     truncate  {part, how}              the same in the middle of an event
//     stall     {ms}                     0: for ever
//     trickle   {count}                  so many bytes one by one
//     corrupt   {how: utf8 | json | chunk, part}
//     inject    {what: huge | json | utf8 | flood | disposed, size}
//     down      {ms, how, die, dispose}  as `cut`, or what is open stays
//                                        (none); the server loses its turns,
//                                        or is told to dispose of them

import http from 'node:http';
import net from 'node:net';

const UPSTREAM = Number(process.argv[2]);

const KINDS = [
    ['event', /^GET \/event\b/],
    ['prompt', /^POST \/session\/\w+\/prompt_async\b/],
    ['abort', /^POST \/session\/\w+\/abort\b/],
    ['status', /^GET \/session\/status\b/],
    ['message', /^GET \/session\/\w+\/message\/\w/],
    ['messages', /^GET \/session\/\w+\/message\b/],
    ['session', /^GET \/session\/\w+(\?|$)/],
    ['asks', /^GET \/(question|permission)\b/],
    ['reply', /^POST \/(question|permission)\/\w+\/(reply|reject)\b/],
];

const ON_ANSWERS = new Set(['reset', 'fin', 'half', 'close', 'truncate',
    'stall', 'trickle', 'corrupt', 'inject', 'down']);
const MARKS = {
    asked: /"type":"(question|permission)\.asked"/,
    behind: /"type":"(question|permission)\.asked"/,
    resolved: /"type":"(question|permission)\.(replied|rejected)"/,
};
const FRAME = Buffer.from('\n\n');
const rooms = new Map();


class Room {

    constructor(rules, upstream) {
        this.rules = rules;
        this.upstream = upstream;
        this.fired = {};
        this.prompts = {};
        this.sessions = new Set();
        this.links = new Set();
        this.trace = [];
        this.born = Date.now();
        this.server = net.createServer({ allowHalfOpen: true },
                                       (c) => new Link(this, c));
    }

    async listen(port) {
        await new Promise((resolve, reject) => {
            this.server.once('error', reject);
            this.server.listen(port, '127.0.0.1', () => {
                this.server.off('error', reject);
                resolve();
            });
        });

        this.port = port;
    }

    /* A port of no other room, and none that the system gives to others: it is
       closed for a while and must be free then. */

    async open() {
        for ( ;; ) {
            const port = 10000 + Math.floor(Math.random() * 20000);

            if (!rooms.has(port)
                && await this.listen(port).then(() => true, () => false))
            {
                rooms.set(port, this);
                return;
            }
        }
    }

    log(text) {
        if (this.trace.length < 200) {
            this.trace.push(`${Date.now() - this.born} ${text}`);
        }
    }

    fire(rule) {
        this.fired[rule.name] = (this.fired[rule.name] ?? 0) + 1;
        this.log(`${rule.name}: ${rule.do} ${rule.how ?? rule.what ?? ''}`);
    }

    rule(kind) {
        const rules = this.rules.filter((r) => r.on === kind
            && (!r.then || this.fired[r.name]));

        for (const r of rules) {
            r.seen = (r.seen ?? 0) + 1;
        }

        return rules.find((r) => r.seen > (r.skip ?? 0)
            && r.seen <= (r.skip ?? 0) + (r.times ?? 1));
    }

    async cut({ ms = 0, how = 'reset', die, dispose }) {
        this.log(`down for ${ms}`);
        this.server.close();

        for (const link of how === 'none' ? [] : this.links) {
            link.end(how);
        }

        if (die) {
            await ask('/_test/restart', { sessions: [...this.sessions] });

        } else if (dispose === 'abort') {
            await Promise.all([...this.sessions].map((id) =>
                ask(`/session/${id}/abort`, {})));

        } else if (dispose) {
            await ask(dispose, {});
        }

        if (ms) {
            setTimeout(() => this.up(), ms);
        }
    }

    up() {
        this.listen(this.port).then(() => this.log('up'),
                                    () => setTimeout(() => this.up(), 20));
    }
}


/* one connection, one request */

class Link {

    constructor(room, c) {
        this.room = room;
        this.c = c;
        this.request = Buffer.alloc(0);
        this.bytes = 0;
        room.links.add(this);

        c.setNoDelay(true);
        c.on('error', () => {});
        c.on('data', (data) => this.take(data));
        c.on('end', () => this.u ? this.u.end() : c.end());
        c.on('close', () => {
            room.links.delete(this);
            clearTimeout(this.timer);
            this.u?.destroy();
        });
    }

    /* the whole request, then it is known what it is */

    take(data) {
        if (this.kind) {
            this.u?.write(data);
            return;
        }

        this.request = Buffer.concat([this.request, data]);

        const end = this.request.indexOf('\r\n\r\n');
        const head = this.request.subarray(0, Math.max(end, 0)).toString();
        const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0;

        if (end < 0 || this.request.length < end + 4 + Number(length)) {
            return;
        }

        this.line = head.split(' ', 2).join(' ');
        this.kind = KINDS.find(([, re]) => re.test(this.line))?.[0] ?? 'other';
        this.rule = this.room.rule(this.kind);
        this.room.log(this.line);
        this.act(this.rule?.do).catch((e) => {
            console.error(e);
            this.end('reset');
        });
    }

    async act(what) {
        const r = this.rule;

        if (what === 'answer') {
            this.room.fire(r);
            this.c.end(`HTTP/1.1 ${r.status} Fault\r\nContent-Type: ${r.type
                ?? 'application/json'}\r\nContent-Length: ${
                Buffer.byteLength(r.body)}\r\nConnection: close\r\n\r\n${
                r.body}`);

        } else if (what === 'raw') {
            this.room.fire(r);
            this.c.end(r.body);

        } else if (what === 'drop') {
            this.room.fire(r);
            this.end(r.how);

        } else {
            if (what === 'slow') {
                this.room.fire(r);
                await later(r.ms ?? 0);
            }

            this.forward();
        }
    }

    forward() {
        const id = this.kind === 'prompt'
            && /"messageID":\s*"(\w+)"/.exec(this.request)?.[1];

        if (this.c.destroyed) {
            return;
        }

        if (id) {
            const { prompts, sessions } = this.room;

            prompts[id] = (prompts[id] ?? 0) + 1;
            sessions.add(this.line.split('/')[2]);
        }

        this.u = net.connect(this.room.upstream, '127.0.0.1');
        this.u.setNoDelay(true);
        this.u.on('error', () => this.end('reset'));
        this.u.on('end', () => this.finish());
        this.u.write(this.request);

        const answer = new Answer(this);

        if (this.rule?.do === 'lose') {
            this.u.once('data', () => {
                this.room.fire(this.rule);
                this.end(this.rule.how);
            });

        } else if (this.rule?.do === 'slow' && this.rule.late) {
            this.u.once('data', (data) => {
                this.u.pause();
                setTimeout(() => {
                    answer.take(data);
                    this.u.on('data', (more) => answer.take(more));
                    this.u.resume();
                }, this.rule.late);
            });

        } else {
            this.u.on('data', (data) => answer.take(data));
        }
    }

    /* how a connection can end: as a whole, or only what it says */

    end(how) {
        this.over = true;
        clearTimeout(this.timer);

        if (how === 'hang') {
            return;
        }

        if (how === 'half') {
            this.c.end();
            return;
        }

        this.u?.destroy();
        how === 'reset' ? this.c.resetAndDestroy() : this.c.end();
    }

    finish() {
        if (!this.over && !this.timer) {
            this.c.end();
        }

        this.ended = true;
    }

    write(data) {
        if (!this.over && !this.c.destroyed) {
            this.c.write(data);
        }
    }
}


/* what OpenCode says: head, then events or a body, with what is done to it */

class Answer {

    constructor(link) {
        this.link = link;
        this.room = link.room;
        this.rule = ON_ANSWERS.has(link.rule?.do) ? link.rule : undefined;
        this.raw = Buffer.alloc(0);
        this.body = Buffer.alloc(0);
        this.held = [];
        this.counted = 0;
    }

    take(data) {
        this.raw = Buffer.concat([this.raw, data]);

        if (!this.head) {
            const end = this.raw.indexOf('\r\n\r\n');

            if (end < 0) {
                return;
            }

            this.head = this.raw.subarray(0, end + 4);
            this.raw = this.raw.subarray(end + 4);
            this.chunked = /transfer-encoding: chunked/i.test(this.head);
            this.length = Number(/content-length: (\d+)/i.exec(this.head)?.[1]
                                 ?? 0);
            this.write(this.head);
        }

        if (!this.chunked) {
            this.plain();

        } else {
            this.dechunk();
        }
    }

    /* its length is known: the fault is at a part of it */

    plain() {
        const data = this.raw;
        const before = this.counted;

        this.raw = Buffer.alloc(0);
        this.counted += data.length;

        const at = Math.floor((this.rule?.at ?? 0.5)
                              * Math.max(this.length - 1, 0));

        if (!this.rule || this.done || at >= this.counted) {
            this.write(data);
            return;
        }

        this.done = true;
        this.write(data.subarray(0, at - before));
        this.apply(data.subarray(at - before));
    }

    dechunk() {
        for ( ;; ) {
            const end = this.raw.indexOf('\r\n');

            if (end < 0) {
                return;
            }

            const size = parseInt(this.raw.subarray(0, end), 16);

            if (this.raw.length < end + 2 + size + 2) {
                return;
            }

            const data = this.raw.subarray(end + 2, end + 2 + size);

            this.raw = this.raw.subarray(end + 2 + size + 2);

            if (size === 0) {
                this.chunk(this.body);
                this.body = Buffer.alloc(0);
                this.write(Buffer.from('0\r\n\r\n'));
                return;
            }

            this.body = Buffer.concat([this.body, data]);
            this.frames();
        }
    }

    /* whole events, one at a time */

    frames() {
        if (this.link.kind !== 'event') {
            this.rest();
            return;
        }

        for ( ;; ) {
            const end = this.body.indexOf(FRAME);

            if (end < 0) {
                return;
            }

            const frame = this.body.subarray(0, end + 2);

            this.body = this.body.subarray(end + 2);

            if (this.room.sessions.size) {
                this.counted += frame.length;
            }

            if (!this.due(frame)) {
                this.chunk(frame);
                continue;
            }

            this.done = true;

            if (this.rule.mark === 'behind') {
                this.chunk(frame);
                this.apply(Buffer.alloc(0));

            } else {
                this.apply(frame);
            }
        }
    }

    due(frame) {
        if (!this.rule || this.done || !this.room.sessions.size) {
            return false;
        }

        return this.rule.mark ? MARKS[this.rule.mark].test(frame)
                              : this.counted > (this.rule.bytes ?? 0);
    }

    /* an answer whose length is not known: its first piece is broken */

    rest() {
        const data = this.body;

        this.body = Buffer.alloc(0);

        if (!this.rule || this.done) {
            this.chunk(data);
            return;
        }

        const at = Math.floor((this.rule.at ?? 0.5) * data.length);

        this.done = true;
        this.chunk(data.subarray(0, at));
        this.apply(data.subarray(at));
    }

    /* data: the event, or what is left of the body */

    apply(data) {
        const r = this.rule;
        const part = Math.min(7 + Math.floor((r.part ?? 0.5)
                                             * (data.length - 9)),
                              data.length - 1);
        const how = r.how ?? 'reset';

        this.room.fire(r);

        switch (r.do) {

        case 'reset':
        case 'fin':
        case 'half':
            this.link.end(r.do);
            break;

        case 'close':
            this.write(Buffer.from('0\r\n\r\n'));
            this.link.end('fin');
            break;

        case 'truncate':
            this.chunk(data.subarray(0, part));

            if (how === 'close') {
                this.write(Buffer.from('0\r\n\r\n'));
            }

            this.link.end(how === 'reset' ? 'reset' : 'fin');
            break;

        case 'stall':
            this.chunk(data);
            this.hold(r.ms);
            break;

        case 'trickle':
            this.slowly = r.count ?? 200;
            this.chunk(data);
            break;

        case 'corrupt':
            if (how === 'chunk' && this.chunked) {
                this.write(Buffer.from('zz\r\n'));
                this.write(data);
                break;
            }

            data = Buffer.from(data);
            data[this.link.kind === 'event' ? noticed(data, part) : 0]
                = how === 'utf8' ? 0xff : 0x01;
            this.chunk(data);
            break;

        case 'inject':
            this.inject(r);
            this.chunk(data);
            break;

        case 'down':
            if (r.how === 'none') {
                this.chunk(data);
            }

            if (r.dispose) {
                this.inject({ what: 'disposed' });
            }

            this.room.cut(r).catch(console.error);
            break;
        }
    }

    inject({ what, size = 1 }) {
        const [sessionID] = this.room.sessions;
        const one = (type, properties) => Buffer.from(`data: ${
            JSON.stringify({ id: 'evt_fault', type, properties })}\n\n`);

        switch (what) {

        case 'huge':
            this.chunk(Buffer.from(`data: {"id":"evt_x","type":"session.diff",`
                + `"properties":{"sessionID":"${sessionID}","diff":"`));

            for (let left = size; left > 0; left -= 65536) {
                this.chunk(Buffer.alloc(Math.min(left, 65536), 'x'));
            }

            this.chunk(Buffer.from('"}}\n\n'));
            break;

        case 'json':
            this.chunk(Buffer.from(`data: {"id":"evt_x","type":"message.part`
                + `.delta","properties":{"sessionID":"${sessionID}","delta":`
                + `"x\n\n`));
            break;

        case 'utf8':
            this.chunk(Buffer.concat([Buffer.from(`data: {"id":"evt_x","type":`
                + `"session.diff","properties":{"sessionID":"${sessionID}",`
                + `"diff":"`), Buffer.from([0xc3, 0x28, 0xff]),
                Buffer.from('"}}\n\n')]));
            break;

        case 'flood': {
            const mine = one('session.updated', { sessionID, info: {
                id: sessionID, title: 'x'.repeat(200) } });
            const other = one('message.part.delta', { sessionID: 'ses_other',
                messageID: 'msg_x', partID: 'prt_x', field: 'text',
                delta: 'never' });

            for (let i = 0; i < size; i++) {
                this.chunk(i % 4 ? other : mine);
            }

            break;
        }

        case 'disposed':
            this.chunk(one('server.instance.disposed', { directory: '/x' }));
            this.chunk(one('global.disposed', {}));
            break;
        }
    }

    /* nothing goes on for a while: what comes is kept */

    hold(ms) {
        this.waiting = true;

        if (ms) {
            this.link.timer = setTimeout(() => {
                const held = this.held;

                this.waiting = false;
                this.held = [];
                this.link.timer = null;
                held.forEach((data) => this.write(data));
                this.link.ended && this.link.finish();
            }, ms);

        } else {
            this.link.over = true;
        }
    }

    chunk(data) {
        if (!data.length) {
            return;
        }

        this.write(!this.chunked ? data : Buffer.concat([
            Buffer.from(`${data.length.toString(16)}\r\n`), data,
            Buffer.from('\r\n')]));
    }

    write(data) {
        if (this.waiting) {
            this.held.push(data);
            return;
        }

        if (!this.slowly) {
            this.link.write(data);
            return;
        }

        const n = Math.min(this.slowly, data.length);

        this.slowly -= n;
        this.waiting = true;
        this.held.push(...Array.from({ length: n },
                                     (_, i) => data.subarray(i, i + 1)),
                       data.subarray(n));
        this.drip();
    }

    drip() {
        const piece = this.held.shift();

        if (piece?.length === 1) {
            this.link.write(piece);
            this.link.timer = setTimeout(() => this.drip(), 1);
            return;
        }

        [piece ?? Buffer.alloc(0), ...this.held].forEach((data) =>
            this.link.write(data));
        this.held = [];
        this.waiting = false;
        this.link.timer = null;
        this.link.ended && this.link.finish();
    }
}


/* The place of a wrong byte: not in a type or a session id, but behind it.  By
   these the module finds whose an event is, and nobody else's is ever parsed. */

function noticed(data, at) {
    const names = /(?<="(?:type|sessionID)":")[^"]*"/g;

    for (const m of data.toString('latin1').matchAll(names)) {
        const end = m.index + m[0].length;

        if (at >= m.index && at < end) {
            return end;
        }
    }

    return at;
}


function later(ms) {
    return new Promise((resolve) => { setTimeout(resolve, ms); });
}


function ask(path, json) {
    return new Promise((resolve, reject) => {
        const body = JSON.stringify(json);
        const req = http.request({ port: UPSTREAM, host: '127.0.0.1', path,
            method: 'POST', agent: false, headers: {
                'Content-Type': 'application/json',
                'Content-Length': Buffer.byteLength(body) } }, (res) => {
            res.resume();
            res.on('end', resolve);
        });

        req.on('error', reject);
        req.end(body);
    });
}


const OPS = {
    async room({ rules = [], upstream = UPSTREAM }) {
        const room = new Room(rules, upstream);

        await room.open();

        return { port: room.port };
    },

    report({ port }) {
        const { fired, prompts, trace } = rooms.get(port);

        return { fired, prompts, trace };
    },

    async cut({ port, ...how }) {
        await rooms.get(port).cut(how);
        return {};
    },

    up({ port }) {
        rooms.get(port).up();
        return {};
    },

    close({ port }) {
        const room = rooms.get(port);

        room.server.close();
        room.links.forEach((link) => link.end('reset'));

        return {};
    },
};


const control = http.createServer(async (req, res) => {
    let body = '';

    for await (const piece of req) {
        body += piece;
    }

    try {
        const { op, ...args } = JSON.parse(body);

        res.end(JSON.stringify(await OPS[op](args)));

    } catch (e) {
        console.error(e);
        res.writeHead(500).end(JSON.stringify(String(e)));
    }
});

control.listen(0, '127.0.0.1', () =>
    console.log(`listening ${control.address().port}`));
