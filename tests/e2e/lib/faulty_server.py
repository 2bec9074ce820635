# SPDX-License-Identifier: Apache-2.0
"""A Collector that misbehaves by a script: gRPC on http2.py, or HTTP/1.1, on a loopback port; one thread a connection.

A script is a row of steps. Each is done once, by the next request or connection that it fits; between two of them one
request is taken properly, so that every step meets a sender in order. When they are done, `then` answers everything.
"""
import collections
import gzip
import select
import socket
import threading
import time

from . import http2, machine
from .http2 import Gone
from .ledger import Ledger

MESSAGE_MAX = 4 << 20  # of any receiver, after decompression

# level: "call" any request; "kept" one on a connection that carried another; "connection" before anything was said.
# fate: what the samples' fate is; None: the action says. delay: s before which nobody may ask again.
Step = collections.namedtuple("Step", "name act level delay", defaults=("call", 0))


class Call:
    """One request of a client, and the means to treat it badly."""

    def __init__(self, peer, attempt, server):
        self.peer, self.attempt, self.server = peer, attempt, server
        self.closing = False

    def take(self, message):
        self.attempt.take(message)
        if len(message) > MESSAGE_MAX:
            self.server.ledger.errors.append(f"a request of {len(message)} bytes came")

    def fate(self, fate, partial=0):
        self.attempt.fate, self.attempt.partial = fate, partial

    def hold(self):
        """Says nothing more until the client gives up."""
        self.peer.drain()
        self.attempt.gone()
        self.closing = True

    def hold_unread(self):
        """The same without reading."""
        poll = select.poll()
        poll.register(self.peer.sock, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        poll.poll(int(1000 * machine.hang_limit(40)))
        self.attempt.gone()
        self.closing = True

    def cut(self):
        self.peer.reset()
        self.closing = True


class GrpcCall(Call):
    def __init__(self, peer, attempt, server, stream):
        super().__init__(peer, attempt, server)
        self.stream = stream

    def read(self, tenths=None):
        """The request; with `tenths`, no more of it than these, and the sender is not allowed more."""
        data, length, limit = b"", None, None
        while True:
            kind, flags, stream, payload = self.peer.next()
            if stream != self.stream:
                continue
            if kind == http2.RST_STREAM:
                raise Gone("reset")
            data += payload
            if length is None and len(data) >= http2.PREFIX:
                length = int.from_bytes(data[1:http2.PREFIX], "big")
                limit = length if tenths is None else length * tenths // 10
                self.peer.grant(stream, limit)
            if flags & http2.END_STREAM:
                return self.take(gzip.decompress(data[http2.PREFIX:]) if data[0] else data[http2.PREFIX:])
            if tenths is not None and length is not None and len(data) >= http2.PREFIX + limit:
                return None

    def start(self, *more, status="200", content_type="application/grpc", end=False):
        self.attempt.answers()
        self.peer.headers(self.stream, [(":status", status), ("content-type", content_type), *more], end)

    def trailers(self, code, *more):
        self.peer.headers(self.stream, [("grpc-status", str(code)), *more], True)

    def message(self, body=b""):
        return b"\0" + len(body).to_bytes(4, "big") + body

    def answer(self, code=0, *more, body=b""):
        if code:
            return self.start(("grpc-status", str(code)), *more, end=True)
        self.start()
        self.peer.data(self.stream, self.message(body))
        return self.trailers(0)

    def ok(self, body=b"", partial=0):
        self.read()
        self.fate("stored", partial)
        self.answer(body=body)
        if self.server.wants_connection():
            self.leave()

    def leave(self):
        """What max_connection_age does: a GOAWAY that ends nothing, the real one, the end."""
        self.peer.goaway(http2.LAST_STREAM)
        time.sleep(0.02)
        self.peer.goaway(self.stream)
        self.closing = True


class HttpCall(Call):
    def __init__(self, peer, attempt, server, head):
        super().__init__(peer, attempt, server)
        lines = head.decode("latin-1").split("\r\n")
        self.fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        self.length = int(self.fields.get("content-length", "0"))

    def read(self, tenths=None):
        if tenths is not None and tenths < 10:
            self.peer.read(self.length * tenths // 10)
            return
        body = self.peer.read(self.length)
        self.take(gzip.decompress(body) if self.fields.get("content-encoding") == "gzip" else body)

    def answer(self, status="200 OK", *fields, body=b"", content_type="application/x-protobuf"):
        self.attempt.answers()
        head = [f"HTTP/1.1 {status}", f"content-type: {content_type}", f"content-length: {len(body)}", *fields]
        self.peer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    def ok(self, body=b"", partial=0):
        self.read()
        self.fate("stored", partial)
        self.answer(body=body)
        self.closing = self.server.wants_connection()


class Server:
    def __init__(self, s, steps=(), then=None, http=False, max_age=None, enough=1):
        self.http, self.max_age = http, max_age
        self.names = [step.name for step in steps]
        self.steps = collections.deque(steps)
        self.then = then or Step("ok", lambda call: call.ok())
        self.enough = enough  # of `then` once the script is done
        self.timeout = 10.0  # of the sender, in seconds
        self.rest = False
        self.ledger = Ledger()
        self.done = threading.Event()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        s.defer(self.listener.close)
        threading.Thread(target=self.listen, daemon=True).start()

    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def listen(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    # --- the script
    def wants_connection(self):
        with self.lock:
            return bool(self.steps) and self.steps[0].level == "connection"

    def step_of_connection(self):
        with self.lock:
            if self.rest or not self.steps or self.steps[0].level != "connection":
                return None
            self.rest = True
            return self.steps.popleft()

    def step_of_call(self, first):
        with self.lock:
            step = self.steps[0] if self.steps else None
            if step and not self.rest and (step.level == "call" or step.level == "kept" and not first):
                self.rest = True
                return self.steps.popleft()
            self.rest = False
            if step:
                return Step("ok", lambda call: call.ok())
            self.enough -= 1
            if self.enough <= 0:
                self.done.set()
            return self.then

    # --- connections
    def serve(self, sock):
        with self.ledger.lock:
            self.ledger.connections += 1
        try:
            step = self.step_of_connection()
            if step:
                self.act(step, Call(http2.Connection(sock), None, self))
            elif self.http:
                self.serve_http(sock)
            else:
                self.serve_grpc(sock)
        except Gone:
            pass
        except Exception as e:  # a mistake of the test itself, or a request that makes no sense
            self.ledger.errors.append(f"{type(e).__name__}: {e}")
        finally:
            sock.close()

    def act(self, step, call):
        call.attempt = attempt = self.ledger.open(step.name)
        try:
            step.act(call)
        finally:
            attempt.end = time.monotonic()
            attempt.fate = attempt.fate or "later"

    def serve_grpc(self, sock):
        peer = http2.Connection(sock)
        peer.open()
        last = 0
        end = time.monotonic() + (self.max_age or 3600)
        while True:
            if not select.select([sock], [], [], max(0, end - time.monotonic()))[0]:
                call = GrpcCall(peer, None, self, last)
                call.leave()
                return
            kind, _, stream, _ = peer.next()
            if kind != http2.HEADERS or stream <= last:
                continue
            call = GrpcCall(peer, None, self, stream)
            self.act(self.step_of_call(first=last == 0), call)
            last = stream
            if call.closing:
                return

    def serve_http(self, sock):
        peer, first = http2.Peer(sock), True
        while True:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += peer.read(1)
            call = HttpCall(peer, None, self, head[:-4])
            self.act(self.step_of_call(first), call)
            first = False
            if call.closing:
                return
