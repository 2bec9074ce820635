#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs whose frames, code objects, names, file names or line tables lie in memory that never arrives (python_liar.py): of a file
on a FUSE server that was stopped, or of a userfaultfd that nobody serves. Whoever touches it waits for ever, the agent's own reads too.
The agent stops in time while all of it is still so, and a Python program beside them, whose chains are known, stays exact.
"""
import os
import re
import shutil
import signal
import subprocess

import attack
from attack import wait_for
from lib import assertions, language_chains, machine
from lib.profiles import total
from lib.scenario import ROOT, stop, tail
from python import start_chains, check, python, ATTRIBUTES  # tests/e2e/python.py
from python_lists import LIAR, SETTLED, TENANT, check_liars
from trial import Trial

PLACES = ("frame", "code", "name", "file", "lines")
CPU = 0.3 if attack.QUICK else 10  # s that each gets
CHILDREN_OF = {"file": ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups"], "userfault": []}  # where only root may


def serve(s):
    """→ (the server of a file that nothing has read, the file); None where the machine refuses it."""
    s.run(["gcc", "-O2", "-o", s.path("hangfs"), os.path.join(ROOT, "tests", "support", "hangfs.c")])
    folder, content = s.folder("hanging"), s.path("content")
    with open(content, "wb") as f:
        f.write(bytes(1 << 20))
    server = s.start([s.path("hangfs"), folder, content], "hangfs")
    wait_for(lambda: server.poll() is not None or "ready" in tail(server.log), 10, "the file system")
    if server.poll() is not None:
        s.skip("file", f"no FUSE mount: {tail(server.log).strip()}")
        return None
    s.defer(lambda: server.send_signal(signal.SIGCONT))
    return server, os.path.join(folder, "file")


def start(s, mode, program, file):
    """→ the program, which begins"""
    log = s.path(mode + ".log")
    argv = ["nice", "-n", "9", *CHILDREN_OF[mode.partition("_")[2]], python(), program, mode, file]
    with open(log, "wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out)
    process.log = log
    s.defer(lambda: stop(process))
    return process


def is_placed(s, mode, process):
    """Waits until it has the memory; whether it has."""
    wait_for(lambda: process.poll() is not None or re.search("mapped|ready", tail(process.log)), 60, mode)
    if process.poll() is not None:
        s.skip(mode, tail(process.log).strip()[-200:])
    return process.poll() is None


def start_all(s, program):
    """→ ({mode: process}, the server, stopped)"""
    served = serve(s)
    modes = [f"{place}_{whose}" for whose in CHILDREN_OF for place in PLACES if served or whose != "file"]
    started = {mode: start(s, mode, program, served[1] if served else "-") for mode in modes}
    running = {mode: process for mode, process in started.items() if is_placed(s, mode, process)}
    if served:
        served[0].send_signal(signal.SIGSTOP)
    for process in running.values():
        process.stdin.write(b"\n")
        process.stdin.flush()
    wait_for(lambda: all("ready" in tail(p.log) for p in running.values()), 60, "all of them lie")
    return running, served and served[0]


def is_stopped(process):
    return machine.read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()[0] == "T"


def others_exact(s, truth, samples, least):
    judge = language_chains.Judge(truth)
    for x in language_chains.settled(samples, truth.pids(), SETTLED):
        judge.add(x)
    check(s, judge, least, seen=not attack.QUICK)


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("setpriv")
    os.chmod(s.tmp, 0o755)
    program = shutil.copy(LIAR, s.path("python_liar.py"))
    os.chmod(program, 0o755)
    innocent, truth = start_chains(s)
    trial = Trial(s, "python pages", "--attributes.sample", ATTRIBUTES, "--stack.depth", "1024")
    before = machine.cpu_seconds(innocent.pid)
    running, server = start_all(s, program)
    begin = {mode: machine.cpu_seconds(p.pid) for mode, p in running.items()}
    trial.endure()
    for mode, p in running.items():
        wait_for(lambda p=p, mode=mode: p.poll() is not None or machine.cpu_seconds(p.pid) > begin[mode] + CPU, 600, f"{mode} computes")
        s.check(f"{mode}: the tenant ran to the end", p.poll() is None, tail(p.log).strip()[-200:])
    least = int(0.5 * 97 * (machine.cpu_seconds(innocent.pid) - before))
    truth.pids()
    for p in (innocent, *running.values()):
        p.kill()
    samples = trial.judge(stop_within=5)
    if server:
        s.check("the server is stopped to the end", is_stopped(server))
        server.send_signal(signal.SIGCONT)
    check_liars(s, samples, {mode: p.pid for mode, p in running.items()})
    others_exact(s, truth, samples, least)
    assertions.loss_identity(s, trial.agent, total(samples))


if __name__ == "__main__":
    attack.scenario("python_pages").execute(body)
