// What the scripted OpenCode sends for a prompt, and the faults that it can
// make.
//
// The prompt's first line is an order:
//
//     replay:NAME[:TURN[:SESSION]]  a captured turn, both counted from 1
//     text:N:SIZE:DELAY             N deltas of SIZE bytes, DELAY ms apart
//     say:TEXT                      TEXT, one delta per UTF-16 unit
//
// followed by options, `key=value`, which override those of /_test/config:
//
//     chunk    whole | event | bytes:N | data | newline | utf8 | escape | crlf
//     delay    ms before an event (delta) start   ms from the 204 to the first
//     fault    a name of FAULTS below     giant   size of fault=giant's event
//     with     NAME[:TURN[:SESSION]], another session's turn between the events
//     wait     1: go on after a question, permission or abort point only when
//              the reply was posted

import { Capture, clock, item, newId } from './capture.mjs';

const IDLE = /^session\.(idle|status)$/;


/* each takes the items of a turn and returns those to play instead */

const FAULTS = {
    noidle: (items) => hide(items, isIdle),
    nodeltas: (items) => hide(items, isDelta),
    lostdelta: (items, o, n = 0) => hide(items, (e) => isDelta(e) && n++ % 2),

    lateidle: (items) => [...items, { pause: 50 }, ...items.filter(isIdle)],
    dupidle: (items) => items.flatMap((e) => isIdle(e) ? [e, e] : [e]),
    staleidle: (items) => [...items.filter(isIdle), { pause: 20 }, ...items],
    dupevents: (items) => items.flatMap((e) => isDelta(e) ? [e] : [e, e]),

    deltafirst: (items) => beforeDelta(items, (e, id) =>
        e.type === 'message.part.updated' && e.line.includes(id.part)),
    deltaorphan: (items) => beforeDelta(items, (e, id) =>
        e.line.includes(id.message) && e.type === 'message.updated'),

    wrongfinal: (items) => items.map((e) =>
        /"type":"text".*"end":/.test(e.line) && !isDelta(e)
            ? item(e.line.replace(/"text":"(?=[^"])/, '"text":"Rewritten: '))
            : e),

    /* nothing more after the first step, whose calls are done */

    onestep: (items) => items.slice(0, items.findIndex(({ line }) =>
        /"completed":\d+,?.*"finish":"tool-calls"/.test(line)) + 1),

    badjson: (items) => amid(items, notJson(items)),

    /* instead of the first answer's events, one that makes no sense */

    lostmessage: (items) => {
        const id = firstAnswer(items);
        const at = items.findLastIndex((e) => e.line.includes(id)) + 1;
        const lost = hide(items, (e) => e.line.includes(id));

        return [...lost.slice(0, at), notJson(items), ...lost.slice(at)];
    },

    badutf8: (items) => amid(items, { bytes: Buffer.concat([
        Buffer.from(`data: {"id":"evt_x","type":"session.diff","properties":`
            + `{"sessionID":"${items[0].sid}","diff":"`),
        Buffer.from([0xc3, 0x28, 0xff, 0xed, 0xa0, 0x80]),
        Buffer.from('"}}\n\n')]) }),

    diskfull: (items) => [...items.slice(0, items.findIndex(isDelta) + 1),
        event('session.error', items[0].sid, { error: { name: 'UnknownError',
            data: { message: 'SQLiteError: database or disk is full' } } }),
        ...idle(items[0].sid)],

    /* deltas of parts that nobody ever announces; OpenCode has none stored */

    strangers: (items, o) => amid(items, { bytes: Array.from(
        { length: Number(o.strangers ?? 1000) }, (_, i) => `data: ${event(
            'message.part.delta', items[0].sid, { field: 'text', delta: 'x',
                messageID: firstAnswer(items), partID: `prt_x${i}` }).line
        }\n\n`).join('') }),

    giant: (items, o) => amid(items, event('session.diff', items[0].sid,
        { diff: 'x'.repeat(Number(o.giant ?? 5e6)) })),
};


export function parsePrompt(text, defaults) {
    const [line] = text.split('\n');
    const [order, ...rest] = line.split(' ');
    const [verb, ...args] = (defaults.order ?? order).split(':');
    const options = { ...defaults };

    for (const pair of rest) {
        const m = /^(\w+)=(\S+)$/.exec(pair);

        if (m) {
            options[m[1]] = m[2];
        }
    }

    return { verb, args, text: line, options };
}


/* -> { items, messages? }: what to say, and the truth afterwards */

export function makeTurn(prompt, session, user, directory, captures) {
    const { verb, args, options } = prompt;
    let turn;

    if (verb === 'replay') {
        const [name, ...which] = args;

        turn = new Capture(captures, name).replay(which, session, user);

    } else if (verb === 'say') {
        turn = say(prompt.text.slice(4).split(''), session, user, directory,
                   prompt);

    } else {
        turn = say(words(verb === 'text' ? args : [3, 16, 0], session),
                   session, user, directory, prompt);
        options.delay ??= args[2];
    }

    if (options.fault) {
        for (const name of options.fault.split(',')) {
            turn.items = FAULTS[name](turn.items, options);
        }

        /* the capture's own end is not the truth any more */
        delete turn.messages;
    }

    if (options.with) {
        const [name, ...which] = options.with.split(':');
        const other = new Capture(captures, name)
            .replay(which, newId('ses'), newId('msg'));

        turn.items = interleave(turn.items, other.items);
    }

    return turn;
}


export function event(type, sessionID, properties) {
    return item(JSON.stringify({ id: newId('evt'), type,
                                 properties: { sessionID, ...properties } }));
}


/* a model's words: every one names its session, so that a leak shows */

function words([n, size], session) {
    const tag = session.slice(-8);
    const fill = [...'é✓😀-'];

    return Array.from({ length: Number(n) }, (_, i) => {
        const word = `${tag}#${i} `;
        const more = Math.max(0, Number(size) - word.length);

        return word + Array.from({ length: more },
                                 (_, k) => fill[k % fill.length]).join('');
    });
}


export function idle(session) {
    return [event('session.status', session, { status: { type: 'idle' } }),
            event('session.idle', session, {})];
}


/* OpenCode's order of events for one step of text */

function say(deltas, sessionID, user, directory, prompt) {
    const mid = newId('msg'), pid = newId('prt'), now = clock();
    const text = deltas.join('');
    const of = { messageID: mid, sessionID };
    const tokens = { input: 100, output: deltas.length, reasoning: 0,
                     cache: { read: 0, write: 0 } };

    const message = (more, time) => event('message.updated', sessionID, {
        info: { id: mid, parentID: user, role: 'assistant', mode: 'build',
                agent: 'build', path: { cwd: directory, root: directory },
                cost: 0, tokens, modelID: 'scripted', providerID: 'lab',
                sessionID, time: { created: now, ...time }, ...more } });

    const part = (p) => event('message.part.updated', sessionID,
                              { part: { ...of, ...p }, time: now });

    return { mid, items: [
        event('message.updated', sessionID, {
            info: { id: user, role: 'user', sessionID, agent: 'build',
                    time: { created: now } } }),
        part({ id: newId('prt'), messageID: user, type: 'text',
               text: prompt.text }),
        event('session.status', sessionID, { status: { type: 'busy' } }),
        message({}),
        part({ id: newId('prt'), type: 'step-start' }),
        part({ id: pid, type: 'text', text: '', time: { start: now } }),

        ...deltas.map((delta) => event('message.part.delta', sessionID,
            { messageID: mid, partID: pid, field: 'text', delta })),

        part({ id: pid, type: 'text', text, time: { start: now, end: now } }),
        part({ id: newId('prt'), type: 'step-finish', reason: 'stop', tokens,
               cost: 0 }),
        message({ finish: 'stop' }),
        message({ finish: 'stop' }, { completed: now }),
        ...idle(sessionID),
    ] };
}


/* all deltas of the session's texts, also those that nobody hears */

export function wouldSay(items, session) {
    const mine = items.filter((e) => e.sid === session && e.line)
        .map((e) => ({ ...e, p: JSON.parse(e.line).properties }));
    const texts = new Set(mine.filter((e) => e.p.part?.type === 'text')
        .map((e) => e.p.part.id));

    return mine.filter((e) => isDelta(e) && texts.has(e.p.partID))
        .map((e) => e.p.delta).join('');
}


export function isDelta(e) {
    return e?.type === 'message.part.delta';
}


function isIdle(e) {
    return IDLE.test(e.type) && !/"type":"(busy|retry)"/.test(e.line);
}


/* said to nobody, but true: it shows in the REST answers */

function hide(items, which) {
    return items.map((e) => which(e) ? { ...e, hidden: true } : e);
}


function notJson(items) {
    return { bytes: `data: {"id":"evt_x","type":"message.part.delta",`
        + `"properties":{"sessionID":"${items[0].sid}","delta":"x\n\n` };
}


function firstAnswer(items) {
    const e = items.find(({ type, line }) => type === 'message.updated'
                                             && /"role":"assistant"/.test(line));

    return JSON.parse(e.line).properties.info.id;
}


function amid(items, extra) {
    const at = items.findIndex(isDelta) + 1 || Math.floor(items.length / 2);

    return [...items.slice(0, at), extra, ...items.slice(at)];
}


/* moves each part's first delta in front of the first event `what` matches */

function beforeDelta(items, what) {
    const out = [...items], seen = new Set();

    for (const e of items.filter(isDelta)) {
        const p = JSON.parse(e.line).properties;

        if (seen.has(p.partID)) {
            continue;
        }

        seen.add(p.partID);
        out.splice(out.indexOf(e), 1);
        out.splice(out.findIndex((x) => what(x, { part: p.partID,
                                                  message: p.messageID })),
                   0, e);
    }

    return out;
}


function interleave(a, b) {
    return Array.from({ length: Math.max(a.length, b.length) },
                      (_, i) => [b[i], a[i]]).flat().filter(Boolean);
}
