#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles on request, at the address of `listen`: what `go tool pprof` makes of one, that selectors give only what they name, that
samples are exported meanwhile and none is lost, that clients who leave, are slow, or are many cost little, and who needs the token.
"""
import gzip
import os
import re
import secrets
import socket
import subprocess
import threading
import time

from kubelet import Workload
from lib import programs
from lib.agent import Agent
from lib.collector import Collector
from lib.kubelet import Kubelet
from lib.machine import cpu_seconds, hang_limit
from lib.scenario import ROOT, Scenario, free_port, wait_for
from status import Pages

CHAIN = programs.CHAIN
HZ = 97
SLOW, SLOW_BYTES_MAX = 100, 5 << 20
TRIES = 10  # of one profile
RESULT = 'proflet_pulls_total{result="%s"}'


def resident(pid):
    """Bytes of the agent and of its delivery process. What parser processes need follows from the programs that start meanwhile."""
    total, left = 0, [pid]
    while left:
        one = left.pop()
        try:
            with open(f"/proc/{one}/status", encoding="ascii") as f:
                status = f.read()
            found = re.search(r"(?m)^RssAnon:\s+(\d+) kB", status)
            if one == pid or "Name:\tproflet-deliver" in status:
                total += int(found[1]) << 10 if found else 0
            with open(f"/proc/{one}/task/{one}/children", encoding="ascii") as f:
                left += map(int, f.read().split())
        except FileNotFoundError:
            continue
    return total


def get(port, path, authorization=None, host="127.0.0.1", raw=False):
    """→ (status, body)"""
    header = ["-H", f"Authorization: {authorization}"] if authorization else []
    done = subprocess.run(["curl", "-sS", "--max-time", str(hang_limit(60)), "-H", f"Host: {host}", *header, "-w", "%{stderr}%{http_code}",
                           f"http://127.0.0.1:{port}{path}"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    status = int(done.stderr[-3:]) if done.stderr[-3:].isdigit() else 0
    return status, done.stdout if raw else done.stdout.decode(errors="replace")


def go_tool_pprof(s, url):
    """The samples of each function, by the real tool."""
    go = s.run([os.path.join(ROOT, "tests", "support", "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("go tool pprof", "no go")
        return None
    done = s.run([go, "tool", "pprof", "-top", "-sample_index=samples", "-nodecount=100000", "-nodefraction=0", url], seconds=120,
                 env={"PPROF_TMPDIR": s.folder("pprof"), "HOME": s.tmp, "GOCACHE": programs.go_cache()}, check=False)
    return done


def selectors(s, port, busy, pods):
    """Each program is called as its pod; a profile that names one has samples of it, and of nothing else."""
    first, second = pods
    wait_for(lambda: "app-one" in get(port, "/top?seconds=1&namespace=shop")[1], 60, "names of pods")
    for what, query, wanted in (
            ("pid=", f"pid={busy}", {"chain"}), ("container= by id", f"container={first.ident[:12]}", {first.name}),
            ("container= by its whole id", f"container={first.ident}", {first.name}),
            ("container= by name", "container=app-two", {second.name}), ("pod=", f"pod={first.name}", {first.name}),
            ("pod=NAMESPACE/NAME", "pod=bank/two", {second.name}), ("namespace=", "namespace=bank", {second.name}),
            ("pod= of another namespace", "pod=shop/two", set()), ("pid= and container=", f"pid={busy}&container={first.ident}", set()),
            ("pid= of nobody", "pid=4194304", set())):
        for _ in range(TRIES if wanted else 1):  # on a busy machine a program may have no CPU for two seconds
            status, text = get(port, f"/top?seconds=2&{query}")
            # the processes of a profile are listed behind its functions, with their pid
            found = set(re.findall(r"(?m)\b(chain|one|two)\b", text)) - {w for w in ("one", "two") if w not in text}
            if found or status != 200:
                break
        s.check(f"{what} gives only what it names", status == 200 and found == wanted, f"{sorted(found)} {text[:80] if found != wanted else ''}")


def many_slow_clients(s, collector):
    """A hundred that ask for a page and do not read it, one after the other and at once. Their agent samples one program only: what others
    run meanwhile costs memory, too."""
    port = free_port()
    agent, pages = Agent(s, collector.endpoint(), "--listen", f"127.0.0.1:{port}", "--select.include", "comm=chain", window="10s", frequency=HZ), Pages(port)
    agent.wait_line('msg="?sampling', 30)
    wait_for(lambda: "chain" in get(port, "/top?seconds=1")[1], 60, "a profile of it")
    before = resident(agent.process.pid)
    socks, most, running = [], 0, set()
    for i in range(SLOW):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /flamegraph?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        socks.append(sock)
        time.sleep(0.05)
        most = max(most, resident(agent.process.pid))
        if i % 10 == 9:
            running.add(pages.metrics()["proflet_pulls_running"])
    for _ in range(50):
        time.sleep(0.1)
        most = max(most, resident(agent.process.pid))
    s.check(f"{SLOW} slow clients cost less than 5 MiB", most - before < SLOW_BYTES_MAX, f"{(most - before) / 2**20:.2f} MiB")
    s.check("a probe is answered meanwhile", get(port, "/readyz")[0] == 200)
    running.add(pages.metrics()["proflet_pulls_running"])
    s.check("four are served at once, and what they do not take waits", max(running) == 4, f"{sorted(running)}")
    wait_for(lambda: pages.metrics()["proflet_pulls_running"] == 0, 60, "slow clients are dropped at their deadline")
    s.check("slow clients are dropped at their deadline, while they are connected", len(socks) == SLOW)
    for sock in socks:
        sock.close()
    s.check("others were refused", pages.metrics()[RESULT % "too_many"] >= 1, f"{pages.metrics()[RESULT % 'too_many']:.0f}")
    s.check("then a profile is made again", get(port, "/top?seconds=1")[0] == 200)
    s.equal("slow clients: the agent ends", agent.stop(), 0)
    check_loss(s, "slow clients", agent)


def check_loss(s, what, agent):
    final = agent.final()
    s.check(f"{what}: no sample is lost, each is exported as before", final and final["dropped"] == 0 and final["in_flight"] == 0 and
            final["taken"] == final["exported"], str(final))


def several_at_once(s, port):
    got = []
    threads = [threading.Thread(target=lambda n=n: got.append(get(port, f"/top?seconds={n}"))) for n in (1, 2, 2, 3)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    fifth = get(port, "/top?seconds=1")
    for t in threads:
        t.join()
    s.equal("four at once", sorted(status for status, _ in got), [200] * 4)
    s.check("a fifth is refused", fifth[0] == 429 and "try again" in fifth[1], str(fifth))


def leaving(s, port, pages):
    before = pages.metrics()[RESULT % "cancelled"]
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_for(lambda: pages.metrics()["proflet_pulls_running"] == 1, 30, "the profile has begun")
    sock.close()
    wait_for(lambda: pages.metrics()["proflet_pulls_running"] == 0, 30, "a client that leaves ends its profile")
    s.equal("a client that leaves ends its profile", pages.metrics()[RESULT % "cancelled"] - before, 1)


def forms(s, port, busy):
    status, page = get(port, f"/flamegraph?seconds=2&pid={busy}")
    s.check("/flamegraph is the page of record", status == 200 and page.startswith("<!doctype html>") and all(f in page for f in CHAIN[:3]), page[:60])
    status, body = get(port, f"/debug/pprof/profile?seconds=2&pid={busy}", raw=True)
    s.check("/debug/pprof/profile is gzip'ed", status == 200 and b"chain" in gzip.decompress(body), f"{len(body)} bytes")
    before = cpu_seconds(busy)
    done = go_tool_pprof(s, f"http://127.0.0.1:{port}/debug/pprof/profile?seconds=5")
    least = max(10, HZ * (cpu_seconds(busy) - before) / 4)  # the tool starts and ends in that time, too
    if done:
        rows = re.findall(r"(?m)^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(.+)$", done.stdout)
        cumulative = {name.strip(): int(n) for _, n, name in rows}
        s.check("go tool pprof -top", done.returncode == 0 and all(cumulative.get(f, 0) >= least for f in CHAIN),
                f"{[(f, cumulative.get(f)) for f in CHAIN[:3]]}, at least {least:.0f} {done.stderr[-300:] if done.returncode else ''}")
    for path in ("/top?seconds=0", "/top?seconds=301", "/top?second=1", "/flamegraph?pid=x", "/debug/pprof/profile?container=a%20b"):
        status, text = get(port, path)
        s.check(f"{path}: 400 and why", status == 400 and ("accepted" in text), text.strip())
    s.check("a name that may be another machine's", get(port, "/top", host="proflet.example")[0] == 403)


def token(s, collector):
    """Of another agent, at every address: without the file, and with it."""
    word, file, port = "t0k3n-" + secrets.token_hex(16), s.path("token"), free_port()
    with open(file, "w", encoding="ascii") as f:
        f.write(word + "\n")
    agent = Agent(s, collector.endpoint(), "--listen", f":{port}", "--listen_token_file", file, "--log.level", "debug")
    agent.wait_line('msg="?sampling', 30)
    wait_for(lambda: get(port, "/readyz")[0] == 200, 30, "it answers")
    for what, authorization, wanted in (("without it", None, 401), ("another one", "Bearer " + "x" * len(word), 401), ("a part of it", f"Bearer {word[:-1]}", 401),
                                        ("as a password", f"Basic {word}", 401), ("the token", f"Bearer {word}", 200)):
        status, text = get(port, "/top?seconds=1", authorization)
        s.check(f"token: {what}", status == wanted and word not in text, f"{status}")
    s.check("token: metrics need none", get(port, "/metrics")[0] == 200)
    with open(file, "w", encoding="ascii") as f:
        f.write("another-token-of-enough-bytes")
    s.check("token: the file is read again", get(port, "/top?seconds=1", f"Bearer {word}")[0] == 401 and
            get(port, "/top?seconds=1", "Bearer another-token-of-enough-bytes")[0] == 200)
    os.remove(file)
    status, text = get(port, "/top?seconds=1", "Bearer ")
    s.check("token: no file, no profile", status == 503 and "listen_token_file" in text, text.strip())
    pages = get(port, "/metrics")[1] + get(port, "/debug/state")[1]
    s.equal("the agent ends", agent.stop(), 0)
    s.check("the token is in no page and no log", word not in pages + agent.text())


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("curl")
    collector, server = Collector(s), Kubelet(s)
    program, port = programs.build_c(s, "chain"), free_port()
    pods = [Workload(s, programs.build_c(s, "chain", program=name), name, namespace=namespace) for name, namespace in (("one", "shop"), ("two", "bank"))]
    server.pods = [p.pod for p in pods]
    busy = s.start([program, programs.LIFE], "busy").pid
    agent = Agent(s, collector.endpoint(), "--listen", f"127.0.0.1:{port}", "--kubernetes.metadata", "on", "--kubernetes.kubelet", server.url(),
                  "--kubernetes.node", "node-1", window="10s", frequency=HZ)
    agent.wait_line('msg="?sampling', 30)
    pages = Pages(port)
    forms(s, port, busy)
    selectors(s, port, busy, pods)
    several_at_once(s, port)
    leaving(s, port, pages)
    many_slow_clients(s, collector)
    s.equal("the agent ends", agent.stop(), 0)
    check_loss(s, "profiles on request", agent)
    token(s, collector)


if __name__ == "__main__":
    Scenario("pull").execute(body)
