#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs that falsify what the interpreter keeps of their frames (python_liar.py): lists that lead back to themselves, to
memory that is not there or the kernel's, of 100,000 frames, code objects whose names are enormous or no text, thread states that are
garbage, and lists that change all the time. Each is a process of its own. A Python program beside them, whose chains are known, stays exact.
Threads of theirs that have no stack to be walked, in 32-bit code or the kernel's own, have no functions of anybody's.
"""
import os
import sys

import attack
from attack import wait_for
from lib import assertions, machine, language_chains
from lib.profiles import ending, total
from lib.scenario import ROOT, stop, tail
from python import start_chains, check, python, ATTRIBUTES  # tests/e2e/python.py
from trial import Trial

LIAR = os.path.join(ROOT, "tests", "hostile", "python_liar.py")
MODES = ("circle", "circle_of_two", "unmapped", "kernel", "odd_address", "end_of_page", "code", "slot", "deep", "flicker", "in_32_bits",
         "worker_of_the_kernel")
TENANT = "65534"
CPU = 0.5 if attack.QUICK else 10  # s that each gets
SETTLED = 2
WITHOUT_STACK = {"32-bit task"}
NAME_MAX = 1024  # bytes, of what a tenant says


def start(s, program, mode):
    process = s.start(["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", python(), program, mode], mode)
    wait_for(lambda: "ready" in tail(process.log) or process.poll() is not None, 60, mode)
    if process.poll() is not None:
        s.skip(mode, tail(process.log).strip()[-200:])
        return None
    return process


def run_all(s, program):
    """Two at a time → {mode: process id}"""
    pids = {}
    for pair in zip(MODES[::2], MODES[1::2]):
        running = {mode: p for mode, p in ((mode, start(s, program, mode)) for mode in pair) if p}
        for mode, process in running.items():
            pids[mode] = process.pid
            wait_for(lambda p=process: p.poll() is not None or machine.cpu_seconds(p.pid) > CPU, 120, f"{mode} computes")
            s.check(f"{mode}: the tenant ran to the end", process.poll() is None, tail(process.log).strip()[-200:])
        for process in running.values():
            process.kill()
            process.wait()
    return pids


def is_text(name):
    return len(name.encode()) <= NAME_MAX and not any(ord(c) < 32 or ord(c) == 127 for c in name)


def check_without_stack(s, samples, pids):
    """What a CPU has found in another thread's sample is not left there for the next one."""
    mine = [x for x in samples if x.attributes.get("process.pid") in pids.values() and ending(x) in WITHOUT_STACK]
    for what in sorted(WITHOUT_STACK):
        these = [x for x in mine if ending(x) == what]
        bad = [x for x in these if any(f.kind == "cpython" for f in x.frames)]
        s.check(f"{what}: seen, and without functions of Python", bool(these) and not bad,
                f"{total(bad)} of {total(these)}; {[f.name for f in bad[0].frames][:6] if bad else ''}")


def check_liars(s, samples, pids):
    for mode, pid in pids.items():
        mine = [x for x in samples if x.attributes.get("process.pid") == pid]
        frames = [f for x in mine for f in x.frames if f.kind == "cpython"]
        bad = sorted({f.name for f in frames if not is_text(f.name) or not is_text(f.source)})
        s.check(f"{mode}: it was sampled, and what it says is bounded text", bool(mine) and not bad,
                f"{total(mine)} samples; {max((len(x.frames) for x in mine), default=0)} frames at most; {[b[:80] for b in bad[:2]]}")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("setpriv")
    program = s.path("python_liar.py")
    with open(LIAR, encoding="utf-8") as source, open(program, "w", encoding="utf-8") as copy:
        copy.write(source.read())
    for path in (os.path.dirname(program), program):
        os.chmod(path, 0o755)
    innocent, truth = start_chains(s)
    trial = Trial(s, "python lists", "--attributes.sample", ATTRIBUTES, "--stack.depth", "1024")
    trial.victims.another()
    before = machine.cpu_seconds(innocent.pid)
    pids = run_all(s, program)
    trial.endure()
    least = int(0.5 * 97 * (machine.cpu_seconds(innocent.pid) - before))
    children = truth.pids()
    stop(innocent)
    samples = trial.judge()
    check_liars(s, samples, pids)
    check_without_stack(s, samples, pids)
    judge = language_chains.Judge(truth)
    for x in language_chains.settled(samples, children, SETTLED):
        judge.add(x)
    check(s, judge, least, seen=not attack.QUICK)
    assertions.loss_identity(s, trial.agent, total(samples))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    attack.scenario("python_lists").execute(body)
