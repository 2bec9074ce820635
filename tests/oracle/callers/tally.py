# SPDX-License-Identifier: Apache-2.0
"""Applies the judge to every sample of a recording, and counts."""
import collections
import os

from . import roots
from .judge import KERNEL, TRUNCATED, Verdict

Finding = collections.namedtuple("Finding", "where above reason")


class Tally:
    def __init__(self):
        self.judge = None
        self.samples = self.complete = self.frames = 0
        self.known, self.known_roots, self.distinct = {}, {}, set()
        self.pairs = collections.Counter()       # class → distinct (caller, callee) pairs
        self.classes = collections.Counter()     # class → frames
        self.root_classes = collections.Counter()
        self.unproven = collections.Counter()    # reason → frames: nothing is left to prove them with
        self.programs = collections.Counter()
        self.unexplained = collections.Counter() # Finding → frames
        self.generated = collections.Counter()   # the same, beside code that was made at run time
        self.false_roots = collections.Counter()
        self.examples = {}

    def begin(self, judge):
        """Another recording, whose frames are other objects; the caller keeps them as long as the tally is used."""
        self.judge, self.known, self.known_roots = judge, {}, {}

    def add(self, sample, count=None):
        """→ whether all of it is explained"""
        count = count or sample.count
        frames = sample.frames
        cut = bool(frames) and (frames[-1].name or "").startswith(TRUNCATED)
        user = [f for f in (frames[:-1] if cut else frames) if f.kind != KERNEL]
        self.samples += count
        self.programs[sample.process] += count
        fine = True
        for callee, caller in zip(user, user[1:]):
            fine = self._pair(sample, callee, caller, count) and fine
        if not cut:
            self.complete += count
            fine = self._root(sample, user, count) and fine
        return fine

    def _pair(self, sample, callee, caller, count):
        key = id(callee), id(caller), sample.process, None if callee.module and caller.module else sample.pid
        new = key not in self.known
        if new:
            self.known[key] = self.judge.pair(sample, callee, caller)
        verdict = self.known[key]
        self.frames += count
        if verdict.ok:
            self.classes[verdict.word] += count
            if new:
                pair = caller.module, caller.address, callee.module, callee.address
                self.pairs[verdict.word] += pair not in self.distinct
                self.distinct.add(pair)
        elif verdict.ok is None:
            self.unproven[verdict.word] += count
        else:
            where = self.generated if self.judge.generated(callee, caller) else self.unexplained
            self._finding(where, sample, caller, callee, verdict.word, count)
        return verdict.ok is not False

    def _root(self, sample, user, count):
        if not user and not sample.frames:
            self.root_classes["no frame"] += count
            return True
        frame = user[-1] if user else sample.frames[-1]
        key = tuple(map(id, user[-1:] or sample.frames))
        if key not in self.known_roots:
            self.known_roots[key] = self.judge.root(frame) if user else Verdict(*roots.kernel(sample.frames))
        verdict = self.known_roots[key]
        if verdict.ok:
            self.root_classes[verdict.word] += count
        elif verdict.ok is None:
            self.unproven["root: " + verdict.word] += count
        else:
            self._finding(self.false_roots, sample, frame, None, verdict.word, count)
        return verdict.ok is not False

    def _finding(self, counter, sample, frame, above, reason, count):
        key = Finding((sample.process, frame.module, frame.address), (above.module, above.address) if above else None, reason)
        counter[key] += count
        self.examples.setdefault(key, sample)


def text_of(frame):
    return f"{os.path.basename(frame.module) or 'anonymous'}+{frame.address:#x}{' ' + frame.name if frame.name else ''}"


def print_findings(title, tally, counter, most):
    if not counter:
        return
    print(f"\n{title}: {sum(counter.values())} frames, {len(counter)} places")
    for key, n in counter.most_common(most):
        program, module, address = key.where
        above = f" below {os.path.basename(key.above[0]) or 'anonymous'}+{key.above[1]:#x}" if key.above else ""
        print(f"  {n:>7} × {program}: {module or 'anonymous'}+{address:#x}{above}: {key.reason}")
        frames = [f for f in tally.examples[key].frames if f.kind != KERNEL]
        at = next((i for i, f in enumerate(frames) if f.address == address and f.module == module), 0)
        print("            " + " < ".join(text_of(f) for f in frames[max(0, at - 3):at + 3]))
    if len(counter) > most:
        print(f"  … and {len(counter) - most} other places")


def print_tally(tally, most):
    print(f"\n{tally.samples} samples of {len(tally.programs)} programs, {tally.complete} complete; {tally.frames} caller frames, "
          f"{sum(tally.pairs.values())} distinct pairs of caller and callee that are proven")
    print("\n" + f"{'frames':>9} {'pairs':>7}  callers")
    for word, n in tally.classes.most_common():
        print(f"{n:>9} {tally.pairs[word]:>7}  {word}")
    print("\n" + f"{'samples':>9}          roots")
    for word, n in tally.root_classes.most_common():
        print(f"{n:>9}          {word}")
    print(f"\n{sum(tally.unexplained.values())} callers unexplained, {sum(tally.generated.values())} beside code made at run time; "
          f"{sum(tally.false_roots.values())} false roots")
    if tally.unproven:
        print("\n" + f"{'frames':>9}          not judged: nothing is left to prove them with")
        for word, n in tally.unproven.most_common(20):
            print(f"{n:>9}          {word}")
    print_findings("unexplained beside code made at run time", tally, tally.generated, most)
    print_findings("unexplained callers", tally, tally.unexplained, most)
    print_findings("false roots", tally, tally.false_roots, most)
