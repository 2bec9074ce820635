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
from attack import wait_for
from binaries import Group, chain, check_victim
from lib import machine, programs
from lib.collector import Collector
from lib.profiles import total
from lib.scenario import PROFLET

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


def works_with(s, files):
    what = f"{files} open files"
    collector = Collector(s)
    agent = attack.Attacked(s, collector.endpoint(), "--select.include", "comm=chain", window="300ms",
                            program=limited(s, files))
    watch = attack.Watch(s, agent)
    wait_for(lambda: total(collector.samples()) >= (60 if attack.QUICK else 600), 60, "samples")
    open_files = len(os.listdir(f"/proc/{agent.process.pid}/fd"))
    s.check(f"{what}: some are left", open_files < files, f"{open_files} open")
    samples = collector.samples()
    cut = total([x for x in samples if any(f.name.startswith("[truncated") for f in x.frames)])
    refused_binaries = sum(v for k, v in agent.metrics().items() if k.startswith("proflet_binaries_refused_total"))
    s.check(f"{what}: whole stacks, or it is counted why not", not cut or refused_binaries > 0,
            f"{cut} of {total(samples)} cut, {refused_binaries:.0f} binaries refused")
    s.equal(f"{what}: no error is logged", agent.lines("level=error"), [])
    watch.check(s, what, 160 << 20)
    attack.check_stop(s, what, agent)


def with_memory(s):
    group, collector = Group(s, MEMORY), Collector(s)
    victim = s.start([chain(s, "victim"), programs.LIFE], "victim")
    for i in range(3):  # and programs with large libraries
        s.start([sys.executable, "-c", "import ssl, sqlite3, ctypes\nwhile True: pass"], f"python-{i}")
    agent = attack.Attacked(s, collector.endpoint(), window="1s", program=group.program(s))
    watch = attack.Watch(s, agent)
    wait_for(lambda: machine.cpu_seconds(victim.pid) > (3 if attack.QUICK else 30), 300, "the victim runs")
    s.check("64 MiB: the agent says what it makes of it", len(agent.lines("the control group's limit is 64 MiB")) == 1)
    s.note(f"64 MiB: processes that the kernel ended: {group.kills()}")
    watch.check(s, "64 MiB", MEMORY)
    attack.check_stop(s, "64 MiB", agent)
    collector.stop()
    check_victim(s, collector.samples(), "victim")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("prlimit")
    needed = refused(s)
    for _ in range(PROCESSES):
        sleeper = subprocess.Popen(["sleep", "600"])
        s.defer(lambda p=sleeper: (p.kill(), p.wait()))
    s.start([programs.build_c(s, "chain"), programs.LIFE], "chain")
    for files in [256] if attack.QUICK else sorted({needed, 256} - {0}):
        works_with(s, files)
    with_memory(s)


if __name__ == "__main__":
    attack.scenario("small_limits").execute(body)
