#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that change their mappings all the time, or have as many as the kernel allows and fork.

Two at nice 19 map and unmap executable memory as fast as they can. One has 64,000 mappings and forks children that end at once, for
half a minute. Programs that ran before, and that start meanwhile, have whole and right stacks; the agent answers, and when it is over
it is idle again.
"""
import os
import time

import attack
from attack import wait_for
from binaries import chain, check_victim, cpu_share
from lib import machine, programs
from lib.collector import Collector
from lib.scenario import tail
from lives.maps import raise_limit

TENANT = "65534"
MAPPINGS = 64000
SECONDS = 8 if attack.QUICK else 30
IDLE_WITHIN, IDLE_SHARE = 10, 0.05  # s of a quiet machine; of a CPU, over 2 s
ATTACKS = {"mmap and munmap": [["loop"], ["loop"]], "many mappings, and forks": [["fork", str(MAPPINGS)]]}


def attackers(s, what, mappings):
    as_tenant = ["nice", "-n", "19", "setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", mappings]
    started = [s.start([*as_tenant, *argv], f"{what.split()[0]}-{i}") for i, argv in enumerate(ATTACKS[what])]
    wait_for(lambda: all("ready" in tail(p.log) or p.poll() is not None for p in started), 60, f"{what}: ready")
    s.check(f"{what}: the tenant runs", all(p.poll() is None for p in started), " ".join(tail(p.log).strip() for p in started))
    return started


def under(s, what, mappings):
    name = what.split()[0]
    collector = Collector(s)
    before = s.start([chain(s, f"{name}-before"), programs.LIFE], f"{name}-before")
    agent = attack.Attacked(s, collector.endpoint(), window="1s")
    watch = attack.Watch(s, agent)
    started = attackers(s, what, mappings)
    time.sleep(SECONDS / 4)
    after = s.start([chain(s, f"{name}-after"), programs.LIFE], f"{name}-after")
    wait_for(lambda: all(machine.cpu_seconds(p.pid) > SECONDS / 4 for p in (before, after)), 300, "the victims run")
    for process in (before, after, *started):
        process.terminate()
    begin = time.monotonic()
    wait_for(lambda: cpu_share(agent.process.pid, 2) < IDLE_SHARE, IDLE_WITHIN + 2, "the agent is idle again")
    s.note(f"{what}: idle {time.monotonic() - begin - 2:.1f} s after the end; {' '.join(tail(p.log).split()[-1] for p in started)} turns")
    watch.check(s, what, 160 << 20)
    attack.check_stop(s, what, agent)
    collector.stop()
    samples = collector.samples()
    for victim in (f"{name}-before", f"{name}-after"):
        check_victim(s, samples, victim)
        mine = [x for x in samples if x.attributes.get("process.executable.name") == victim and "f8" in programs.user_names(x)]
        s.equal(f"{victim}: stacks from its leaf that are not its chain", sum(x.count for x in mine if not programs.is_chain(x)), 0)


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv", "nice")
    raise_limit(s, MAPPINGS + 1000)
    mappings = programs.build_c(s, "mappings")
    os.chmod(mappings, 0o755)
    os.chmod(os.path.dirname(mappings), 0o755)
    for what in ATTACKS:
        under(s, what, mappings)


if __name__ == "__main__":
    attack.scenario("mappings").execute(body)
