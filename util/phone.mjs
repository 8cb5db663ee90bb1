// The phone of "make run": Telegram, Slack and WhatsApp, played by the chat
// platforms of the tests, behind a small page with which anybody can chat.
//
//     node util/phone.mjs PORT WEBHOOKS      prints "phone: URL"
//
// WEBHOOKS is where the webhooks of nginx are, "http://127.0.0.1:8080": they are
// /telegram, /slack and /whatsapp there.  The same port has the platforms' APIs,
// below /telegram, /slack and /whatsapp.
//
//     GET  /         the page
//     GET  /events   messages and typing, as server-sent events
//     POST /say      {platform, text, file?: {name, mime, base64, photo}}
//     POST /press    {platform, message, token}

import { readFileSync } from 'node:fs';
import { Chats, json, send, serve } from '../t/lib/chat.mjs';

const [port, webhooks] = process.argv.slice(2);
const CHATS = { telegram: '1001', slack: 'D0PHONE', whatsapp: '491701234567' };
const page = readFileSync(new URL('phone.html', import.meta.url));

const chats = new Chats();
const watchers = new Set();

chats.configure({ redeliver: true, webhook: Object.fromEntries(
    Object.keys(CHATS).map((name) => [name, `${webhooks}/${name}`])) });

for (const platform of Object.values(chats.platforms)) {
    for (const event of ['message', 'typing']) {
        platform.on(event, (it) => tell({ event, ...it }));
    }
}


function tell(it, list = watchers) {
    for (const res of list) {
        res.write(`data: ${JSON.stringify(it)}\n\n`);
    }
}


// what was said before, then what is said from now on

function watch(req, res) {
    res.writeHead(200, { 'Content-Type': 'text/event-stream',
                         'Cache-Control': 'no-cache' });
    res.write(': hello\n\n');

    for (const [name, chat] of Object.entries(CHATS)) {
        for (const m of chats.platforms[name].chats.get(chat)?.messages ?? []) {
            tell({ event: 'message', ...m }, [res]);
        }
    }

    watchers.add(res);
    res.on('close', () => watchers.delete(res));
}


async function act(res, verb, q) {
    if (!CHATS[q?.platform]) {
        send(res, { status: 400, json: { error: 'platform' } });
        return;
    }

    send(res, { status: 200, json: await chats[verb]({ ...q,
        chat: CHATS[q.platform], from: undefined }) });
}


// A page of another origin must not talk for the person at this machine; JSON
// needs a permission that is never given.

const server = await serve((req, res, body) => {
    const own = req.headers['content-type'] === 'application/json';

    switch (`${req.method} ${req.url}`) {
    case 'GET /':
        return send(res, { status: 200, bytes: page,
                           type: 'text/html; charset=utf-8' });
    case 'GET /events':
        return watch(req, res);
    case 'POST /say':
        return act(res, 'say', own && json(body));
    case 'POST /press':
        return act(res, 'press', own && json(body));
    default:
        return chats.api(req, res, body);
    }
}, Number(port));

console.log(`phone: http://127.0.0.1:${server.address().port}/`);
