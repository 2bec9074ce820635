#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants whose lists of generated code (perf maps) are files of somebody else, rewritten all the time, or never answer.

Files: a perf map that is a bind mount, a symbolic or hard link of a file that only root may read, or such a file itself, renamed:
none of its lines comes out as a function's name. The map of the process's own is read.

Rewriting: six perf maps of 60 MB, written anew all the time, cost little CPU time and no window.

Silence: /tmp of six tenants is a file system that does not answer, in mount namespaces of their own: a program that starts then has
whole stacks, and the agent stops in time, while it is still silent.
"""
import os
import re
import signal
import sys
import time

import attack
from attack import wait_for
from lib import machine, programs
from lib.scenario import ROOT, stop, tail
from trial import Trial

TENANT = 65534
CODE = 0x500000000000
BEHIND = ["nice", "-n", "10"]  # the programs that only compute
SECRET = "ROOT_ONLY_SECRET_password"
MINE = "function_of_my_own"
CPU_MAX, LATE_MAX = (0.5, 0.5) if attack.QUICK else (0.1, 0.1)  # of one CPU, of all windows; at first, more is read
BYTES_MAX = 160 << 20  # 64 MiB at once, and 32 a minute


def text(name):
    return f"{CODE:x} 1000 {name}\n"


def plant(path, how, secret):
    """Puts the root-only file at the map's name as root could be brought to do, or as a sloppy /tmp permits it."""
    if how == "symlink":
        os.symlink(secret, path)
    elif how == "fd_link":
        os.symlink(f"/proc/{os.getpid()}/fd/{plant.fd}", path)
    elif how == "hardlink":
        os.link(plant.linked, path)
    elif how == "renamed":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text(SECRET))
        os.chmod(path, 0o600)
    elif how == "own":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text(MINE))
        os.chown(path, TENANT, TENANT)
        os.chmod(path, 0o600)


def root_only(s, what):
    path = f"/tmp/proflet-{what}-{os.getpid()}"
    s.defer(lambda: os.unlink(path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
        f.write(text(SECRET))
    return path


def start(s, program, how, secret):
    process = s.start([*BEHIND, program, str(TENANT)] + (["bind", secret] if how == "mounted" else []), how)
    path = f"/tmp/perf-{process.pid}.map"
    s.defer(lambda: os.path.lexists(path) and os.unlink(path))
    wait_for(lambda: process.poll() is not None or "ready" in open(process.log, encoding="utf-8").read(), 10, "the tenant runs")
    if process.poll() is not None:
        s.skip(how, open(process.log, encoding="utf-8").read().strip())
        return None
    plant(path, how, secret)
    return process


REASONS = {"mounted": "mounted", "symlink": "not_regular", "fd_link": "not_regular", "hardlink": "foreign", "renamed": "foreign"}


def start_with_others_files(s, program):
    """→ {how: process, or None where the machine refuses it}"""
    secret, plant.linked = root_only(s, "secret"), root_only(s, "linked")
    plant.fd = os.open(secret, os.O_RDONLY)
    return {how: start(s, program, how, secret) for how in [*REASONS, "own"]}


def others_files(s, program):
    running = start_with_others_files(s, program)
    trial = Trial(s, "others' files", window="300ms")
    agent = trial.agent
    pids = {p.pid: how for how, p in running.items() if p}
    computed = machine.CpuTime(pids)
    trial.endure()
    computed.wait(0.5 if attack.QUICK else 15)
    metrics = agent.metrics()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    samples, names = trial.judge(), {}
    for x in samples:
        if x.attributes.get("process.pid") in pids:
            names.setdefault(pids[x.attributes["process.pid"]], set()).update(f.name for f in x.frames)
    s.check("a map of the process's own is read", any(MINE in n for n in names["own"]), f"{sorted(names['own'])[:3]}")
    for how, reason in REASONS.items():
        if how not in names:
            continue
        s.check(f"{how}: no line of the root-only file is a name", not any(SECRET in n for n in names[how]), f"{sorted(names[how])[:2]}")
        value = metrics.get(f'proflet_code_lists_refused_total{{reason="{reason}"}}', 0)
        s.check(f"{how}: counted", value > 0, f"{reason} {value:.0f}")
    lines = [m for m in agent.lines("perf map, jitdump") if "is not read" in m]
    said = [re.sub(r".*is not read: ([^;\"]*).*", r"\1", m, flags=re.S).strip() for m in lines]
    s.check("the log says why, once for each reason", len(said) == len(set(said)) and len(said) >= 2, f"{said}")


# Writes its perf map anew in place, at once and then twice a second.
REWRITERS_PROGRAM = """
import os, sys, time
path, size, turn = sys.argv[1], int(sys.argv[2]), 0
os.setgid(65534)
os.setuid(65534)
f = open(path, "wb", buffering=0)
while True:
    lines = b"".join(b"%x 20 function_%d_of_turn_%d\\n" % (0x500000000000 + 0x1000 * i, i, turn) for i in range(20000))
    f.seek(0)
    f.truncate(0)
    for _ in range(size // len(lines) + 1):
        f.write(lines)
    turn += 1
    time.sleep(0.5)
"""


def cpu_and_windows(agent):
    m = agent.metrics()
    return m["process_cpu_seconds_total"], m["proflet_windows_total"], m["proflet_windows_late_total"]


def start_rewriting(s, program):
    size = (20 if attack.QUICK else 60) << 20
    tenants = [s.start([*BEHIND, program, str(TENANT)], f"rewritten{i}") for i in range(6)]
    for p in tenants:
        path = f"/tmp/perf-{p.pid}.map"
        s.defer(lambda path=path: os.path.exists(path) and os.unlink(path))
        p.writer = s.start([sys.executable, "-c", REWRITERS_PROGRAM, path, str(size)], f"writer{p.pid}")
    wait_for(lambda: all(os.path.exists(f"/tmp/perf-{p.pid}.map") for p in tenants), 20, "the maps")
    return tenants


def rewriting(s, program):
    tenants = start_rewriting(s, program)
    trial = Trial(s, "rewriting")
    agent = trial.agent
    trial.victims.another()
    time.sleep(5 if attack.QUICK else 20)  # what may be read at once has been
    before, begin = cpu_and_windows(agent), time.monotonic()
    time.sleep(5 if attack.QUICK else 60)
    after, took = cpu_and_windows(agent), time.monotonic() - begin
    ratio = (after[0] - before[0]) / took
    s.check("rewriting: CPU time of the agent and its parsers", ratio <= CPU_MAX, f"{100 * ratio:.1f} % of one")
    windows, late = after[1] - before[1], after[2] - before[2]
    s.check("rewriting: windows are on time", windows >= 0.8 * took - 1 and late <= LATE_MAX * windows, f"{windows:.0f} in {took:.1f} s, {late:.0f} late")
    m = agent.metrics()
    read = m["proflet_code_list_bytes_read_total"]
    put_off = {r: m[f'proflet_code_lists_put_off_total{{reason="{r}"}}'] for r in ("budget", "rewritten")}
    s.check("rewriting: bytes are bounded, and what was put off is counted",
            0 < read <= BYTES_MAX and put_off["budget"] > 0 and put_off["rewritten"] > 0, f"{read / 2**20:.0f} MiB, {put_off}")
    trial.endure()
    for p in tenants:
        stop(p.writer)
        stop(p)
    trial.judge()


def start_silence(s, program):
    """Tenants whose /tmp does not answer → its server; None where the machine refuses it."""
    s.run(["gcc", "-O2", "-o", s.path("hangfs"), os.path.join(ROOT, "tests", "support", "hangfs.c")])
    folder, content = s.folder("hanging"), s.path("content")
    with open(content, "w", encoding="utf-8") as f:
        f.write("x")
    server = s.start([s.path("hangfs"), folder, content], "hangfs")
    wait_for(lambda: server.poll() is not None or "ready" in tail(server.log), 10, "the file system")
    if server.poll() is not None:
        s.skip("silence", f"no FUSE mount: {tail(server.log).strip()}")
        return None
    tenants = [s.start([*BEHIND, program, str(TENANT), "tmp", folder], f"silent{i}") for i in range(6)]
    wait_for(lambda: all("ready" in tail(p.log) for p in tenants), 10, "the tenants run")
    server.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    return server


def silence(s, program):
    server = start_silence(s, program)
    if not server:
        return
    trial = Trial(s, "silence")
    agent = trial.agent
    wait_for(lambda: agent.metrics().get('proflet_code_lists_put_off_total{reason="no_answer"}', 0) > 0 or "held" in tail(server.log), 20,
             "the agent meets it")
    trial.endure()
    m = agent.metrics()
    s.check("silence: counted", m.get('proflet_code_lists_put_off_total{reason="no_answer"}', 0) > 0,
            f"{m.get('proflet_parser_failures_total{reason=%sno_answer%s}' % (chr(34), chr(34)), 0):.0f} processes given up")
    s.equal("silence: the log says so, once", len([m for m in agent.lines("does not answer") if "perf map" in m]), 1)
    trial.judge(stop_within=5)
    s.check("silence: it was, to the end", server.poll() is None)
    server.send_signal(signal.SIGUSR2)


def body(s):
    s.need_root()
    s.need_proflet()
    program = programs.build_c(s, "generated")
    others_files(s, program)
    rewriting(s, program)
    silence(s, program)


if __name__ == "__main__":
    attack.scenario("code_lists").execute(body)
