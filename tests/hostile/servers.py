#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectors that never come to an end: floods of 1xx answers, SETTINGS, PING, empty DATA, bytes one at a time, trailers.

One agent for each. An attempt ends by its timeout; nothing that the server sends prolongs it. The agent stays
healthy and small, counts why, says once that the Collector is away, and stops within seconds.
"""
import socket
import threading
import time

import attack
from lib import machine
from lib.http2 import DATA, END_HEADERS, HEADERS, PING, SETTINGS, WINDOW_UPDATE, block, frame
from trial import Trial, away
from victims import Victims

TIMEOUT = 1.0  # s of an attempt, on a quiet machine
SLACK = 3.0
AT_ONCE = 2  # agents: their servers share one Python process
PREFACE = frame(SETTINGS, 0, 0)
INFORMATIONAL = frame(HEADERS, END_HEADERS, 1, block([(":status", "100")]))
OK = frame(HEADERS, END_HEADERS, 1, block([(":status", "200"), ("content-type", "application/grpc")]))
HTTP_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

# name: (protocol, greeting, opening, repeated, seconds between single bytes or 0)
FLOODS = {
    "1xx": ("grpc", PREFACE, b"", INFORMATIONAL, 0),
    "header, a byte a second": ("grpc", PREFACE, b"", INFORMATIONAL, 1.0),
    "SETTINGS": ("grpc", PREFACE, b"", frame(SETTINGS, 0, 0), 0),
    "trailers over HTTP": ("http/protobuf", b"", HTTP_OK + b"0\r\n", b"a: b\r\n", 0),
    "PING": ("grpc", PREFACE, b"", frame(PING, 0, 0, b"8 bytes."), 0),
    "empty DATA": ("grpc", PREFACE, OK, frame(DATA, 0, 1), 0),
    "WINDOW_UPDATE": ("grpc", PREFACE, b"", frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"), 0),
    "trailers": ("grpc", PREFACE, OK, frame(HEADERS, 0, 1, block([("a", "b")])), 0),
    "silence": ("grpc", PREFACE, b"", b"", 0),
    "nothing at all": ("grpc", b"", b"", b"", 0),
    "1xx over HTTP": ("http/protobuf", b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0),
    "header over HTTP, a byte a second": ("http/protobuf", b"", b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", 1.0),
    "body over HTTP": ("http/protobuf", b"", HTTP_OK, b"1\r\nx\r\n", 0),
}
QUICK = list(FLOODS)[:4]


class Server:
    """Notes how long each connection lasted until the client closed it."""

    def __init__(self, s, flood, port=0):
        self.protocol, self.greeting, self.opening, self.repeated, self.gap = flood
        self.block = self.repeated * ((1 << 20) // max(1, len(self.repeated)))
        self.lasted = []
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._run, daemon=True).start()
        s.defer(self.end)

    def end(self):
        """Nobody is accepted any more; those who are served go on to their own end."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # ends accept
        except OSError:
            pass
        self.listener.close()

    def _run(self):
        try:
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
        except OSError:
            return

    def _serve(self, sock):
        begin = None
        with sock:
            try:
                sock.sendall(self.greeting)
                sock.recv(65536)
                begin, slow = time.monotonic(), machine.slowness()
                threading.Thread(target=self._discard, args=(sock,), daemon=True).start()
                sock.sendall(self.opening)
                self._flood(sock)
            except OSError:
                pass
        if begin:
            self.lasted.append((time.monotonic() - begin) / slow)

    def _discard(self, sock):
        try:
            while sock.recv(65536):
                pass
            sock.shutdown(socket.SHUT_RDWR)  # wakes the flood
        except OSError:
            pass

    def _flood(self, sock):
        at = 0
        while True:
            if self.gap or not self.repeated:
                time.sleep(self.gap or 0.1)
                sock.send(self.repeated[at:at + 1] if self.repeated else b"")
                sock.getpeername()  # an error once the client has gone
                at = (at + 1) % max(1, len(self.repeated))
            else:
                sock.sendall(self.block)


class Attack:
    """One agent and its server, in whose place there is a Collector afterwards: what waited meanwhile is judged."""

    def __init__(self, s, name, victims):
        self.s, self.name, self.timeout = s, name, TIMEOUT * machine.slowness()
        collector, protocol = away(s), FLOODS[name][0]
        self.server = Server(s, FLOODS[name], collector.port if protocol == "grpc" else collector.http_port)
        self.trial = Trial(s, name, "--protocol", protocol, "--timeout", f"{int(1000 * self.timeout)}ms", collector=collector,
                           endpoint=self.server.endpoint, victims=victims, window="300ms")

    def check(self):
        s, name, agent, lasted = self.s, self.name, self.trial.agent, self.server.lasted
        attack.wait_for(lambda: len(lasted) >= 2, 30, f"{name}: two attempts")
        s.check(f"{name}: an attempt ends by its timeout", max(lasted) <= self.timeout + SLACK,
                f"{len(lasted)} attempts, longest {max(lasted):.2f} s of {self.timeout:.1f}")
        counts = {k: v for k, v in agent.metrics().items() if k.startswith("proflet_export_failures_total") and v}
        s.check(f"{name}: the reason is counted", sum(counts.values()) >= 2 and not any("answer" in k for k in counts), f"{counts}")
        s.equal(f"{name}: said once", len(agent.lines("collector is away")), 1)

    def end(self):
        self.server.end()
        self.trial.deliver()

    def judge(self):
        self.trial.judge()


def attack_all(s, names):
    victims = Victims(s)
    attacks = [Attack(s, name, victims) for name in names]
    for a in attacks:
        a.trial.endure()
    for step in (Attack.check, Attack.end, Attack.judge):
        for a in attacks:
            step(a)


def body(s):
    s.need_root()
    s.need_proflet()
    names = QUICK if attack.QUICK else list(FLOODS)
    for i in range(0, len(names), AT_ONCE):
        attack_all(s, names[i:i + AT_ONCE])


if __name__ == "__main__":
    attack.scenario("servers").execute(body)
