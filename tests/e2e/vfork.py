#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs started by vfork: the child's stack is its parent's, who writes over it while the child is still in execve. No sample
of the child has frames of what the parent does then.
"""
from lib import programs
from lib.scenario import PROFLET, Scenario

STARTS = 6000
FREQUENCY = 9973  # the time between is a few microseconds
SAMPLES = 200  # in execve
FAULTLESS = {"_start", "__libc_start_main", "__libc_start_call_main", "main", "start", "replace", "execve"}


def stacks(path):
    """[(frames from the root on, samples)] of the program in a folded file; frames of the kernel end with _[k]"""
    with open(path, encoding="utf-8") as f:
        for line in f:
            stack, _, n = line.rpartition(" ")
            if stack.startswith(("vforks;", "nothing;")):
                yield stack.split(";")[1:], int(n)


def body(s):
    s.need_root()
    s.need_proflet()
    program, nothing = programs.build_c(s, "vforks"), s.path("nothing")
    with open(s.path("nothing.c"), "w", encoding="utf-8") as f:
        f.write("int main(void) { return 0; }\n")
    s.run(["gcc", "-O2", "-static", "-o", nothing, s.path("nothing.c")])
    s.run([PROFLET, "record", "-F", str(FREQUENCY), "--format", "folded", "-o", s.path("out"), "--", program, str(STARTS), nothing], seconds=300)
    wrong, in_execve, without = {}, 0, 0
    for frames, n in stacks(s.path("out.folded")):
        user = [f for f in frames if not f.endswith("_[k]") and not f.startswith("[truncated")]
        if not any("sys_execve" in f for f in frames):
            continue
        in_execve += n
        without += n if not user else 0
        if not set(user) <= FAULTLESS:
            wrong[";".join(user)] = wrong.get(";".join(user), 0) + n
    s.check("samples are taken in execve", in_execve >= SAMPLES, f"{in_execve}, {without} of them without a user part")
    s.equal("none has frames that the parent has written since", wrong, {})


if __name__ == "__main__":
    Scenario("vfork").execute(body)
