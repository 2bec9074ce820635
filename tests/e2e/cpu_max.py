#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cpu.max`: the sampling rate goes down when samples cost more, says so, and comes back with the load's end. At whichever rate,
samples times the period of their profile are the program's CPU time; perf events and the timer's tick.
"""
import collections
import itertools
import math
import re
import time

from lib import assertions, profiles, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import cpu_history, cpu_seconds, wait_for_cpu
from lib.scenario import Scenario, free_port, wait_for
from status import Pages

HZ = 499
LOWERED = re.compile(r"cpu\.max: sampling at (\d+) Hz, no longer (\d+): samples took ([\d.]+) % of a CPU, all else ([\d.]+) %, and ([\d.]+) % are allowed")
DEPTH = "60"  # frames of the load
# What is allowed follows from what a sample of the load costs here and now: the load exceeds it if it gets a third of a CPU.
PART, ALL_ELSE, LEAST = 0.3, 0.0005, 0.001
MEASURED_CPU = 2.0  # s of the load
LOW_SAMPLES = 200  # at a lower rate
WITHIN = 0.15
# Work that a tick starts or that is shorter than a period hides from the tick, and the program that computes gets its time:
# measured beside compilers and shells up to 0.17.
TICK_BIAS = 0.2
SIGMAS = 4


def spans(samples, wanted):
    """[(lowered?, sample periods, time of the first sample, of the last)] of [(time, Hz)], while the rate was the configured one
    or a lower one, in turn. Times are Unix seconds."""
    result = []
    for lowered, group in itertools.groupby(sorted(samples), key=lambda x: x[1] < wanted):
        group = list(group)
        result.append((lowered, sum(1 / hz for _, hz in group[1:]), group[0][0], group[-1][0]))
    return result


def sampling_hz(agent):
    """No more than there are ticks."""
    return int(re.search(r"\bhz=(\d+)", agent.wait_line("msg=\"sampling\" ", 30)[0]).group(1))


def allowed(s, event, load):
    """→ the ratio of a CPU that is less than what samples of the load take"""
    port = free_port()
    agent = Agent(s, f"http://127.0.0.1:{free_port()}", "--cpu.max", "100%", "--sampling.event", event, "--listen", f"127.0.0.1:{port}",
                  "--select.include", f"pid={load.pid}", frequency=HZ)
    hz = sampling_hz(agent)
    wait_for_cpu([load.pid], MEASURED_CPU)
    metrics = Pages(port).metrics()
    agent.stop()
    cost = sum(v for k, v in metrics.items() if k.startswith("proflet_samples_cpu_seconds_total")) / metrics["proflet_samples_taken_total"]
    ratio = round(max(LEAST, PART * cost * hz + ALL_ELSE), 4)
    s.note(f"{event}: a sample costs {1e6 * cost:.1f} µs, so {100 * ratio:.2f} % of a CPU are allowed at {hz} Hz")
    return ratio


class Case:
    def __init__(self, s, event, load):
        self.s, self.event, self.ratio = s, event, allowed(s, event, load)
        self.collector, port = Collector(s), free_port()
        self.agent = Agent(s, self.collector.endpoint(), "--cpu.max", f"{100 * self.ratio:.2f}%", "--sampling.event", event, "--listen", f"127.0.0.1:{port}",
                           "--select.include", f"pid={load.pid}", frequency=HZ)
        self.pages = Pages(port)
        self.wanted = sampling_hz(self.agent)
        self.load = load

    def gauge(self, name):
        return self.pages.metrics()[f"proflet_{name}"]

    def lowered(self):
        found = LOWERED.search("\n".join(self.agent.wait_line("no longer", 90)))
        self.s.check(f"{self.event}: the log says what samples cost, and the new rate", found and int(found[2]) == self.wanted and float(found[5]) == round(100 * self.ratio, 2),
                     self.agent.lines("no longer")[0].split("msg=")[1])
        metrics = self.pages.metrics()
        self.s.check(f"{self.event}: so do the metrics", metrics["proflet_sampling_frequency_hertz"] < self.wanted ==
                     metrics["proflet_sampling_frequency_max_hertz"] and metrics["proflet_cpu_max_ratio"] == self.ratio,
                     f"{metrics['proflet_sampling_frequency_hertz']:.0f} of {metrics['proflet_sampling_frequency_max_hertz']:.0f} Hz")
        parts = {k.split('"')[1]: v for k, v in metrics.items() if k.startswith("proflet_samples_cpu_seconds_total")}
        self.s.check(f"{self.event}: what samples take is told by where", len(parts) == 3 and all(v > 0 for v in parts.values()),
                     ", ".join(f"{k} {1e6 * v / metrics['proflet_samples_taken_total']:.1f} µs a sample" for k, v in parts.items()))
        text = self.pages.get("/debug/state")[2].splitlines()[0]
        self.s.check(f"{self.event}: so does /debug/state", "Hz (lowered, by cpu.max)" in text, text)

    def sampled_while_low(self):
        """Until the load has got the CPU time of so many samples at the lower rate, which changes."""
        expected, used = 0.0, cpu_seconds(self.load.pid)

        def enough():
            nonlocal expected, used
            time.sleep(1)
            now = cpu_seconds(self.load.pid)
            expected, used = expected + (now - used) * self.gauge("sampling_frequency_hertz"), now
            return expected >= LOW_SAMPLES

        wait_for(enough, 300, f"{LOW_SAMPLES} samples at a lower rate")

    def load_ends(self):
        self.low = self.gauge("sampling_frequency_hertz")

    def load_ended(self):
        wait_for(lambda: self.gauge("sampling_frequency_hertz") > self.low, 60, "a higher rate")
        self.s.check(f"{self.event}: the rate rises when the load is gone", self.agent.lines("Hz again"), self.agent.lines("Hz again")[0].split("msg=")[1])
        self.s.equal(f"{self.event}: exit code", self.agent.stop(), 0)
        self.collector.stop()

    def weighed(self, history):
        """Every profile has the period that its samples were taken with."""
        rates, samples = collections.Counter(), []
        for p in profiles.every_profile(self.collector.file()):
            hz = round(1e9 / int(p["period"]))
            times = [int(t) / 1e9 for x in p.get("samples", []) for t in x.get("timestampsUnixNano", [])]
            rates[hz] += len(times)
            samples += [(t, hz) for t in times]
        said = {self.wanted} | {int(n) for line in self.agent.lines(r"cpu\.max: sampling at") for n in re.findall(r"at (\d+) Hz", line)}
        self.s.check(f"{self.event}: the profiles' periods are those that the log tells of", len(rates) > 1 and set(rates) <= said,
                     ", ".join(f"{n} samples at {hz} Hz" for hz, n in sorted(rates.items())))
        self.compared(history, spans(samples, self.wanted), rates)

    def compared(self, history, found, rates):
        """Samples times their period with the load's CPU time between the first of them and the last. Where others want the CPUs,
        it is chance whether a sample meets the load: with probability p, which makes the deviation of n samples √(n(1-p))."""
        for rate, lowered in (("configured", False), ("lowered", True)):
            mine = [x for x in found if x[0] == lowered]
            sampled = sum(seconds for _, seconds, _, _ in mine)
            used = sum(history.between(begin, end) for _, _, begin, end in mine)
            passed = sum(end - begin for _, _, begin, end in mine)
            n = sum(k for hz, k in rates.items() if (hz < self.wanted) == lowered)
            p = min(1.0, used / passed) if passed else 0
            chance = SIGMAS * math.sqrt((1 - p) / n) if n else 0
            within = chance + TICK_BIAS if self.event == "tick" else max(WITHIN, chance)
            self.s.check(f"{self.event}: samples times their period are the program's CPU time, {rate} rate",
                         n >= LOW_SAMPLES / 2 and used > 0 and abs(sampled / used - 1) < within, f"{sampled:.2f} s of {used:.2f} s, in {passed:.1f} s; {n} samples")

    def account(self):
        assertions.loss_identity(self.s, self.agent, profiles.total(self.collector.samples()), self.event)


def body(s):
    s.need_root()
    s.need_proflet()
    s.busy_nice = 0  # the load gets its part of the CPUs, whatever others want of them
    load = s.start([programs.build_c(s, "deep"), DEPTH, programs.LIFE], "deep")
    history = cpu_history(s, load.pid)
    cases = [Case(s, event, load) for event in ("auto", "tick")]
    for case in cases:
        case.lowered()
    for case in cases:
        case.sampled_while_low()
    for case in cases:
        case.load_ends()
    load.kill()
    load.wait()
    for case in cases:
        case.load_ended()
        case.weighed(history)
        case.account()


if __name__ == "__main__":
    Scenario("cpu_max").execute(body)
