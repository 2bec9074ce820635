#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `listen` offers: the identity of loss in every scrape under load, the form of the metrics, health when sampling stalls.

The stall is a real one: the agent's perf events are fetched from it (pidfd_getfd) and switched off, and on again later.
"""
import ctypes
import fcntl
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

from lib import programs
from lib.agent import Agent
from lib.collector import Collector
from lib.scenario import PROFLET, Scenario, free_port, wait_for

SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438
PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE = 0x2400, 0x2401
SAMPLE = re.compile(r"^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+=\"[^\"\\]*\",?)+)\})? (\S+)$")
SCRAPES = 40


class Pages:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, method="GET", body=None, seconds=5):
        """→ (status, content type, text); status 0: no answer."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.base + path, data=body, method=method), timeout=seconds) as r:
                return r.status, r.headers["Content-Type"], r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers["Content-Type"], e.read().decode()
        except OSError:
            return 0, "", ""

    def metrics(self):
        """→ {name or name{labels}: value}"""
        return {m[0]: m[1] for m in parse(self.get("/metrics")[2])[0]}


def parse(text):
    """→ ([(name{labels}, value, name)], {name: (type, help)}, [what is wrong])"""
    samples, families, wrong, seen = [], {}, [], set()
    current = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, current, words = line.split(" ", 3)
            if current in families or not words.endswith("."):
                wrong.append(line)
            families[current] = [None, words]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name != current or kind not in ("counter", "gauge"):
                wrong.append(line)
            families[name][0] = kind
        else:
            m = SAMPLE.match(line)
            if not m or m.group(1) != current or line.rsplit(" ", 1)[0] in seen:
                wrong.append(line)
                continue
            seen.add(line.rsplit(" ", 1)[0])
            samples.append((line.rsplit(" ", 1)[0], float(m.group(3)), m.group(1)))
    return samples, families, wrong


def form(s, pages):
    status, kind, text = pages.get("/metrics")
    samples, families, wrong = parse(text)
    s.check("metrics: status and content type", status == 200 and kind.startswith("text/plain; version=0.0.4"), f"{status} {kind}")
    s.check("metrics: every line has the form, every family one HELP and TYPE", not wrong and len(samples) > 50,
            f"{len(samples)} samples of {len(families)} families; {wrong[:3]}")
    named = [n for n, (t, _) in families.items() if (t == "counter") != n.endswith("_total")]
    s.equal("metrics: counters end in _total, gauges do not", named, [])
    units = [n for n in families if re.search(r"(_ms|_ns|_kb|_mib|_milliseconds|_percent)(_total)?$", n)]
    s.equal("metrics: base units only", units, [])


def identity(s, pages, collector):
    bad, last = [], {}
    for _ in range(SCRAPES):
        m = pages.metrics()
        left = m["proflet_samples_taken_total"] + m["proflet_samples_recovered_total"]
        right = sum(v for k, v in m.items() if k.startswith("proflet_samples_dropped_total")) + m["proflet_samples_exported_total"] + \
            m["proflet_samples_in_flight"] + m["proflet_samples_spooled"]
        if left != right or any(m[k] < last.get(k, 0) for k in m if "_total" in k):
            bad.append((left, right))
        last = m
        time.sleep(0.1)
    s.check("the identity of loss holds in every scrape, counters only grow", not bad and last["proflet_samples_taken_total"] > 0,
            f"{SCRAPES} scrapes, {last['proflet_samples_taken_total']:.0f} samples taken; {bad[:3]}")
    wait_for(lambda: pages.metrics()["proflet_samples_exported_total"] > 0, 20, "exported samples in the metrics")
    s.check("what was exported is at the Collector", collector.size() > 0)
    s.check("stacks are counted by their endings", pages.metrics()['proflet_stacks_total{ending="complete"}'] > 0)


def other_pages(s, pages):
    s.equal("readyz", pages.get("/readyz")[::2], (200, "ok\n"))
    status, _, text = pages.get("/debug/state")
    s.check("debug/state is for people", status == 200 and "sampling: goes on" in text and "collector: there" in text, text.splitlines()[0])
    s.equal("another path", pages.get("/nothing")[0], 404)
    s.equal("another method", [pages.get(p, "POST", b"x" * 5000)[0] for p in ("/metrics", "/healthz")], [405, 405])
    listing = pages.get("/")[2].split()
    s.equal("the root lists the pages, which are there", [pages.get(p)[0] for p in listing], [200] * 4)


def link(path):
    """Where it leads; "" when it is gone."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def perf_events(pid):
    """The agent's perf events, as descriptors of our own."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    fds = [int(n) for n in os.listdir(f"/proc/{pid}/fd") if link(f"/proc/{pid}/fd/{n}") == "anon_inode:[perf_event]"]
    result = [libc.syscall(SYS_PIDFD_GETFD, pidfd, fd, 0) for fd in fds]
    os.close(pidfd)
    return [fd for fd in result if fd >= 0]


def stall(s, pages, agent):
    events = perf_events(agent.process.pid)
    s.check("the agent's events can be had", len(events) > 0, f"{len(events)}")
    try:
        s.equal("healthz", pages.get("/healthz")[::2], (200, "ok\n"))
        for fd in events:
            fcntl.ioctl(fd, PERF_EVENT_IOC_DISABLE)
        begin = time.monotonic()
        text = wait_for(lambda: pages.get("/healthz")[2] if pages.get("/healthz")[0] == 503 else None, 20, "healthz fails")
        s.check("healthz fails when no samples come, and says why", "no sample for" in text, f"after {time.monotonic() - begin:.1f} s: {text.strip()}")
        s.equal("the metrics say so", pages.metrics()["proflet_sampling_stalled"], 1)
        for fd in events:
            fcntl.ioctl(fd, PERF_EVENT_IOC_ENABLE)
        begin = time.monotonic()
        wait_for(lambda: pages.get("/healthz")[0] == 200, 20, "healthz recovers")
        s.check("healthz recovers", True, f"after {time.monotonic() - begin:.1f} s")
    finally:
        for fd in events:
            os.close(fd)
    s.equal("the log says both, once", (len(agent.lines("sampling stalled")), len(agent.lines("samples come again"))), (1, 1))


def addresses(s, endpoint, port):
    done = subprocess.run([PROFLET, "run", "--endpoint", endpoint, "--listen", f"127.0.0.1:{port}"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    s.check("an address that was asked for and is taken ends the start", done.returncode == 1 and
            f"listen 127.0.0.1:{port}: Address already in use" in done.stderr, done.stderr.strip()[-200:])
    every = free_port()
    agent = Agent(s, endpoint, "--listen", f":{every}")
    wait_for(lambda: Pages(every).get("/readyz")[0] == 200, 30, "readyz at every address")
    s.equal("every address: SIGTERM", agent.stop(), 0)


def body(s):
    s.need_root()
    s.need_proflet()
    s.start([programs.build_c(s, "chain"), "300"], "chain")
    s.start(["sh", "-c", "while :; do /bin/true; done"], "churn")
    collector, port = Collector(s), free_port()
    agent = Agent(s, collector.endpoint(), "--listen", f"127.0.0.1:{port}", window="1s")
    pages = Pages(port)
    wait_for(lambda: pages.get("/readyz")[0] == 200, 30, "readyz")
    form(s, pages)
    identity(s, pages, collector)
    other_pages(s, pages)
    stall(s, pages, agent)
    addresses(s, collector.endpoint(), port)
    s.equal("exit code at SIGTERM", agent.stop(), 0)


if __name__ == "__main__":
    Scenario("status").execute(body)
