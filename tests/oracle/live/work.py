# SPDX-License-Identifier: Apache-2.0
"""The input of a case (a folder, a seed, compilers) and its result (a program and the stacks that it may have)."""
import dataclasses
import os
import random
import re
import shutil
import subprocess

from . import chain

WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-function"]
# Frames above main: glibc's own (one or two by version), musl's or those of a static program. The root is _start.
START = r"_start;(?:[^;]+;){1,3}main"
# A thread of glibc: clone3 (or clone), start_thread.
THREAD = r"<libc\.so\.6>;<libc\.so\.6>"
SIGNAL = r"<libc\.so\.6>"  # glibc's signal trampoline
LIBC = r"(?:;<plt>)?(?:;<libc\.so\.6>)*"


class Skip(Exception):
    """The case cannot run here; the text is the reason."""


@dataclasses.dataclass
class Program:
    """`expect`: regular expressions of whole stacks, root first, names joined by ';', kernel frames left out. A name that no
    file of `elves` knows is <module>. `phase`: expression that finds a stack of interest, None: one of `functions`."""
    argv: list
    expect: list
    functions: set
    elves: list
    env: dict = dataclasses.field(default_factory=dict)
    names: bool = True       # proflet must know the names
    phase: str = None
    seconds: float = 3.0
    early: float = 3.0       # seconds in which tables may still be missing
    passing: list = dataclasses.field(default_factory=list)  # stacks of the way to one that is then held
    attach: bool = False     # the program runs already when the recording starts
    incomplete: str = None   # why stacks of this case are cut, and say so; None: none may be
    cut_share: float = 1.0   # of its samples at most
    min_share: float = 0.5   # of the samples must be of interest
    chain: list = None       # the functions of the one stack that all samples have: how many frames they omit in all is checked


class Work:
    def __init__(self, folder, seed, name):
        self.folder, self.seed, self.name = folder, seed, name
        self.rng = random.Random(f"{seed}/{name}")
        os.makedirs(folder, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def chain(self, prefix="f", **options):
        return chain.Chain(self.rng, prefix, **options)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def need(self, *programs):
        for p in programs:
            if not shutil.which(p):
                raise Skip(f"{p} is not installed")

    def run(self, argv, **options):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=600,
                              cwd=options.pop("cwd", self.folder), **options)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def cc(self, output, texts, flags=("-O2", "-fomit-frame-pointer"), link=(), compiler="gcc"):
        """Compiles and links the C (or, with g++ or clang++, C++) texts into `output`; returns its path."""
        self.need(compiler)
        suffix = ".cc" if "++" in compiler else ".c"
        sources = [self.write(f"{output}-{i}{suffix}", text) for i, text in enumerate(texts)]
        self.run([compiler, *WARNINGS, *flags, "-o", self.path(output), *sources, *link])
        return self.path(output)


def stack(*parts):
    """A regular expression of names and of lists of names, all literal but the strings that are expressions already."""
    texts = []
    for part in parts:
        texts += [re.escape(p) for p in part] if isinstance(part, list) else [part]
    return ";".join(texts)


def stacks(head, lists, tail=""):
    """One expression for many stacks that begin alike."""
    return head + ";(?:" + "|".join(stack(x) for x in lists) + ")" + tail


MAIN = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
C_BEGIN unsigned long @ENTER@(unsigned long x); C_END
int main(int argc, char **argv)
{
	alarm(300);
	spinning = argc > 1 && !strcmp(argv[1], "spin");
	@BEGIN@
	for (;;)
		@ENTER@((unsigned long)argc);
}
"""


def main_of(c, begin=""):
    """A main that calls the chain for ever."""
    return MAIN.replace("@ENTER@", c.entry).replace("@BEGIN@", begin)
