// A server that speaks Redis' protocol and answers what it is told to:
//
//     node resp.mjs <port>
//     redis-cli -p <port> CONTROL '{"EVALSHA": "-OOM no memory"}'
//
// The answers are in the protocol, without the last line end.  CONTROL closes
// all other connections, and answers how many were made since the last time.
// What has no answer gets those of a server that works.

import net from 'node:net';

const sockets = new Set();
const sha = '0'.repeat(40);

let answers = {};
let connects = 0;

net.createServer((socket) => {
    let text = '';

    sockets.add(socket);
    connects++;

    socket.setEncoding('latin1');
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));

    socket.on('data', (data) => {
        text += data;

        for (let command; (command = next()); ) {
            socket.write(answer(socket, command) + '\r\n', 'latin1');
        }
    });

    // -> the words of the next command, if it is complete

    function next() {
        const words = [];
        const head = /^\*(\d+)\r\n/.exec(text);

        if (!head) {
            return null;
        }

        let at = head[0].length;

        for (let i = 0; i < +head[1]; i++) {
            const size = /^\$(\d+)\r\n/.exec(text.slice(at, at + 20));

            if (!size || text.length < at + size[0].length + +size[1] + 2) {
                return null;
            }

            at += size[0].length;
            words.push(text.slice(at, at + +size[1]));
            at += +size[1] + 2;
        }

        text = text.slice(at);

        return words;
    }

}).listen(+process.argv[2], '127.0.0.1');


function answer(socket, words) {
    const name = words[0].toUpperCase();

    if (name === 'CONTROL') {
        const n = connects - 1;

        answers = JSON.parse(words[1] ?? '{}');
        connects = 0;

        for (const other of sockets) {
            if (other !== socket) {
                other.destroy();
            }
        }

        return `:${n}`;
    }

    const said = answers[name];

    if (said !== undefined) {
        return said;
    }

    switch (name) {

    case 'PING':
        return '+PONG';

    case 'CONFIG':
        return '*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction';

    case 'SCRIPT':
        return `$40\r\n${sha}`;

    case 'EVALSHA':
        return '*1\r\n+OK';

    case 'WAIT':
        return ':0';

    default:
        return '+OK';
    }
}
