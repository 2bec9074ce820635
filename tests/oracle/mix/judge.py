# SPDX-License-Identifier: Apache-2.0
"""Counts a recording's samples by program: complete or not, and where an unwind that did not reach the root stopped."""
import collections
import os
import re

TRUNCATED = re.compile(r"^\[truncated: (.*)\]$")
CODE = "code made at run time"
NOWHERE = "(no user frame)"


def module_of(frame):
    if frame.name == "[anonymous]" or not frame.module:
        return CODE
    return os.path.basename(frame.module).replace(" (deleted)", "")


def function_of(frame):
    return "" if module_of(frame) == CODE else frame.name.partition("(")[0][:70]


class Tally:
    def __init__(self):
        self.samples = self.complete = 0
        self.where = collections.Counter()  # (reason, module, function) → samples
        self.stacks = {}                    # the same → an example

    @property
    def truncated(self):
        return self.samples - self.complete

    def add(self, sample, count):
        self.samples += count
        match = TRUNCATED.match(sample.frames[-1].name) if sample.frames else None
        if not match:
            self.complete += count
            return
        user = [f for f in sample.frames[:-1] if f.kind != "kernel"]
        key = (match[1], module_of(user[-1]), function_of(user[-1])) if user else (match[1], NOWHERE, "")
        self.where[key] += count
        self.stacks.setdefault(key, sample)


def jitted(sample):
    return any(f.kind != "kernel" and not f.name.startswith("[truncated") and module_of(f) == CODE for f in sample.frames)


class Mix:
    """`loads`: name → Load. Rows: one per load; a load that makes code at run time has one more, for the stacks with such code."""

    def __init__(self, loads):
        self.rows = {}
        self.jit_rows = set()
        self.owner = {program: name for name, load in loads.items() for program in load.programs}
        self.jit = {name for name, load in loads.items() if load.jit}
        self.others = Tally()
        self.start = Tally()

    def add(self, profile, start_seconds):
        """What was sampled in the first `start_seconds` is counted apart: then the agent makes the tables of all that runs."""
        begin = min((t for s in profile.samples for t in s.times), default=0) + start_seconds * 1e9
        for s in profile.samples:
            early = sum(t < begin for t in s.times)
            if early:
                self.start.add(s, early)
            if s.count > early:
                self._add(s, s.count - early)

    def _add(self, s, count):
        name = self.owner.get(s.process)
        if not name:
            self.others.add(s, count)
            return
        if name in self.jit and jitted(s):
            name += ", JIT on the stack"
            self.jit_rows.add(name)
        self.rows.setdefault(name, Tally()).add(s, count)
