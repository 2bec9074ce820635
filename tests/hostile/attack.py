# SPDX-License-Identifier: Apache-2.0
"""What the attacks share: an agent under attack, and a watcher that asks for its health and its memory all the time.

Scenarios, agents, servers and clocks are those of tests/e2e/lib.
"""
import http.client
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from lib import machine  # noqa: E402
from lib.agent import Agent  # noqa: E402
from lib.scenario import Scenario, free_port, wait_for  # noqa: E402

QUICK = "--quick" in sys.argv[1:]
HEALTHY_WITHIN = 1.0  # s, on a quiet machine
COUNTED_LATE = 1 << 20  # bytes: each CPU adds its part to a group's figures once in a while
RATE_EVERY = 5  # questions for health
STOP_WITHIN = 6.0  # the same: names may take a while, and a Collector that is away is given 3 s


def scenario(name):
    return Scenario(name, suite="hostile")


def get(port, path, seconds=10.0, source="127.0.0.1"):
    """→ (status, text); status 0: no answer. `source` is the address of whoever asks."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds, source_address=(source, 0))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        found = re.search(r"^VmRSS:\s+(\d+) kB", f.read(), re.M)
    return 1024 * int(found[1]) if found else 0


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def tree(pid):
    return [pid] + [p for child in children(pid) for p in tree(child)]


def cpu_of(pid):
    """CPU seconds of a process and of all below it."""
    total = 0.0
    for p in tree(pid):
        try:
            total += machine.cpu_seconds(p)
        except OSError:
            pass
    return total


class Attacked(Agent):
    """An agent with a status address, which begins to sample before the constructor returns. `source`: who asks it for metrics."""

    def __init__(self, s, endpoint, *options, listen="127.0.0.1", source="127.0.0.1", **named):
        self.port, self.source = free_port(), source
        super().__init__(s, endpoint, *options, "--listen", f"{listen}:{self.port}", **named)
        wait_for(lambda: self._alive() or get(self.port, "/readyz", source=source)[0] == 200, 60, "the agent samples")

    def page(self, path):
        """The page, or None when there is no answer."""
        status, text = get(self.port, path, source=self.source)
        return text if status == 200 else None

    def metrics(self):
        """→ {name or name{labels}: value}"""
        text = wait_for(lambda: self._alive() or self.page("/metrics"), 60, "/metrics")
        found = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in found}

    def timed_stop(self):
        """→ (exit code, seconds of a quiet machine)"""
        begin = time.monotonic()
        code = self.stop(60)
        return code, (time.monotonic() - begin) / machine.slowness()


class Watch:
    """Asks an agent for /healthz five times a second and for its rate once a second; notes the worst of each figure."""

    def __init__(self, s, agent, source="127.0.0.1", group=None):
        self.s, self.agent, self.source, self.group = s, agent, source, group
        self.asked, self.failed, self.longest, self.resident, self.used, self.rates = 0, 0, 0.0, 0, 0, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        s.defer(self.end)

    def _run(self):
        while self.agent.process.poll() is None:
            self._ask()
            try:
                self.resident = max(self.resident, resident_bytes(self.agent.process.pid))
            except OSError:
                return
            if self.group:
                self.used = max(self.used, self.group.used())
            if self.asked % RATE_EVERY == 1:
                self._ask_rate()
            if self.ended.wait(0.2):
                return

    def _ask(self):
        """On a busy machine, once more: an answer that comes late in seconds is 503, whatever the agent got of the CPUs."""
        begin, slow, status = time.monotonic(), machine.slowness(), 0
        while status != 200 and time.monotonic() - begin < HEALTHY_WITHIN * slow:
            status, _ = get(self.agent.port, "/healthz", source=self.source)
        self.asked += 1
        self.failed += status != 200
        self.longest = max(self.longest, (time.monotonic() - begin) / slow)

    def _ask_rate(self):
        status, text = get(self.agent.port, "/metrics", source=self.source)
        found = dict(re.findall(r"^proflet_sampling_frequency(_max)?_hertz (\S+)$", text, re.M))
        if status == 200:
            self.rates.append(float(found[""]) / float(found["_max"]))

    def end(self):
        self.ended.set()
        self.thread.join()

    def check(self, what, rates=None):
        """`rates`: those that are judged; all that were seen if none are given."""
        self.end()
        s = self.s
        s.check(f"{what}: the agent lives", self.agent.process.poll() is None, f"exit code {self.agent.process.poll()}")
        s.check(f"{what}: healthy, within {HEALTHY_WITHIN:.0f} s each time",
                self.asked > 0 and not self.failed and self.longest <= HEALTHY_WITHIN,
                f"asked {self.asked} times, {self.failed} failures, longest {self.longest:.2f} s")
        s.equal(f"{what}: the rate of the node is kept", min(self.rates if rates is None else rates, default=0), 1.0)
        if self.group:
            s.check(f"{what}: its memory stays under memory.total, its group's under the limit",
                    0 < self.resident <= self.group.total and 0 < self.used <= self.group.limit + COUNTED_LATE,
                    f"{self.used / 2**20:.1f} of {self.group.limit >> 20} MiB; the agent {self.resident / 2**20:.1f} of {self.group.total >> 20}; "
                    f"the kernel ended {self.group.kills()} parsers")


def check_stop(s, what, agent, within=STOP_WITHIN):
    code, took = agent.timed_stop()
    s.check(f"{what}: stops within {within:.0f} s", code == 0 and took <= within, f"exit code {code}, {took:.1f} s")
