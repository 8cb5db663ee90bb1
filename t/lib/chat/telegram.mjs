// Telegram's Bot API, as strict as the real one about lengths, markup, rates
// and ids.

import { mentions, parse } from './html.mjs';
import { Bucket, Window, World, wrong } from './world.mjs';

export const TOKEN = '42:AAtest-token';
export const SECRET = 'telegram-s3cret';

const ME = { id: 42, is_bot: true, first_name: 'Agent', username: 'agent_bot' };

const MARKUP = { inline_keyboard: [[{ text: 'string',
                                      callback_data: 'string' }]] };
const TEXT = { chat_id: 'number', text: 'string', 'parse_mode?': 'string',
               'link_preview_options?': { is_disabled: 'boolean' },
               'reply_markup?': MARKUP };
const MESSAGE = { chat_id: 'number', message_id: 'number' };

const SHAPES = {
    getMe: {},
    getUpdates: { 'offset?': 'number', 'timeout?': 'number', 'limit?': 'number',
                  'allowed_updates?': ['string'] },
    sendMessage: { ...TEXT, 'message_thread_id?': 'number',
                   'disable_notification?': 'boolean', 'reply_parameters?':
                   { message_id: 'number',
                     'allow_sending_without_reply?': 'boolean' } },
    editMessageText: { ...TEXT, ...MESSAGE },
    editMessageReplyMarkup: { ...MESSAGE, 'reply_markup?': MARKUP },
    deleteMessage: MESSAGE,
    sendChatAction: { chat_id: 'number', 'message_thread_id?': 'number',
                      action: 'string' },
    answerCallbackQuery: { callback_query_id: 'string', 'text?': 'string' },
    getFile: { file_id: 'string' },
};


class Refused extends Error {

    constructor(code, description, parameters) {
        super(description);
        this.answer = { status: code, json: { ok: false, error_code: code,
            description, ...(parameters ? { parameters } : {}) } };
    }
}


export class Telegram extends World {

    constructor() {
        super('telegram');

        this.token = TOKEN;
        this.secret = SECRET;
        this.updates = [];
        this.nextUpdate = 1000;
        this.nextMessage = 1;
        this.files = new Map();
        this.queries = new Map();
        this.rates = { size: 3, every: 850, group: 20, all: 30 };
    }

    // -> which method is called, and what is asked for

    route(path) {
        const m = /^\/(file\/)?bot([^/]+)\/(.*)$/.exec(path);

        return m && { method: m[1] ? 'file' : m[3], token: m[2], rest: m[3] };
    }

    async call({ method, token, rest }, { json, gone }) {
        try {
            if (token !== this.token) {
                throw new Refused(401, 'Unauthorized');
            }

            if (method === 'file') {
                const file = [...this.files.values()]
                    .find((f) => f.path === rest);

                return file ? { status: 200, bytes: file.bytes,
                                type: 'application/octet-stream' }
                            : { status: 404, json: { ok: false,
                                error_code: 404, description: 'Not Found' } };
            }

            const shape = SHAPES[method];

            if (!shape) {
                throw new Refused(404, 'Not Found');
            }

            const bad = wrong(json ?? {}, shape);

            if (bad !== undefined) {
                this.bad(`${method}: bad parameter ${bad}`);
            }

            return { status: 200, json: { ok: true,
                result: await this[method](json ?? {}, gone) } };

        } catch (e) {
            if (!e.answer) {
                throw e;
            }

            return e.answer;
        }
    }

    // refuses what should never have been sent

    bad(description) {
        this.violate('refused', description);
        throw new Refused(400, `Bad Request: ${description}`);
    }

    chat(id) {
        const chat = this.chats.get(String(id));

        if (!chat) {
            this.bad('chat not found');
        }

        if (chat.blocked) {
            throw new Refused(403, 'Forbidden: bot was blocked by the user');
        }

        return chat;
    }

    // sends and edits count alike

    rate(chat) {
        const { size, every, group, all } = this.rates;
        const wait = this.limit(chat.id, () => chat.group
                ? new Window(group, 60000) : new Bucket(size, every))
            || this.limit('all', () => new Window(all, 1000));

        if (wait) {
            const retry = Math.max(1, Math.ceil(wait / 1000));

            throw new Refused(429, `Too Many Requests: retry after ${retry}`,
                              { retry_after: retry });
        }
    }

    text({ text, parse_mode: mode }) {
        if (Buffer.byteLength(text) > 32768) {
            this.bad('message is too long');
        }

        let read = { text: text.trim(), entities: [] };

        if (mode === 'HTML') {
            try {
                read = parse(text);

            } catch (e) {
                this.bad(`can't parse entities: ${e.message}`);
            }

        } else if (mode) {
            this.bad('unsupported parse_mode');
        }

        if (/[\u0000-\u0008\u000b-\u001f]|\ufffe/.test(read.text)) {
            this.violate('control characters', read.text);
        }

        if (!read.text) {
            this.bad('message text is empty');
        }

        if (read.text.length > 4096) {
            this.bad('message is too long');
        }

        if (read.entities.length > 100) {
            this.violate('more than 100 entities', read.entities.length);
        }

        for (const m of mentions(read)) {
            this.violate('mention', m);
        }

        return read;
    }

    buttons(markup) {
        const rows = markup?.inline_keyboard ?? [];

        for (const b of rows.flat()) {
            const n = Buffer.byteLength(b.callback_data);

            if (!b.text || n < 1 || n > 64) {
                this.bad('BUTTON_DATA_INVALID');
            }
        }

        if (rows.flat().length > 100) {
            this.bad('reply markup is too long');
        }

        return rows.flat().map((b) => ({ label: b.text,
                                         token: b.callback_data }));
    }

    getMe() {
        return ME;
    }

    sendMessage(q) {
        const chat = this.chat(q.chat_id);
        const reply = q.reply_parameters;
        const thread = q.message_thread_id;

        if (thread && !chat.threads.has(String(thread))) {
            this.bad('message thread not found');
        }

        if (reply && !reply.allow_sending_without_reply
            && !this.find(chat, String(reply.message_id)))
        {
            this.bad('message to be replied not found');
        }

        const read = this.text(q);
        const buttons = this.buttons(q.reply_markup);

        this.rate(chat);

        const m = this.add(chat, { id: String(this.nextMessage++), ...read,
            raw: q.text, buttons, bot: true, silent: !!q.disable_notification,
            thread: thread ? String(thread) : '',
            reply: reply ? String(reply.message_id) : '' });

        return this.message(chat, m);
    }

    editMessageText(q) {
        const chat = this.chat(q.chat_id);
        const m = this.own(chat, q.message_id, 'edit');
        const read = this.text(q);
        const buttons = this.buttons(q.reply_markup);

        this.rate(chat);

        if (m.text === read.text
            && JSON.stringify([m.entities, m.buttons])
               === JSON.stringify([read.entities, buttons]))
        {
            throw new Refused(400, 'Bad Request: message is not modified: '
                + 'specified new message content and reply markup are exactly '
                + 'the same as a current content and reply markup of the '
                + 'message');
        }

        this.edit(m, { ...read, raw: q.text, buttons });

        return this.message(chat, m);
    }

    editMessageReplyMarkup(q) {
        const chat = this.chat(q.chat_id);
        const m = this.own(chat, q.message_id, 'edit');
        const buttons = this.buttons(q.reply_markup);

        this.rate(chat);

        if (JSON.stringify(m.buttons) === JSON.stringify(buttons)) {
            throw new Refused(400, 'Bad Request: message is not modified');
        }

        this.edit(m, { buttons });

        return this.message(chat, m);
    }

    deleteMessage(q) {
        this.remove(this.own(this.chat(q.chat_id), q.message_id, 'delete'));

        return true;
    }

    own(chat, id, verb) {
        const m = this.find(chat, String(id));

        if (!m) {
            throw new Refused(400, `Bad Request: message to ${verb} not found`);
        }

        if (!m.bot) {
            this.bad(`message can't be ${verb}ed`);
        }

        return m;
    }

    sendChatAction(q) {
        const chat = this.chat(q.chat_id);

        if (q.action !== 'typing') {
            this.bad('wrong parameter action in request');
        }

        this.typing(chat, q.message_thread_id
                          ? String(q.message_thread_id) : '');

        return true;
    }

    answerCallbackQuery(q) {
        const query = this.queries.get(q.callback_query_id);

        if (!query || query.answered) {
            throw new Refused(400, 'Bad Request: query is too old and response '
                              + 'timeout expired or query ID is invalid');
        }

        if ((q.text ?? '').length > 200) {
            this.bad('MESSAGE_TOO_LONG');
        }

        query.answered = Date.now();
        query.text = q.text ?? '';
        this.emit('answered', query);

        return true;
    }

    getFile(q) {
        const file = this.files.get(q.file_id);

        if (file?.bytes.length > 20 * 1024 * 1024) {
            this.bad('file is too big');
        }

        if (!file) {
            this.bad('wrong file_id or the file is temporarily unavailable');
        }

        return { file_id: q.file_id, file_unique_id: q.file_id,
                 file_size: file.bytes.length, file_path: file.path };
    }

    // only one at a time, and what is before the offset is forgotten

    getUpdates({ offset = 0, timeout = 0, limit = 100 }, gone) {
        this.waiting?.(new Refused(409, 'Conflict: terminated by other '
            + 'getUpdates request; make sure that only one bot instance is '
            + 'running'));

        this.updates = this.updates.filter((u) => u.update_id >= offset);

        if (this.updates.length || !timeout) {
            return this.updates.slice(0, limit);
        }

        return new Promise((resolve, reject) => {
            const done = (e) => {
                clearTimeout(timer);
                this.waiting = undefined;
                e ? reject(e) : resolve(this.updates.slice(0, limit));
            };
            const timer = setTimeout(done, timeout * 1000);

            this.waiting = done;
            gone?.then(() => this.waiting === done && done());
        });
    }

    message(chat, m) {
        return { message_id: Number(m.id), date: Math.floor(m.time / 1000),
                 chat: this.chatObject(chat),
                 ...(m.thread ? { message_thread_id: Number(m.thread),
                                  is_topic_message: true } : {}),
                 ...(m.bot ? { from: ME } : { from: m.user }), text: m.text };
    }

    chatObject(chat) {
        return { id: Number(chat.id), ...(chat.group
            ? { type: 'supergroup', title: 'Group',
                ...(chat.threads.size ? { is_forum: true } : {}) }
            : { type: 'private', first_name: 'Ann' }) };
    }

    // somebody says something: { chat, from?, text?, thread?, reply?,
    // file?: { name?, mime, base64, photo? }, message?: more of it }
    // -> { update }

    say({ chat: id, from = id, text, thread, reply, file, message }) {
        const chat = this.open(String(id), Number(id) < 0);
        const user = { id: Number(from), is_bot: false, first_name: 'Ann' };

        if (thread) {
            chat.threads.add(String(thread));
        }

        const m = this.add(chat, { id: String(this.nextMessage++), user,
            text: text ?? '', from: String(from), thread: String(thread ?? ''),
            file: file && (file.name ?? 'photo') });
        const replied = reply && this.find(chat, String(reply));

        const body = { ...this.message(chat, m), ...this.attach(file, text),
            ...(replied ? { reply_to_message: this.message(chat, replied) }
                        : {}), ...message };

        return { id: m.id, update: this.update({ message: body }) };
    }

    attach(file, text) {
        if (!file) {
            return text === undefined ? { text: undefined } : {};
        }

        const id = `FILE-${this.files.size + 1}`;
        const bytes = Buffer.from(file.base64 ?? '', 'base64');
        const path = `${file.photo ? 'photos' : 'documents'}/${id}.bin`;
        const it = { file_id: id, file_unique_id: id, file_size: bytes.length };

        this.files.set(id, { path, bytes });

        return { text: undefined, caption: text, ...(file.photo
            ? { photo: [{ ...it, file_id: `${id}-small`, width: 1, height: 1 },
                        { ...it, width: 2, height: 2 }] }
            : { document: { ...it, file_name: file.name,
                            mime_type: file.mime } }) };
    }

    // somebody presses a button: { chat, from?, message, token }

    press({ chat: id, from = id, message, token }) {
        const chat = this.chats.get(String(id));
        const m = chat?.messages.find((x) => x.id === String(message));
        const query = { id: String(900000 + this.queries.size),
                        message: String(message) };

        this.queries.set(query.id, query);

        return { query: query.id, update: this.update({ callback_query: {
            id: query.id, from: { id: Number(from), is_bot: false,
                                  first_name: 'Ann' },
            message: this.message(chat, m), chat_instance: '1', data: token } })
        };
    }

    update(content) {
        const update = { update_id: this.nextUpdate++, ...content };

        this.updates.push(update);
        this.waiting?.();

        return update;
    }

    webhook(update) {
        return { body: JSON.stringify(update), headers: {
            'Content-Type': 'application/json',
            'X-Telegram-Bot-Api-Secret-Token': this.secret } };
    }
}
