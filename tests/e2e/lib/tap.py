# SPDX-License-Identifier: Apache-2.0
"""Between the agent and a server on loopback: passes bytes through and reads the HTTP/2 frames (RFC 9113) in both directions.

What it says of the client is an account of its own: windows, streams, acknowledgements. Over TLS it only counts connections.
"""
import socket
import struct
import threading

from .scenario import free_port

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
HEADER_TABLE_SIZE, MAX_CONCURRENT, INITIAL_WINDOW, MAX_FRAME = 1, 3, 4, 5


class Connection:
    """The frames of one connection. `wrong` has what the client may not do."""

    def __init__(self):
        self.lock = threading.Lock()
        self.buffers = {"client": b"", "server": b""}
        self.n_frames = {"client": 0, "server": 0}
        self.wrong = []
        self.goaways = []  # last stream ids, in the order that the server sent them
        self.settings = {MAX_CONCURRENT: 1 << 31, INITIAL_WINDOW: 65535, MAX_FRAME: 16384}
        self.pending = []  # settings that the client has not acknowledged
        self.window = 65535  # of the connection
        self.streams = {}  # id → [window, first bytes of the data, bytes of data, ended by client]
        self.closed = set()  # ended by the server
        self.answers = {}  # id → first bytes of the answer's data
        self.pings = []  # of the server, not answered
        self.n_pings = self.n_settings = self.n_waits = 0

    def take(self, who, data):
        with self.lock:
            buffer = self.buffers[who] + data
            if who == "client" and not self.n_frames[who]:
                if len(buffer) < len(PREFACE):
                    self.buffers[who] = buffer
                    return
                if not buffer.startswith(PREFACE):
                    self.wrong.append("no preface")
                buffer = buffer[len(PREFACE):]
                self.n_frames[who] = 1
            while len(buffer) >= 9:
                length = int.from_bytes(buffer[:3], "big")
                if len(buffer) < 9 + length:
                    break
                kind, flags, stream = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big") & (1 << 31) - 1
                getattr(self, "_" + who)(kind, flags, stream, buffer[9:9 + length])
                self.n_frames[who] += 1
                buffer = buffer[9 + length:]
            self.buffers[who] = buffer

    # --- what the client sends
    def _client(self, kind, flags, stream, body):
        if self.n_frames["client"] == 1 and kind != SETTINGS:
            self.wrong.append(f"the first frame is {kind}")
        if len(body) > self.settings[MAX_FRAME]:
            self.wrong.append(f"a frame of {len(body)} bytes")
        if kind == SETTINGS and flags & ACK:
            if self.pending:
                self._shrink(self.pending.pop(0))
            else:
                self.wrong.append("an acknowledgement of no settings")
        elif kind == PING:
            self._client_ping(flags, body)
        elif kind == HEADERS:
            self._client_headers(stream)
        elif kind == DATA:
            self._client_data(stream, flags, body)
        elif kind == GOAWAY and int.from_bytes(body[4:8], "big"):
            self.wrong.append(f"GOAWAY with error {int.from_bytes(body[4:8], 'big')}: {body[8:]}")
        elif kind == RST_STREAM and stream not in self.streams:
            self.wrong.append("a reset of a stream that was never opened")

    def _client_ping(self, flags, body):
        if not flags & ACK:
            self.wrong.append("a ping of the client's own")
        elif body in self.pings:
            self.pings.remove(body)
        else:
            self.wrong.append("an answer to no ping")

    def _client_headers(self, stream):
        if stream % 2 == 0 or stream <= max(self.streams, default=0):
            self.wrong.append(f"stream {stream} after {max(self.streams, default=0)}")
        self.streams[stream] = [self.settings[INITIAL_WINDOW], b"", 0, False]
        n_open = len(set(self.streams) - self.closed)
        if n_open > self.settings[MAX_CONCURRENT]:
            self.wrong.append(f"{n_open} streams at once")

    def _client_data(self, stream, flags, body):
        if stream not in self.streams:
            self.wrong.append(f"data of stream {stream}, which is not open")
            return
        s = self.streams[stream]
        s[0] -= len(body)
        self.window -= len(body)
        if body and (s[0] < 0 or self.window < 0):
            self.wrong.append(f"data beyond the window of stream {stream}: {s[0]}, {self.window}")
        self.n_waits += not s[0] or not self.window
        s[1] = (s[1] + body)[:5]
        s[2] += len(body)
        s[3] = bool(flags & END_STREAM)

    # --- what the server sends
    def _server(self, kind, flags, stream, body):
        if kind == SETTINGS and not flags & ACK:
            self._server_settings(body)
        elif kind == PING and not flags & ACK:
            self.pings.append(body)
            self.n_pings += 1
        elif kind == GOAWAY:
            self.goaways.append(int.from_bytes(body[:4], "big") & (1 << 31) - 1)
        elif kind == DATA:
            self.answers[stream] = (self.answers.get(stream, b"") + body)[:5]
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(body, "big") & (1 << 31) - 1
            if stream:
                self.streams.get(stream, [0])[0] += more
            else:
                self.window += more
        if (kind in (DATA, HEADERS) and flags & END_STREAM) or kind == RST_STREAM:
            self.closed.add(stream)

    def _server_settings(self, body):
        """What allows more counts at once, what allows less when the client has acknowledged it."""
        new = dict(struct.iter_unpack(">HI", body))
        self.n_settings += 1
        if new.get(INITIAL_WINDOW, 0) > self.settings[INITIAL_WINDOW]:
            self._window(new.pop(INITIAL_WINDOW))
        if new.get(MAX_FRAME, 0) > self.settings[MAX_FRAME]:
            self.settings[MAX_FRAME] = new[MAX_FRAME]
        self.pending.append(new)

    def _shrink(self, new):
        if INITIAL_WINDOW in new:
            self._window(new.pop(INITIAL_WINDOW))
        self.settings.update(new)

    def _window(self, size):
        for s in self.streams.values():
            s[0] += size - self.settings[INITIAL_WINDOW]
        self.settings[INITIAL_WINDOW] = size

    # --- afterwards
    def finished(self):
        """What is wrong now that all is over."""
        wrong = list(self.wrong)
        for stream, (_, start, n, ended) in self.streams.items():
            if ended and n != 5 + int.from_bytes(start[1:5], "big"):
                wrong.append(f"stream {stream} has {n} bytes, its prefix says {start.hex()}")
        if self.streams and self.pending and self.closed:
            wrong.append("settings were not acknowledged")
        return wrong

    def compressed(self):
        """How many whole messages had the compressed flag."""
        return sum(1 for _, start, _, ended in self.streams.values() if ended and start[:1] == b"\1")

    def compressed_answers(self):
        return sum(start[:1] == b"\1" for start in self.answers.values())


class Tap:
    def __init__(self, s, port, host="127.0.0.1"):
        self.target = (host, port)
        self.port = free_port()
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", self.port))
        s.defer(self.listener.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            connection = Connection()
            self.connections.append(connection)
            for who, source, sink in (("client", client, server), ("server", server, client)):
                threading.Thread(target=self._pass, args=(connection, who, source, sink), daemon=True).start()

    @staticmethod
    def _pass(connection, who, source, sink):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                connection.take(who, data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def streams(self):
        return [(c, i) for c in self.connections for i in c.streams]

    def check(self, s, what):
        """The client keeps the rules of HTTP/2 on every connection."""
        wrong = [f"connection {i + 1}: {text}" for i, c in enumerate(self.connections) for text in c.finished()]
        n = sum(c.n_frames["client"] for c in self.connections)
        s.check(f"{what}: frames on the wire keep the rules", n > 3 and not wrong,
                "; ".join(wrong[:4]) or f"{len(self.connections)} connections, {len(self.streams())} streams, {n} frames, "
                f"{sum(c.n_pings for c in self.connections)} pings answered, "
                f"{sum(c.n_waits for c in self.connections)} times a window was used up")
