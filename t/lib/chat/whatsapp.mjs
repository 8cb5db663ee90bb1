// WhatsApp's Cloud API, as strict as the real one about lengths, rates, ids and
// the 24 hours in which a person can be answered.

import { createHmac } from 'node:crypto';
import { Bucket, World, wrong } from './world.mjs';

export const TOKEN = 'EAAtest-token';
export const SECRET = 'whatsapp-app-secret';
export const VERIFY = 'whatsapp-verify-word';

const NUMBER = '106540352242922';

const is = (word) => (v) => v === word;
const to = (max) => (v) => typeof v === 'string' && v.length > 0
                           && [...v].length <= max;
const CONTEXT = { 'context?': { message_id: 'string' } };
const MESSAGE = { messaging_product: is('whatsapp'), to: 'string',
                  'recipient_type?': is('individual'), ...CONTEXT };

const SHAPES = {
    text: { ...MESSAGE, type: is('text'), text: { body: to(4096),
        'preview_url?': 'boolean' } },
    interactive: { ...MESSAGE, type: is('interactive'),
        interactive: (v) => wrong(v, v?.type === 'list' ? LIST : BUTTONS)
                            === undefined },
    read: { messaging_product: is('whatsapp'), status: is('read'),
            message_id: 'string', 'typing_indicator?': { type: is('text') } },
};
const BUTTONS = { type: is('button'), body: { text: to(1024) }, action: {
    buttons: (v) => Array.isArray(v) && v.length >= 1 && v.length <= 3
        && v.every((b) => wrong(b, { type: is('reply'),
            reply: { id: to(256), title: to(20) } }) === undefined) } };
const LIST = { type: is('list'), body: { text: to(4096) }, action: {
    button: to(20), sections: (v) => Array.isArray(v) && v.length === 1
        && wrong(v[0], { 'title?': to(24), rows: [{ id: to(200),
            title: to(24), 'description?': to(72) }] }) === undefined
        && v[0].rows.length <= 10 } };


class Refused extends Error {

    constructor(status, code, message, details) {
        super(message);
        this.answer = { status, json: { error: { message: `(#${code}) ${
            message}`, type: 'OAuthException', code, error_data:
            { messaging_product: 'whatsapp', details: details ?? message },
            fbtrace_id: 'Ax' } } };
    }
}


export class WhatsApp extends World {

    constructor() {
        super('whatsapp');

        this.token = TOKEN;
        this.secret = SECRET;
        this.number = NUMBER;
        this.next = 1;
        this.files = new Map();
        this.rates = { size: 1, every: 6000 };
    }

    route(path) {
        const m = /^\/(?:v\d+\.\d+\/([^/?]+)(\/messages)?|lookaside\/(.*))$/
            .exec(path);

        return m && { method: m[3] !== undefined ? 'file'
                              : m[2] ? 'messages' : 'media',
                      id: m[1], rest: m[3] };
    }

    call({ method, id, rest }, { json, headers }) {
        try {
            if (headers.authorization !== `Bearer ${this.token}`) {
                throw new Refused(401, 190, 'Invalid OAuth access token.');
            }

            if (method === 'messages') {
                return { status: 200, json: this.messages(id, json ?? {}) };
            }

            const file = method === 'media' ? this.files.get(id)
                : [...this.files.values()].find((f) => f.path === rest);

            if (!file) {
                throw new Refused(404, 100, 'Unsupported get request.');
            }

            return method === 'file'
                ? { status: 200, bytes: file.bytes, type: file.mime }
                : { status: 200, json: { messaging_product: 'whatsapp', id,
                    url: `https://lookaside.fbsbx.com/${file.path}`,
                    mime_type: file.mime, sha256: 'x',
                    file_size: file.bytes.length } };

        } catch (e) {
            if (!e.answer) {
                throw e;
            }

            return e.answer;
        }
    }

    bad(code, message, details) {
        this.violate('refused', `${code} ${message} ${details ?? ''}`);
        throw new Refused(400, code, message, details);
    }

    messages(number, q) {
        if (number !== this.number) {
            this.bad(100, 'Unsupported post request', number);
        }

        const shape = SHAPES[q.status ?? q.type];
        const bad = shape ? wrong(q, shape) : 'type';

        if (bad !== undefined) {
            this.bad(100, 'Invalid parameter', `${bad} ${JSON.stringify(q)}`);
        }

        if (q.status) {
            return this.read(q);
        }

        const chat = this.chats.get(q.to);

        if (!chat) {
            this.bad(131047, 'Re-engagement message');
        }

        if (chat.blocked) {
            throw new Refused(400, 131047, 'Re-engagement message');
        }

        const wait = this.limit(chat.id, () =>
            new Bucket(this.rates.size, this.rates.every));

        if (wait) {
            throw new Refused(400, 131056, '(Business Account, Consumer '
                + 'Account) pair rate limit hit');
        }

        const text = q.text?.body ?? q.interactive.body.text;

        if (/[\u0000-\u0008\u000b-\u001f]/.test(text)) {
            this.violate('control characters', text);
        }

        const action = q.interactive?.action;
        const buttons = action?.buttons?.map((b) => ({ label: b.reply.title,
                                                       token: b.reply.id }))
            ?? action?.sections[0].rows.map((r) => ({ label: r.title,
                token: r.id, list: true })) ?? [];

        if (new Set(buttons.map((b) => b.token)).size !== buttons.length
            || new Set(buttons.map((b) => b.label)).size !== buttons.length)
        {
            this.bad(131009, 'Parameter value is not valid', 'buttons');
        }

        const m = this.add(chat, { id: this.wamid(), text, buttons, bot: true,
            raw: q, thread: '', reply: q.context?.message_id ?? '',
            silent: false });

        return { messaging_product: 'whatsapp',
                 contacts: [{ input: q.to, wa_id: q.to }],
                 messages: [{ id: m.id }] };
    }

    read(q) {
        for (const chat of this.chats.values()) {
            const m = chat.messages.find((x) => x.id === q.message_id
                                                && !x.bot);

            if (m) {
                m.read = Date.now();

                if (q.typing_indicator) {
                    this.typing(chat, '');
                }

                return { success: true };
            }
        }

        return this.bad(100, 'Invalid parameter', 'message_id');
    }

    // they can be long

    wamid() {
        return 'wamid.' + Buffer.from(`message-${this.next++}`.padEnd(66, '.'))
            .toString('base64');
    }

    // { chat: the person, text?, file?: { name?, mime, base64, photo? },
    // message?: instead of it }

    say({ chat: id, text, file, message }) {
        const chat = this.open(id);
        const m = this.add(chat, { id: this.wamid(), text: text ?? '',
                                   from: id, thread: '',
                                   file: file && (file.name ?? 'image') });

        return { id: m.id, update: this.update({ messages: [{ from: id,
            id: m.id, timestamp: String(Math.floor(m.time / 1000)),
            ...(message ?? this.attach(file, text)) }] }) };
    }

    attach(file, text) {
        if (!file) {
            return { type: 'text', text: { body: text ?? '' } };
        }

        const id = String(5000 + this.files.size);
        const type = file.photo ? 'image' : 'document';

        this.files.set(id, { mime: file.mime,
            bytes: Buffer.from(file.base64 ?? '', 'base64'), path:
            `whatsapp_business/attachments/?mid=${id}&ext=1&hash=ATt-x_1` });

        return { type, [type]: { id, mime_type: file.mime, sha256: 'x',
            ...(text ? { caption: text } : {}),
            ...(file.photo ? {} : { filename: file.name }) } };
    }

    press({ chat: id, message, token }) {
        const m = this.chats.get(id)?.messages.find((x) => x.id === message);
        const b = m?.buttons?.find((x) => x.token === token);
        const kind = b?.list ? 'list_reply' : 'button_reply';

        return { update: this.update({ messages: [{ from: id, id: this.wamid(),
            timestamp: String(Math.floor(Date.now() / 1000)),
            context: { from: this.number, id: message }, type: 'interactive',
            interactive: { type: kind, [kind]: { id: token,
                                                 title: b?.label ?? 'x' } } }]
        }) };
    }

    update(value) {
        return { object: 'whatsapp_business_account', entry: [{
            id: '102290129340398', changes: [{ field: 'messages', value: {
                messaging_product: 'whatsapp', metadata: {
                    display_phone_number: '15550783881',
                    phone_number_id: this.number },
                contacts: (value.messages ?? []).map((m) => ({
                    profile: { name: 'Ann' }, wa_id: m.from })),
                ...value } }] }] };
    }

    // Meta writes and signs what is not ASCII as \uXXXX

    webhook(update) {
        const body = JSON.stringify(update).replace(/[\u0080-\uffff]/g, (c) =>
            `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

        return { body, headers: { 'Content-Type': 'application/json',
            'X-Hub-Signature-256': 'sha256='
                + createHmac('sha256', this.secret).update(body)
                    .digest('hex') } };
    }
}
