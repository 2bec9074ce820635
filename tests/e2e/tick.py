#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples from the timer's tick times their period are a program's CPU time, also that of a program that mostly sleeps, on a CPU
that idles meanwhile; at a low rate and at the highest, with perf events beside them to compare.
"""
import math
import sys

from lib import assertions, machine, profiles
from lib.agent import Agent
from lib.collector import Collector
from lib.scenario import Scenario

RATES = [("tick", 1000), ("tick", 19), ("cpu-clock", 19)]  # the first is lowered to what the kernel has
SAMPLES = 100  # at 19 Hz
WITHIN, SIGMAS = 0.15, 4
# Computes for about 20 ms, sleeps for about 80: neither is in step with anything.
BURSTS = """
import random, time
while True:
    end = time.thread_time() + random.uniform(0.010, 0.030)
    while time.thread_time() < end:
        pass
    time.sleep(random.uniform(0.030, 0.130))
"""


class Case:
    def __init__(self, s, event, hz, pid):
        self.s, self.name = s, f"{event} at {hz} Hz"
        self.collector = Collector(s)
        self.agent = Agent(s, self.collector.endpoint(), "--sampling.event", event, "--select.include", f"pid={pid}", frequency=hz)
        self.agent.wait_line("msg=\"sampling\" ", 30)

    def judge(self, history):
        self.s.equal(f"{self.name}: exit code", self.agent.stop(), 0)
        self.collector.stop()
        times, periods = [], set()
        for p in profiles.every_profile(self.collector.file()):
            mine = [int(t) / 1e9 for x in p.get("samples", []) for t in x.get("timestampsUnixNano", [])]
            times += mine
            if mine:
                periods.add(int(p["period"]) / 1e9)
        times.sort()
        self.s.equal(f"{self.name}: profiles have one period", len(periods), 1)
        sampled, used = (len(times) - 1) * max(periods), history.between(times[0], times[-1])
        within = WITHIN + SIGMAS / math.sqrt(len(times))
        self.s.check(f"{self.name}: samples times their period are the program's CPU time", used > 0 and abs(sampled / used - 1) < within,
                     f"{sampled:.2f} s of {used:.2f} s, {len(times)} samples")
        assertions.loss_identity(self.s, self.agent, profiles.total(self.collector.samples()), self.name)


def body(s):
    s.need_root()
    s.need_proflet()
    # what has to wait for a CPU gets it by a tick, and that hides it from the tick: it does not wait for others
    load = s.start(["nice", "-n", "-20", sys.executable, "-c", BURSTS], "bursts")
    history = machine.cpu_history(s, load.pid)
    cases = [Case(s, event, hz, load.pid) for event, hz in RATES]
    machine.wait_for_cpu([load.pid], SAMPLES / 19)
    load.kill()
    load.wait()
    for case in cases:
        case.judge(history)


if __name__ == "__main__":
    Scenario("tick").execute(body)
