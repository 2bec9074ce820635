# SPDX-License-Identifier: Apache-2.0
"""Compares the stacks of a recording with those that a program can have. Addresses are named by nm, not by proflet.

A sample of interest is right (a whole stack that the program can have, with the right names), incomplete (it says that it
is cut, and what it shows is the upper part of a stack that was seen whole), or wrong. Not judged, but counted: `early`, cut
for want of a table while the program starts; `other`, stacks without a function of interest, of the start and the end; and
`no stack`, see ReturnFixup.
"""
import bisect
import collections
import os
import re
import struct
import subprocess

from . import recording

# While the tables of a new process are made, a stack is finished from the 64 KiB that came with the sample. That mappings are
# replaced is learnt from the first time that it happens.
CUT = re.compile(r"^\[truncated: ")
EARLY = re.compile(r"^\[truncated: (no process|no mapping|no table|read fault|stack not saved|outdated mappings)\]")
OMITTED = "[frames omitted]"
CLONE = re.compile(r"\.(cold|part\.\d+|constprop\.\d+|isra\.\d+|lto_priv\.\d+|llvm\.\d+)")

SECTION = re.compile(r"^ *\[ *\d+\] (\.plt\S*) +\w+ +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)")


def plt_sections(path):
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, errors="replace").stdout
    for m in filter(None, map(SECTION.match, text.splitlines())):
        yield int(m.group(2), 16), int(m.group(2), 16) + int(m.group(3), 16)


ENTRY_BYTES = 64  # of the code at the entry point, where no symbol says so
HEADER = struct.Struct("<16sHHIQ")


def entry_of(path):
    with open(path, "rb") as f:
        return HEADER.unpack(f.read(HEADER.size))[4]


class Symbols:
    """Functions of one ELF file by address. Assemblers, tcc and Free Pascal give some or all of their symbols no size: such a
    function ends where the next one begins. In a file without symbols, _start is the code at the entry point."""

    def __init__(self, path):
        text = subprocess.run(["nm", "--defined-only", "-S", path], capture_output=True, text=True, errors="replace").stdout
        ranges, bare = collections.defaultdict(set), collections.defaultdict(set)
        for line in text.splitlines():
            parts = line.split()
            if len(parts) == 4 and parts[2] in "tTwWiV":
                address = int(parts[0], 16)
                ranges[(address, address + max(int(parts[1], 16), 1))].add(parts[3])
            elif len(parts) == 3 and parts[1] in "tTW":
                bare[int(parts[0], 16)].add(parts[2])
        if not ranges and not bare:
            bare[entry_of(path)].add("_start")
        self.plt = list(plt_sections(path))
        self._take(ranges)
        for address, names in self._without_size(bare):
            ranges[address].update(names)
        self._take(ranges)

    def _take(self, ranges):
        self.ranges = sorted((start, end, names) for (start, end), names in ranges.items())
        self.starts = [r[0] for r in self.ranges]
        self.longest = max((r[1] - r[0] for r in self.ranges), default=0)

    def _without_size(self, bare):
        """→ ((start, end), names). One with the address of a function is another name of it, one inside is a label."""
        starts = sorted({*bare, *self.starts, *(start for start, _ in self.plt)})  # _init is before the PLT
        for address, names in bare.items():
            i = bisect.bisect_right(self.starts, address) - 1
            if i >= 0 and self.starts[i] == address:
                yield self.ranges[i][:2], names
            elif not set(self.find(address)) - {"<plt>"}:
                following = starts[bisect.bisect_right(starts, address)] if address < starts[-1] else address + ENTRY_BYTES
                yield (address, min(following, address + ENTRY_BYTES) if names == {"_start"} else following), names

    def find(self, address):
        """All names of the function at the address, or ()."""
        i = bisect.bisect_right(self.starts, address) - 1
        while i >= 0 and address - self.starts[i] < self.longest:
            if address < self.ranges[i][1]:
                return self.ranges[i][2]
            i -= 1
        return ("<plt>",) if any(start <= address < end for start, end in self.plt) else ()


INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(\S+) *(\S*)")


class ReturnFixup:
    """The instructions of libgcc between "the handler is found" and "jump to it". A function there overwrites the registers
    that _Unwind_RaiseException or _Unwind_Resume has saved in its frame, the return address among them, by those of the
    handler's frame; the caller jumps away soon after. In between the callers' addresses are in no memory and no register:
    there is no stack to be told. The range is [call of that function, jump], from the code: __builtin_eh_return ends with
    `mov %rcx,%rsp`, the calls before it are the function and, with shadow stacks, a second one."""

    def __init__(self):
        self.ranges = {}

    @staticmethod
    def find(path):
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, errors="replace").stdout
        calls, ends, end = [], [], None
        for line in text.splitlines():
            m = INSTRUCTION.match(line)
            if not m:
                continue
            address, name, operands = int(m.group(1), 16), m.group(2), m.group(3)
            if name.startswith("call"):
                calls.append((address, operands))
            elif line.rstrip().endswith("%rcx,%rsp") and name == "mov":
                end = (calls[-2:], [])
                ends.append(end)
            if end and (name == "ret" or name == "jmp"):
                end[1].append(address)
                end = None
        targets = collections.Counter(c[1] for last, _ in ends for c in last[:1])
        install = targets.most_common(1)[0][0] if targets else None
        for last, jump in ends:
            for address, target in last:
                if target == install and jump:
                    yield address + 1, jump[0] + 1

    def has(self, frames):
        """Whether one of the two innermost frames is in such a range."""
        for f in frames[:2]:
            if os.path.basename(f.module).startswith("libgcc_s."):
                if f.module not in self.ranges:
                    self.ranges[f.module] = list(self.find(f.module))
                if any(start <= f.address < end for start, end in self.ranges[f.module]):
                    return True
        return False


class Verdict:
    def __init__(self):
        self.samples = self.right = self.incomplete = self.wrong = 0
        self.early = self.others = self.others_cut = self.no_stack = self.misnamed = 0
        self.wrong_stacks = collections.Counter()  # stack → samples
        self.cut_stacks = collections.Counter()
        self.other_stacks = collections.Counter()
        self.cut_last = 0.0  # seconds after the start
        self.problems = []


def compiled(expression):
    """Of a text; what has a method `match` itself stays as it is, and says itself what its upper parts are (`is_upper`)."""
    return re.compile("^(?:" + expression + ")$") if isinstance(expression, str) else expression


class Judge:
    """`recorder`: proflet. `program.elves`: paths, or (path of the file that is mapped, path of the same file with its symbols)."""

    def __init__(self, program, recorder):
        self.program, self.recorder = program, os.path.basename(recorder)
        self.expect, self.passing = list(map(compiled, program.expect)), list(map(compiled, program.passing))
        self.phase = re.compile(program.phase) if program.phase else None
        self.symbols, self.fixup = {}, ReturnFixup()
        for elf in program.elves:
            mapped, named = elf if isinstance(elf, tuple) else (elf, elf)
            self.symbols[os.path.basename(mapped)] = Symbols(named)
        self.known = {}
        self.verdict, self.whole, self.cut, self.entering = Verdict(), set(), [], []

    def token(self, frame):
        """→ (name, whether proflet names it so)"""
        if frame not in self.known:
            self.known[frame] = self._token(frame)
        return self.known[frame]

    def _token(self, frame):
        if frame.name.startswith("[truncated: ") or frame.name == OMITTED:
            return frame.name, True  # says what is missing
        module = os.path.basename(frame.module).replace(" (deleted)", "")
        names = self.symbols[module].find(frame.address) if module in self.symbols else ()
        if not names:
            return f"<{module}>", True
        if names == ("<plt>",):
            return names[0], True
        plain = {CLONE.sub("", n) for n in names}
        best = sorted(plain & self.program.functions) or sorted(plain & {"_start", "main"}) or sorted(plain)
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

    def launching(self, user):
        """Whether it is a stack of the recorder's own child, which has not yet called execve: no frame is the program's."""
        modules = {os.path.basename(f.module).replace(" (deleted)", "") for f in user if f.module}
        return bool(user) and os.path.basename(user[-1].module) == self.recorder and not modules & set(self.symbols)

    def judge(self, profile, folded, omitted):
        """Adds a recording to the verdict; when all are in, finish(). `omitted`: stacks with omitted frames, and these frames."""
        v = self.verdict
        begin = min((t for s in profile.samples for t in s.times), default=0)
        seen = collections.Counter()
        for s in profile.samples:
            seen[recording.fold(s)] += s.count
            self._judge_sample(s, begin)
        if seen != folded:
            lost = list((folded - seen).items()) + list((seen - folded).items())
            v.problems.append(f"the folded file is not the OTLP file, {len(lost)} lines, first: {lost[0]}")
        self._judge_omitted(profile, *omitted)

    def _judge_omitted(self, profile, stacks, frames):
        """Frames that are shown and frames that are omitted must be as many as the stack has, and so in sum. A stack that is cut,
        too, omits fewer."""
        shown = [(s, [f.name for f in s.frames if f.kind != "kernel"]) for s in profile.samples]
        shown = [(s, names) for s, names in shown if OMITTED in names]
        n, least, most = sum(s.count for s, _ in shown), 0, 0
        for s, names in shown if self.program.chain else ():
            starts = next((i for i, f in enumerate(reversed(names)) if f == self.program.chain[0]), 0)
            omitted = s.count * (starts + len(self.program.chain) - (len(names) - 1))
            least, most = least + (0 if CUT.match(names[-1]) else omitted), most + omitted
        if n != stacks or self.program.chain and not least <= frames <= most:
            self.verdict.problems.append(f"{n} stacks with omitted frames, {stacks} counted; {most} frames, {frames} counted")

    def _judge_sample(self, s, begin):
        v = self.verdict
        user = [f for f in s.frames if f.kind != "kernel"]
        n_kernel = len(s.frames) - len(user)
        named = [self.token(f) for f in reversed(user)]
        tokens = [t for t, _ in named]
        text = ";".join(tokens)
        if any(f.kind == "kernel" for f in s.frames[n_kernel:]):
            text += ";kernel below user"
        early = sum(1 for t in s.times if t - begin < self.program.early * 1e9)
        nothing = len(tokens) == 1 and CUT.match(text)  # cut above the first frame
        if self.launching(user) or not nothing and not self.interesting(tokens, text) or \
                early == s.count and not self.matches(text) and any(e.match(text) for e in self.passing):
            v.others += s.count
            v.others_cut += s.count if CUT.match(text) else 0
            v.other_stacks[text] += s.count
        elif self.matches(text) and not CUT.match(text):
            self._judge_names(s, text, named)
        elif self.fixup.has(user):
            v.no_stack += s.count
        elif CUT.match(text):
            self.cut.append((text, s.count, early if nothing or EARLY.match(text) else 0))
            v.cut_last = max([v.cut_last] + [(t - begin) / 1e9 for t in s.times])
        elif early == s.count:
            self.entering.append((text, s.count))
        else:
            self._wrong(text, s.count)

    def _judge_names(self, s, text, named):
        v = self.verdict
        self.whole.add(text)
        v.samples += s.count
        if self.program.names and not all(ok for _, ok in named):
            v.misnamed += s.count
            v.wrong_stacks["misnamed: " + recording.fold(s)] += s.count
        else:
            v.right += s.count

    def _wrong(self, text, count):
        v = self.verdict
        v.samples += count
        v.wrong += count
        v.wrong_stacks[text] += count

    def _is_upper(self, tokens, early):
        """Whether a stack may end so: what was seen whole below the same function, with these on top, is one that is expected; or
        while the program starts, one on its way there."""
        if not tokens:
            return True
        own = [e for e in self.expect if hasattr(e, "is_upper")]
        if own:
            return any(e.is_upper(tokens) for e in own)
        for w in self.whole:
            lower = w.split(";")
            for k, name in enumerate(lower):
                text = ";".join(lower[:k] + tokens)
                if name == tokens[0] and (self.matches(text) or any(e.match(text) for e in self.passing) or
                                          early and self._is_lower(lower[:k] + tokens)):
                    return True
        return False

    def _is_lower(self, tokens):
        """Whether it is, from the root on, a part of a stack that was seen whole: the program is on its way there. The leaf may be
        in a library on that way (a page fault, swapcontext); an unwind begins at the leaf and cannot lose one."""
        if tokens[-1].startswith("<"):
            tokens = tokens[:-1]
        return len(tokens) > 1 and any(w.split(";")[:len(tokens)] == tokens for w in self.whole)

    def finish(self):
        """What a cut stack shows must be the upper part of one that is expected, or be expected as it is."""
        v = self.verdict
        self.whole |= {text for text, _, _ in self.cut if self.matches(text)}
        for text, count in self.entering:
            if self._is_lower(text.split(";")):
                v.others += count
                v.other_stacks[text] += count
            else:
                self._wrong(text, count)
        for text, count, early in self.cut:
            if not self.matches(text) and not self._is_upper(text.split(";")[1:], early):
                self._wrong(text, count)
                continue
            early = 0 if self.matches(text) else early
            v.early += early
            v.samples += count - early
            v.incomplete += count - early
            if count > early:
                v.cut_stacks[text] += count - early
