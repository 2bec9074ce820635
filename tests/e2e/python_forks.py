#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python program whose workers live for 5 ms: they have their functions from the first sample on, although the agent has not heard of
them yet, because they have the memory of the process that forked them. Some call execve: what they run then is not what the parent ran.
Not judged is what came before the first sample with functions: the agent reads the interpreter's file then.
"""
import os
import sys

from lib.profiles import share
from lib.scenario import PROFLET, ROOT, Scenario
from python import python

sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from live import recording  # noqa: E402

FORKS, EXECS = 800, 40  # every so many call execve
FREQUENCY = 997
SAMPLES = 1500
AT_LEAST = 0.995  # of the workers' samples with native frames
PROGRAM = """
import os
import sys
import time


def worker(seconds):
    x = 0
    while time.process_time() < seconds:
        for i in range(100):
            x = (x * 31 + i) % 1000003


def fork_one(execs):
    pid = os.fork()
    if pid == 0:
        if execs:
            os.execv(sys.executable, [sys.executable, __file__, "alone"])
        worker(time.process_time() + 0.005)
        os._exit(0)
    os.waitpid(pid, 0)


def main(n, every):
    for i in range(n):
        fork_one(i % every == every - 1)


def alone():
    worker(0.05)


main(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else alone()
"""
WORKER, ALONE = ("<module>", "main", "fork_one", "worker"), ("<module>", "alone", "worker")


def body(s):
    s.need_root()
    s.need_proflet()
    path, out = s.path("forks.py"), s.path("out")
    with open(path, "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    s.run([PROFLET, "record", "-F", str(FREQUENCY), "--format", "otlp", "-o", out, "--", python(), path, str(FORKS), str(EXECS)], seconds=300)
    with open(out + ".otlp", "rb") as f:
        samples = recording.Profile(f.read()).samples
    begin = min((t for x in samples for t in x.times if any(f.kind == "cpython" for f in x.frames)), default=0)
    parent, known, without, late, alone, mixed = min(x.pid for x in samples), 0, {}, [], 0, {}
    for x in samples:
        chain = tuple(f.name for f in reversed(x.frames) if f.kind == "cpython")
        native = [f.name for f in x.frames if f.kind == "native"]
        if x.pid == parent or not native:  # its memory is not there yet, or gone
            continue
        alone += x.count if chain == ALONE else 0
        known += x.count if chain == WORKER else 0
        if "alone" in chain and "fork_one" in chain:
            mixed[chain] = mixed.get(chain, 0) + x.count
        if not chain and x.frames[-1].name == "[truncated: cpython: not known yet]":
            late += [t - begin for t in x.times if t > begin]
            without[native[0]] = without.get(native[0], 0) + sum(t > begin for t in x.times)
    n = known + sum(without.values())
    s.check("samples of workers", n >= SAMPLES, f"{n}")
    s.check("their functions are known", known >= AT_LEAST * n, share(known, n))
    for name, count in sorted(without.items(), key=lambda i: -i[1])[:5]:
        s.note(f"not known: {count} in {name}")
    s.note(f"ms behind the first sample with functions: {', '.join(f'{t / 1e6:.0f}' for t in sorted(late)[:40])}")
    s.check("those that call execve run what they run", alone > 0 and not mixed, f"{alone}, {mixed or 'nothing else'}")


if __name__ == "__main__":
    Scenario("python_forks").execute(body)
