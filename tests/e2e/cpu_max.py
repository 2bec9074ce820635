#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cpu.max`: the sampling rate goes down when samples cost more, says so, and comes back with the load's end. At whichever rate,
samples times the period of their profile are the program's CPU time; perf events and the timer's tick.
"""
import collections
import os
import re
import time

from lib import assertions, profiles, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.scenario import Scenario, free_port, wait_for
from status import Pages

HZ = 499
MAX, MAX_RATIO = "0.1%", 0.001
LOWERED = re.compile(r"cpu\.max: sampling at (\d+) Hz, no longer (\d+): samples took ([\d.]+) % of a CPU, all else ([\d.]+) %, and 0\.1 % are allowed")
TICK = os.sysconf("SC_CLK_TCK")
LOW_SECONDS = 15  # at a lower rate
WITHIN = 0.15


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Case:
    def __init__(self, s, event, load):
        self.s, self.event = s, event
        self.collector, port = Collector(s), free_port()
        self.agent = Agent(s, self.collector.endpoint(), "--cpu.max", MAX, "--sampling.event", event, "--listen", f"127.0.0.1:{port}",
                           "--select.include", f"pid={load.pid}", frequency=HZ)
        self.pages = Pages(port)
        self.agent.wait_line("msg=\"sampling\" ", 30)
        self.wanted = int(re.search(r"\bhz=(\d+)", self.agent.lines("msg=\"sampling\" ")[0]).group(1))  # no more than there are ticks
        self.load, self.began = load, cpu_seconds(load.pid)

    def gauge(self, name):
        return self.pages.metrics()[f"proflet_{name}"]

    def lowered(self):
        found = LOWERED.search("\n".join(self.agent.wait_line("no longer", 90)))
        self.used_high = cpu_seconds(self.load.pid) - self.began
        self.s.check(f"{self.event}: the log says what samples cost, and the new rate", found and int(found.group(2)) == self.wanted,
                     self.agent.lines("no longer")[0].split("msg=")[1])
        metrics = self.pages.metrics()
        self.s.check(f"{self.event}: so do the metrics", metrics["proflet_sampling_frequency_hertz"] < self.wanted ==
                     metrics["proflet_sampling_frequency_max_hertz"] and metrics["proflet_cpu_max_ratio"] == MAX_RATIO,
                     f"{metrics['proflet_sampling_frequency_hertz']:.0f} of {metrics['proflet_sampling_frequency_max_hertz']:.0f} Hz")
        parts = {k.split('"')[1]: v for k, v in metrics.items() if k.startswith("proflet_samples_cpu_seconds_total")}
        self.s.check(f"{self.event}: what samples take is told by where", len(parts) == 3 and all(v > 0 for v in parts.values()),
                     ", ".join(f"{k} {1e6 * v / metrics['proflet_samples_taken_total']:.1f} µs a sample" for k, v in parts.items()))
        text = self.pages.get("/debug/state")[2].splitlines()[0]
        self.s.check(f"{self.event}: so does /debug/state", "Hz (lowered, by cpu.max)" in text, text)

    def load_ended(self, used):
        self.used = used - self.began
        low = self.gauge("sampling_frequency_hertz")
        wait_for(lambda: self.gauge("sampling_frequency_hertz") > low, 60, "a higher rate")
        self.s.check(f"{self.event}: the rate rises when the load is gone", self.agent.lines("Hz again"), self.agent.lines("Hz again")[0].split("msg=")[1])
        self.s.equal(f"{self.event}: exit code", self.agent.stop(), 0)
        self.collector.stop()

    def weighed(self):
        """Every profile has the period that its samples were taken with."""
        rates, seconds = collections.Counter(), collections.Counter()
        for p in profiles.every_profile(self.collector.file()):
            n = sum(len(x.get("timestampsUnixNano", [])) for x in p.get("samples", []))
            hz = round(1e9 / int(p["period"]))
            rates[hz] += n
            seconds["lowered" if hz < self.wanted else "configured"] += n * int(p["period"]) / 1e9
        said = {self.wanted} | {int(n) for line in self.agent.lines(r"cpu\.max: sampling at") for n in re.findall(r"at (\d+) Hz", line)}
        self.s.check(f"{self.event}: the profiles' periods are those that the log tells of", len(rates) > 1 and set(rates) <= said,
                     ", ".join(f"{n} samples at {hz} Hz" for hz, n in sorted(rates.items())))
        for rate, used in (("configured", self.used_high), ("lowered", self.used - self.used_high)):
            self.s.check(f"{self.event}: samples times their period are the program's CPU time, {rate} rate", abs(seconds[rate] / used - 1) < WITHIN,
                         f"{seconds[rate]:.2f} s of {used:.2f} s")
        assertions.loss_identity(self.s, self.agent, profiles.total(self.collector.samples()), self.event)


def body(s):
    s.need_root()
    s.need_proflet()
    load = s.start([programs.build_c(s, "chain"), "300"], "chain")
    cases = [Case(s, event, load) for event in ("auto", "tick")]
    for case in cases:
        case.lowered()
    time.sleep(LOW_SECONDS)
    used = cpu_seconds(load.pid)
    load.kill()
    load.wait()
    for case in cases:
        case.load_ended(used)
        case.weighed()


if __name__ == "__main__":
    Scenario("cpu_max").execute(body)
