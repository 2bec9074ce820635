# SPDX-License-Identifier: Apache-2.0
"""Recursions deeper than `stack.depth`: the innermost and the outermost frames, and how many frames were omitted between them."""
import re

from .cases_flow import FLAGS, SPIN, WALK, chains, source_of
from .cases_process import BEGIN, handler_text
from .chain import GLOBALS, HEADER
from .judge import OMITTED
from .work import START, THREAD, Program, main_of

LIMIT = 512  # stack.depth
INNER, OUTER = LIMIT // 2, LIMIT - LIMIT // 2 - 1
SMALL = ("small", "regs", "cold", "early", "args", "pushes")
TINY = ("regs", "early")  # 100,000 of them fit into 8 MiB
SIGNAL = "<libc.so.6>"
GIVEN_UP = "the walk takes at most 0.8 ms"


class Deep:
    """Stacks that begin with frames of `start` (an expression), followed by one of `lists` of names; it takes the place of a
    compiled expression. `given_up`: also their innermost frames alone, as a walk leaves them that took too long."""

    def __init__(self, lists, start=START, given_up=False):
        self.lists, self.start = lists, re.compile(start + "(?=;|$)")
        self.known = {}
        self.inner = {";".join(["[truncated: depth limit]"] + x[-LIMIT:]) for x in lists if len(x) >= LIMIT} if given_up else set()

    @staticmethod
    def shown(names, n_start):
        if len(names) + n_start <= LIMIT:
            return ";".join(names)
        return ";".join(names[:OUTER - n_start] + [OMITTED] + names[-INNER:])

    def match(self, text):
        begin = self.start.match(text)
        if not begin:
            return text in self.inner
        n = begin.group().count(";") + 1
        if n not in self.known:
            self.known[n] = {self.shown(x, n) for x in self.lists}
        return text[begin.end() + 1:] in self.known[n]

    def is_upper(self, tokens):
        """Whether one of the stacks ends so; the frames before omitted ones are somewhere below."""
        k = tokens.index(OMITTED) if OMITTED in tokens else 0
        below, above = tokens[:k], tokens[k + (OMITTED in tokens):]
        return any(x[-len(above):] == above and (not below or ";" + ";".join(below) + ";" in ";" + ";".join(x[:-len(above)]) + ";")
                   for x in self.lists)


def deep(work, depth, mode=SPIN, kinds=SMALL, functions=10, given_up=False, fresh=False):
    """A chain of so many calls. In a held one all samples omit as many frames, so that their sum is known, too."""
    f = work.chain(functions=functions, depth=depth, kinds=kinds)
    program = work.cc("flow", [HEADER + GLOBALS + f.source() + main_of(f)], FLAGS, link=["-Wl,--build-id=none"])
    expect = [Deep([f.frames] if mode == SPIN else f.walks(), given_up=given_up)]
    argv, held = [program, *mode], mode == SPIN and not fresh
    if fresh:
        argv = ["sh", work.write("again.sh", AGAIN), program]
    return Program(argv, expect, f.functions | set(f.side_calls().values()), [program], attach=not fresh,
                   passing=[Deep(f.walks())] if fresh else [], chain=f.frames if held else None, early=0.0 if fresh else 3.0, incomplete=GIVEN_UP,
                   cut_share=1.0 if given_up else 0.02)


# A file of its own for each process, for which there is no table yet: user space completes its stacks.
AGAIN = """i=0
while :; do
	i=$((i + 1))
	folder=$1.$$.$i
	mkdir "$folder" && cp "$1" "$folder/flow" && echo $i >> "$folder/flow" || exit 1
	timeout 0.2 "$folder/flow" spin
	rm -r "$folder"
done
"""


def deep_signal(work, below, above, how="altstack"):
    """A handler over a deep recursion, with another one in it."""
    f, = chains(work, "f", depth=below, kinds=SMALL, f='__asm__ volatile("ud2");')
    g, = chains(work, "g", depth=above, kinds=SMALL)
    program = work.cc("flow", [handler_text() + GLOBALS + source_of(f, g) + main_of(f, BEGIN[how])], FLAGS)
    frames = f.frames + [SIGNAL, "on_signal"] + g.frames
    return Program([program, *SPIN], [Deep([frames])], f.functions | g.functions | {"on_signal"}, [program], attach=True, chain=frames,
                   incomplete=GIVEN_UP, cut_share=0.02)


THREADED = HEADER + """
#include <pthread.h>
#include <string.h>
#include <unistd.h>
C_BEGIN
unsigned long f_enter(unsigned long x);
FN static void *thread(void *p) { for (;;) { unsigned long x = f_enter((unsigned long)p); HIDE(x); } return 0; }
C_END
int main(void)
{
	pthread_attr_t attr;
	pthread_t t;
	alarm(300);
	spinning = 1;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 20);
	pthread_create(&t, &attr, thread, 0);
	for (;;)
		pause();
}
"""


def deep_thread(work, depth):
    f, = chains(work, "f", depth=depth, kinds=SMALL)
    program = work.cc("flow", [THREADED + GLOBALS + source_of(f)], [*FLAGS, "-pthread"])
    frames = ["thread"] + f.frames
    return Program([program], [Deep([frames], THREAD)], f.functions | {"thread"}, [program], attach=True, chain=frames,
                   incomplete=GIVEN_UP, cut_share=0.02)


CASES = {f"deep {n}": lambda w, n=n: deep(w, n) for n in (495, 600, 1000, 5000)}
CASES["deep 100000"] = lambda w: deep(w, 100000, kinds=TINY, given_up=True)
CASES["deep 5000 one function"] = lambda w: deep(w, 5000, kinds=("small",), functions=1)
CASES["deep 600 walk"] = lambda w: deep(w, 600, WALK)
CASES["deep 2000 walk"] = lambda w: deep(w, 2000, WALK, kinds=TINY)
CASES["deep 600 new files"] = lambda w: deep(w, 600, kinds=TINY, fresh=True)
CASES["deep 5000 thread"] = lambda w: deep_thread(w, 5000)
CASES["deep signal 3000 below"] = lambda w: deep_signal(w, 3000, 12)
CASES["deep signal 700 above"] = lambda w: deep_signal(w, 20, 700)
CASES["deep signal 700 below 700 above"] = lambda w: deep_signal(w, 700, 700)
CASES["deep signal same stack"] = lambda w: deep_signal(w, 2000, 300, "siginfo")
QUICK = ("deep 5000", "deep 600 walk", "deep signal 700 below 700 above")
