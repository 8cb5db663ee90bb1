// The best bridge that Node can do: one subscription shared by all turns,
// events routed and deltas copied as slices of text without parsing, one write
// per turn and read.  With "watched", others can read a turn, too: its packets
// are kept for those who come later.
//
//   node hub.mjs port http://127.0.0.1:4096 [watched]

import http from 'node:http';

import { HEADERS, Translator, body, messageId, route } from './packets.mjs';

const [port, baseUrl, watched] = process.argv.slice(2);

const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const turns = new Map();    /* by session */
const dirty = new Set();
const hubs = new Map();     /* by directory */

let timestamp = '';


class Turn {

    constructor(id, response) {
        this.id = id;
        this.response = response;
        this.turnId = messageId();
        this.head = `event: message\nid: ${this.turnId}:`;
        this.seq = 0;
        this.out = '';
        this.said = '';         /* if watched */
        this.watchers = [];
        this.chunkHead = '';
        this.chunkMessage = '';
        this.translator = new Translator(id, this.turnId,
            (type, fields) => this.packet(JSON.stringify(
                { type, timestamp, ...fields })));
    }

    packet(json) {
        this.out += `${this.head}${++this.seq}\ndata: ${json}\n\n`;

        if (this.out.length > 65536) {
            this.flush();

        } else {
            dirty.add(this);
        }
    }

    /* "delta" is JSON still: as it came, so it goes */

    delta(frame, at) {
        const { translator } = this;
        const message = frame.indexOf('"messageID":"', at) + 13;
        const part = frame.indexOf('"partID":"', message) + 10;
        const partEnd = frame.indexOf('"', part);
        const field = frame.indexOf('"field":"text","delta":"', partEnd);

        if (field !== partEnd + 2
            || !translator.parts.has(frame.slice(part, partEnd)))
        {
            return false;
        }

        const messageId = frame.slice(message, part - 12);
        const text = frame.slice(field + 24, -3);

        if (text.includes('\\')) {
            return false;
        }

        if (this.chunkMessage !== messageId) {
            this.chunkMessage = messageId;
            this.chunkHead = '","sessionUpdate":"agent_message_chunk",'
                + `"messageId":"${messageId}","content":{"type":"text",`
                + '"text":"';
        }

        const id = frame.slice(part, partEnd);
        translator.parts.set(id, translator.parts.get(id) + text.length);

        this.packet('{"type":"agent_message_chunk","timestamp":"' + timestamp
            + this.chunkHead + text + '","annotations":null},"_meta":null}');

        return true;
    }

    flush() {
        if (this.out) {
            this.response.write(this.out);

            for (const watcher of this.watchers) {
                watcher.write(this.out);
            }

            this.said += watched ? this.out : '';
            this.out = '';
        }
    }

    watch(response) {
        this.flush();
        response.writeHead(200, HEADERS);
        response.write(this.said);
        this.watchers.push(response);
        response.on('close', () => {
            this.watchers = this.watchers.filter((w) => w !== response);
        });
    }

    close() {
        turns.delete(this.id);
        dirty.delete(this);
        this.translator.close();
        this.response.end(this.out);

        for (const watcher of this.watchers) {
            watcher.end(this.out);
        }

        this.out = '';
        this.watchers = [];
    }
}


function frame(text) {
    const at = text.indexOf('"properties":{"sessionID":"');

    if (at === -1) {
        return;
    }

    const id = text.slice(at + 27, text.indexOf('"', at + 27));
    const turn = turns.get(id);

    if (!turn) {
        return;
    }

    if (text.startsWith('"message.part.delta"', at - 21)
        && turn.delta(text, at))
    {
        return;
    }

    turn.translator.event(JSON.parse(text.slice(6)));

    if (turn.translator.ended) {
        turn.close();
    }
}


function hub(directory) {
    let open = hubs.get(directory);

    if (open) {
        return open;
    }

    open = new Promise((resolve, reject) => {
        const url = `${baseUrl}/event?directory=`
            + encodeURIComponent(directory);
        let rest = '';

        http.get(url, (response) => {
            response.setEncoding('utf8');
            response.on('data', (piece) => {
                let from = 0, end;

                timestamp = new Date().toISOString();

                if (rest) {
                    /* a large event comes in many pieces: look at each once */
                    const known = Math.max(rest.length - 1, 0);

                    rest += piece;
                    end = rest.indexOf('\n\n', known);
                    piece = rest;

                } else {
                    end = piece.indexOf('\n\n');
                }

                for ( ; end !== -1; end = piece.indexOf('\n\n', from)) {
                    frame(piece.slice(from, end));
                    from = end + 2;
                }

                rest = piece.slice(from);
                resolve();

                for (const turn of dirty) {
                    turn.flush();
                }

                dirty.clear();
            });
            response.on('close', () => {
                hubs.delete(directory);

                for (const turn of turns.values()) {
                    turn.response.destroy();
                }
            });
        }).on('error', (e) => {
            hubs.delete(directory);
            reject(e);
        });
    });

    hubs.set(directory, open);

    return open;
}


function call(method, path, json) {
    return new Promise((resolve, reject) => {
        const request = http.request(baseUrl + path, { method, agent,
            headers: json ? { 'Content-Type': 'application/json',
                'Content-Length': Buffer.byteLength(json) } : {} },
            (response) => {
                let text = '';

                response.setEncoding('utf8');
                response.on('data', (piece) => { text += piece; });
                response.on('end', () => resolve(text));
            });

        request.on('error', reject);
        request.end(json);
    });
}


async function start(id, request, response) {
    const { content } = await body(request);
    const { directory } = JSON.parse(await call('GET', `/session/${id}`));

    await hub(directory);

    const turn = new Turn(id, response);

    response.on('close', () => { turns.delete(id); });
    turns.set(id, turn);

    timestamp = new Date().toISOString();
    response.writeHead(200, HEADERS);
    turn.translator.start();

    await call('POST', `/session/${id}/prompt_async?directory=`
        + encodeURIComponent(directory), JSON.stringify({
            messageID: turn.turnId,
            parts: [{ type: 'text', text: content }] }));
}


const server = http.createServer((request, response) => {
    const id = route(request);

    if (!id) {
        const turn = turns.get(/([^/]+)\/events$/.exec(request.url)?.[1]);

        turn ? turn.watch(response) : response.writeHead(404).end();
        return;
    }

    start(id, request, response).catch((e) => {
        console.error(e);
        response.destroy();
    });
});

server.keepAliveTimeout = 65000;
server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
