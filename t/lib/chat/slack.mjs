// Slack's Web API and Events API, as strict as the real ones about lengths,
// blocks, rates and ids.

import { createHmac } from 'node:crypto';
import { Bucket, Window, World, wrong } from './world.mjs';

export const TOKEN = 'xoxb-test-token';
export const SECRET = 'slack-s1gning-secret';

const TEAM = 'T0TEAM';
const BOT = 'U0BOT';

const PLAIN = { type: (v) => v === 'plain_text', text: 'string',
                'emoji?': 'boolean' };
const BUTTON = { type: (v) => v === 'button', text: PLAIN,
                 action_id: 'string', value: 'string' };
const BLOCKS = {
    markdown: { type: 'string', text: 'string' },
    section: { type: 'string', text: { type: (v) => v === 'plain_text',
                                       text: 'string' } },
    actions: { type: 'string', elements: [BUTTON] },
};
const block = (v) => BLOCKS[v?.type]
                     && wrong(v, BLOCKS[v.type]) === undefined;

const TEXT = { channel: 'string', 'text?': 'string', 'markdown_text?': 'string',
               'mrkdwn?': 'boolean', 'blocks?': [block],
               'parse?': (v) => v === 'none', 'link_names?': (v) => !v,
               'unfurl_links?': 'boolean', 'unfurl_media?': 'boolean' };

const SHAPES = {
    'auth.test': {},
    'chat.postMessage': { ...TEXT, 'thread_ts?': 'string' },
    'chat.update': { ...TEXT, ts: 'string' },
    'chat.delete': { channel: 'string', ts: 'string' },
    'assistant.threads.setStatus': { channel_id: 'string', thread_ts: 'string',
                                     status: 'string' },
};


class Refused extends Error {

    constructor(error, more) {
        super(error);
        this.answer = { status: 200, json: { ok: false, error }, ...more };
    }
}


export class Slack extends World {

    constructor() {
        super('slack');

        this.token = TOKEN;
        this.secret = SECRET;
        this.team = TEAM;
        this.next = 100;
        this.files = new Map();
        this.rates = { size: 3, every: 1000, updates: 50 };
        this.assistant = true;
    }

    route(path) {
        const m = /^\/(api|files)\/(.*)$/.exec(path);

        return m && { method: m[1] === 'files' ? 'file' : m[2], rest: m[2] };
    }

    call({ method, rest }, { json, headers }) {
        try {
            if (headers.authorization !== `Bearer ${this.token}`) {
                throw new Refused(headers.authorization ? 'invalid_auth'
                                                        : 'not_authed');
            }

            if (method === 'file') {
                const file = this.files.get(rest);

                return file ? { status: 200, bytes: file, type: 'image/png' }
                            : { status: 404, json: { ok: false } };
            }

            const shape = SHAPES[method];

            if (!shape) {
                throw new Refused('unknown_method');
            }

            const bad = wrong(json ?? {}, shape);

            if (bad !== undefined) {
                this.bad(`invalid_arguments`, `${method}: ${bad}`);
            }

            return { status: 200, json: { ok: true,
                ...this[method.split('.').pop()](json ?? {}) } };

        } catch (e) {
            if (!e.answer) {
                throw e;
            }

            return e.answer;
        }
    }

    bad(error, detail) {
        this.violate('refused', `${error} ${detail ?? ''}`);
        throw new Refused(error);
    }

    chat(id) {
        const chat = this.chats.get(id);

        if (!chat) {
            this.bad('channel_not_found', id);
        }

        if (chat.blocked) {
            throw new Refused('is_archived');
        }

        return chat;
    }

    late(wait) {
        if (wait) {
            throw new Refused('ratelimited', { status: 429, headers:
                { 'Retry-After': String(Math.ceil(wait / 1000)) } });
        }
    }

    text(q) {
        const blocks = q.blocks ?? [];
        const shown = q.markdown_text !== undefined ? q.markdown_text
            : blocks.length ? blocks.map((b) => b.text?.text ?? b.text ?? '')
                                    .join('\n').trim()
            : q.text ?? '';

        if (q.markdown_text !== undefined && (q.text || blocks.length)) {
            this.bad('markdown_text_conflict');
        }

        if (!shown) {
            this.bad('no_text');
        }

        if ((q.markdown_text ?? '').length > 12000
            || (q.text ?? '').length > 40000)
        {
            this.bad('msg_too_long');
        }

        if (blocks.length > 50 || JSON.stringify(blocks).length > 13000) {
            this.bad('msg_blocks_too_long');
        }

        for (const m of [...`${shown}\n${q.text ?? ''}`.matchAll(
            /<(?:!(?:here|channel|everyone|group|subteam|date)|@|#C)[^>]*>/gi)])
        {
            this.violate('mention', m[0]);
        }

        if (/[\u0000-\u0008\u000b-\u001f]/.test(shown)) {
            this.violate('control characters', shown);
        }

        return shown;
    }

    buttons(q) {
        const elements = (q.blocks ?? []).flatMap((b) => b.elements ?? []);
        const ids = new Set(elements.map((e) => e.action_id));

        if (ids.size !== elements.length
            || (q.blocks ?? []).some((b) => b.type === 'actions'
                && (b.elements.length < 1 || b.elements.length > 25))
            || elements.some((e) => e.text.text.length > 75 || !e.text.text
                             || e.value.length > 2000
                             || Buffer.byteLength(e.value) > 64))
        {
            this.bad('invalid_blocks');
        }

        return elements.map((e) => ({ label: e.text.text, token: e.value,
                                      action: e.action_id }));
    }

    ts() {
        return `${Math.floor(Date.now() / 1000)}.${
            String(this.next++).padStart(6, '0')}`;
    }

    test() {
        return { url: 'https://test.slack.com/', team: 'Test', user: 'agent',
                 team_id: this.team, user_id: BOT, bot_id: 'B0BOT' };
    }

    postMessage(q) {
        const chat = this.chat(q.channel);
        const text = this.text(q);
        const buttons = this.buttons(q);

        if (q.thread_ts && !chat.messages.some((m) => m.id === q.thread_ts)) {
            this.bad('thread_not_found', q.thread_ts);
        }

        this.late(this.limit(`post ${chat.id}`, () =>
            new Bucket(this.rates.size, this.rates.every)));

        const m = this.add(chat, { id: this.ts(), text, buttons, bot: true,
            raw: q, thread: q.thread_ts ?? '', silent: false });

        chat.status = '';

        return { channel: chat.id, ts: m.id };
    }

    update(q) {
        const chat = this.chat(q.channel);
        const m = this.own(chat, q.ts);
        const text = this.text(q);
        const buttons = this.buttons(q);

        /* Slack counts the calls of a method in a workspace */

        this.late(this.limit('update', () =>
            new Window(this.rates.updates, 60000)));

        /* blocks that are not sent again stay */

        const kept = q.blocks === undefined && q.markdown_text === undefined
                     ? m.buttons : buttons;

        this.edit(m, { text, buttons: kept, raw: q });

        return { channel: chat.id, ts: m.id, text };
    }

    delete(q) {
        const chat = this.chat(q.channel);

        this.remove(this.own(chat, q.ts));

        return { channel: chat.id, ts: q.ts };
    }

    own(chat, ts) {
        const m = this.find(chat, ts);

        if (!m) {
            throw new Refused('message_not_found');
        }

        if (!m.bot) {
            this.bad('cant_update_message');
        }

        return m;
    }

    setStatus(q) {
        const chat = this.chat(q.channel_id);

        if (!this.assistant) {
            throw new Refused('missing_scope');
        }

        if (!chat.messages.some((m) => m.id === q.thread_ts)) {
            this.bad('invalid_thread_ts');
        }

        if (q.status) {
            this.typing(chat, q.thread_ts, q.status);
        }

        return {};
    }

    // { chat: channel, from?, text, thread?, as?: "app_mention",
    // file?: { name, mime, base64, size? }, or a list of them, event?: more }

    say({ chat: id, from = 'U0ANN', text, thread, as, file, event }) {
        const chat = this.open(id, !id.startsWith('D'));
        const m = this.add(chat, { id: this.ts(), text: text ?? '', from,
                                   thread: thread ?? '', file: file?.name });
        const type = as ?? 'message';

        return { id: m.id, update: this.event({ type, user: from, team: TEAM,
            text: text ?? '', ts: m.id, channel: id, event_ts: m.id,
            ...(type === 'message' ? { channel_type: id.startsWith('D')
                ? 'im' : 'channel' } : {}),
            ...(thread ? { thread_ts: thread } : {}),
            ...this.attach(file), ...event }) };
    }

    attach(file) {
        if (Array.isArray(file)) {
            return { subtype: 'file_share', files: file.flatMap((f) =>
                this.attach(f).files) };
        }

        if (!file) {
            return {};
        }

        const id = `F${this.files.size + 1}`;
        const path = `files-pri/${TEAM}-${id}/${file.name}`;
        const bytes = Buffer.from(file.base64 ?? '', 'base64');

        this.files.set(path, bytes);

        return { subtype: 'file_share', files: [{ id, name: file.name,
            mimetype: file.mime, size: file.size ?? bytes.length, mode: 'hosted',
            url_private: `https://files.slack.com/${path}`,
            url_private_download: `https://files.slack.com/${path}` }] };
    }

    event(event) {
        return { token: 'x', team_id: TEAM, api_app_id: 'A0APP', event,
                 type: 'event_callback', event_id: `Ev${this.next++}`,
                 event_time: Math.floor(Date.now() / 1000),
                 authorizations: [{ enterprise_id: null, team_id: TEAM,
                                    user_id: BOT, is_bot: true,
                                    is_enterprise_install: false }],
                 is_ext_shared_channel: false };
    }

    press({ chat: id, from = 'U0ANN', message, token }) {
        const chat = this.chats.get(id);
        const m = chat?.messages.find((x) => x.id === message);
        const b = m?.buttons?.find((x) => x.token === token);
        const ts = this.ts();

        return { update: { payload: { type: 'block_actions', team: { id: TEAM,
                domain: 'test' }, user: { id: from, team_id: TEAM },
            api_app_id: 'A0APP', container: { type: 'message',
                message_ts: message, channel_id: id,
                ...(m?.thread ? { thread_ts: m.thread } : {}) },
            channel: { id, name: 'general' }, message: { ts: message,
                type: 'message', user: BOT, ...(m?.thread
                    ? { thread_ts: m.thread } : {}) },
            response_url: 'https://hooks.slack.com/actions/x',
            actions: [{ type: 'button', action_id: b?.action ?? 'b0',
                        block_id: 'x', value: token, action_ts: ts,
                        text: { type: 'plain_text', text: b?.label ?? 'x' } }]
        } } };
    }

    webhook(update) {
        const form = update.payload !== undefined;
        const body = form
            ? new URLSearchParams({ payload: JSON.stringify(update.payload) })
                .toString()
            : JSON.stringify(update);
        const time = String(Math.floor(Date.now() / 1000));

        return { body, headers: {
            'Content-Type': form ? 'application/x-www-form-urlencoded'
                                 : 'application/json',
            'X-Slack-Request-Timestamp': time,
            'X-Slack-Signature': 'v0=' + createHmac('sha256', this.secret)
                .update(`v0:${time}:${body}`).digest('hex') } };
    }
}
