# SPDX-License-Identifier: Apache-2.0
"""What every attack is judged by: an agent in a control group with the chart's memory, beside programs that must not notice.

    trial = Trial(s, "what is done")
    …                                 # the attack begins
    trial.endure()                    # another victim starts, and both run
    …                                 # what this attack alone must show on /metrics and in the log; its end
    samples = trial.judge()           # all that every attack must show
"""
import os
import re
import time

import attack
from attack import wait_for
from lib import cgroups, machine
from lib.collector import Collector
from lib.scenario import PROFLET
from victims import Victims

LIMIT, TOTAL = 160 << 20, 128 << 20  # of the group; memory.total: the chart's
IDLE_WITHIN, IDLE_SHARE, IDLE_FOR = 10, 0.05, 1.0  # s of a quiet machine; of a CPU, over so many seconds
FORK_CPU = 0.0003  # s that the agent may need for a process that somebody else starts meanwhile: more than twice of what it needs


def forks():
    """How many processes and threads this machine has started."""
    return int(re.search(r"^processes (\d+)", machine.read("/proc/stat"), re.M)[1])


def away(s):
    """A Collector that is not there before `Trial.deliver`."""
    collector = Collector(s)
    collector.stop()
    return collector


class Group:
    """A control group with a limit of memory: that of the chart. `total` is the agent's memory.total, given or by its own rule."""
    made = 0

    def __init__(self, s, limit=LIMIT):
        Group.made += 1
        self.s, self.limit, self.total = s, limit, TOTAL if limit == LIMIT else limit - limit // 8
        self.path = cgroups.make(s, f"proflet-hostile-{os.getpid()}-{Group.made}", cgroups.hierarchy_of("memory"))
        self.unified = cgroups.is_unified(self.path)
        with open(os.path.join(self.path, "memory.max" if self.unified else "memory.limit_in_bytes"), "w") as f:
            f.write(str(limit))

    def program(self, proflet=PROFLET):
        """proflet, started in the group."""
        wrapper = self.s.path(os.path.basename(self.path))
        with open(wrapper, "w") as f:
            f.write(f'#!/bin/sh\necho $$ > {self.path}/cgroup.procs || exit 1\nexec {proflet} "$@"\n')
        os.chmod(wrapper, 0o755)
        return wrapper

    def read(self, unified, old, key=None):
        try:
            with open(os.path.join(self.path, unified if self.unified else old)) as f:
                text = f.read()
        except FileNotFoundError:  # memory.peak is of Linux 5.19
            return 0
        return int(text) if key is None else int(dict(line.split() for line in text.splitlines()).get(key, 0))

    def used(self):
        """Bytes, without the cache of files, which the kernel takes back."""
        stat = "memory.stat"
        if self.unified:
            return sum(self.read(stat, stat, key) for key in ("anon", "kernel", "shmem"))
        return sum(self.read(stat, stat, key) for key in ("total_rss", "total_shmem")) + self.read(stat, "memory.kmem.usage_in_bytes")

    def peak(self):
        return self.read("memory.peak", "memory.max_usage_in_bytes")

    def kills(self):
        return self.read("memory.events", "memory.oom_control", "oom_kill")


class Trial:
    """Has a Collector and victims of its own but for those that are given. `options` and `named` are the agent's."""

    def __init__(self, s, what, *options, collector=None, endpoint=None, victims=None, limit=LIMIT, memory=("--memory.total", f"{TOTAL >> 20}MiB"),
                 program=PROFLET, window="1s", source="127.0.0.1", **named):
        self.s, self.what = s, what
        self.collector = collector or Collector(s)
        self.group, self.victims = Group(s, limit), victims or Victims(s)
        self.agent = attack.Attacked(s, endpoint or self.collector.endpoint(), *memory, *options, window=window, source=source,
                                     program=self.group.program(program), **named)
        self.victims.are_sampled()
        self.victims_cpu = self.victims.cpu_seconds()
        self.watch = attack.Watch(s, self.agent, source, self.group)

    def endure(self):
        """Another victim starts, and both run beside the attack for long enough to be judged."""
        self.victims.another()
        self.victims.run()

    def deliver(self):
        """The Collector that was away is there, and what waited for it arrives."""
        self.collector.start()
        wait_for(lambda: self.agent.metrics()["proflet_samples_exported_total"] > 0, 60, f"{self.what}: the Collector gets what waited")

    def settle(self):
        """The attack is over. The victims end, and the agent is idle again within seconds."""
        self.victims.end()
        pid, ended = self.agent.process.pid, machine.unhurried()

        def idle():
            before, forked, begin = attack.cpu_of(pid), forks(), time.monotonic()
            time.sleep(IDLE_FOR)
            return attack.cpu_of(pid) - before < IDLE_SHARE * (time.monotonic() - begin) + FORK_CPU * (forks() - forked)
        wait_for(idle, 2 * IDLE_WITHIN, f"{self.what}: the agent is idle again")
        took = machine.unhurried() - ended
        self.s.check(f"{self.what}: CPU is back within {IDLE_WITHIN} s", took <= IDLE_WITHIN, f"{took:.1f} s")
        self.watch.check(self.what)

    def stop(self, within=attack.STOP_WITHIN):
        attack.check_stop(self.s, self.what, self.agent, within)

    def judge_victims(self, samples):
        self.victims.check(self.what, samples, self.victims.cpu_seconds() - self.victims_cpu)

    def judge(self, stop_within=attack.STOP_WITHIN):
        """The attack is over → the samples that arrived. All is judged that every attack must show."""
        self.settle()
        self.stop(stop_within)
        self.collector.stop()
        samples = self.collector.samples()
        self.judge_victims(samples)
        return samples
