// The scripted OpenCode: it has the part of OpenCode's REST interface and
// event stream that the module uses, plays captured or made-up turns, and
// makes faults on request.
//
//     node opencode.mjs [PORT]         prints "listening PORT"
//
// The text of a prompt determines what happens (opencode/turn.mjs).  The test
// controls it with
//
//     POST /_test/config  {chunk, delay, start, fault, … as in a prompt, order:
//                          instead of every prompt; heartbeat: ms; mute: a
//                          directory whose streams stay open and silent;
//                          sessions: {ID: DIRECTORY}; strict: a session must
//                          have been created; rules: [RULE]}
//     GET  /_test/log     requests so far [{method, url, headers, body, time,
//                         done: when it was answered}]
//     GET  /_test/stats   {open, opened, prompts, overlaps: prompts that came
//                         while their session was working, playing,
//                         subscribers}
//     POST /_test/emit    {directory?, event? | line? | raw? | base64?}
//     POST /_test/close   {directory?, reset?} ends or resets event streams
//     POST /_test/restart {sessions?} stops their turns, or all of them and
//                         the streams, without a word, as a server that was
//                         killed and came back; what was stored remains
//     POST /_test/said    {user} the text of that turn, had it gone well
//     POST /_test/reset   forgets configuration, log, state; closes streams
//
// A RULE is {method?, url: REGEX, times?} and one or more of: status, body,
// type; delay (ms, then the answer of that time); late (ms, with the answer of
// now); hang; drop (close without answer); lose (the same, but it is done); raw
// (bytes instead of an HTTP answer); cut (bytes of body after which the
// connection is reset); repeat (body becomes an array of so many copies, "%d"
// in them the number).

import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId, item } from './opencode/capture.mjs';
import { chunks, frame } from './opencode/chunk.mjs';
import { State } from './opencode/state.mjs';
import { event, idle, isDelta, makeTurn, parsePrompt, wouldSay }
    from './opencode/turn.mjs';

const CAPTURES = process.env.AGENTSTREAM_CAPTURES
                 ?? new URL('../data/captures', import.meta.url).pathname;
const DIRECTORY = '/workspace/demo';

let config, log, state, stats;
const subscribers = new Set();
const playing = new Map();
const said = new Map();


const ROUTES = [
    ['GET', '/event', subscribe],
    ['GET', '/session/status', (q) => Object.fromEntries(state.status)],
    ['GET', '/session', (q) =>
        [...state.sessions.values()].reverse().slice(0, q.limit ?? 100)],
    ['POST', '/session', (q) => state.create({ id: newId('ses'),
        directory: q.directory ?? DIRECTORY, ...q.json })],
    ['GET', '/global/health', () => ({ healthy: true,
        version: config.version ?? '1.18.33' })],
    ['POST', '/api/session', make],
    ['GET', '/session/:sid', (q) => q.session],
    ['PATCH', '/session/:sid', (q) => Object.assign(q.session, q.json)],
    ['DELETE', '/session/:sid', (q) => state.sessions.delete(q.sid)],
    ['POST', '/session/:sid/prompt_async', prompt],
    ['POST', '/session/:sid/abort', abort],
    ['GET', '/session/:sid/message', (q) =>
        state.messages(q.session).slice(-(q.limit ?? 0))],
    ['GET', '/session/:sid/message/:id', (q) => state.messages(q.session)
        .find((m) => m.info.id === q.id) ?? missing('Message', q.id)],
    ['GET', '/:noun(question|permission)', (q) =>
        [...state.asked[q.noun].values()]],
    ['POST', '/:noun(question|permission)/:id/:verb(reply|reject)', answer],

    ['POST', '/_test/config', (q) => Object.assign(config, q.json)],
    ['GET', '/_test/log', () => log],
    ['GET', '/_test/stats', () => ({ ...stats, open: subscribers.size,
        playing: playing.size,
        subscribers: [...subscribers].map((s) => s.directory) })],
    ['POST', '/_test/emit', emitRaw],
    ['POST', '/_test/close', (q) => close(q.json.directory, q.json.reset)],
    ['POST', '/_test/restart', restart],
    ['POST', '/_test/said', (q) => ({ text: said.get(q.json.user) ?? '' })],
    ['POST', '/_test/reset', reset],

].map(([method, path, handler]) => ({ method, handler, path: new RegExp('^'
    + path.replace(/:(\w+)(?:\((.*?)\))?/g, (_, name, re) =>
        `(?<${name}>${re ?? '[^/]+'})`) + '$') }));


class Subscriber {

    constructor(res, directory) {
        this.res = res;
        this.directory = directory;
        this.pending = [];
        this.next = 0;
    }

    /*
     * One write per piece, in order, the event loop between two of them.
     * What `said` does becomes true when the last piece is written: the REST
     * answers are never ahead of the stream.
     */

    send(bytes, how, said) {
        for (const piece of chunks(bytes, how)) {
            this.pending.push({ piece });
        }

        this.pending.push({ said });

        if (!this.timer) {
            this.pump();
        }
    }

    pump() {
        this.timer = null;

        while (this.next < this.pending.length) {
            const { piece, said } = this.pending[this.next++];

            said?.();

            if (piece?.length) {
                write(this.res, piece);
                this.timer = setImmediate(() => this.pump());
                return;
            }
        }

        this.pending = [];
        this.next = 0;

        if (this.ending) {
            this.res.end();
        }
    }

    end() {
        subscribers.delete(this);
        this.ending = true;

        if (!this.timer) {
            this.pump();
        }
    }

    closed() {
        subscribers.delete(this);
        clearImmediate(this.timer);
        this.hurry();
    }

    /* it is true before it is said */

    hurry() {
        for (const it of this.pending.slice(this.next)) {
            it.said?.();
            it.said = undefined;
        }
    }
}


function subscribe(q, res) {
    const s = new Subscriber(res, q.directory ?? DIRECTORY);
    const say = (type) => s.send(frame(JSON.stringify({ id: newId('evt'), type,
                                                        properties: {} })));

    res.writeHead(200, { 'Content-Type': 'text/event-stream',
                         'Cache-Control': 'no-cache' });
    say('server.connected');

    /* what is on its way to others will not be said here */
    subscribers.forEach((other) => other.hurry());
    subscribers.add(s);
    stats.opened++;

    const timer = setInterval(() => {
        if (s.directory !== config.mute) {
            say('server.heartbeat');
        }
    }, config.heartbeat ?? 10000);

    res.on('close', () => {
        clearInterval(timer);
        s.closed();
    });
}


function emit(directory, bytes, how, said) {
    for (const s of subscribers) {
        if ((!directory || s.directory === directory)
            && s.directory !== config.mute)
        {
            s.send(bytes, how, said);
            said = undefined;
        }
    }

    said?.();
}


function emitRaw({ json }) {
    const { directory, event: e, line, raw, base64 } = json;

    if (e || line) {
        const it = item(line ?? JSON.stringify({ id: newId('evt'), ...e }));

        state.apply(it);
        emit(directory, frame(it.line));

    } else {
        emit(directory, Buffer.from(base64 ?? raw,
                                    base64 ? 'base64' : 'utf8'));
    }

    return { subscribers: subscribers.size };
}


function close(directory, isReset) {
    for (const s of subscribers) {
        if (!directory || s.directory === directory) {
            isReset ? s.res.socket.resetAndDestroy() : s.end();
        }
    }

    return {};
}


function prompt(q) {
    if (!Array.isArray(q.json?.parts)) {
        return [400, { name: 'BadRequest', data: { message: 'parts' } }];
    }

    const order = parsePrompt(q.json.parts[0]?.text ?? '', config);

    stats.prompts++;
    stats.overlaps += playing.has(q.session.id);
    play(q.session, order, q.json.messageID ?? newId('msg'))
        .catch(console.error);

    return [204];
}


async function play(session, order, user) {
    const { directory } = session;
    const o = order.options;
    const turn = makeTurn(order, session.id, user, directory, CAPTURES);
    const delay = Number(o.delay ?? 0);
    const run = { replay: order.verb === 'replay', mid: turn.mid, user };
    let whole = [];

    const flush = () => {
        emit(directory, Buffer.concat(whole));
        whole = [];
    };

    playing.set(session.id, run);
    said.set(user, wouldSay(turn.items, session.id));
    await sleep(Number(o.start ?? 2));

    for (const e of turn.items) {
        if (run.aborted) {
            return;
        }

        if (o.wait && e.line?.includes('"MessageAbortedError"')) {
            await replied(run);
        }

        const ms = e.pause ?? (run.replay || isDelta(e) ? delay : 0);

        if (ms) {
            await sleep(ms);
        }

        const bytes = e.hidden || e.pause ? Buffer.alloc(0)
            : e.bytes ? Buffer.from(e.bytes) : frame(e.line, o.chunk);
        const apply = () => e.line && !run.dead && state.apply(e);

        if (o.chunk === 'whole') {
            whole.push(bytes);
            apply();

        } else {
            emit(directory, bytes, o.chunk, apply);
        }

        if (o.wait && /^(question|permission)\.asked$/.test(e.type)) {
            await replied(run);
        }

        if (e.type === 'server.instance.disposed') {
            flush();
            close(directory);
        }
    }

    flush();
    emit(directory, Buffer.alloc(0), 'event', () => {
        state.settle(turn.messages ?? {});

        if (playing.get(session.id) === run) {
            playing.delete(session.id);
        }
    });
}


function replied(run) {
    return new Promise((resolve) => { run.go = resolve; });
}


/* a made-up turn ends as OpenCode ends it: error, idle, tail, idle again */

function abort({ session }) {
    const run = playing.get(session.id);
    const error = { name: 'MessageAbortedError', data: { message: 'Aborted' } };
    const items = [];

    run?.go?.();

    if (run?.replay) {
        return true;
    }

    if (run) {
        const m = session.messages.get(run.mid);

        run.aborted = true;
        playing.delete(session.id);
        items.push(event('session.error', session.id, { error }));

        if (m) {
            items.push(...idle(session.id), event('message.updated',
                session.id, { info: { ...m.info, error, time:
                    { ...m.info.time, completed: Date.now() } } }));
        }
    }

    for (const e of [...items, ...idle(session.id)]) {
        state.apply(e);
        emit(session.directory, frame(e.line));
    }

    return true;
}


function answer(q) {
    const asked = state.asked[q.noun].get(q.id);

    if (!asked) {
        return missing(q.noun, q.id);
    }

    const run = playing.get(asked.sessionID);

    /* of a subagent: whoever waits */
    for (const r of run ? [run] : playing.values()) {
        r.go?.();
    }

    return true;
}


function missing(what, id) {
    return [404, { name: 'NotFoundError',
                   data: { message: `${what} not found: ${id}` } }];
}


function restart({ json }) {
    const { sessions = [...playing.keys()] } = json;

    for (const id of sessions) {
        const run = playing.get(id);

        if (run) {
            run.aborted = run.dead = true;
            run.go?.();
        }

        playing.delete(id);
        state.forget(id);
    }

    if (json.sessions) {
        return {};
    }

    state.forget();

    return close(undefined, true);
}


function reset() {
    config = {};
    log = [];
    state = new State();
    stats = { overlaps: 0, opened: 0, prompts: 0 };
    playing.clear();
    said.clear();

    return close(undefined, true);
}


/* a session with an id of the caller's: a new one, or the one that has it */

function make(q) {
    const { id, location, ...info } = q.json;
    const session = state.sessions.get(id)
        ?? state.create({ id, directory: location?.directory ?? DIRECTORY,
                          ...info });

    return { data: { ...session, directory: undefined,
                     location: { directory: session.directory } } };
}


function write(res, bytes) {
    res.left = (res.left ?? Infinity) - bytes.length;

    if (res.left > 0) {
        res.write(bytes);
        return;
    }

    res.write(bytes.subarray(0, bytes.length + res.left),
              () => res.socket?.resetAndDestroy());
}


function reply(res, status, body, type = 'application/json') {
    if (status === 204) {
        res.writeHead(204).end();
        return;
    }

    const bytes = Buffer.from(typeof body === 'string' ? body
                                                       : JSON.stringify(body));

    res.writeHead(status, { 'Content-Type': type,
                            'Content-Length': bytes.length });
    write(res, bytes);

    if (res.left > 0) {
        res.end();
    }
}


/* -> true when the rule has answered (or never will) */

async function obey(rule, res) {
    rule.times -= 1;
    res.left = rule.cut;

    if (rule.delay) {
        await sleep(rule.delay);
    }

    if (rule.drop || rule.raw !== undefined) {
        rule.raw === undefined ? res.socket.resetAndDestroy()
                               : res.socket.end(rule.raw);

    } else if (rule.status) {
        reply(res, rule.status, repeated(rule), rule.type);

    } else if (!rule.hang) {
        return false;
    }

    return true;
}


function repeated({ body = '', repeat }) {
    return repeat === undefined ? body : '[' + Array.from({ length: repeat },
        (_, i) => body.replaceAll('%d', String(i).padStart(6, '0')))
        .join(',') + ']';
}


async function serve(req, res) {
    const url = new URL(req.url, 'http://test');
    const body = (await collect(req)).toString();
    const json = parse(body);
    let rule;

    if (!url.pathname.startsWith('/_test/')) {
        const entry = { method: req.method, url: req.url, headers: req.headers,
                        body, json, time: Date.now() / 1000 };

        log.push(entry);
        res.on('finish', () => { entry.done = Date.now() / 1000; });

        rule = (config.rules ?? []).find((r) => r.times !== 0
            && (r.method ?? req.method) === req.method
            && new RegExp(r.url).test(req.url));

        if (rule && await obey(rule, res)) {
            return;
        }
    }

    const [status, answer, type] = route(req.method, url, json, res);

    if (rule?.late) {
        await sleep(rule.late);
    }

    if (rule?.lose) {
        res.socket.resetAndDestroy();
        return;
    }

    if (status) {
        reply(res, status, answer, type);
    }
}


/* -> [status, body, type], or nothing when the handler answers by itself */

function route(method, url, json, res) {
    const found = ROUTES.filter((r) => r.method === method)
        .map((r) => [r, r.path.exec(url.pathname)]).find(([, m]) => m);

    if (!found) {
        return [404, 'no such route', 'text/plain'];
    }

    if (json === undefined) {
        return [500, { name: 'UnknownError' }];
    }

    const [{ handler }, { groups }] = found;
    const q = { ...Object.fromEntries(url.searchParams), ...groups, json };

    if (q.sid) {
        q.session = config.strict ? state.sessions.get(q.sid)
            : state.session(q.sid, config.sessions?.[q.sid] ?? DIRECTORY);

        if (!q.session) {
            return missing('Session', q.sid);
        }
    }

    const out = handler(q, res);

    return out === undefined ? []
           : Array.isArray(out) && typeof out[0] === 'number' ? out
           : [200, out];
}


function parse(body) {
    try {
        return body ? JSON.parse(body) : {};

    } catch {
        return undefined;
    }
}


async function collect(req) {
    const all = [];

    for await (const piece of req) {
        all.push(piece);
    }

    return Buffer.concat(all);
}


reset();

const server = http.createServer({ keepAliveTimeout: 60000 }, (req, res) => {
    res.socket.setNoDelay(true);
    serve(req, res).catch((e) => {
        console.error(e);
        res.destroy();
    });
});

server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () =>
    console.log(`listening ${server.address().port}`));
