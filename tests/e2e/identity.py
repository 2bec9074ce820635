#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that come and go, ten thousand of them: each is a real control group with a process that says by its name which
one it is. No sample has another container's id, and the agent's memory does not grow with them. A process that is moved from
one container to another is the other's soon after.

usage: identity.py [--groups N]    default 10000
"""
import re
import secrets
import sys
import time

from lib import assertions, cgroups, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import PromiseClock, wait_for_cpu
from lib.profiles import share, total
from lib.scenario import Scenario, free_port, wait_for
from status import Pages

GROUPS = int(sys.argv[sys.argv.index("--groups") + 1]) if "--groups" in sys.argv else 10000
PARALLEL, CPU_MS = 8, 3
WORKLOADS_MAX = 4096
GROWTH_MAX = 8 << 20  # bytes, from the first tenth on
MOVE_SEEN = 6.5  # seconds of a machine with a CPU to spare; a process is looked at again after five
NAME = re.compile(r"^g(\d+)$")


def number(x):
    """Which container the sample is from, by the name of its thread; None: not of the containers' programs."""
    found = x.attributes.get("process.executable.name") == "cgroups" and NAME.match(x.attributes.get("thread.name", ""))
    return int(found[1]) if found else None


def memory(pages):
    """Resident bytes, without what other programs of this machine may cause at the time: unwind tables, names of functions."""
    m = pages.metrics()
    return m["process_resident_memory_bytes"] - m["proflet_arena_bytes"] - m["proflet_symbol_bytes"]


def containers(s, pages):
    """Lets them come and go; returns the agent's memory after the first tenth, and the most of it after that."""
    program = programs.build_c(s, "cgroups")
    folder = cgroups.make(s, f"proflet-e2e-{secrets.token_hex(4)}")
    runs, first, peak = 10, 0, 0
    begin = time.monotonic()
    for i in range(runs):
        process = s.start([program, folder, str(i * GROUPS // runs), str(GROUPS // runs), str(PARALLEL), str(CPU_MS)], "cgroups")
        wait_for(lambda: process.poll() is not None, 300, "the containers are over")
        if not s.equal(f"containers {i + 1}/{runs}: exit code", process.returncode, 0):
            return first, peak
        first = first or memory(pages)
        peak = max(peak, memory(pages))
    s.note(f"{GROUPS} containers in {time.monotonic() - begin:.0f} s")
    return first, peak


def check_containers(s, samples):
    mine = [(x, number(x), x.resource.get("container.id")) for x in samples if number(x) is not None]
    n = total([x for x, _, _ in mine])
    right = total([x for x, i, ident in mine if ident and int(ident[-48:]) == i])
    wrong = [(i, ident) for _, i, ident in mine if ident and int(ident[-48:]) != i]
    s.check("samples of the containers", n >= GROUPS // 10, f"{n} samples of {len({i for _, i, _ in mine})} containers")
    s.check("none has the id of another container", not wrong, f"{len(wrong)}: {wrong[:3]}" if wrong else f"{right} right")
    s.check("those without an id are few", right >= 0.95 * n, share(right, n) + " with their own")


def check_move(s, samples, pid, groups, moved_ns, late):
    mine = [x for x in samples if x.attributes.get("process.pid") == pid]
    times = {"before": lambda t: t < moved_ns, "after": lambda t: t > late}
    for (when, holds), wanted in zip(times.items(), groups):
        found = {}
        for x in mine:
            ident = x.resource.get("container.id")
            found[ident] = found.get(ident, 0) + sum(map(holds, x.times))
        found = {ident: n for ident, n in found.items() if n}
        s.check(f"moved: samples from {when} the move have that container's id", set(found) == {wanted}, str(found))


def body(s):
    s.need_root()
    s.need_proflet()
    collector, port = Collector(s), free_port()
    chain = programs.build_c(s, "chain")
    idents = [secrets.token_hex(32) for _ in range(2)]
    groups = [cgroups.make(s, f"proflet-e2e-{secrets.token_hex(4)}/{ident}") for ident in idents]
    mover = cgroups.start(s, groups[0], [chain, programs.LIFE], "mover")
    agent = Agent(s, collector.endpoint(), "--listen", f"127.0.0.1:{port}")
    pages = Pages(port)
    agent.wait_samples(collector)
    first, peak = containers(s, pages)
    clock = PromiseClock(s)
    moved_ns = time.time_ns()
    with open(groups[1] + "/cgroup.procs", "w") as f:
        f.write(str(mover.pid))
    wait_for(lambda: clock.between(moved_ns / 1e9, time.time()) >= MOVE_SEEN, 30, "the move is to be seen")
    late = time.time_ns()
    wait_for_cpu([mover.pid], 1)
    metrics = pages.metrics()
    s.check("the agent's memory is bounded", 0 < peak <= first + GROWTH_MAX,
            f"{first / 2**20:.1f} MiB after a tenth, at most {peak / 2**20:.1f} MiB")
    kept, forgotten = metrics.get("proflet_workloads", 0), metrics.get("proflet_workloads_evicted_total", 0)
    s.check("so is what it knows of containers", kept <= WORKLOADS_MAX and kept + forgotten >= 0.9 * GROUPS,
            f"{kept:.0f} kept, {forgotten:.0f} forgotten")
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    collector.stop()
    samples = collector.samples()
    check_containers(s, samples)
    check_move(s, samples, mover.pid, idents, moved_ns, late)
    assertions.loss_identity(s, agent, total(samples))


if __name__ == "__main__":
    Scenario("identity").execute(body)
