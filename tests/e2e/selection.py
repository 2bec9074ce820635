#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""select.include and select.exclude with real control groups: who is excluded has no sample, whether it was there before the
agent or came later; who is moved into an excluded group has none 2 s later, and is back 2 s after it left it. The loss
identity counts them. What an excluded sample costs in the kernel, beside one that is taken, is printed.
"""
import importlib.util
import os
import shutil
import time

from lib import programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import PromiseClock, wait_for_cpu
from lib.profiles import total
from lib.scenario import ROOT, Scenario, wait_for

GROUP = "proflet-e2e-selection"
POD, OTHER = "0a" * 32, "0b" * 32
LATEST = 2.0  # seconds of a machine with a CPU to spare
FREQUENCY = 197


def bench_bpf():
    spec = importlib.util.spec_from_file_location("bench_bpf", os.path.join(ROOT, "tests", "bench", "lib", "bpf.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Groups:
    """Two control groups that are called as containers are, in the hierarchy that systemd's names are in."""

    def __init__(self, s):
        base = next(b for b in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup") if os.path.isdir(b))
        self.root, self.base = os.path.join(base, "cgroup.procs"), os.path.join(base, GROUP)
        for name in (POD, OTHER):
            os.makedirs(os.path.join(self.base, name), exist_ok=True)
        s.defer(self.remove)

    def remove(self):
        for path in (os.path.join(self.base, POD), os.path.join(self.base, OTHER), self.base):
            wait_for(lambda p=path: not os.path.isdir(p) or self._rmdir(p), 10, f"{path} is empty")

    @staticmethod
    def _rmdir(path):
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    def procs(self, name):
        return os.path.join(self.base, name, "cgroup.procs") if name else self.root

    def move(self, pid, name):
        """Returns the time before and after, in Unix seconds."""
        before = time.time()
        with open(self.procs(name), "w") as f:
            f.write(str(pid))
        return before, time.time()


def start_in(s, groups, name, program):
    """As a container runtime does: a child joins the group, then becomes the program."""
    script = 'echo $$ > "$0" && exec nice -n 1 "$@"'
    return s.start(["sh", "-c", script, groups.procs(name), program, programs.LIFE], f"in-{name[:4]}").pid


def times(samples, pid):
    return sorted(t / 1e9 for x in samples if x.attributes.get("process.pid") == pid for t in x.times)


def moved(s, groups, chain, noise):
    collector, clock = Collector(s), PromiseClock(s)
    before = start_in(s, groups, POD, chain)
    loud = s.start([noise, programs.LIFE], "noise").pid
    mover = s.start(["nice", "-n", "1", chain, programs.LIFE], "mover").pid
    agent = Agent(s, collector.endpoint(), "--select.exclude", f"cgroup=/{GROUP}/{POD},container={OTHER[:12]},exe=noise",
                  window="500ms", frequency=FREQUENCY)
    seen = lambda pid, since: [t for t in times(collector.samples(), pid) if t > since]  # noqa: E731
    wait_for(lambda: seen(mover, 0), 60, "samples of the one that is included")
    after = start_in(s, groups, OTHER, chain)
    _, out = groups.move(mover, POD)
    wait_for(lambda: clock.between(out, time.time()) >= LATEST, 30, "the move is to be seen")
    due = time.time()
    wait_for_cpu([mover], 0.5)
    back, _ = groups.move(mover, None)
    wait_for(lambda: seen(mover, back), 60, "samples of the one that is included again")
    s.equal("the agent ends", agent.stop(), 0)
    collector.stop()
    mine = times(collector.samples(), mover)
    late = [t for t in mine if due < t < back]
    last = max((t for t in mine if t < back), default=0)
    s.check(f"no sample {LATEST:.0f} s after it was moved into an excluded group", mine and not late,
            f"{len(late)} late of {len(mine)}; the last {last - out:+.2f} s")
    first = min(t for t in mine if t > back)
    s.check("samples again after it left", clock.between(back, first) < 20, f"{first - back:.2f} s")
    program = os.path.basename(chain)
    for what, pid in (("excluded by its group, there before the agent", before), ("by its container's id, started later", after),
                      ("by its executable", loud)):
        mine = [x for x in collector.samples() if x.attributes.get("process.pid") == pid]
        outside = total([x for x in mine if x.attributes.get("process.executable.name") not in (program, "nice", "noise")])
        s.equal(f"samples of one that is {what}", total(mine) - outside, 0)  # outside: the shell, on its way into the group
    final = agent.final()
    s.check("what was left out is counted", final and final["not_selected"] > 0 and
            final["taken"] == final["exported"] + final["dropped"] + final["in_flight"], str(final))


def cost(s, groups, chain):
    """ns a sample in the kernel when every process is sampled, and when none is: mostly two programs of twelve frames."""
    bpf = bench_bpf()
    for _ in range(2):
        start_in(s, groups, OTHER, chain)
    figures = {}
    for what, options in (("taken", ()), ("excluded", ("--select.include", "container=" + "f" * 12)), ("taken again", ())):
        collector = Collector(s)
        agent = Agent(s, collector.endpoint(), *options, window="500ms", frequency=997)
        agent.wait_line('msg="?sampling', 30)
        time.sleep(1.5)
        stats = bpf.enable_stats()
        begin = bpf.run_time([agent.process.pid])
        time.sleep(3)
        end = bpf.run_time([agent.process.pid])
        os.close(stats)
        s.equal(f"{what}: the agent ends", agent.stop(), 0)
        final = agent.final()
        figures[what] = (end[0] - begin[0]) / max(end[1] - begin[1], 1)
        s.note(f"{what}: {figures[what]:.0f} ns a sample in the kernel; {final['taken']} samples, {final.get('not_selected', 0)} not selected")
        collector.stop()
    s.check("an excluded sample costs less than one that is taken", figures["excluded"] < min(figures["taken"], figures["taken again"]))


def body(s):
    s.need_root()
    s.need("gcc", "nice")
    s.need_proflet()
    chain = programs.build_c(s, "chain")
    noise = shutil.copy(chain, s.path("noise"))
    groups = Groups(s)
    moved(s, groups, chain, noise)
    cost(s, groups, chain)


if __name__ == "__main__":
    Scenario("selection").execute(body)
