#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose stacks, threads and memory are odd: they are looked at, and nobody else notices.

Chains of frames that lead back to themselves, signal frames that lie, signals on sixteen alternate stacks, thousands of threads with new
ones all the time, a stack and a command line in memory that nobody provides (userfaultfd), code in a memfd that is cut, grows and is
sealed while it is read. One after the other, against one agent with the memory that the chart gives it.
"""
import os
import secrets

import attack
from attack import wait_for
from binaries import AT_EH_FRAME, many_fdes, section, with_sections
from lib import cgroups, machine, programs
from lib.profiles import ending, total
from lib.scenario import tail
from trial import Trial

TENANT = "65534"
THREADS = 3000 if attack.QUICK else 50000
CPU = 0.5 if attack.QUICK else 10  # s that each gets
NEVER_WHOLE = ("cycle", "still", "pages")
LIMITS = {"/proc/sys/kernel/pid_max": 4 * THREADS, "/proc/sys/kernel/threads-max": 4 * THREADS, "/proc/sys/vm/max_map_count": 4 * THREADS}


def raise_limits(s):
    for path, wanted in LIMITS.items():
        with open(path, encoding="ascii") as f:
            was = int(f.read())
        if was < wanted:
            s.defer(lambda path=path, was=was: write(path, was))
            write(path, wanted)


def write(path, number):
    with open(path, "w", encoding="ascii") as f:
        f.write(str(number))


def build(s):
    """→ the program, and a binary whose reading takes time."""
    program, code = programs.build_c(s, "odd", "-pthread"), s.path("code")
    fdes = many_fdes(400000)
    with_sections(code, section(AT_EH_FRAME, 1, 2, 0x2000, len(fdes), va=0x10000), content=[(0x2000, fdes)])
    for path in (os.path.dirname(program), program, code):
        os.chmod(path, 0o755)
    return program, code


def start(s, program, mode, *arguments):
    group = cgroups.make(s, f"odd-{mode}-{secrets.token_hex(4)}")
    process = cgroups.start(s, group, ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", program, mode, *arguments], mode)
    wait_for(lambda: "ready" in tail(process.log) or process.poll() is not None, 60, mode)
    if process.poll() is not None:
        s.skip(mode, tail(process.log).strip())
        return None
    return process


def modes(code, threads):
    """Each with its arguments."""
    return ("cycle",), ("still",), ("signals",), ("stacks",), ("pages",), ("memfd", code), ("threads", str(threads))


def run_all(s, program, code):
    """→ {mode: process id}"""
    pids = {}
    for mode, *arguments in modes(code, THREADS):
        process = start(s, program, mode, *arguments)
        if process:
            pids[mode] = process.pid
            wait_for(lambda p=process: p.poll() is not None or machine.cpu_seconds(p.pid) > CPU, 120, f"{mode} computes")
            s.check(f"{mode}: the tenant ran to the end", process.poll() is None, tail(process.log).strip())
            process.kill()
            process.wait()
    return pids


def check_odd(s, samples, pids):
    for mode, pid in pids.items():
        mine = [x for x in samples if x.attributes.get("process.pid") == pid]
        whole = total([x for x in mine if ending(x) == "complete" and any(f.kind != "kernel" for f in x.frames)])
        text = f"{whole} of {total(mine)} whole; {', '.join(sorted({ending(x) for x in mine} - {'complete'}))}"
        if mode in NEVER_WHOLE:
            inside = total([x for x in mine if any("spin" in n for n in programs.user_names(x))])
            claimed = total([x for x in mine if ending(x) == "complete" and any("spin" in n for n in programs.user_names(x))])
            s.check(f"{mode}: its stacks end, and none is said to be whole", inside > 0 and not claimed, text)
        else:
            s.check(f"{mode}: it was sampled", total(mine) > 0, text)


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    raise_limits(s)
    program, code = build(s)
    trial = Trial(s, "odd programs")
    trial.victims.another()
    pids = run_all(s, program, code)
    trial.endure()
    check_odd(s, trial.judge(), pids)


if __name__ == "__main__":
    attack.scenario("odd_programs").execute(body)
