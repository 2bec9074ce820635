# SPDX-License-Identifier: Apache-2.0
"""Judges samples of chains.erl: are the functions shown those of one of its processes, in their order?

    exact   a chain of the program, from what each process's first function returns to on, with what it calls of OTP
    other   no function of the program: processes of OTP, the scheduler
    wrong   a chain that the program does not have, in a stack that is called whole
    cut     the stack is not whole
"""
import collections
import re

OWN = "chains:"
SHARED = "shared code"  # pieces that functions call, in no module
OUTERMOST = "normal_exit"  # what the first function of a process returns to
# The outermost function first; what follows may end at any place. "+": once or more.
LEAF = r"(?: leaf/1| zero/0)?"
CHAINS = [
    r"recursion/1(?:(?: recursed/1){0,21}" + LEAF + r")",
    r"cycle/1(?:(?: one/1 two/1 three/1){0,11}(?: one/1(?: two/1)?)?" + LEAF + r")",
    r"collected/1(?:(?: garbage/1){0,51}(?: lists:[a-z_]+/\d)*)",
    r"closures/1(?: applied/1(?: -closures/1-fun-0-/1" + LEAF + r")?)?",
    r"mapped/1(?: lists:map(?:_1)?/2(?: lists:map(?:_1)?/2)*(?: -mapped/1-fun-0-/1" + LEAF + r")?|(?: -mapped/1-fun-0-/1" + LEAF + r"))?",
    r"sorted/1(?:(?: lists:[a-z0-9_]+/\d)*(?: -sorted/1-fun-0-/2" + LEAF + r")?)",
    r"caught/1(?:(?: thrown/1){0,12}" + LEAF + r")",
    r"bifs/1(?: called/1(?: (?:lists|erlang):[a-z0-9_]+/\d)*)?",
    r"caller/2(?: asked/1" + LEAF + r")?",
    r"server/0(?: served/1" + LEAF + r")?",
    r"binaries/1(?: built/1(?: lists:[a-z_]+/\d)*(?: -built/1-lbc\$\^0/\d-0-/\d| -built/1-[a-z0-9$^/_-]+)*" + LEAF + r")?",
    r"main/0.*",
]
CHAIN = re.compile("|".join(f"(?:{c})" for c in CHAINS))


class Judge:
    def __init__(self):
        self.counts, self.chains, self.examples = collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)

    @staticmethod
    def functions(sample):
        """Outermost first. Frames of the sample come innermost first."""
        return [f.name for f in reversed(sample.frames) if f.kind == "beam" and not f.name.startswith("[") and f.name != SHARED]

    def add(self, sample, whole):
        names = self.functions(sample)
        own = next((i for i, x in enumerate(names) if x.startswith(OWN)), None)
        text = " ".join(x.removeprefix(OWN) for x in names[own:]) if own is not None else ""
        if not whole:
            kind = "cut"
        elif own is None:
            kind = "other"
        else:
            kind = "exact" if names[:own] == [OUTERMOST] and CHAIN.fullmatch(text) else "wrong"
        self.counts[kind] += sample.count
        if kind == "exact":
            self.chains[text.split(" ")[0]] += sample.count
        if kind in ("wrong", "cut"):
            inner = sample.frames[0].name if sample.frames else ""
            if not whole:
                inner += " … " + " ".join(f.name for f in sample.frames[-3:])  # from where it is cut
            self.examples[kind][f"{text or '-'} < {inner}"] += sample.count
