# SPDX-License-Identifier: Apache-2.0
"""Compares the stacks of a recording with those that a program can have. Addresses are named by nm, not by proflet."""
import bisect
import collections
import os
import re
import subprocess

from . import recording

# While the tables of a new process are made, a stack is finished from the 16 KiB that came with the sample.
EARLY = re.compile(r"^\[truncated: (no process|no mapping|no table|read fault)\]")
CLONE = re.compile(r"\.(cold|part\.\d+|constprop\.\d+|isra\.\d+|lto_priv\.\d+|llvm\.\d+)")


class Symbols:
    """Functions of one ELF file by address."""

    def __init__(self, path):
        text = subprocess.run(["nm", "--defined-only", "-S", path], capture_output=True, text=True, errors="replace").stdout
        ranges = collections.defaultdict(set)
        for line in text.splitlines():
            parts = line.split()
            if len(parts) == 4 and parts[2] in "tTwWiV":
                ranges[(int(parts[0], 16), int(parts[1], 16))].add(parts[3])
            elif len(parts) == 3 and parts[2] == "_start":  # musl's has no size
                ranges[(int(parts[0], 16), 64)].add(parts[2])
        self.ranges = sorted((a, a + max(size, 1), names) for (a, size), names in ranges.items())
        self.starts = [r[0] for r in self.ranges]
        self.longest = max((r[1] - r[0] for r in self.ranges), default=0)

    def find(self, address):
        """All names of the function at the address, or ()."""
        i = bisect.bisect_right(self.starts, address) - 1
        while i >= 0 and address - self.starts[i] < self.longest:
            if address < self.ranges[i][1]:
                return self.ranges[i][2]
            i -= 1
        return ()


INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*?) *$")


def lying_addresses(path):
    """Instructions of which GCC's call-frame information says something wrong: in the epilogue of a function that keeps its
    own frame address in r10 (aligned locals), rbp is restored, but is described as still saved at the old rbp, up to `ret` (where proflet knows better)."""
    result, restored, held, r10 = set(), False, [], False
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True, errors="replace") as p:
        for line in p.stdout:
            m = INSTRUCTION.match(line)
            if not m:
                continue
            address, text = int(m.group(1), 16), " ".join(m.group(2).split())
            if restored:
                held.append(address)
            if text in ("pop %rbp", "leave"):
                restored, held = True, []
            elif restored and text == "ret":
                result |= set(held[:-1]) if r10 else set()
                restored = False
            elif restored and len(held) > 8:
                restored = False
            if text in ("pop %rbp", "leave"):
                r10 = False
            elif text == "lea -0x8(%r10),%rsp":
                r10 = True
    return result


class Verdict:
    def __init__(self):
        self.samples = self.exact = self.complete = self.early = self.others = self.misnamed = self.lies = 0
        self.wrong = collections.Counter()       # stack → samples
        self.other_stacks = collections.Counter()
        self.problems = []


class Judge:
    """`program.elves`: paths, or (path of the file that is mapped, path of the same file with its symbols)."""

    def __init__(self, program):
        self.program = program
        self.expect = [re.compile("^(?:" + e + ")$") for e in program.expect]
        self.unsettled = re.compile(program.unsettled or r"(?!)")
        self.phase = re.compile(program.phase) if program.phase else None
        self.symbols, self.lies = {}, set()
        for elf in program.elves:
            mapped, named = elf if isinstance(elf, tuple) else (elf, elf)
            self.symbols[os.path.basename(mapped)] = Symbols(named)
            if program.lies:
                self.lies |= {(os.path.basename(mapped), a) for a in lying_addresses(named)}
        self.known = {}

    def token(self, frame):
        """→ (name, whether proflet names it so)"""
        if frame not in self.known:
            self.known[frame] = self._token(frame)
        return self.known[frame]

    def _token(self, frame):
        if frame.name.startswith("[truncated: "):
            return frame.name, True  # says how the unwind ended
        module = os.path.basename(frame.module).replace(" (deleted)", "")
        names = self.symbols[module].find(frame.address) if module in self.symbols else ()
        if not names:
            return f"<{module}>", True
        plain = {CLONE.sub("", n) for n in names}
        best = sorted(plain & self.program.functions) or sorted(plain)
        name = frame.name.partition(" [clone ")[0]
        return best[0], name in names or name in plain or name in self._demangled(plain)

    @staticmethod
    def _demangled(names):
        """Without parameters, as proflet prints them."""
        done = subprocess.run(["c++filt", "-p", *names], capture_output=True, text=True)
        return done.stdout.splitlines()

    def matches(self, text):
        return any(e.match(text) for e in self.expect)

    def interesting(self, tokens, text):
        return bool(self.phase.search(text)) if self.phase else any(t in self.program.functions for t in tokens)

    def judge(self, profile, folded):
        v = Verdict()
        begin = min((t for s in profile.samples for t in s.times), default=0)
        seen = collections.Counter()
        for s in profile.samples:
            seen[recording.fold(s)] += s.count
            self._judge_sample(v, s, begin)
        if seen != folded:
            lost = list((folded - seen).items()) + list((seen - folded).items())
            v.problems.append(f"the folded file is not the OTLP file, {len(lost)} lines, first: {lost[0]}")
        return v

    def _judge_sample(self, v, s, begin):
        user = [f for f in s.frames if f.kind != "kernel"]
        n_kernel = len(s.frames) - len(user)
        named = [self.token(f) for f in reversed(user)]
        tokens = [t for t, _ in named]
        text = ";".join(tokens)
        if any(f.kind == "kernel" for f in s.frames[n_kernel:]):
            text += ";kernel below user"
        if EARLY.match(text):
            early = sum(1 for t in s.times if t - begin < self.program.early * 1e9)
            v.early += early
            if early == s.count:
                return
            s = s._replace(count=s.count - early)
        if self.lies and any((os.path.basename(f.module), f.address) in self.lies for f in user):
            v.lies += s.count
            return
        if not self.interesting(tokens, text):
            v.others += s.count
            v.other_stacks[text] += s.count
            return
        if self.unsettled.search(text) and not self.matches(text):
            v.lies += s.count
            return
        v.samples += s.count
        v.complete += 0 if text.startswith("[truncated") else s.count
        if self.matches(text):
            v.exact += s.count
            if self.program.names and not all(ok for _, ok in named):
                v.misnamed += s.count
                v.wrong["misnamed: " + recording.fold(s)] += s.count
        else:
            v.wrong[text] += s.count
