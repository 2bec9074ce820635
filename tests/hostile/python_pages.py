#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs whose frames, code objects, names, file names or line tables lie in memory that never arrives (python_liar.py): of a file
on a FUSE server that was stopped, or of a userfaultfd that nobody serves. Whoever touches it waits for ever, the agent's own reads too.
The agent stops in time while all of it is still so, and a Python program beside them, whose chains are known, stays exact.
"""
import os
import shutil
import signal

import attack
from hanging import compute, is_stopped, start_all
from lib import assertions, language_chains, machine
from lib.profiles import total
from python import start_chains, check, python, ATTRIBUTES  # tests/e2e/python.py
from python_lists import LIAR, SETTLED, check_liars
from trial import Trial

PLACES = ("frame", "code", "name", "file", "lines")
CPU = 0.3 if attack.QUICK else 10  # s that each gets


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
    running, server = start_all(s, PLACES, lambda place, whose, file: [python(), program, f"{place}_{whose}", file])
    trial.endure()
    compute(s, running, CPU)
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
