# SPDX-License-Identifier: Apache-2.0
"""The agent comes to a host that is busy: when its first samples arrive, and whether every process is seen whole at once."""
import os
import sys
import time

from lib.agent import Agent
from lib.scenario import ROOT, stop, wait_for

from . import short, work
from bench.lib.sink import Sink

sys.path.append(os.path.join(ROOT, "tests", "oracle"))
from live import recording  # noqa: E402

FREQUENCY = 997  # 200 processes share two CPUs: of 97 samples a second and CPU not every one could have one in a second
PROGRAMS = 20


def many(s, program, count):
    """So many busy processes, of PROGRAMS programs that nobody has seen."""
    folder = s.folder("many")
    short.copies(program, folder, 1, PROGRAMS)
    drivers = [s.start([program, "many", str(count // PROGRAMS), f"{folder}/life-{i:05d}", "spin", "600000"], f"many-{i}") for i in range(1, PROGRAMS + 1)]
    wait_for(lambda: all("ready" in open(d.log).read() for d in drivers), 60, "the crowd")
    pids = set()
    for d in drivers:
        with open(f"/proc/{d.pid}/task/{d.pid}/children", encoding="ascii") as f:
            pids |= set(map(int, f.read().split()))
    return drivers, pids


def one_start(s, count, wait):
    """→ ms to the first sample's arrival, ms to each process's first whole one, processes"""
    program = work.build(s)
    drivers, pids = many(s, program, count)
    os.setpriority(os.PRIO_PROCESS, 0, -20)  # or the sink would wait for a CPU behind the crowd, and not the agent
    time.sleep(1)
    sink = Sink()
    os.setpriority(os.PRIO_PROCESS, 0, 0)  # not for the agent
    begin = time.time_ns()
    agent = Agent(s, f"http://{sink.endpoint}", frequency=FREQUENCY, window="10s", session=True)  # a service is no part of the crowd's session
    agent.wait_line('msg="sampling"', 60)
    time.sleep(wait)
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    for d in drivers:
        stop(d)
    sink.close()
    first, arrival, wrong, samples = {}, None, 0, 0
    for (request, _), at in zip(sink.decoded(), sink.arrivals):
        for x in recording.Profile(request).samples:
            arrival = min(arrival or at, at)
            samples += x.count
            if x.pid not in pids:
                continue
            if x.frames[-1].name.startswith("[truncated:"):
                wrong += x.count
            else:
                first[x.pid] = min(first.get(x.pid, x.times[0]), *x.times)
    at = sorted((t - begin) / 1e6 for t in first.values())
    attached = {k: int(v) for k, v in agent.final().items()} if agent.final() else {}
    s.equal("every sample taken arrived", samples, attached.get("exported"))
    s.note(f"{count} busy processes, {FREQUENCY} Hz: first arrival {(arrival - begin) / 1e6:.0f} ms after the start, first sample taken at "
           f"{at[0]:.0f} ms, last process's first whole one at {at[-1]:.0f} ms; {wrong} stacks not whole")
    s.note(" ".join(line for line in agent.lines("sampling|stopped"))[:1200])
    return (arrival - begin) / 1e6, at, count


def quick(s):
    _, at, count = one_start(s, 40, 4)
    s.check("the processes have whole samples", len(at) >= 0.9 * count, f"{len(at)} of {count}")


def full(s):
    arrival, at, count = one_start(s, 200, 3)
    in_time = sum(t <= 1000 for t in at)
    s.check("every process has a whole sample within a second", in_time == count, f"{in_time} of {count}, the last at {at[-1]:.0f} ms")
    s.check("the first samples have arrived within 300 ms", arrival <= 300, f"{arrival:.0f} ms")
