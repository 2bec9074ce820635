#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods of .NET: a program whose chain of calls is known at all times (tests/oracle/dotnet/Chains.cs), under .NET 9, which compiles
each method once: what it inlines does not change while the machine is busy. tests/oracle/run_dotnet does the same in the other ways.
"""
import os
import sys

from lib import assertions, language_chains
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.profiles import total
from lib.scenario import ROOT, Scenario, free_port, wait_for
from status import Pages

sys.path[:0] = [os.path.join(ROOT, "tests", "oracle"), os.path.join(ROOT, "tests", "oracle", "dotnet")]
import builds  # noqa: E402

SECONDS, SETTLED = 15, 3
CPU = 6.0  # s that the program gets at least
MIN_SAMPLES = 2000


def start_chains(s):
    """→ (process, its truth); the program is where its chains are known."""
    path = s.path("chains-truth")
    command = builds.place(s.folder("dotnet"))
    process = s.start([*command, path, builds.lines_beside(*command)], "chains", env=builds.ENVIRONMENT | builds.TIERS["optimized"])
    wait_for(lambda: os.path.exists(path) or process.poll() is not None, 120, "the program of known chains")
    if process.poll() is not None:
        raise RuntimeError(f"Chains.cs ended with {process.returncode}")
    return process, language_chains.Truth(path)


def check_chains(s, judge):
    s.check("samples of known chains", judge.total() >= MIN_SAMPLES, judge.summary())
    faults = list(judge.faults(MIN_SAMPLES))
    s.check("their chains are exact, and each situation is there", not faults, "; ".join(faults))
    if faults:
        for line in judge.lines():
            s.note(line[:300])


def counted(pages):
    return sum(v for k, v in pages.metrics().items() if k.startswith("proflet_dotnet_samples_total"))


def body(s):
    s.need_root()
    s.need("mcs")
    s.need("npm")
    s.need_proflet()
    process, truth = start_chains(s)
    collector = Collector(s)
    recorder = Recorder(s, collector)
    port = free_port()
    agent = Agent(s, recorder.endpoint(), "--stack.depth", "1024", "--listen", f"127.0.0.1:{port}", frequency=997)
    agent.wait_samples(collector)
    wait_for(lambda: counted(Pages(port)) or None, 60, "samples of .NET in the metrics")
    samples = agent.samples_of(collector, SECONDS, [process.pid], cpu=CPU)
    judge = language_chains.Judge(truth)
    for x in language_chains.settled(samples, truth.pids(), SETTLED):
        judge.add(x)
    check_chains(s, judge)
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("dotnet").execute(body)
