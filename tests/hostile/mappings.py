#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that change their mappings all the time, or have as many as the kernel allows and fork.

Two at nice 19 map and unmap executable memory as fast as they can. One has 64,000 mappings and forks children that end at once.
"""
import os

import attack
from attack import wait_for
from lib import programs
from lib.scenario import stop, tail
from lives.maps import raise_limit
from trial import Trial

TENANT = "65534"
MAPPINGS = 64000
ATTACKS = {"mmap and munmap": [["loop"], ["loop"]], "many mappings, and forks": [["fork", str(MAPPINGS)]]}


def attackers(s, what, mappings):
    as_tenant = ["nice", "-n", "19", "setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", mappings]
    started = [s.start([*as_tenant, *argv], f"{what.split()[0]}-{i}") for i, argv in enumerate(ATTACKS[what])]
    wait_for(lambda: all("ready" in tail(p.log) or p.poll() is not None for p in started), 60, f"{what}: ready")
    s.check(f"{what}: the tenant runs", all(p.poll() is None for p in started), " ".join(tail(p.log).strip() for p in started))
    return started


def under(s, what, mappings):
    trial = Trial(s, what)
    started = attackers(s, what, mappings)
    trial.endure()
    for process in started:
        stop(process)
    s.note(f"{what}: {' '.join(tail(p.log).split()[-1] for p in started)} turns")
    trial.judge()


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
