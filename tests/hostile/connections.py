#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of the status address: idle connections, requests of one byte a second, answers that nobody takes, endless connecting.

The agent answers whoever asks within a second, its sockets and memory are bounded, and the log says once what happens.
"""
import os
import socket
import threading
import time

import attack
from attack import wait_for
from lib import machine
from lib.scenario import PROFLET
from trial import Trial

IDLE = 48
FEW = 6  # fewer than one address may have: they are closed at the deadline
SOCKETS_MAX = 40
SOURCE = "127.0.0.9"  # not the address of the peers


def sockets_of(pid):
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
        except OSError:
            pass
    return n


class Peer:
    """Does something again and again in a thread until it is ended."""

    def __init__(self, s, act, every):
        self.act, self.every, self.ended = act, every, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        s.defer(self.end)

    def _run(self):
        while not self.ended.wait(self.every):
            try:
                self.act()
            except OSError:
                pass

    def end(self):
        self.ended.set()
        self.thread.join()


class Connections:
    """Keeps so many connections open, and makes a new one for each that was closed."""

    def __init__(self, port, n, first=b""):
        self.address, self.n, self.first, self.open = ("127.0.0.1", port), n, first, []

    def refresh(self):
        self.open = [c for c in self.open if not self.closed(c)]
        while len(self.open) < self.n:
            c = socket.create_connection(self.address, 1)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.setblocking(False)
            c.send(self.first)
            self.open.append(c)

    def closed(self, c):
        try:
            gone = not c.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            gone = True
        if gone:
            c.close()
        return gone

    def drip(self):
        self.refresh()
        for c in self.open:
            try:
                c.send(b"G")
            except OSError:
                pass


def attacks(port):
    idle, slow = Connections(port, IDLE), Connections(port, FEW)
    untaken = Connections(port, IDLE, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

    def connect():
        with socket.create_connection(("127.0.0.1", port), 1):
            pass
    return {"idle connections": (idle.refresh, 0.5, 2), "a byte a second": (slow.drip, 1.0, 7),
            "answers that are not taken": (untaken.refresh, 0.5, 2), "connecting all the time": (connect, 0.002, 2)}


def in_own_mounts(s):
    """A program that is the agent in a mount namespace of its own, as in a container: there it is the one that --alive calls."""
    path = s.path("agent")
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\nexec unshare --mount '{PROFLET}' \"$@\"\n")
    os.chmod(path, 0o755)
    return path


def probes(s, what, agent):
    """What the chart's probes execute in the container."""
    for option in ("--alive", "--ready"):
        begin = time.monotonic()
        done = s.run(["nsenter", "--mount", "-t", str(agent.process.pid), PROFLET + "-start", "check", option], check=False)
        took = (time.monotonic() - begin) / machine.slowness()
        s.check(f"{what}: check {option}", done.returncode == 0 and done.stdout == "ok\n" and took <= attack.HEALTHY_WITHIN,
                f"exit code {done.returncode}, {done.stdout.strip()}, {1000 * took:.0f} ms")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("unshare", "nsenter", "setpriv")
    trial = Trial(s, "connections", listen="0.0.0.0", source=SOURCE, program=in_own_mounts(s))
    agent = trial.agent
    trial.victims.another()
    for what, (act, every, seconds) in attacks(agent.port).items():
        peer = Peer(s, act, every)
        most, end = 0, time.monotonic() + (seconds if attack.QUICK else 10 * seconds)
        while time.monotonic() < end:
            most = max(most, sockets_of(agent.process.pid))
            time.sleep(0.1)
        s.check(f"{what}: the agent's sockets are bounded", 0 < most <= SOCKETS_MAX, f"{most} of at most {SOCKETS_MAX}")
        probes(s, what, agent)
        peer.end()
    done = s.run(["nsenter", "--mount", "-t", str(agent.process.pid), "setpriv", "--reuid", "65534", "--clear-groups", PROFLET + "-start",
                  "check", "--alive"], check=False)
    s.check("another user gets no answer of the Unix socket", done.returncode == 1 and "no agent answers" in done.stdout, done.stdout.strip())
    metrics = wait_for(agent.metrics, 20, "metrics")
    closed = {k: v for k, v in metrics.items() if k.startswith("proflet_listen_closed_total")}
    s.check("what was closed is counted by reason", len(closed) == 2 and min(closed.values()) > 0, f"{closed}")
    s.equal("the log says so, once", len(agent.lines("too many connections")), 1)
    trial.endure()
    trial.judge()


if __name__ == "__main__":
    attack.scenario("connections").execute(body)
