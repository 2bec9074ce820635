#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processes that read binaries are killed all the time, and the one that forks them now and then, while new programs start.

No sample is lost without a reason, no descriptor is left open, and when it is over, every program has its table.
"""
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
from trial import Trial
from victims import Account, chain, is_right

KILLS = 60 if attack.QUICK else 1000
NURSERY_EVERY = 50  # kills
PROGRAMS, AFTER_CPU = 12, 0.5 if attack.QUICK else 1  # s
DESCRIPTORS_MORE = 8  # a spool, a connection and files that are just being read


class Killer(threading.Thread):
    def __init__(self, keepers, wanted):
        super().__init__(daemon=True)
        self.keepers, self.wanted, self.kills, self.nurseries, self.ended = keepers, wanted, 0, 0, threading.Event()
        self.random = random.Random(1)
        self.start()

    def run(self):
        while self.kills < self.wanted and not self.ended.is_set():
            for nursery in [n for k in self.keepers for n in attack.children(k)]:
                for pid in attack.children(nursery):
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
    found = {open(f"/proc/{k}/comm").read().strip(): k for k in attack.children(pid)}
    return {name: k for name, k in found.items() if name in ("proflet-opener", "proflet-parser")}


def descriptors(agent):
    return len(os.listdir(f"/proc/{agent.process.pid}/fd"))


def storm(s, killer, deadline):
    """Programs that nobody has seen before, one after the other, until enough was killed."""
    i = 0
    while killer.is_alive() and time.monotonic() < deadline:
        name = f"storm-{i % 4}"
        process = s.start([chain(s, name), programs.LIFE], name)
        wait_for(lambda: machine.cpu_seconds(process.pid) > 0.2, 60, "a program of the storm computes")
        process.kill()
        process.wait()
        i += 1
    return i


def body(s):
    s.need_root()
    s.need("gcc")
    trial = Trial(s, "killed parsers", window="2s")
    agent = trial.agent
    keepers = keepers_of(agent.process.pid)
    s.equal("the agent's keepers", sorted(keepers), ["proflet-opener", "proflet-parser"])
    open_before, binaries_before = descriptors(agent), agent.metrics().get("proflet_binaries", 0)
    killer = Killer(list(keepers.values()), KILLS)
    s.defer(killer.ended.set)
    trial.victims.another()
    started = storm(s, killer, time.monotonic() + (60 if attack.QUICK else 1200))
    killer.ended.set()
    killer.join()
    s.check("processes were killed at random", killer.kills >= (20 if attack.QUICK else KILLS),
            f"{killer.kills} killed, {killer.nurseries} of them forked the others; {started} new programs")
    later = [s.start([chain(s, f"after-{i}"), programs.LIFE], f"after-{i}") for i in range(PROGRAMS)]
    wait_for(lambda: all(machine.cpu_seconds(p.pid) > AFTER_CPU for p in later), 300, "the programs that start afterwards compute")
    for p in later:
        p.kill()
    trial.endure()
    open_after, metrics = descriptors(agent), agent.metrics()
    more = metrics.get("proflet_binaries", 0) - binaries_before
    s.check("no descriptor is left open", open_after - open_before <= more + DESCRIPTORS_MORE,
            f"{open_before} before, {open_after} after, {more:.0f} more binaries")
    s.check("those killed are counted", metrics.get('proflet_parser_failures_total{reason="killed"}', 0) > 0,
            str({k: int(v) for k, v in metrics.items() if k.startswith("proflet_parser_failures_total") and v}))
    s.note(f"names: { {k: int(v) for k, v in metrics.items() if v and k.startswith(('proflet_windows_late', 'proflet_symbols'))} }")
    samples = trial.judge()
    account = Account()
    for x in samples:
        name = x.attributes.get("process.executable.name") or ""
        if name.startswith("after-"):
            account.add(x, is_right(x, name))
    s.check("programs that start afterwards: stacks are whole, right and named", account.is_good(), str(account))
    loss_identity(s, agent, sum(x.count for x in samples))


if __name__ == "__main__":
    sys.exit(attack.scenario("killed_parsers").execute(body))
