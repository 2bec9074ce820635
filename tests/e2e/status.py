#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `listen` offers: the identity of loss in every scrape under load, the form of the metrics, health when sampling stalls.

The stall is a real one: the agent's perf events are fetched from it (pidfd_getfd) and switched off, and on again later.
Prometheus' own promtool (tests/support/get-promtool) reads the metrics in both forms, and the dashboard's expressions.
"""
import ctypes
import fcntl
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

from lib import programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import PromiseClock, hang_limit
from lib.scenario import PROFLET, ROOT, Scenario, free_port, wait_for

SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438
PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE = 0x2400, 0x2401
SAMPLE = re.compile(r"^([a-z_:][a-z0-9_:]*)(?:\{((?:[a-z_]+=\"[^\"\\]*\",?)+)\})? (\S+)$")
SCRAPES = 40
STALL_SECONDS = 10
OPEN = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
LATE = (503, "the agent does not answer\n")  # its delivery process says so: it waits for a CPU, and answers later
PULLS = ("/debug/pprof/profile", "/flamegraph", "/top")  # profiles on request: e2e/pull
UNITS = ("bytes", "seconds", "hertz", "ratio")
DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "proflet.json")
SYS_BPF, BPF_ENABLE_STATS = 321, 32


def check_process_page(s, pages):
    """What is said of a Python program, which this is, of a kernel thread, and of a pid that nobody has."""
    listen = pages.base.rpartition("/")[2]
    page = wait_for(lambda: (lambda p: p if "functions are shown" in p[2] else None)(pages.get(f"/debug/state/{os.getpid()}")), 60, "the page of a process")
    version = ".".join(map(str, sys.version_info[:3]))
    s.check("debug/state/PID: the language and its version", page[0] == 200 and f"Python {version} (" in page[2], page[2])
    shown = f'proflet_language_processes{{runtime="cpython",version="{version}",functions="shown"}}'
    s.check("metrics: processes by language and version", float(pages.metrics().get(shown, 0)) >= 1, shown)
    s.check("debug/state/PID: a kernel thread", "a kernel thread" in pages.get("/debug/state/2")[2], pages.get("/debug/state/2")[2])
    for unknown in ("4194305", "0x1", "1x", "-1", "", "99999999999999999999"):
        s.equal(f"debug/state/{unknown}", pages.get(f"/debug/state/{unknown}")[0], 404)
    argv = [PROFLET, "check", "--listen", listen, "--process"]
    done = subprocess.run([*argv, str(os.getpid())], capture_output=True, text=True)
    s.check("check --process prints the page", done.returncode == 0 and done.stdout.splitlines()[-1:] == page[2].splitlines()[-1:], done.stdout + done.stderr)
    done = subprocess.run([*argv, "4194305"], capture_output=True, text=True)
    s.check("check --process of no process", done.returncode == 1 and "knows no process 4194305" in done.stderr, done.stderr)
    done = subprocess.run([PROFLET, "check", "--listen", f"127.0.0.1:{free_port()}", "--process", "1"], capture_output=True, text=True)
    s.check("check --process without an agent", done.returncode == 1 and "no agent answers" in done.stderr, done.stderr)


class Pages:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, method="GET", body=None, seconds=5, accept="*/*"):
        """→ (status, content type, text); status 0: no answer. An agent that is late gets the request again."""
        def answered():
            answer = self.get_once(path, method, body, seconds, accept)
            return answer if answer[::2] != LATE else None

        return wait_for(answered, 60, path)

    def get_once(self, path, method, body, seconds, accept):
        request = urllib.request.Request(self.base + path, data=body, method=method, headers={"Accept": accept})
        try:
            with urllib.request.urlopen(request, timeout=hang_limit(seconds)) as r:
                return r.status, r.headers["Content-Type"], r.read().decode(errors="replace")  # pprof is no text
        except urllib.error.HTTPError as e:
            return e.code, e.headers["Content-Type"], e.read().decode()
        except OSError:
            return 0, "", ""

    def metrics(self):
        """→ {name or name{labels}: value}"""
        status, _, text = self.get("/metrics")
        if status != 200:
            raise RuntimeError(f"/metrics: status {status}: {text}")
        return {m[0]: m[1] for m in parse(text)[0]}


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


def open_form(s, pages):
    """Each metric's unit stands in a line of its own there; the numbers' names are those of the other form, asked before and after: programs come and go."""
    names = lambda x: {line.split(" ")[0] for line in x.splitlines() if not line.startswith("#")}
    before = names(pages.get("/metrics")[2])
    status, kind, text = pages.get("/metrics", accept=OPEN)
    after = names(pages.get("/metrics")[2])
    s.check("OpenMetrics: status and content type", status == 200 and kind.startswith("application/openmetrics-text; version=1.0.0"), f"{status} {kind}")
    differ = (before & after) - names(text) | names(text) - (before | after)
    s.check("OpenMetrics: the same numbers, and an end", not differ and text.endswith("\n# EOF\n"), f"{sorted(differ)[:3]}")
    families = re.findall(r"(?m)^# TYPE (\S+)", text)
    without = set(families) - set(re.findall(r"(?m)^# HELP (\S+) \S", text))
    units = dict(re.findall(r"(?m)^# UNIT (\S+) (\S+)$", text))
    wrong = [f for f in families if (f.rsplit("_", 1)[1] if f.endswith(UNITS) else None) != units.get(f)]
    s.check("OpenMetrics: each metric has help, and its unit unless it is a number of things", not wrong and not without and len(units) > 10,
            f"{len(families)} families, {len(units)} units; {wrong[:3]} {list(without)[:3]}")
    return text


def promtool(s, pages, opened):
    """Prometheus' own word on names, units and help of both forms, and on the dashboard's expressions."""
    done = subprocess.run([os.path.join(ROOT, "tests", "support", "get-promtool")], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        s.skip("promtool", "cannot be fetched: " + done.stderr.strip()[-200:])
        return
    tool, text = done.stdout.strip(), pages.get("/metrics")[2]
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=hang_limit(30))
    said = (done.stdout + done.stderr).strip()
    s.check("promtool check metrics: nothing to say", done.returncode == 0 and not said, said[:400] or f"{len(text)} bytes")
    done = subprocess.run([tool, "check", "metrics"], input=text.replace("_bytes", "_kilobytes"), capture_output=True, text=True, timeout=hang_limit(30))
    s.check("promtool check metrics: it would find a wrong unit", done.returncode and "kilobytes" in done.stderr, done.stderr.split("\n")[0])
    now = time.time()
    timed = "".join(line if line.startswith("#") else f"{line[:-1]} {now:.3f}\n" for line in opened.splitlines(True))
    with open(s.path("metrics.om"), "w") as f:
        f.write(timed)
    done = s.run([tool, "tsdb", "create-blocks-from", "openmetrics", s.path("metrics.om"), s.path("tsdb")], check=False)
    s.check("promtool reads OpenMetrics", done.returncode == 0 and "BLOCK ULID" in done.stdout,
            " ".join((done.stdout.splitlines() or [""])[-1].split()) or done.stderr[-300:])
    with open(DASHBOARD) as f:
        found = expressions(json.load(f))
    rules = [{"record": f"e:{i}", "expr": e.replace("$__rate_interval", "5m").replace("$instance", ".*")} for i, e in enumerate(found)]
    with open(s.path("rules.json"), "w") as f:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, f)
    done = s.run([tool, "check", "rules", s.path("rules.json")], check=False)
    s.check("promtool reads every expression of the dashboard", done.returncode == 0 and f"{len(rules)} rules found" in done.stdout,
            f"{len(rules)} expressions" if done.returncode == 0 else (done.stdout + done.stderr)[-400:])
    scraped = {m[2] for m in parse(text)[0]}
    unknown = {n for e in found for n in re.findall(r"\b(?:proflet|process)_\w+", e)} - scraped
    s.equal("every metric of the dashboard is in a scrape", sorted(unknown), [])


def expressions(node):
    """Every `expr` below a node of JSON."""
    if isinstance(node, list):
        return [e for x in node for e in expressions(x)]
    if isinstance(node, dict):
        return ([node["expr"]] if "expr" in node else []) + [e for k, x in node.items() if k != "expr" for e in expressions(x)]
    return []


def run_time(s, pages):
    """The kernel counts while somebody holds the descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    attribute = ctypes.create_string_buffer(128)
    fd = libc.syscall(SYS_BPF, BPF_ENABLE_STATS, attribute, 128)
    if fd < 0:
        s.skip("time of the kernel program", os.strerror(ctypes.get_errno()))
        return
    try:
        before = pages.metrics()
        wait_for(lambda: pages.metrics()["proflet_bpf_runs_total"] > before["proflet_bpf_runs_total"] + 100, 20, "runs of the kernel program")
        after = pages.metrics()
    finally:
        os.close(fd)
    seconds, taken = (after[n] - before[n] for n in ("proflet_bpf_run_seconds_total", "proflet_samples_taken_total"))
    s.check("the kernel program's time for a sample", 1e-7 < seconds / max(taken, 1) < 1e-3, f"{1e9 * seconds / max(taken, 1):.0f} ns, {taken:.0f} samples")


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
    size = wait_for(collector.size, 20, "the Collector's file")
    s.check("what was exported is at the Collector", size > 0, f"{size} bytes")
    s.check("stacks are counted by their endings", pages.metrics()['proflet_stacks_total{ending="complete"}'] > 0)


def other_pages(s, pages):
    s.equal("readyz", pages.get("/readyz")[::2], (200, "ok\n"))
    status, _, text = pages.get("/debug/state")
    s.check("debug/state is for people", status == 200 and "sampling: goes on" in text and "collector: there" in text, text.splitlines()[0])
    s.equal("another path", pages.get("/nothing")[0], 404)
    check_process_page(s, pages)
    s.equal("another method", [pages.get(p, "POST", b"x" * 5000)[0] for p in ("/metrics", "/healthz")], [405, 405])
    listing = pages.get("/")[2].split()
    s.equal("the root lists the pages", listing, ["/metrics", "/healthz", "/readyz", "/debug/state", *PULLS])
    answers = {p: pages.get(f"{p}?seconds=1" if p in PULLS else p, seconds=30)[0] for p in listing}
    s.check("they are there", set(answers.values()) == {200}, answers)


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
    events, clock = perf_events(agent.process.pid), PromiseClock(s)
    s.check("the agent's events can be had", len(events) > 0, f"{len(events)}")
    try:
        s.equal("healthz", pages.get("/healthz")[::2], (200, "ok\n"))
        for fd in events:
            fcntl.ioctl(fd, PERF_EVENT_IOC_DISABLE)
        begin = clock.now()
        text = wait_for(lambda: pages.get("/healthz")[2] if pages.get("/healthz")[0] == 503 else None, 20, "healthz fails")
        took = clock.now() - begin
        s.check(f"healthz fails within {STALL_SECONDS} s when no samples come, and says why", "no sample for" in text and took <= STALL_SECONDS,
                f"after {took:.1f} s: {text.strip()}")
        s.equal("the metrics say so", pages.metrics()["proflet_sampling_stalled"], 1)
        for fd in events:
            fcntl.ioctl(fd, PERF_EVENT_IOC_ENABLE)
        begin = clock.now()
        wait_for(lambda: pages.get("/healthz")[0] == 200, 20, "healthz recovers")
        took = clock.now() - begin
        s.check(f"healthz recovers within {STALL_SECONDS} s", took <= STALL_SECONDS, f"after {took:.1f} s")
    finally:
        for fd in events:
            os.close(fd)
    s.equal("the log says both, once", (len(agent.lines("sampling stalled")), len(agent.lines("samples arrive again"))), (1, 1))


def addresses(s, endpoint, port):
    done = subprocess.run([PROFLET, "run", "--endpoint", endpoint, "--listen", f"127.0.0.1:{port}"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=hang_limit(60))
    s.check("an address that was asked for and is taken ends the start", done.returncode == 1 and
            f"listen 127.0.0.1:{port}: Address already in use" in done.stderr, done.stderr.strip()[-200:])
    every = free_port()
    agent = Agent(s, endpoint, "--listen", f":{every}")
    wait_for(lambda: Pages(every).get("/readyz")[0] == 200, 30, "readyz at every address")
    s.equal("every address: SIGTERM", agent.stop(), 0)


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    s.start(["sh", "-c", "while :; do /bin/true; done"], "churn")
    collector, port = Collector(s), free_port()
    agent = Agent(s, collector.endpoint(), "--listen", f"127.0.0.1:{port}", window="1s")
    pages = Pages(port)
    wait_for(lambda: pages.get("/readyz")[0] == 200, 30, "readyz")
    form(s, pages)
    promtool(s, pages, open_form(s, pages))
    identity(s, pages, collector)
    run_time(s, pages)
    other_pages(s, pages)
    stall(s, pages, agent)
    addresses(s, collector.endpoint(), port)
    s.equal("exit code at SIGTERM", agent.stop(), 0)


if __name__ == "__main__":
    Scenario("status").execute(body)
