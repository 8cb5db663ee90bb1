// What is in the chats of a platform: messages, who was typing, how often the
// bot has called.  The platforms share it; each of them says what is allowed.

import { EventEmitter } from 'node:events';


// so many at once, and one more each `every` ms

export class Bucket {

    constructor(size, every) {
        this.size = size;
        this.every = every;
        this.left = size;
        this.time = Date.now();
    }

    // -> 0, or the ms until the next one is allowed

    take() {
        const now = Date.now();

        this.left = Math.min(this.size,
                             this.left + (now - this.time) / this.every);
        this.time = now;

        if (this.left < 1) {
            return Math.max(1, Math.ceil((1 - this.left) * this.every));
        }

        this.left -= 1;

        return 0;
    }
}


// at most so many within any `span` ms

export class Window {

    constructor(size, span) {
        this.size = size;
        this.span = span;
        this.times = [];
    }

    take() {
        const now = Date.now();

        while (this.times.length && this.times[0] <= now - this.span) {
            this.times.shift();
        }

        if (this.times.length >= this.size) {
            return Math.max(1, this.times[0] + this.span - now);
        }

        this.times.push(now);

        return 0;
    }
}


export class World extends EventEmitter {

    constructor(platform) {
        super();

        this.platform = platform;
        this.chats = new Map();
        this.limits = new Map();
        this.violations = [];
        this.limited = 0;
    }

    // a chat is known when somebody has said something in it

    open(id, group = false) {
        if (!this.chats.has(id)) {
            this.chats.set(id, { id, group, messages: [], typing: [],
                                 threads: new Set() });
        }

        return this.chats.get(id);
    }

    add(chat, message) {
        const m = { time: Date.now(), platform: this.platform, chat: chat.id,
                    edits: [], ...message };

        chat.messages.push(m);
        this.emit('message', m);

        return m;
    }

    edit(message, change) {
        Object.assign(message, change);
        message.edits.push({ time: Date.now(), text: message.text });
        this.emit('message', message);
    }

    remove(message) {
        message.deleted = Date.now();
        this.emit('message', message);
    }

    find(chat, id) {
        return chat.messages.find((m) => m.id === id && !m.deleted);
    }

    typing(chat, thread, what) {
        chat.typing.push(Date.now());
        this.emit('typing', { platform: this.platform, chat: chat.id, thread,
                              what });
    }

    // counts a call; -> 0, or the ms after which it is allowed

    limit(key, create) {
        if (!this.limits.has(key)) {
            this.limits.set(key, create());
        }

        const wait = this.limits.get(key).take();

        this.limited += wait ? 1 : 0;

        return wait;
    }

    // what a bot that behaves never does

    violate(what, detail) {
        this.violations.push({ platform: this.platform, what, detail });
    }
}


// An object that must have these members and no others.  The shape says of each
// name: a type of JSON, a function that says whether the value is right, or
// another shape; "?" behind the name: it may be missing.
// -> what is wrong, or undefined

export function wrong(value, shape, path = '') {
    if (typeof shape === 'function') {
        return shape(value) ? undefined : path;
    }

    if (typeof shape === 'string') {
        return typeof value === shape ? undefined : path;
    }

    if (Array.isArray(shape)) {
        if (!Array.isArray(value)) {
            return path;
        }

        return value.map((v, i) => wrong(v, shape[0], `${path}[${i}]`))
                    .find((w) => w !== undefined);
    }

    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
        return path || 'body';
    }

    const known = new Map(Object.entries(shape).map(([name, s]) =>
        [name.replace('?', ''), { s, optional: name.endsWith('?') }]));

    for (const name of Object.keys(value)) {
        if (!known.has(name)) {
            return `${path}.${name}`;
        }
    }

    for (const [name, { s, optional }] of known) {
        if (value[name] === undefined) {
            if (!optional) {
                return `${path}.${name}`;
            }

        } else {
            const w = wrong(value[name], s, `${path}.${name}`);

            if (w !== undefined) {
                return w;
            }
        }
    }

    return undefined;
}
