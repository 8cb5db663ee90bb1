// Telegram, Slack and WhatsApp for tests: their APIs, as strict as the real
// ones, the people who chat, and faults on request.
//
//     node chat.mjs            prints "listening CONTROL API"
//
// The APIs are at the port API, below /telegram, /slack and /whatsapp.  A test
// controls them at the port CONTROL with
//
//     POST /_test/config  {webhook: {telegram: URL, …}, redeliver: true, rules:
//                          [RULE], rates: {telegram: {…}, …}}
//     POST /_test/say     {platform, chat, text, …: see its say()}
//     POST /_test/crowd   {platform, chats: [CHAT], text, within: ms} says it in
//                         all of them, with the chat for CHAT in the text
//                         -> [{chat, id, status, ms}]
//     POST /_test/press   {platform, chat, message, label | token, from}
//     POST /_test/again   {platform, update?} the same webhook once more
//     POST /_test/update  {platform, update} any other webhook, signed
//     GET  /_test/chat?platform=telegram&chat=1001   its messages, without
//                         what was deleted
//     GET  /_test/all?platform=telegram   the same of all chats, {CHAT: […]}
//     GET  /_test/count?platform=telegram   how many messages of the bot there
//                         rang a bell, {CHAT: N}
//     GET  /_test/log     calls of the bot so far [{platform, method, json,
//                         time, status, answer}]
//     GET  /_test/state   {violations, limited, typing: {CHAT: [times]}, failed:
//                         webhooks}, of all platforms
//     POST /_test/block   {platform, chat, blocked: true}
//     POST /_test/down    {down: true | false} refuses connections
//     POST /_test/reset   forgets all but the configuration of webhooks
//
// say, press, again and update send the webhook at once, and answer {id, update,
// status, ms, text} of it; without a webhook (poll) there is no status.  What
// was not answered 2xx is sent again as the platform does it, if redeliver is
// set: after 1 s, then doubled, up to 2 min, or as Retry-After asks for.
//
// A RULE is {platform?, method?: REGEX, chat?, times?} and one of: status with
// json or text, retry (seconds: 429 as the platform says it), hang (ms, then it
// is done), drop (close without an answer), lose (the same, but it is done), cut
// (it is done, and the answer ends in the middle), rubbish (200 with a text that
// makes no sense).

import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Slack } from './chat/slack.mjs';
import { Telegram } from './chat/telegram.mjs';
import { WhatsApp } from './chat/whatsapp.mjs';

const MAX_DELAY = 120000;


export class Chats {

    constructor() {
        this.config = { webhook: {}, rules: [], redeliver: false };
        this.reset();
    }

    reset() {
        this.platforms = { telegram: new Telegram(), slack: new Slack(),
                           whatsapp: new WhatsApp() };
        this.log = [];
        this.failed = [];
        this.last = {};
        this.config.rules = [];

        return {};
    }

    configure({ rates, ...config }) {
        Object.assign(this.config, config);

        for (const [name, r] of Object.entries(rates ?? {})) {
            Object.assign(this.platforms[name].rates, r);
            this.platforms[name].limits.clear();
        }

        return {};
    }

    // a call of the bot

    async api(req, res, body) {
        const [, name, path] = /^\/(\w+)(\/.*)$/.exec(req.url) ?? [];
        const platform = this.platforms[name];
        const route = platform?.route(path);

        if (!route) {
            send(res, { status: 404, json: {} });
            return;
        }

        const entry = { platform: name, method: route.method, time: Date.now(),
                        verb: req.method, path, json: json(body) };

        this.log.push(entry);

        const rule = this.rule(entry);

        if (rule?.drop) {
            entry.fault = 'drop';
            req.socket.destroy();
            return;
        }

        if (rule?.hang) {
            entry.fault = 'hang';
            await sleep(rule.hang);
        }

        if (rule && this.refuse(platform, rule, entry, res)) {
            return;
        }

        const gone = new Promise((resolve) => res.on('close', resolve));
        const answer = await platform.call(route, { json: entry.json, gone,
                                                    headers: req.headers });

        entry.status = answer.status;
        entry.answer = answer.json;
        entry.done = Date.now();

        if (rule?.lose) {
            entry.fault = 'lose';
            req.socket.destroy();
            return;
        }

        if (rule?.cut) {
            const text = answer.bytes ?? Buffer.from(JSON.stringify(answer.json));

            entry.fault = 'cut';
            res.writeHead(answer.status, { 'Content-Type': 'application/json',
                                           'Content-Length': text.length });
            res.write(text.subarray(0, text.length / 2),
                      () => req.socket.destroy());
            return;
        }

        send(res, answer);
    }

    refuse(platform, rule, entry, res) {
        let answer;

        if (rule.rubbish) {
            answer = { status: 200, text: rule.rubbish };

        } else if (rule.retry) {
            answer = platform.platform === 'telegram'
                ? { status: 429, json: { ok: false, error_code: 429,
                    description: `Too Many Requests: retry after ${rule.retry}`,
                    parameters: { retry_after: rule.retry } } }
                : platform.platform === 'slack'
                ? { status: 429, json: { ok: false, error: 'ratelimited' },
                    headers: { 'Retry-After': String(rule.retry) } }
                : { status: 429, json: { error: { code: 130429,
                    message: '(#130429) Rate limit hit',
                    type: 'OAuthException' } },
                    headers: { 'Retry-After': String(rule.retry) } };

        } else if (rule.status) {
            answer = { status: rule.status, json: rule.json, text: rule.text };

        } else {
            return false;
        }

        entry.status = answer.status;
        entry.fault = 'refuse';
        send(res, answer);

        return true;
    }

    rule({ platform, method, json: q }) {
        const chat = String(q?.chat_id ?? q?.channel ?? q?.channel_id ?? q?.to
                            ?? '');
        const rule = this.config.rules.find((r) => r.times !== 0
            && (!r.platform || r.platform === platform)
            && (!r.method || new RegExp(r.method).test(method))
            && (!r.chat || String(r.chat) === chat));

        if (rule?.times > 0) {
            rule.times--;
        }

        return rule;
    }

    // what people do

    say({ platform, ...what }) {
        return this.send(platform, this.platforms[platform].say(what));
    }

    crowd({ platform, chats, text, within = 0 }) {
        return Promise.all(chats.map(async (chat, i) => {
            await sleep(within * i / chats.length);

            const { id, status, ms } = await this.say({ platform, chat,
                text: text.replaceAll('CHAT', chat) });

            return { chat, id, status, ms };
        }));
    }

    press({ platform, label, ...what }) {
        if (label !== undefined) {
            const m = this.platforms[platform].chats.get(String(what.chat))
                ?.messages.find((x) => x.id === String(what.message));

            what.token = m?.buttons?.find((b) => b.label === label)?.token;

            if (!what.token) {
                return { error: `no button ${label}` };
            }
        }

        return this.send(platform, this.platforms[platform].press(what));
    }

    again({ platform, update }) {
        return this.send(platform, update ? { update } : this.last[platform]);
    }

    async send(name, it) {
        const url = this.config.webhook[name];

        this.last[name] = it;

        if (!url) {
            return it;
        }

        const first = await this.post(name, url, it.update);

        if (first.status >= 300 || !first.status) {
            this.failed.push({ platform: name, ...first });

            if (this.config.redeliver) {
                this.redeliver(name, url, it.update, first);
            }
        }

        return { ...it, ...first };
    }

    async redeliver(name, url, update, last) {
        let delay = 1000;

        while (!(last.status < 300 && last.status) && this.config.redeliver) {
            await sleep(last.retry ? last.retry * 1000 : delay);
            delay = Math.min(delay * 2, MAX_DELAY);
            last = await this.post(name, url, update);
        }
    }

    async post(name, url, update) {
        const start = performance.now();

        try {
            const { body, headers } = this.platforms[name].webhook(update);
            const res = await fetch(url, { method: 'POST', body, headers,
                signal: AbortSignal.timeout(10000) });

            return { status: res.status, text: await res.text(),
                     ms: performance.now() - start,
                     retry: Number(res.headers.get('retry-after')) };

        } catch (e) {
            return { status: 0, text: String(e), ms: performance.now() - start };
        }
    }

    chat({ platform, chat }) {
        return (this.platforms[platform].chats.get(chat)?.messages ?? [])
            .filter((m) => !m.deleted);
    }

    all({ platform }) {
        return Object.fromEntries([...this.platforms[platform].chats.keys()]
            .map((chat) => [chat, this.chat({ platform, chat })]));
    }

    count({ platform }) {
        return Object.fromEntries([...this.platforms[platform].chats.values()]
            .map(({ id, messages }) => [id,
                messages.filter((m) => m.bot && !m.silent).length]));
    }

    state() {
        const all = Object.values(this.platforms);

        return { failed: this.failed,
                 violations: all.flatMap((p) => p.violations),
                 limited: all.reduce((n, p) => n + p.limited, 0),
                 queries: [...this.platforms.telegram.queries.values()],
                 typing: Object.fromEntries(all.flatMap((p) =>
                     [...p.chats.values()].map((c) => [c.id, c.typing]))) };
    }

    block({ platform, chat, blocked }) {
        this.platforms[platform].chats.get(String(chat)).blocked = blocked;

        return {};
    }

    control(path, q) {
        switch (path) {
        case '/_test/config':  return this.configure(q);
        case '/_test/say':     return this.say(q);
        case '/_test/crowd':   return this.crowd(q);
        case '/_test/press':   return this.press(q);
        case '/_test/again':   return this.again(q);
        case '/_test/update':  return this.again(q);
        case '/_test/chat':    return this.chat(q);
        case '/_test/all':     return this.all(q);
        case '/_test/count':   return this.count(q);
        case '/_test/log':     return this.log;
        case '/_test/state':   return this.state();
        case '/_test/block':   return this.block(q);
        case '/_test/reset':   return this.reset();
        default:               return undefined;
        }
    }
}


export function json(body) {
    try {
        return body.length ? JSON.parse(body) : undefined;

    } catch {
        return undefined;
    }
}


export function send(res, { status, json, text, bytes, type, headers }) {
    const body = bytes ?? Buffer.from(text ?? JSON.stringify(json ?? {}));

    res.writeHead(status, { 'Content-Type': type ?? (text === undefined
        ? 'application/json' : 'text/html'), 'Content-Length': body.length,
        ...headers });
    res.end(body);
}


export function serve(handler, port = 0) {
    const server = http.createServer(async (req, res) => {
        const pieces = [];

        try {
            for await (const piece of req) {
                pieces.push(piece);
            }

            await handler(req, res, Buffer.concat(pieces));

        } catch (e) {
            if (!req.destroyed) {
                console.error(e);
                send(res, { status: 500, json: { error: String(e) } });
            }
        }
    });

    return new Promise((resolve) => server.listen(port, '127.0.0.1',
                                                  () => resolve(server)));
}


if (process.argv[1] === new URL(import.meta.url).pathname) {
    const chats = new Chats();
    const handler = (req, res, body) => chats.api(req, res, body);

    let api = await serve(handler);
    const { port } = api.address();

    const down = async (isDown) => {
        if (isDown && api) {
            const old = api;

            api = undefined;
            await new Promise((resolve) => {
                old.close(resolve);
                old.closeAllConnections();
            });

        } else if (!isDown && !api) {
            api = await serve(handler, port);
        }

        return {};
    };

    const control = await serve(async (req, res, body) => {
        const url = new URL(req.url, 'http://x');
        const q = { ...Object.fromEntries(url.searchParams), ...json(body) };
        const answer = url.pathname === '/_test/down' ? await down(q.down)
            : await chats.control(url.pathname, q);

        send(res, answer === undefined
            ? { status: 404, json: { error: url.pathname } }
            : { status: 200, json: answer });
    });

    console.log(`listening ${control.address().port} ${port}`);
}
