# SPDX-License-Identifier: Apache-2.0
"""The measurements. Each runs one agent once (or, for tables, its `tables` command) and returns a dict of figures."""
import json
import os
import shlex
import shutil
import subprocess
import time

from . import host
from .agent import Agent

DEPTHS = (6, 20, 100, 500)
PYTHON_DEPTHS = (6, 24, 104) # frames of the language
BUILD_ID_NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" # name size, 20 bytes of id, NT_GNU_BUILD_ID


def build(source, out):
    program = os.path.join(out, os.path.basename(source)[:-2])
    subprocess.run(["cc", "-std=gnu11", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
                    "-o", program, source], check=True)
    return program


class Deep:
    """One process of a command pinned to each CPU, and others that only wait."""

    def __init__(self, command, waiting=None, n_waiting=0):
        self.all = [subprocess.Popen(command, preexec_fn=lambda c=c: os.sched_setaffinity(0, {c})) for c in host.CPUS]
        self.all += [subprocess.Popen(waiting) for _ in range(n_waiting)]

    def cpu(self):
        return sum(host.cpu(p.pid) for p in self.all)

    def pids(self):
        return {p.pid for p in self.all}

    def stop(self):
        for p in self.all:
            p.kill()
            p.wait()


def foreign(a, b, workload_cpu):
    """CPU used by anything that is not part of the measurement, in percent of one CPU."""
    own = (b.cpu - a.cpu) + (b.bench_cpu - a.bench_cpu) + workload_cpu
    return max(0.0, 100 * (b.busy - a.busy - own) / (b.wall - a.wall))


def deep(options, depth):
    return Deep([options.deep, str(depth)])


def python(options, depth):
    return Deep([*options.python, options.recurse, str(depth)])


def pythons(options):
    """Many processes of Python, of which one on each CPU computes."""
    wait = [*options.python, "-c", "import time; time.sleep(3600)"]
    return Deep([*options.python, options.recurse, str(PYTHON_DEPTHS[1])], wait, options.pythons - len(host.CPUS))


def steady(command, options, work, start=None):
    """The agent's cost while the load that `start` begins takes every CPU (None: while nothing runs)."""
    load = start() if start else None
    agent = Agent(command, options.hz, options.window, os.path.join(work, "agent.log"))
    try:
        agent.wait_attached()
        time.sleep(options.settle)
        a, load_a = agent.now(), load.cpu() if load else 0
        time.sleep(options.seconds)
        b, load_b = agent.now(), load.cpu() if load else 0
        memory = agent.memory()
        time.sleep(1.5 * options.window) # the last samples measured are on their way, whatever the agent does at its end
        stopped = agent.stop()
    finally:
        agent.stop()
        if load:
            load.stop()
    received, raw, wire = agent.received()
    runs, taken = b.bpf_runs - a.bpf_runs, sum(a.unix_ns <= t < b.unix_ns for t in received.times)
    out = dict(memory)
    out["foreign_pct"] = foreign(a, b, load_b - load_a)
    out["cpu_pct"] = 100 * (b.cpu - a.cpu) / (b.wall - a.wall)
    out["stop_ms"] = 1e3 * stopped
    if load:
        out["bpf_ns_per_sample"] = (b.bpf_ns - a.bpf_ns) / runs
        out["bpf_runs"] = runs
        out["samples"] = taken
        if taken:
            out["cpu_ms_per_1000"] = 1e6 * (b.cpu - a.cpu) / taken
        if received.times:
            out["first_sample_ms"] = (min(received.times) - agent.started_ns) / 1e6
            out["attached_ms"] = (agent.attached_ns - agent.started_ns) / 1e6
            out["raw_bytes_per_sample"] = raw / received.samples
            out["wire_bytes_per_sample"] = wire / received.samples
            out["workload_pct"] = 100 * sum(received.pids.get(p, 0) for p in load.pids()) / received.samples
    return out


def distinct_copy(program, path, number):
    """A copy that no cache knows: another file, another build id."""
    shutil.copy(program, path)
    with open(path, "r+b") as f:
        at = f.read().find(BUILD_ID_NOTE)
        if at >= 0:
            f.seek(at + len(BUILD_ID_NOTE))
            f.write(os.urandom(16) + number.to_bytes(4, "big"))
    return path


def processes(command, options, work, cold):
    """What each short process costs the agent, its samples included; cold: each runs a binary not seen before."""
    n = options.processes
    programs = [distinct_copy(options.burst, os.path.join(work, "burst-%d" % i), i) if cold else options.burst
                for i in range(n)]
    agent = Agent(command, options.hz, options.window, os.path.join(work, "agent.log"))
    try:
        agent.wait_attached()
        time.sleep(options.settle)
        idle = agent.now()
        time.sleep(options.seconds)
        a, pids = agent.now(), []
        for program in programs:
            p = subprocess.Popen([program, str(options.burst_ms)])
            pids.append(p.pid)
            p.wait()
        time.sleep(0.5) # what is left to do for the last ones
        b = agent.now()
        time.sleep(1.5 * options.window)
    finally:
        agent.stop()
    received, _, _ = agent.received()
    rate = (a.cpu - idle.cpu) / (a.wall - idle.wall)
    seen = sum(p in received.pids for p in pids)
    return {"cpu_ms_per_process": 1e3 * (b.cpu - a.cpu - rate * (b.wall - a.wall)) / n, "seen_pct": 100 * seen / n}


def tables(program, files):
    """`tables --summary --json` of each file: nanoseconds and bytes a row."""
    out = []
    for path in files:
        p = subprocess.run(shlex.split(program) + ["tables", path, "--summary", "--json"], capture_output=True,
                           text=True)
        if p.returncode != 0:
            raise RuntimeError("tables %s: exit %d: %s" % (path, p.returncode, p.stderr.strip()))
        s = json.loads(p.stdout)
        s = s[0] if isinstance(s, list) else s
        rows = max(s["rows"], 1)
        out.append({"file": path, "rows": s["rows"], "rules": s["rules"], "ns_per_row": s["build_ns"] / rows,
                    "bytes_per_row": s["bytes"] / rows, "build_ms": s["build_ns"] / 1e6})
    return out
