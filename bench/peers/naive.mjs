// A bridge as it is most often written: the official SDK, one subscription to
// OpenCode's events per turn, one write per packet.
//
//   node naive.mjs port http://127.0.0.1:4096

import http from 'node:http';

import { createOpencodeClient } from '@opencode-ai/sdk';
import { HEADERS, Translator, body, messageId, route } from './packets.mjs';

const [port, baseUrl] = process.argv.slice(2);

const client = createOpencodeClient({ baseUrl });


async function turn(id, request, response) {
    const { content } = await body(request);
    const session = await client.session.get({ path: { id } });
    const directory = session.data.directory;
    const leave = new AbortController();
    const turnId = messageId();
    let seq = 0;

    const translator = new Translator(id, turnId, (type, fields) => {
        const packet = { type, timestamp: new Date().toISOString(),
                         ...fields };

        response.write(`event: message\nid: ${turnId}:${++seq}\n`
                       + `data: ${JSON.stringify(packet)}\n\n`);
    });

    response.writeHead(200, HEADERS);

    const events = await client.event.subscribe({ query: { directory },
                                                  signal: leave.signal });

    for await (const event of events.stream) {
        if (event.type === 'server.connected') {
            await client.session.promptAsync({ path: { id },
                query: { directory }, body: { messageID: turnId,
                parts: [{ type: 'text', text: content }] } });
            translator.start();
            continue;
        }

        if (event.properties.sessionID !== id) {
            continue;
        }

        translator.event(event);

        if (translator.ended) {
            break;
        }
    }

    leave.abort();
    translator.close();
    response.end();
}


http.createServer((request, response) => {
    const id = route(request);

    if (!id) {
        response.writeHead(404).end();
        return;
    }

    turn(id, request, response).catch((e) => {
        console.error(e);
        response.destroy();
    });
}).listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
