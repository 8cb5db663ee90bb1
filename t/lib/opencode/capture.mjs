// Captures of real turns (t/data/captures), cut into turns and given new ids.
//
// A turn is a list of items { line, type, sid }: `line` is the event's JSON
// text, copied byte for byte except for ids and times, so that escapes, key
// order and spacing stay OpenCode's own.

import fs from 'node:fs';

const ID = /\b(evt|ses|msg|prt|que|per)_[0-9a-f]{12}[0-9A-Za-z]{14}\b/g;
const BASE62 =
    '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

let counter = 0, later = 0;


export class Capture {

    constructor(dir, name) {
        const read = (file) => fs.readFileSync(`${dir}/${file}`, 'utf8');

        this.meta = JSON.parse(read(`${name}.json`));
        this.messages = read(`${name}.messages.json`);

        /* a second stream is another directory's, or came after the first */

        this.streams = fs.readdirSync(dir).sort()
            .filter((file) => file.startsWith(`${name}.`)
                              && file.endsWith('.event.sse'))
            .map((file) => frames(read(file)).map(item));
    }

    /* turns and sessions count from 1; what was no prompt does not count */

    turn(n, s) {
        const session = this.meta.sessions[s - 1];
        const turn = session.turns.filter((t) => t.prompt !== undefined)[n - 1];

        for (const events of this.streams) {
            const found = this.slice(session, turn, events);

            if (found) {
                return found;
            }
        }

        return this.rest(session);
    }

    /* from the user message with this prompt to the next one after an idle */

    slice(session, turn, events) {
        const prompt = events.findIndex((e) => e.sid === session.id
            && e.type === 'message.part.updated'
            && JSON.parse(e.line).properties.part.text === turn.prompt);

        if (prompt === -1) {
            return null;
        }

        const user = JSON.parse(events[prompt].line).properties.part.messageID;
        const start = events.findIndex((e) => userMessage(e) === user);

        let end = start, idle = false;

        while (++end < events.length) {
            const e = events[end];
            const id = e.sid === session.id && userMessage(e);

            idle ||= e.sid === session.id && e.type === 'session.idle';

            if (idle && id && id !== user) {
                break;
            }
        }

        return { session: session.id, user,
                 items: this.own(session, events.slice(start, end)) };
    }

    /* a turn without a user message: all that came after the prompt */

    rest(session) {
        const items = this.streams[0].slice(this.meta.did[0].at)
            .filter((e) => e.type !== 'session.created');

        return { session: session.id, items: this.own(session, items) };
    }

    /* events of the capture's other root sessions are not part of the turn */

    own(session, items) {
        const others = this.meta.sessions.map((s) => s.id)
            .filter((id) => id !== session.id);

        return items.filter((e) => !others.includes(e.sid));
    }

    /* the turn as said by another session, in answer to another message */

    replay([n = 1, s = 1], session, user) {
        const turn = this.turn(n, s);
        const ids = renamer({ [turn.session]: session, [turn.user]: user });
        const times = shifter(turn.items);
        const rename = (text) => times(ids(text));

        return {
            items: turn.items.map((e) => item(rename(e.line))),
            messages: JSON.parse(rename(this.messages)),
        };
    }
}


export function item(line) {
    const type = /"type":"([^"]+)"/.exec(line)?.[1];
    const sid = /"sessionID":"([^"]+)"/.exec(line)?.[1];

    return { line, type, sid };
}


/* an id of OpenCode's form, unique within this process */

export function newId(kind) {
    const time = (BigInt(Date.now()) * 4096n & 0xffffffffffffn).toString(16);

    return `${kind}_${time.padStart(12, '0')}${'A'.repeat(8)}${unique()}`;
}


function unique() {
    let s = '', n = counter++;

    for (let i = 0; i < 6; i++) {
        s = BASE62[n % 62] + s;
        n = Math.floor(n / 62);
    }

    return s;
}


function renamer(map) {
    const ids = new Map(Object.entries(map));

    return (text) => text.replace(ID, (id) => {
        if (!ids.has(id)) {
            ids.set(id, id.slice(0, -6) + unique());
        }

        return ids.get(id);
    });
}


/* The time at which something begins that takes so many milliseconds: later
   than all before, as a session's turns come one after the other. */

export function clock(span = 0) {
    const begin = Math.max(Date.now(), later);

    later = begin + span + 1;

    return begin;
}


/* what was captured, as if it were said now */

function shifter(items) {
    const time = /"(created|updated|completed|start|end)": ?(\d{13})\b/g;
    const all = items.flatMap((e) => [...e.line.matchAll(time)]
        .map((m) => Number(m[2])));
    const first = Math.min(...all);
    const shift = all.length ? clock(Math.max(...all) - first) - first : 0;

    return (text) => text.replace(time, (_, name, ms) =>
        `"${name}":${Number(ms) + shift}`);
}


function frames(text) {
    return text.split('\n\n').filter(Boolean)
        .map((frame) => frame.slice('data: '.length));
}


function userMessage(e) {
    return e.type === 'message.updated' && e.line.includes('"role":"user"')
           && JSON.parse(e.line).properties.info.id;
}
