# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 of a server, frame by frame, so that a test can send whatever it likes: RFC 9113, headers as literals (RFC 7541).

Header blocks of the client are not decoded: a scripted server need not know what they say.
"""
import socket
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11
INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS = 4, 3
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LAST_STREAM = (1 << 31) - 1
PREFIX = 5  # bytes before a gRPC message


class Gone(Exception):
    """The client has closed the connection, or says nothing more."""


def integer(n):
    """With a prefix of 7 bits."""
    if n < 127:
        return bytes([n])
    out, n = bytearray([127]), n - 127
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def block(headers):
    out = b""
    for name, value in headers:
        name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
        out += b"\0" + integer(len(name)) + name + integer(len(value)) + value
    return out


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Peer:
    """A connected socket; reads whole numbers of bytes."""

    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(600)  # longer than any test

    def read(self, n):
        data = b""
        while len(data) < n:
            try:
                more = self.sock.recv(n - len(data))
            except OSError as e:
                raise Gone(str(e)) from e
            if not more:
                raise Gone("closed")
            data += more
        return data

    def write(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise Gone(str(e)) from e

    def drain(self):
        """Reads until the client closes."""
        try:
            while True:
                self.read(1)
        except Gone:
            pass

    def reset(self):
        """Closes with a TCP reset, whatever was not read."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Connection(Peer):
    """After `open`, the client may send no more than the five bytes before a message until it is granted more."""

    def open(self, settings=((INITIAL_WINDOW_SIZE, PREFIX),)):
        if self.read(len(PREFACE)) != PREFACE:
            raise Gone("no HTTP/2")
        self.write(frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *x) for x in settings)))
        self.grant(0, 1 << 30)

    def data_within_window(self, stream, n):
        """So many zero bytes, no faster than the client allows; False when it wants no more of them."""
        credit = {0: 65535, stream: 65535}
        while n:
            part = min(n, 16384, *credit.values())
            if part:
                self.data(stream, bytes(part))
                n -= part
                credit = {k: v - part for k, v in credit.items()}
                continue
            head = self.read(9)
            kind, at = head[3], struct.unpack(">I", head[5:])[0]
            payload = self.read(int.from_bytes(head[:3], "big"))
            if kind == RST_STREAM and at == stream:
                return False
            if kind == WINDOW_UPDATE and at in credit:
                credit[at] += struct.unpack(">I", payload)[0]
        return True

    def grant(self, stream, n):
        if n > 0:
            self.write(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n)))

    def next(self):
        """(type, flags, stream, payload) of the next frame that is the caller's business."""
        while True:
            head = self.read(9)
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            payload = self.read(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                self.write(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.write(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                raise Gone("GOAWAY")
            elif kind in (DATA, HEADERS, RST_STREAM):
                return kind, flags, stream, payload

    def headers(self, stream, headers, end=False):
        self.write(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(headers)))

    def data(self, stream, payload, end=False):
        self.write(frame(DATA, END_STREAM if end else 0, stream, payload))

    def goaway(self, last, error=NO_ERROR, text=b""):
        self.write(frame(GOAWAY, 0, 0, struct.pack(">II", last, error) + text))

    def rst(self, stream, error):
        self.write(frame(RST_STREAM, 0, stream, struct.pack(">I", error)))
