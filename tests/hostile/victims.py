# SPDX-License-Identifier: Apache-2.0
"""Programs that must not notice an attack. Their call chain is known, so each of their stacks can be judged."""
import collections
import os
import shutil

import attack
from attack import wait_for
from lib import machine, programs
from lib.profiles import ending

HZ = 97
CPU = 3.5 if attack.QUICK else 20  # s that each gets beside the attack: 340 samples at least
GOOD = 0.99  # of the samples: whole, right and named
RATE = 0.9  # of the samples that follow from the CPU time; of less than 1600, four standard deviations less than all
BUILD_ID = bytes(range(1, 21))
_built = {}  # scenario's folder: the program of which all others are copies


def chain(s, name):
    """tests/support/chain.c under this name, with a build id that nothing else has. It is built once."""
    if s.tmp not in _built:
        with open(programs.build_c(s, "chain", f"-Wl,--build-id=0x{BUILD_ID.hex()}", program="chain-of-all"), "rb") as f:
            _built[s.tmp] = f.read()
        assert _built[s.tmp].count(BUILD_ID) == 1
    path = s.path(name)
    if os.path.exists(path):  # a program of this name ran before: it keeps its file
        os.unlink(path)
    with open(path, "wb") as f:
        f.write(_built[s.tmp].replace(BUILD_ID, os.urandom(len(BUILD_ID))))
    shutil.copymode(s.path("chain-of-all"), path)
    return path


class Account:
    """What arrived of one program."""

    def __init__(self):
        self.n, self.whole, self.good, self.wrong, self.cut = 0, 0, 0, 0, collections.Counter()

    def add(self, x, right):
        self.n += x.count
        self.wrong += 0 if right else x.count
        named = all(f.name for f in x.frames if f.kind != "kernel")
        if ending(x) == "complete":
            self.whole += x.count
            self.good += x.count if right and named else 0
        else:
            self.cut[ending(x)] += x.count

    def is_good(self):
        return self.n > 0 and self.good >= GOOD * self.n and not self.wrong

    def __str__(self):
        return f"{self.good} good, {self.whole} whole, {self.wrong} wrong of {self.n}; cut: {dict(self.cut) or 'none'}"


def is_right(x, name):
    """Nothing is known to be wrong with it: from its leaf on, it is the program's chain."""
    if name == "large":
        return programs.is_large_chain(x) is not False
    return "f8" not in programs.user_names(x) or programs.is_chain(x) or ending(x) != "complete"


class Victims:
    """One program that runs already when it is made, and one that starts when `another` is called."""
    made = 0

    def __init__(self, s):
        Victims.made += 1
        self.s, self.number, self.running, self.begin, self.ended_after = s, Victims.made, {}, {}, 0.0
        self._start("before")

    def _start(self, when):
        name = f"{when}-{self.number}"
        self.running[name] = self.s.start([chain(self.s, name), programs.LIFE], name)
        self.begin[name] = 0.0

    def are_sampled(self):
        """From now on."""
        self.begin = {name: machine.cpu_seconds(p.pid) for name, p in self.running.items()}

    def another(self):
        if len(self.running) == 1:
            self._start("during")

    def cpu_seconds(self):
        """Of both together; also after their end."""
        return self.ended_after or sum(machine.cpu_seconds(p.pid) for p in self.running.values())

    def run(self):
        """Until each has got CPU seconds since it is sampled."""
        wait_for(lambda: all(machine.cpu_seconds(p.pid) >= self.begin[name] + CPU for name, p in self.running.items()), 30 + 20 * CPU,
                 "CPU time for the victims")

    def end(self):
        if not self.ended_after:
            self.ended_after = self.cpu_seconds()
            for process in self.running.values():
                process.kill()
                process.wait()

    def check(self, what, samples, cpu_seconds):
        """`samples` are those of an agent that sampled them for so much CPU time."""
        accounts = {name: Account() for name in self.running}
        for x in samples:
            name = x.attributes.get("process.executable.name")
            if name in accounts:
                accounts[name].add(x, is_right(x, name))
        for name, account in accounts.items():
            self.s.check(f"{what}: a program that {'ran before' if name.startswith('before') else 'starts meanwhile'} is whole, right and named",
                         account.is_good(), str(account))
        n, wanted = sum(a.n for a in accounts.values()), HZ * cpu_seconds
        least = min(RATE * wanted, wanted - 4 * wanted ** 0.5)
        self.s.check(f"{what}: their samples are their CPU time", n >= least, f"{n} of {wanted:.0f}, at least {least:.0f}")
