#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processes that read binaries are killed all the time, and the one that forks them now and then, while new programs start.

No sample is lost without a reason, no descriptor is left open, and when it is over, every program has its table.
"""
import collections
import os
import random
import signal
import sys
import threading
import time

import attack
from attack import wait_for
from lib import machine, programs
from lib.assertions import loss_identity
from lib.collector import Collector
from lib.profiles import ending, names

KILLS = 100 if attack.QUICK else 1000
NURSERY_EVERY = 50  # kills
PROGRAMS = 12
DESCRIPTORS_MORE = 8  # a spool, a connection and files that are just being read


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


class Killer(threading.Thread):
    def __init__(self, keepers, wanted):
        super().__init__(daemon=True)
        self.keepers, self.wanted, self.kills, self.nurseries, self.ended = keepers, wanted, 0, 0, threading.Event()
        self.random = random.Random(1)
        self.start()

    def run(self):
        while self.kills < self.wanted and not self.ended.is_set():
            for nursery in [n for k in self.keepers for n in children(k)]:
                for pid in children(nursery):
                    time.sleep(self.random.random() * 0.002)
                    self.kill(pid)
                if self.kills // NURSERY_EVERY > self.nurseries:
                    self.nurseries += 1
                    self.kill(nursery)
            time.sleep(0.0005)

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
        except ProcessLookupError:
            pass


def keepers_of(pid):
    """→ {name: pid} of the agent's children that keep the processes that read binaries"""
    found = {open(f"/proc/{k}/comm").read().strip(): k for k in children(pid)}
    return {name: k for name, k in found.items() if name in ("proflet-opener", "proflet-parser")}


def descriptors(agent):
    return len(os.listdir(f"/proc/{agent.process.pid}/fd"))


def storm(s, killer, deadline):
    """Programs that nobody has seen before, one after the other, until enough was killed."""
    i = 0
    while killer.is_alive() and time.monotonic() < deadline:
        path = programs.build_c(s, "chain", f"-Wl,--build-id=0x{os.urandom(20).hex()}", program=f"storm-{i % 4}")
        process = s.start([path, "3600"], f"storm-{i % 4}")
        wait_for(lambda: machine.cpu_seconds(process.pid) > 0.2, 60, "a program of the storm computes")
        process.kill()
        process.wait()
        i += 1
    return i


def body(s):
    s.need_root()
    s.need("gcc")
    collector = Collector(s)
    agent = attack.Attacked(s, collector.endpoint())
    watch = attack.Watch(s, agent)
    keepers = keepers_of(agent.process.pid)
    s.equal("the agent's keepers", sorted(keepers), ["proflet-opener", "proflet-parser"])
    open_before, binaries_before = descriptors(agent), agent.metrics().get("proflet_binaries", 0)
    killer = Killer(list(keepers.values()), KILLS)
    s.defer(killer.ended.set)
    started = storm(s, killer, time.monotonic() + (60 if attack.QUICK else 1200))
    killer.ended.set()
    killer.join()
    s.check("processes were killed at random", killer.kills >= (20 if attack.QUICK else KILLS),
            f"{killer.kills} killed, {killer.nurseries} of them forked the others; {started} new programs")
    victims = [s.start([programs.build_c(s, "chain", f"-Wl,--build-id=0x{os.urandom(20).hex()}", program=f"after-{i}"), "3600"],
                       f"after-{i}") for i in range(PROGRAMS)]
    wait_for(lambda: all(machine.cpu_seconds(v.pid) > 1 for v in victims), 300, "the programs that start afterwards compute")
    for v in victims:
        v.kill()
    watch.check(s, "while they are killed")
    open_after = descriptors(agent)
    binaries = agent.metrics().get("proflet_binaries", 0)
    s.check("no descriptor is left open", open_after - open_before <= binaries - binaries_before + DESCRIPTORS_MORE,
            f"{open_before} before, {open_after} after, {binaries - binaries_before:.0f} more binaries")
    metrics = agent.metrics()
    s.check("those killed are counted", metrics.get('proflet_parser_failures_total{reason="killed"}', 0) > 0,
            str({k: int(v) for k, v in metrics.items() if k.startswith("proflet_parser_failures_total") and v}))
    late = {k: int(v) for k, v in agent.metrics().items() if v and k.startswith(("proflet_windows_late", "proflet_symbols"))}
    s.note(f"names: {late}")
    attack.check_stop(s, "after that", agent)
    collector.stop()
    samples = collector.samples()
    mine = [x for x in samples if (x.attributes.get("process.executable.name") or "").startswith("after-")]
    n = sum(x.count for x in mine)
    whole = sum(x.count for x in mine if ending(x) == "complete" and all(f in names(x) for f in programs.CHAIN[1:]))
    cut = collections.Counter()
    for x in mine:
        cut[ending(x)] += x.count
    s.check("programs that start afterwards: stacks are whole and named", n >= 500 and whole >= 0.98 * n,
            f"{whole} of {n}; " + ", ".join(f"{k}: {v}" for k, v in cut.most_common()))
    loss_identity(s, agent, sum(x.count for x in samples))


if __name__ == "__main__":
    sys.exit(attack.scenario("killed_parsers").execute(body))
