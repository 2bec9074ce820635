#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that pretend to be an interpreter (tests/support/pretender.c), and keep lists of frames that are no such.

Circles, lists of 100,000 frames, into unmapped memory, into the kernel, functions, instructions, names and classes that are nowhere, names
of 2^62 bytes or of control characters, a list that changes all the time, and another function at each look. One after the other, against
one agent with the memory that the chart gives it. An honest one beside them is shown as it says, and no list that is wrong is said to be whole.
"""
import os

import attack
from attack import wait_for
from lib import machine, programs
from lib.profiles import ending, total
from lib.scenario import tail
from trial import Trial

TENANT = "65534"
CPU = 0.4 if attack.QUICK else 10  # s that each gets
NEVER_WHOLE = ("circle", "circle_of_two", "unmapped", "kernel", "noncanonical", "end_of_page", "deep", "function_unmapped", "function_kernel")
MODES = ("honest", *NEVER_WHOLE, "odd_address", "instructions", "name_huge", "name_odd", "class", "flicker", "many")
AT_ONCE = 3
NAME_MAX = 1024  # bytes, of what a tenant says


def start(s, program, mode):
    process = s.start(["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", program, mode], mode)
    wait_for(lambda: "ready" in tail(process.log) or process.poll() is not None, 60, mode)
    return process


def run_all(s, program):
    """→ {mode: process id}"""
    pids = {}
    for i in range(0, len(MODES), AT_ONCE):
        running = {mode: start(s, program, mode) for mode in MODES[i:i + AT_ONCE]}
        for mode, process in running.items():
            pids[mode] = process.pid
            wait_for(lambda p=process: p.poll() is not None or machine.cpu_seconds(p.pid) > CPU, 120, f"{mode} computes")
            s.check(f"{mode}: the tenant ran to the end", process.poll() is None, tail(process.log).strip()[-200:])
        for process in running.values():
            process.kill()
            process.wait()
    return pids


def is_text(name):
    return len(name.encode()) <= NAME_MAX and not any(ord(c) < 32 or ord(c) == 127 or 0x202a <= ord(c) <= 0x202e for c in name)


def check_mode(s, mode, mine):
    inside = [x for x in mine if any(f.kind == "php" or f.name == "execute_ex" for f in x.frames)]
    whole = total([x for x in inside if ending(x) == "complete"])
    frames = [f for x in mine for f in x.frames if f.kind == "php"]
    bad = sorted({f.name for f in frames if not is_text(f.name) or not is_text(f.source)})
    text = f"{total(mine)} samples, {whole} of {total(inside)} whole; {max((len(x.frames) for x in mine), default=0)} frames at most; " \
           f"{', '.join(sorted({ending(x) for x in inside} - {'complete'}))} {[b[:80] for b in bad[:2]]}"
    s.check(f"{mode}: it was sampled, and what it says is bounded text", bool(inside) and not bad, text)
    if mode in NEVER_WHOLE:
        s.check(f"{mode}: its list ends, and none is said to be whole", not whole, text)


def check_honest(s, mine):
    """But for those that were taken before the agent knew it."""
    mine = [x for x in mine if any(f.kind == "php" or f.name == "execute_ex" for f in x.frames)]
    whole = [x for x in mine if ending(x) == "complete"]
    stacks = {tuple((f.name, f.source, f.line) for f in x.frames if f.kind == "php") for x in whole}
    s.equal("honest: both functions, as it says", stacks, {(("lying::lying", "/lying.ph", 2),) * 2})
    s.check("honest: its stacks are whole", total(whole) >= 0.9 * total(mine), f"{total(whole)} of {total(mine)}")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    program = programs.build_c(s, "pretender", "-rdynamic", "-pthread")
    for path in (os.path.dirname(program), program):
        os.chmod(path, 0o755)
    trial = Trial(s, "pretenders")
    trial.victims.another()
    pids = run_all(s, program)
    trial.endure()
    samples = trial.judge()
    of = {mode: [x for x in samples if x.attributes.get("process.pid") == pid] for mode, pid in pids.items()}
    for mode, mine in of.items():
        check_mode(s, mode, mine)
    check_honest(s, of["honest"])


if __name__ == "__main__":
    attack.scenario("pretenders").execute(body)
