# SPDX-License-Identifier: Apache-2.0
"""An OTLP/gRPC receiver for one machine's bench: HTTP/2 without TLS (RFC 9113), one thread a connection.

It keeps every request message and answers OK. Header blocks are not decoded: every request is taken for an Export, and
the two header blocks sent are constants in HPACK literals (RFC 7541).
"""
import gzip
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS, PADDED = 4, 8
WINDOW = 1 << 24
RESPONSE = b"\x88" + b"\x0f\x10\x10application/grpc" # :status 200, content-type
TRAILERS = b"\x00\x0bgrpc-status\x010"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Sink:
    """Receives on 127.0.0.1; messages holds (bytes on the wire, whether gzip) in order of arrival, arrivals their Unix ns."""

    def __init__(self):
        self.messages = []
        self.arrivals = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError: # closed
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        bodies = {}
        with connection, connection.makefile("rb") as stream:
            try:
                if stream.read(len(PREFACE)) != PREFACE:
                    return
                settings = struct.pack(">HI", 4, WINDOW) # SETTINGS_INITIAL_WINDOW_SIZE
                connection.sendall(frame(SETTINGS, 0, 0, settings) +
                                   frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW)))
                while self.receive(connection, stream, bodies):
                    pass
            except OSError: # the agent went away
                pass

    def receive(self, connection, stream, bodies):
        head = stream.read(9)
        if len(head) < 9:
            return False
        size = int.from_bytes(head[:3], "big")
        kind, flags, number = struct.unpack(">BBI", head[3:])
        payload = stream.read(size)
        if kind == DATA:
            if size:
                update = struct.pack(">I", size)
                connection.sendall(frame(WINDOW_UPDATE, 0, 0, update) + frame(WINDOW_UPDATE, 0, number, update))
            if flags & PADDED:
                payload = payload[1:size - payload[0]]
            bodies[number] = bodies.get(number, b"") + payload
            if flags & END_STREAM:
                self.keep(bodies.pop(number))
                connection.sendall(frame(HEADERS, END_HEADERS, number, RESPONSE) +
                                   frame(DATA, 0, number, bytes(5)) +
                                   frame(HEADERS, END_HEADERS | END_STREAM, number, TRAILERS))
        elif kind == SETTINGS and not flags & ACK:
            connection.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            connection.sendall(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM:
            bodies.pop(number, None)
        return kind != GOAWAY

    def keep(self, body):
        """A gRPC message: compressed flag, length, bytes."""
        if len(body) >= 5 and len(body) == 5 + int.from_bytes(body[1:5], "big"):
            self.arrivals.append(time.time_ns())
            self.messages.append((body[5:], body[0] == 1))

    def decoded(self):
        """(request, bytes on the wire) of each message."""
        for body, compressed in self.messages:
            yield gzip.decompress(body) if compressed else body, len(body)

    def close(self):
        self.listener.close()
        for connection in self.connections:
            connection.close()
