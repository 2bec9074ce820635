# SPDX-License-Identifier: Apache-2.0
"""Many processes at once and many starts a second: is every sample taken, and what does it cost the agent?"""
import collections
import os
import re
import signal
import time

from lib import assertions
from lib.machine import CpuTime
from lib.profiles import ending, total
from lib.scenario import wait_for

from . import work
from .control import Control

TABLES_BUDGET = 64 * work.MIB
SPIN_SECONDS = 0.2  # of CPU time that each spinning process gets, which gives way to everybody
QUIET_EXIT = """
.globl _start
_start:
	mov $60, %eax
	xor %edi, %edi
	syscall
"""


def sleepers(s, program, count):
    driver = s.start([program, "many", str(count), "/bin/sleep", "3600"], "many")
    wait_for(lambda: "ready" in open(driver.log, encoding="ascii").read(), 120, "the crowd")
    return driver


def spinners(s, program):
    """One on each CPU, so that every sample is expected; all else comes first."""
    return [s.start(["taskset", "-c", str(c), "nice", "-n", "19", program, "spin", "3600000"], f"spin-{c}") for c in work.host.CPUS]


def quickly(s):
    """A program that does nothing but end."""
    source = s.path("quickly.S")
    with open(source, "w", encoding="ascii") as f:
        f.write(QUIET_EXIT)
    s.run(["gcc", "-nostdlib", "-static", "-Wl,--build-id", "-o", s.path("quickly"), source])
    return s.path("quickly")


def storm_of_execs(s, n_sleeping, rate, seconds, frequency, judged):
    program = work.build(s)
    execs = s.start([program, "execs", str(rate), str(seconds), quickly(s)], "execs")
    sleepers(s, program, n_sleeping)
    spin = spinners(s, program)
    watched = work.Watched(s, frequency)
    watched.agent.wait_samples(watched.collector)
    time.sleep(2)
    idle = watched.idle_rate(3)
    control, got = Control(frequency, work.host.CPUS), CpuTime([p.pid for p in spin])
    begin, unix, cpu = time.monotonic(), time.time_ns(), watched.cpu()
    os.kill(execs.pid, signal.SIGUSR1)
    rss = 0
    while execs.poll() is None:
        time.sleep(1)
        rss = max(rss, watched.rss()[0])
    wall, end, cpu = time.monotonic() - begin, time.time_ns(), watched.cpu() - cpu
    fired = control.count()
    control.close()
    got.wait(SPIN_SECONDS)
    samples = watched.stop()
    done = re.search(r"(\d+) in ([\d.]+) s", open(execs.log, encoding="ascii").read())
    n = int(done[1])
    taken = sum(unix <= t < end for x in samples for t in x.times)
    expected = wall * frequency * len(work.host.CPUS)
    stopped = watched.stopped()
    maps = stopped.get("arena_bytes", 0)
    pids = {p.pid for p in spin}
    endings = collections.Counter()
    for x in samples:
        if x.attributes.get("process.pid") in pids:
            endings[ending(x)] += x.count
    s.note(f"{n_sleeping} sleeping, {n / float(done[2]):.0f} starts a second for {float(done[2]):.1f} s at {frequency} Hz: {taken} samples of {expected:.0f} "
           f"expected ({work.percent(taken, expected)}; {fired} of such an event without an agent), agent CPU {100 * cpu / wall:.1f} % of a core ({100 * idle:.1f} % before), "
           f"{1e3 * (cpu - idle * wall) / n:.3f} ms a start, RSS {rss / work.MIB:.1f} MiB, tables {maps / work.MIB:.1f} MiB")
    s.note(" ".join(f"{k}={stopped.get(k)}" for k in ("execs", "forks", "events_lost", "completed_late", "completion_full", "arena_bytes")))
    s.check("the spinning processes' stacks are whole", endings and endings["complete"] == sum(endings.values()), str(dict(endings)))
    assertions.loss_identity(s, watched.agent, total(samples))
    s.check("starts were heard of", stopped.get("execs", 0) + stopped.get("events_lost", 0) >= n, f"{stopped.get('execs')} of {n}")
    if judged:
        s.check("the samples of these seconds arrived, as many as this machine gives", fired >= 0.9 * expected and taken >= 0.99 * fired,
                work.percent(taken, fired))
        s.check("memory of the tables is in its budget", maps <= TABLES_BUDGET, f"{maps / work.MIB:.1f} MiB")


def quick(s):
    storm_of_execs(s, 300, 500, 4, 97, False)


def full(s):
    storm_of_execs(s, 10000, 2000, 60, 97, True)
