// Servers that others have written, which play Telegram and Slack.
//
//     node judges.mjs PACKAGES TELEGRAM SLACK EMULATE
//                                                prints "listening CONTROL"
//
// PACKAGES is a directory with node_modules; TELEGRAM, SLACK and EMULATE are ports
// for telegram-test-api, for the bot on Slack, and for emulate itself.  A test uses
// them at the port CONTROL with
//
//     POST /telegram  {text}        somebody writes; the bot polls for it
//     POST /press     {data, message}   somebody presses a button
//     GET  /telegram  what the bot has sent, and what was edited
//     POST /slack     {text}        somebody writes -> {ts, channel, user}
//     GET  /slack     the messages of that chat
//
//     POST /thread    {ts}          the messages of a thread
//
// emulate 0.12 has no way to tell it where the webhook of a bot is, so the test
// sends that itself.  It does not know "markdown_text", a parameter of Slack's
// since 2025, and has no method for the line "is working": what the bot sends to
// SLACK is passed on to EMULATE with "text" instead.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { json, send, serve } from '../chat.mjs';

const [packages, telegramPort, slackPort, emulatePort] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const TelegramServer = require('telegram-test-api');
const { createEmulator } = await import(pathToFileURL(
    join(packages, 'node_modules/emulate/dist/api.js')));

const BOT = '42:AAtest-token';

const telegram = new (TelegramServer.TelegramServer ?? TelegramServer.default
    ?? TelegramServer)({ port: Number(telegramPort), host: '127.0.0.1' });

await telegram.start();

const client = telegram.getClient(BOT, { userId: 1001, chatId: 1001,
    type: 'private', firstName: 'Ann', userName: 'ann', timeout: 10000 });

await createEmulator({ service: 'slack', port: Number(emulatePort), seed: { slack: {
    team: { name: 'Team', domain: 'team' },
    users: [{ name: 'ann', real_name: 'Ann', email: 'ann@example.org' },
            { name: 'agent', real_name: 'Agent', email: 'agent@example.org' }],
    channels: [{ name: 'general', topic: 'x' }],
    strict_scopes: true,
    tokens: [
        { token: 'xoxb-test-token', type: 'bot', user: 'agent', scopes: [
            'chat:write', 'channels:history', 'channels:read',
            'assistant:write'] },
        { token: 'xoxp-ann', type: 'user', user: 'ann', scopes: ['chat:write',
            'channels:history', 'channels:read'] }] } } });


async function slack(method, body, authorization = 'Bearer xoxp-ann') {
    const res = await fetch(`http://127.0.0.1:${emulatePort}/api/${method}`, {
        method: 'POST', body: JSON.stringify(body), headers: {
            Authorization: authorization,
            'Content-Type': 'application/json; charset=utf-8' } });

    return res.json();
}


await serve(async (req, res, body) => {
    const { markdown_text: text, ...rest } = json(body) ?? {};

    send(res, { status: 200, json: await slack(req.url.replace('/api/', ''),
        text === undefined ? rest : { ...rest, text },
        req.headers.authorization) });
}, Number(slackPort));


const { channels } = await slack('conversations.list', {});
const channel = channels.find((c) => c.name === 'general').id;

const verbs = {
    'POST /telegram': ({ text }) => (text.startsWith('/')
        ? client.sendCommand(client.makeCommand(text))
        : client.sendMessage(client.makeMessage(text))),
    'POST /press': ({ data, message }) => client.sendCallback(
        client.makeCallbackQuery(data, { message: {
            message_id: message, chat: { id: 1001, type: 'private' } } })),
    'GET /telegram': () => telegram.storage.botMessages,
    'POST /slack': ({ text }) => slack('chat.postMessage', { channel, text }),
    'GET /slack': () => slack('conversations.history', { channel }),
    'POST /thread': ({ ts }) => slack('conversations.replies', { channel, ts }),
};

const control = await serve(async (req, res, body) => {
    const verb = verbs[`${req.method} ${req.url}`];

    send(res, verb ? { status: 200, json: await verb(json(body)) ?? {} }
                   : { status: 404, json: {} });
});

console.log(`listening ${control.address().port}`);
