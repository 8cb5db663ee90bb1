// Asks libraries that others have written whether the module reads and writes
// what the chat platforms do.
//
//     node oracles.mjs PROGRAM PACKAGES     prints TAP
//
// PROGRAM is build/unit/chat_bodies, PACKAGES a directory with node_modules.

import { execFileSync, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [program, packages] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));

let count = 0;


function ok(is, name, detail) {
    console.log(`${is ? '' : 'not '}ok ${++count} - ${name}`);

    if (!is && detail) {
        console.log(`${detail}`.replace(/^/gm, '# '));
    }
}


// Webhooks, genuine ones and others: { platform, now, secret, signature,
// timestamp, body }

const NOW = 1700000000;
const SECRETS = ['s3cret', '8f742231b10e8888abcd99yyyzzz85a5', 'ä🙂 x'];
const BODIES = ['{}', '{"a":1}', '{"a":"ä🙂\u05e9"}', '{"a":"\\u00e4"}',
                'payload=%7B%7D', 'x'.repeat(5000), '{"a":"\\/"}'];

const hmac = (secret, text) => createHmac('sha256', secret).update(text)
    .digest('hex');
const escape = (text) => text.replace(/[\u0080-\uffff]/g, (c) =>
    `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);


function vectors() {
    const list = [];

    for (const secret of SECRETS) {
        for (const body of BODIES) {
            const add = (platform, signature, timestamp = '', b = body) =>
                list.push({ platform, secret, signature, timestamp, body: b,
                            now: NOW });

            for (const t of [0, 299, 300, 301, -299, -300, 3600]) {
                const time = String(NOW - t);

                add('slack', `v0=${hmac(secret, `v0:${time}:${body}`)}`, time);
            }

            const time = String(NOW);
            const slack = hmac(secret, `v0:${time}:${body}`);

            add('slack', `v0=${slack}`, time, `${body} `);
            add('slack', `v0=${slack}`, String(NOW - 1));
            add('slack', `v1=${slack}`, time);
            add('slack', slack, time);
            add('slack', `v0=${slack.slice(1)}`, time);
            add('slack', `v0=${hmac('other', `v0:${time}:${body}`)}`, time);
            add('slack', `v0=${slack}`, 'now');

            add('whatsapp', `sha256=${hmac(secret, body)}`);
            add('whatsapp', `sha256=${hmac(secret, escape(body))}`);
            add('whatsapp', `sha256=${hmac('other', body)}`);
            add('whatsapp', `sha256=${hmac(secret, body)}`, '', `${body} `);
            add('whatsapp', `sha1=${hmac(secret, body)}`);
            add('whatsapp', 'sha256=');

            add('telegram', secret);
            add('telegram', `${secret}x`);
            add('telegram', secret.slice(1));
            add('telegram', 'other');
        }
    }

    return list;
}


function ours(list) {
    const hex = (text) => Buffer.from(text).toString('hex') || '-';
    const input = list.map((v) => [v.platform, v.now, hex(v.secret),
        hex(v.signature), hex(v.timestamp), hex(v.body)].join(' ')).join('\n');

    return execFileSync(program, ['genuine'], { input, maxBuffer: 1 << 24 })
        .toString().trim().split('\n').map((line) => line === '1');
}


// -> { platform: function that says whether a webhook is genuine }

function oracles() {
    const { verifySlackRequest } = require(join(packages,
        'node_modules/@slack/bolt/dist/receivers/verify-request.js'));
    const { webhookCallback } = require('grammy');

    return {
        slack: (v) => {
            try {
                verifySlackRequest({ signingSecret: v.secret, body: v.body,
                    headers: { 'x-slack-signature': v.signature,
                        'x-slack-request-timestamp': v.timestamp },
                    nowMilliseconds: v.now * 1000, logger: { warn() {} } });
                return true;

            } catch {
                return false;
            }
        },

        telegram: async (v) => {
            let status = 200;
            const bot = { isRunning: () => false, init: async () => {},
                          handleUpdate: async () => {}, botInfo: {} };
            const handle = webhookCallback(bot, (update, header) => ({
                update: { update_id: 1 }, header,
                end: () => {}, respond: () => {},
                unauthorized: () => { status = 401; },
            }), { secretToken: v.secret });

            await handle({ update_id: 1 }, v.signature);

            return status === 200;
        },
    };
}


async function whatsapp(v) {
    const { WhatsAppAPI } = await import(join(packages,
        'node_modules/whatsapp-api-js/lib/index.js'));
    const api = new WhatsAppAPI({ token: 'x', appSecret: v.secret, v: 'v23.0',
        secure: true, ponyfill: { fetch: () => {},
                                  subtle: globalThis.crypto.subtle } });

    return api.verifyRequestSignature(v.body, v.signature);
}


async function genuine() {
    const list = vectors();
    const answers = ours(list);
    const judges = { ...oracles(), whatsapp };

    ok(answers.length === list.length, `${list.length} webhooks are judged`);

    for (const platform of ['telegram', 'slack', 'whatsapp']) {
        const wrong = [];
        let yes = 0;

        for (const [i, v] of list.entries()) {
            if (v.platform !== platform) {
                continue;
            }

            /*
             * Bolt accepts a timestamp of the future, however far, the module
             * does not.  whatsapp-api-js only knows the escaped form of a body,
             * the module also accepts the body as it is.
             */

            const theirs = await judges[platform](v)
                ? !(platform === 'slack' && Number(v.timestamp) > NOW + 300)
                : platform === 'whatsapp'
                  && v.signature === `sha256=${hmac(v.secret, v.body)}`;

            yes += theirs ? 1 : 0;

            if (theirs !== answers[i]) {
                wrong.push(JSON.stringify({ ...v, theirs, ours: answers[i] })
                    .slice(0, 300));
            }
        }

        ok(yes > 10, `${platform}: ${yes} of them are genuine`);
        ok(!wrong.length, `${platform}: the library says the same`,
           wrong.slice(0, 5).join('\n'));
    }
}


// The bodies that the module sends, as the types of the libraries have them

const TYPES = {
    telegram: (path) => `Parameters<ApiMethods<never>['${path}']>[0]`,
    slack: (path) => ({ 'chat.postMessage': 'ChatPostMessageArguments',
        'chat.update': 'ChatUpdateArguments',
        'chat.delete': 'ChatDeleteArguments', 'auth.test': 'AuthTestArguments',
        'assistant.threads.setStatus': 'AssistantThreadsSetStatusArguments',
    })[path],
};


function types() {
    const bodies = execFileSync(program, ['bodies'], { maxBuffer: 1 << 24 })
        .toString().trim().split('\n').map((line) => line.split(' '))
        .map(([platform, path, ...body]) => ({ platform, path,
                                               body: body.join(' ') }))
        .filter((b) => TYPES[b.platform] && b.path !== 'getMe');

    const line = (b, i) => `export const b${i}: ${
        TYPES[b.platform](b.path)} = ${b.body};`;

    /* these must not be right, or the types do not say anything */

    const wrong = [{ platform: 'telegram', path: 'sendMessage',
        body: '{"chat_id":1,"text":"x","no_such_member":1}' },
        { platform: 'slack', path: 'chat.update',
          body: '{"channel":"C1","text":"x"}' }];

    const dir = join(packages, 'oracle');

    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, 'bodies.ts'), `
import type { ApiMethods } from '@grammyjs/types';
import type { AssistantThreadsSetStatusArguments, AuthTestArguments,
    ChatDeleteArguments, ChatPostMessageArguments, ChatUpdateArguments }
    from '@slack/web-api';
${bodies.map(line).join('\n')}
${wrong.map((b, i) => `// @ts-expect-error\n${line(b, `wrong${i}`)}`)
       .join('\n')}
`);

    const tsc = spawnSync(process.execPath, [join(packages,
        'node_modules/typescript/bin/tsc'), '--noEmit', '--strict',
        '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext',
        '--moduleResolution', 'nodenext', join(dir, 'bodies.ts')],
        { cwd: dir });

    ok(bodies.length > 40, `${bodies.length} bodies`);
    ok(tsc.status === 0, 'they have the types of the libraries',
       tsc.stdout.toString().slice(0, 2000));
}


await genuine();
types();

console.log(`1..${count}`);
