# SPDX-License-Identifier: Apache-2.0
"""`proflet run` under test: its start, its end, and its log lines (logfmt) as dictionaries."""
import datetime
import os
import re
import time

from .machine import CpuTime
from .scenario import PROFLET, stop, wait_for

PAIR = re.compile(r'([A-Za-z_][\w.]*)=("(?:[^"\\]|\\.)*"|\S*)')


def parse_line(line):
    result = {}
    for key, value in PAIR.findall(line):
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        result[key] = value
    return result


def written_at(line):
    """Unix time at which the line was logged."""
    return datetime.datetime.fromisoformat(parse_line(line)["time"].replace("Z", "+00:00")).timestamp()


def wait_recording(process, seconds):
    """Until `proflet record -d SECONDS` samples. Its time counts from there: then it has a timer that ends it."""
    pattern = re.compile(r"it_value: \((\d+), \d+\)\s+it_interval: \(0, 0\)")

    def begun():
        try:
            for fd in os.listdir(f"/proc/{process.pid}/fdinfo"):
                with open(f"/proc/{process.pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as f:
                    found = pattern.search(f.read())
                    if found and seconds // 2 < int(found[1]) <= seconds:  # others never end
                        return True
        except FileNotFoundError:
            pass
        return process.poll() is not None

    wait_for(begun, 30, "the recording begins")


def parse_log(text):
    return [fields for fields in map(parse_line, text.splitlines()) if fields]


class Agent:
    started = 0  # each has a log of its own

    def __init__(self, s, endpoint, *options, window="2s", frequency=97, env=None, command="run", program=None,
                 session=False):
        self.s = s
        Agent.started += 1
        if "--listen" not in options:  # many agents run at once
            options += ("--listen", "off")
        self.process = s.start([program or PROFLET, command, "--endpoint", endpoint, "--sampling.frequency", str(frequency),
                                "--window", window, *options],
                               f"proflet-{Agent.started}", env=env, session=session)

    def text(self):
        with open(self.process.log, errors="replace") as f:
            return f.read()

    def lines(self, pattern):
        """Log lines whose text matches the regular expression."""
        return [line for line in self.text().splitlines() if re.search(pattern, line)]

    def wait_line(self, pattern, seconds):
        return wait_for(lambda: self.lines(pattern) or self._alive(), seconds, f"log line {pattern!r}")

    def _alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"proflet ended with exit code {self.process.returncode}")
        return None

    def wait_samples(self, collector, seconds=30):
        """Until the Collector has written something of ours."""
        wait_for(lambda: self._alive() or collector.size() > 0, seconds, "first profile in the Collector's file")

    def stop(self, seconds=30):
        """SIGTERM; returns the exit code."""
        return stop(self.process, seconds)

    def samples_of(self, collector, seconds, programs=(), cpu=2.0, last=None):
        """Lets the agent run for so long, and until each of these processes has got `cpu` seconds of CPU time meanwhile; calls `last`; ends
        the agent and the Collector; returns the samples that arrived."""
        self.wait_samples(collector)
        end, got = time.monotonic() + seconds, CpuTime(programs)
        wait_for(lambda: time.monotonic() > end or self.process.poll() is not None, seconds + 5, "the recording's time")
        got.wait(cpu)
        if last:
            last()
        self.s.equal("exit code at SIGTERM", self.stop(), 0)
        collector.stop()
        return collector.samples()

    def final(self):
        """The last line of the loss identity: taken, exported, dropped, in_flight, dropped_REASON … as numbers."""
        found = [f for f in parse_log(self.text()) if f.get("msg") == "final"]
        if len(found) != 1:
            return None
        return {k: int(v) for k, v in found[0].items() if v.isdigit()}
