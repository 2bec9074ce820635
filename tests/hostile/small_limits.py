#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent with few open files, beside many processes, or little memory: it works with less, or refuses to start and says what it needs.

With 64 MiB of memory, the files of large programs are read as far as there is room; the agent itself is not ended.
"""
import os
import re
import subprocess
import sys

import attack
from lib.scenario import PROFLET
from trial import Trial
from victims import Victims

MEMORY = 64 << 20  # of the control group
PROCESSES = 150  # each has a root folder that the agent would hold open


def refused(s):
    argv = ["prlimit", "--nofile=100:100", PROFLET, "run", "--endpoint", "http://127.0.0.1:9", "--listen", "off"]
    done = s.run(argv, check=False)
    found = re.search(r"the limit of open files is 100, and at least (\d+) are needed", done.stderr)
    s.check("100 open files: refused, with the figure", done.returncode == 1 and found, f"exit code {done.returncode}, {done.stderr[-160:].strip()}")
    return int(found[1]) if found else 0


def limited(s, files):
    path = s.path(f"proflet-{files}")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec prlimit --nofile={files}:{files} {PROFLET} "$@"\n')
    os.chmod(path, 0o755)
    return path


def works_with(s, files, victims):
    what = f"{files} open files"
    trial = Trial(s, what, program=limited(s, files), victims=victims)
    trial.endure()
    open_files = len(os.listdir(f"/proc/{trial.agent.process.pid}/fd"))
    s.check(f"{what}: some are left", open_files < files, f"{open_files} open")
    s.equal(f"{what}: no error is logged", trial.agent.lines("level=error"), [])
    return trial


def judge_few(s, trial):
    """With as few as can be, binaries are refused, and it is counted."""
    refused_binaries = sum(v for k, v in trial.agent.metrics().items() if k.startswith("proflet_binaries_refused_total"))
    s.note(f"{trial.what}: {refused_binaries:.0f} binaries refused")
    trial.settle()
    trial.stop()
    trial.collector.stop()
    if not refused_binaries:
        trial.judge_victims(trial.collector.samples())


def with_memory(s, victims):
    for i in range(3):  # and programs with large libraries
        s.start(["nice", "-n", "5", sys.executable, "-c", "import ssl, sqlite3, ctypes\nwhile True: pass"], f"python-{i}")
    trial = Trial(s, "64 MiB", limit=MEMORY, memory=(), victims=victims)
    trial.endure()
    s.check("64 MiB: the agent says what it makes of it", len(trial.agent.lines("the control group's limit is 64 MiB")) == 1)
    return trial


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("prlimit")
    needed = refused(s)
    for _ in range(PROCESSES):
        sleeper = subprocess.Popen(["sleep", "600"])
        s.defer(lambda p=sleeper: (p.kill(), p.wait()))
    victims = Victims(s)
    few = [works_with(s, files, victims) for files in ([256] if attack.QUICK else sorted({needed, 256} - {0}))]
    with_memory(s, victims).judge()
    for trial in few:
        judge_few(s, trial)


if __name__ == "__main__":
    attack.scenario("small_limits").execute(body)
