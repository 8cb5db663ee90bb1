#!/usr/bin/env python3
"""
One HTTP/3 request, and every way a client has to leave it.

    http3.py PORT METHOD PATH [BODY [late]]

A JSON body, "late": not sent yet.  Says "sent", "status N", "data N" for each piece of the body and
"end".  A word on its input is what it does next:

    stop    wants no more of the response (STOP_SENDING); a browser does that
            when a page leaves
    reset   takes the request back (RESET_STREAM)
    close   closes the connection
    body    sends the late body

After the first two the connection stays open.  At the end of the input it is
closed.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

CANCELLED = 0x10c       # RFC 9114, 8.1: H3_REQUEST_CANCELLED


def say(*words):
    print(*words, flush=True)


class Client(QuicConnectionProtocol):

    http = None

    def quic_event_received(self, event):
        if self.http is None:
            self.http = H3Connection(self._quic)

        for e in self.http.handle_event(event):
            if isinstance(e, HeadersReceived):
                say('status', dict(e.headers)[b':status'].decode())

            elif isinstance(e, DataReceived) and e.data:
                say('data', len(e.data))

            if getattr(e, 'stream_ended', False):
                say('end')

    def request(self, method, path, body, late):
        self.body = body.encode()
        self.stream = self._quic.get_next_available_stream_id()

        headers = [(b':method', method.encode()), (b':scheme', b'https'),
                   (b':authority', b'localhost'), (b':path', path.encode())]

        if body:
            headers += [(b'content-type', b'application/json'),
                        (b'content-length', str(len(body)).encode())]

        self.http.send_headers(self.stream, headers, end_stream=not body)

        if body and not late:
            self.http.send_data(self.stream, self.body, end_stream=True)

        self.transmit()
        say('sent')

    def do(self, how):
        if how == 'body':
            self.http.send_data(self.stream, self.body, end_stream=True)

        elif how == 'stop':
            self._quic.stop_stream(self.stream, CANCELLED)

        elif how == 'reset':
            self._quic.reset_stream(self.stream, CANCELLED)

        else:
            self._quic.close(CANCELLED)

        self.transmit()


async def main(port, method, path, body='', late=''):
    loop = asyncio.get_running_loop()

    connection = QuicConnection(configuration=QuicConfiguration(
        alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE,
        server_name='localhost'))

    _, client = await loop.create_datagram_endpoint(
        lambda: Client(connection), local_addr=('127.0.0.1', 0))

    client.connect(('127.0.0.1', int(port)))
    await client.wait_connected()
    client.request(method, path, body, late)

    words = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(words), sys.stdin)

    while word := (await words.readline()).decode().strip():
        client.do(word)

    client.do('close')


asyncio.run(main(*sys.argv[1:]))
