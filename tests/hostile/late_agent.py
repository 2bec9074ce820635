#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant whose stacks are large and are finished by the agent, which gets no CPU meanwhile.

The stacks wait in the ring of samples. Programs that start in that time have no table yet, so theirs wait there, too: there is room for
them, and each is whole. The agent is stopped by signals, so that all happens on any machine.
"""
import os
import signal
import time

import attack
from attack import wait_for
from lib import cgroups, machine, programs
from lib.profiles import ending, total
from lib.scenario import tail
from trial import Trial
from victims import GOOD, Account, chain, is_right

TENANT = "65534"
DEPTH = 4000  # of 32 bytes each: more than a sample carries
ROUNDS = 3 if attack.QUICK else 20
STOPPED_CPU, CPU = 0.25, 0.75  # s that a program gets while the agent is stopped, and at all
STOPPED_MAX = 2.0  # s


def tenants(s, group, slow):
    started = [cgroups.start(s, group, ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", slow, str(DEPTH)], f"tenant-{i}")
               for i in range(3)]
    wait_for(lambda: all("ready" in tail(p.log) or p.poll() is not None for p in started), 20, "the tenant's programs")
    s.check("the tenant's programs run", all(p.poll() is None for p in started))
    return started


def start_late(s, agent, name):
    """A program that starts while the agent is stopped."""
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        process = s.start([chain(s, name), programs.LIFE], name)
        wait_for(lambda: machine.cpu_seconds(process.pid) >= STOPPED_CPU or time.monotonic() > begin + STOPPED_MAX, 10, f"CPU time for {name}")
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)
    wait_for(lambda: machine.cpu_seconds(process.pid) >= CPU, 60, f"CPU time for {name}")
    process.kill()
    process.wait()


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    slow, group = programs.build_c(s, "slow_rules"), cgroups.make(s, f"tenant-{os.getpid()}")
    for path in (os.path.dirname(slow), slow):
        os.chmod(path, 0o755)
    trial = Trial(s, "late agent")
    started = tenants(s, group, slow)
    for i in range(ROUNDS):
        start_late(s, trial.agent, f"late-{i}")
    trial.endure()
    pressure = trial.agent.metrics().get('proflet_stacks_finished_total{result="ring_pressure"}', 0)
    s.check("what the tenant has too much of is counted", pressure > 0, f"{pressure:.0f} stacks")
    for process in started:
        process.kill()
    samples = trial.judge()
    late = Account()
    for x in samples:
        name = x.attributes.get("process.executable.name") or ""
        if name.startswith("late-"):
            late.add(x, is_right(x, name))
    s.check("programs that started while the agent was stopped are whole, right and named", late.good >= GOOD * late.n and late.n and not late.wrong,
            str(late))
    mine = [x for x in samples if x.attributes.get("process.pid") in {p.pid for p in started}]
    s.note(f"the tenant: {total(mine)} samples; {sorted({ending(x) for x in mine})}")


if __name__ == "__main__":
    attack.scenario("late_agent").execute(body)
