// A DNS server: every name has the addresses that are in a file, one per line,
// which is read at each question.
//
//     node dns.mjs <port> <file>

import dgram from 'node:dgram';
import fs from 'node:fs';

const [port, file] = process.argv.slice(2);
const server = dgram.createSocket('udp4');

server.on('message', (question, from) => {
    const found = fs.readFileSync(file, 'utf8').split('\n').filter(Boolean);
    let end = 12;

    while (question[end]) {
        end += question[end] + 1;
    }

    // only addresses of IPv4
    const records = question.readUInt16BE(end + 1) === 1 ? found : [];

    const head = Buffer.from([question[0], question[1], 0x81,
                              found.length ? 0x80 : 0x83, 0, 1,
                              0, records.length, 0, 0, 0, 0]);

    server.send(Buffer.concat([head, question.subarray(12, end + 5),
        ...records.map((a) => Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1,
                                           0, 4, ...a.split('.').map(Number)])),
    ]), from.port, from.address);
});

server.bind(+port, '127.0.0.1');
