// A server that speaks Redis' protocol and answers what it is told to:
//
//     node resp.mjs <port>
//     redis-cli -p <port> CONTROL '{"EVALSHA": "-OOM no memory"}'
//
// The answers are in the protocol, without the last line end.  CONTROL closes
// all other connections, and answers how many were made since the last time.
// What has no answer gets those of a server that works.  {"nonsense": SEED} makes
// it answer anything to everything.

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


// numbers that are the same for the same seed

function random(n) {
    answers.nonsense = (answers.nonsense * 1103515245 + 12345) % 2147483648;

    return Math.floor(answers.nonsense / 65536) % n;
}


// any answer; rarely something that the protocol does not know

function anything(depth) {
    const words = ['OK', 'GAP', 'NOKEY', 'FENCED', 'BUSY', 'DECLINED', 'smessage',
                   'as1:{}:c', 'A ', 'M ', 'B ', 'master', '', '0', '1', '-1',
                   '99999999999999999999', sha, '\0\0\0\0', 'x'.repeat(5000)];
    const word = words[random(words.length)];

    switch (random(depth ? 9 : 6)) {

    case 0:
        return `+${word.replace(/[^ -~]/g, '')}`;

    case 1:
        return `:${random(3) - 1}`;

    case 2:
        return '$-1';

    case 3:
        return random(20) ? `-${['ERR', 'OOM', 'NOPERM'][random(3)]} x`
                          : '-READONLY x';

    case 4:
        return random(60) ? `$${sha.length}\r\n${sha}` : '!nonsense';

    case 5:
        return `$${word.length}\r\n${word}`;

    default:
        const list = Array.from({ length: random(9) }, () => anything(depth - 1));

        return [`*${list.length}`, ...list].join('\r\n');
    }
}


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

    if (answers.nonsense !== undefined) {
        return anything(3);
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
