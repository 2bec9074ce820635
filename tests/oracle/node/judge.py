# SPDX-License-Identifier: Apache-2.0
"""Judges samples of chains.js: are the functions shown those of one of its chains, in their order?

    exact       all of a chain
    beginning   its first functions: the innermost one is called next, or has returned
    inlined     a chain without some of its functions, which compilers have put into their callers
    between     outside of all chains: the program's main functions, jobs of the queue, what comes before
    wrong       a function that is not the program's, or a chain that it does not have
    nameless    a frame of JavaScript without a name among them
    cut         the stack is not whole
"""
import collections
import json
import os
import re

BUILTINS = {"sort", "forEach", "map", "reduce", "stringify", "parse", "replace", "next"}
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chains.js")
# Lines at which functions begin that are in no file: code that was evaluated, and a script that begins at line 11 and has three ends of lines.
ELSEWHERE = {"": 1, "s16.js": 14}
OUTER = ("main", "rounds", "observe", "perform")
LOOP = "Builtins_InterpreterEntryTrampoline"
NAMELESS = "[unknown function]"


def is_beginning(few, many):
    return few == many[:len(few)]


def is_subsequence(few, many):
    it = iter(many)
    return all(any(x == y for y in it) for x in few)


class Truth:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        self.pid, self.versions = content["pid"], content["versions"]
        chains = [[name] for name in content["truth"]]  # before and behind a job of the queue
        chains += [self.inner(chain) for situation in content["truth"].values() for chain in situation]
        self.chains = {tuple(chain) for chain in chains}
        # calls without leaf: the code that is evaluated there, what makes a closure
        self.chains |= {("s20_sloppy", "s20_variables", "(anonymous)"), ("s06_closures", "s06_make")}
        self.chains |= {("(anonymous)", "Dog", "Animal", "s03_made", "leaf")}  # before there is a situation

    @staticmethod
    def inner(chain):
        """
        Without what observing differs in, and V8's own functions. Code that was evaluated has no name; a computed one is that of
        an object, not of the function.
        """
        chain = [("(anonymous)" if x in ("", "eval") or x.startswith("[") else x) for x in chain if x not in BUILTINS]
        if "perform" in chain:
            chain = chain[chain.index("perform") + 1:]
        return chain


def short(name):
    """Without the object that V8 has guessed."""
    return name if name.startswith(("(", "[", "get ", "set ")) else name.rsplit(".", 1)[-1]


class Lines:
    """Where functions begin, as the program's own text says."""

    def __init__(self):
        with open(PROGRAM, encoding="utf-8") as f:
            self.text = f.read().split("\n")

    def of(self, name):
        if name == "(anonymous)":
            is_one = re.compile(r"=>|\bfunction\b|\*\[Symbol|new Function")
        else:
            name = "constructor" if name == "Animal" else re.escape(name.split(" ")[-1].lstrip("#"))
            is_one = re.compile(rf"\bfunction\*? {name}\(|\b{name}\([^)]*\) {{|\b{name}(:| =) .*(=>|function)|class {name} extends")
        # a constructor that is not written begins where its class does
        return {i for i, line in enumerate(self.text, 1) if is_one.search(line)}

    def is_right(self, frame):
        if frame.source == PROGRAM:
            return frame.first_line in self.of(short(frame.name)) or (frame.name == "(anonymous)" and frame.first_line == 1)
        return frame.first_line == ELSEWHERE.get(frame.source)


class Classes:
    """Which class a method is of, by the program's layout: a class begins at the left margin, and ends there."""

    METHOD = re.compile(r"^\t(?:static |get |set )*(#?\w+)\(")

    def __init__(self):
        self.by_line, self.names, current = {}, set(), None
        with open(PROGRAM, encoding="utf-8") as f:
            for i, line in enumerate(f, 1):
                begins = re.match(r"class (\w+)", line)
                current = begins[1] if begins else None if line.startswith("}") else current
                method = self.METHOD.match(line)
                if current and method and method[1] != "constructor":
                    self.by_line[i] = (current, method[1])
                self.names.add(current)

    def verdict(self, f):
        """Of a function with a line: right, bare, wrong; "" where there is no class."""
        owner, method = self.by_line.get(f.first_line, (None, None))
        qualifier, _, name = f.name.rpartition(".")
        if owner is None or name.split(" ")[-1] != method:
            return "wrong" if qualifier in self.names else ""
        return "right" if qualifier == owner else "wrong" if qualifier else "bare"


class Judge:
    def __init__(self, truth):
        self.truth = truth
        self.counts, self.lines = collections.Counter(), collections.Counter()
        self.known = Lines()
        self.members, self.classes = Classes(), collections.Counter()
        self.verdicts = {}
        self.examples = collections.defaultdict(list)

    def add(self, sample):
        verdict, note = self.classify(sample)
        self.counts[verdict] += sample.count
        for f in sample.frames:
            self.add_line(f, sample.count)
        if verdict in ("wrong", "nameless", "cut") and len(self.examples[verdict]) < 4:
            self.examples[verdict].append(f"{note}")

    def add_line(self, f, count):
        """Of a frame: does the function begin where the program has it? A line that is not known is counted, and is no mistake."""
        if f.kind != "v8js" or f.source.startswith("node:"):
            return
        key = (f.name, f.source, f.first_line)
        if key not in self.verdicts:
            self.verdicts[key] = "unknown" if not f.first_line else "right" if self.known.is_right(f) else "wrong"
            if self.verdicts[key] == "wrong":
                self.examples["wrong line"].append(f"{key}, may be {sorted(self.known.of(short(f.name)))}")
        self.lines[self.verdicts[key]] += count
        self.lines["of frames"] += f.line != 0  # none are known
        if f.source == PROGRAM and f.first_line:
            verdict = self.members.verdict(f)
            self.classes[verdict] += count
            if verdict == "wrong" and len(self.examples["wrong class"]) < 4:
                self.examples["wrong class"].append(key)

    def functions(self, sample):
        """The program's, root first."""
        return [short(f.name) for f in reversed(sample.frames)
                if f.kind == "v8js" and not f.source.startswith("node:")]

    def classify(self, sample):
        names = self.functions(sample)
        frames = [f.name for f in reversed(sample.frames)]
        # code of V8's own may be the innermost frame
        if NAMELESS in names or any(f.name in (LOOP, "[anonymous]") for f in sample.frames[1:]):
            return "nameless", frames[-14:]
        if any(f.name.startswith("[truncated") for f in sample.frames):
            return "cut", frames
        outer = [x for x in names if x in OUTER]
        if "perform" in names:
            names = names[names.index("perform") + 1:]
        if "observe" in outer or "chain" in names:  # chain: before the program has begun
            return "between", ""
        if "perform" not in outer and not any(x.startswith("s") and x[1:3].isdigit() for x in names):
            return "between", ""
        names = [x for x in names if x not in OUTER]
        return self.chain(names, outer, frames)

    def chain(self, names, outer, frames):
        if tuple(names) in self.truth.chains:
            return "exact", ""
        if any(is_beginning(names, list(c)) for c in self.truth.chains):
            return "beginning", ""
        if any(is_subsequence(names, list(c)) for c in self.truth.chains):
            return "inlined", ""
        return "wrong", (outer, names, frames[-12:])

    def total(self):
        return sum(self.counts.values())

    def summary(self):
        n = self.total() or 1
        return ", ".join(f"{c} {v} ({100 * v / n:.2f} %)" for c, v in self.counts.most_common())
