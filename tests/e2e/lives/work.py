# SPDX-License-Identifier: Apache-2.0
"""What the parts of `churn` share: sizes of the quick and the full form, the program, an agent with a Collector, its cost."""
import os
import sys
import time

from lib.agent import Agent, parse_log
from lib.collector import Collector
from lib.programs import FLAGS, SUPPORT
from lib.scenario import ROOT, wait_for

sys.path.append(os.path.join(ROOT, "tests"))
from bench.lib import host  # noqa: E402

MIB = 1 << 20
RSS_BUDGET = 40 * MIB  # on a host with 200 processes


def build(s, name="lives", *flags):
    program = s.path(name)
    s.run(["gcc", *FLAGS, *flags, "-o", program, os.path.join(SUPPORT, "lives.c")])
    return program


class Watched:
    """An agent with its Collector; what it costs is read from outside, its own word is the log."""

    def __init__(self, s, frequency, *options, window="2s"):
        self.s, self.frequency = s, frequency
        self.collector = Collector(s)
        if frequency > 97:  # more than cpu.max lets pass on a busy host
            options += ("--cpu.max", "100%")
        self.agent = Agent(s, self.collector.endpoint(), *options, frequency=frequency, window=window)
        self.pid = self.agent.process.pid
        self.agent.wait_line("sampling", 60)

    def cpu(self):
        return host.cpu(self.pid)

    def rss(self):
        return host.resident([self.pid])

    def idle_rate(self, seconds):
        """CPU seconds a second while nothing of ours runs."""
        begin, cpu = time.monotonic(), self.cpu()
        time.sleep(seconds)
        return (self.cpu() - cpu) / (time.monotonic() - begin)

    def stop(self):
        """→ all samples that arrived"""
        self.s.equal("exit code at SIGTERM", self.agent.stop(), 0)
        self.collector.stop()
        return self.collector.samples()

    def stopped(self):
        """Numbers of the log's line at the end."""
        lines = [f for f in parse_log(self.agent.text()) if f.get("msg") == "stopped"]
        return {k: int(v) for k, v in lines[-1].items() if v.isdigit()} if lines else {}


def wait_file(path, seconds):
    wait_for(lambda: os.path.exists(path), seconds, path)
    with open(path, encoding="ascii") as f:
        return f.read().splitlines()


def percent(part, whole):
    return f"{100.0 * part / whole:.2f} %" if whole else "nothing"
