#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of CPython among the native ones: a program whose chain of calls is known at all times (tests/oracle/python/chains.py), under
the Python of this machine's distribution. tests/oracle/run_python does the same under every build that can be had.
"""
import os
import re
import subprocess

from lib import assertions, programs, language_chains
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.profiles import total
from lib.scenario import ROOT, Scenario, Skip, free_port, wait_for
from status import Pages

CHAINS = os.path.join(ROOT, "tests", "oracle", "python", "chains.py")
SECONDS, SETTLED = 20, 2
CPU = 8.0  # s that the program gets at least: it waits for the processes that it forks
MIN_SAMPLES = 3000
ATTRIBUTES = "process.pid,process.executable.name,thread.id"


def python():
    """The distribution's own, of a version that is known."""
    path = os.path.realpath("/usr/bin/python3")
    done = subprocess.run([path, "--version"], capture_output=True, text=True) if os.path.exists(path) else None
    version = re.match(r"Python 3\.(\d+)", done.stdout) if done else None
    if not version or not 8 <= int(version[1]) <= 15:
        raise Skip("no /usr/bin/python3 of 3.8 to 3.15")
    return path


def start_chains(s):
    """→ (process, its truth); the program is where its chains are known."""
    path = s.path("chains-truth")
    process = s.start([python(), CHAINS, path, "--seconds", programs.LIFE], "chains", env={"TMPDIR": s.folder("chains-tmp")})
    wait_for(lambda: os.path.exists(path) or process.poll() is not None, 60, "the program of known chains")
    if process.poll() is not None:
        raise RuntimeError(f"chains.py ended with {process.returncode}")
    return process, language_chains.Truth(path)


def check(s, judge, least, seen=True, said=()):
    """What every sample of the program must be. `said`: what the agent says of it, for whoever looks for the cause of a fault."""
    s.check("samples of known chains", judge.total() >= least, judge.summary())
    s.check("their chains are exact", judge.is_exact(), f"{100 * judge.exact_share():.3f} %")
    for what in language_chains.WRONG:
        if judge.counts[what]:
            s.note(f"wrong: {what} {judge.counts[what]}")
    faults = list(judge.faults(least, seen=seen))
    s.check("each situation is there, and native frames are where they belong", not faults, "; ".join(faults))
    if faults:
        for line in (*judge.lines(), *said):
            s.note(line[:300])


def body(s):
    s.need_root()
    s.need_proflet()
    process, truth = start_chains(s)
    collector = Collector(s)
    recorder = Recorder(s, collector)
    port, said = free_port(), []
    agent = Agent(s, recorder.endpoint(), "--attributes.sample", ATTRIBUTES, "--stack.depth", "1024", "--listen", f"127.0.0.1:{port}", frequency=997)

    def ask():
        pages = (Pages(port).get(f"/debug/state/{process.pid}")[2], Pages(port).get("/metrics")[2])
        said.extend(line for page in pages for line in page.splitlines() if "# " not in line and ("runtime" in line or "python" in line.lower()))
    samples = agent.samples_of(collector, SECONDS, [process.pid], cpu=CPU, last=ask)
    judge = language_chains.Judge(truth)
    for x in language_chains.settled(samples, truth.pids(), SETTLED):
        judge.add(x)
    check(s, judge, MIN_SAMPLES, said=said)
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("python").execute(body)
