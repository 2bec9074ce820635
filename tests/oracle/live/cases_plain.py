# SPDX-License-Identifier: Apache-2.0
"""The same chains by compiler, optimisation and depth: called and returned from all the time ("walk"), or held ("spin")."""
from .chain import GLOBALS, HEADER
from .work import START, Program, main_of, stack, stacks

NO_FP = "-fomit-frame-pointer"
VARIANTS = {
    "gcc-O0": ("gcc", ["-O0"]),
    "gcc-O1": ("gcc", ["-O1", NO_FP]),
    "gcc-O2": ("gcc", ["-O2", NO_FP]),
    "gcc-O3": ("gcc", ["-O3", NO_FP]),
    "gcc-Os": ("gcc", ["-Os", NO_FP]),
    "gcc-Og-nofp": ("gcc", ["-Og", NO_FP]),
    "gcc-O0-nofp": ("gcc", ["-O0", NO_FP]),
    "gcc-O2-fp": ("gcc", ["-O2", "-fno-omit-frame-pointer"]),
    "gcc-O2-pushes": ("gcc", ["-O2", NO_FP, "-mno-accumulate-outgoing-args", "-mpreferred-stack-boundary=4"]),
    "gcc-O2-clash": ("gcc", ["-O2", NO_FP, "-fstack-clash-protection", "-fstack-protector-all"]),
    "gcc-O2-sections": ("gcc", ["-O2", NO_FP, "-ffunction-sections", "-fcf-protection=full", "-mno-red-zone"]),
    "gcc-O2-lto": ("gcc", ["-O2", NO_FP, "-flto", "-fno-ipa-icf"]),
    "g++-O2": ("g++", ["-O2", NO_FP]),
    "clang-O0": ("clang-19", ["-O0"]),
    "clang-O2": ("clang-19", ["-O2", NO_FP]),
    "clang-Os": ("clang-19", ["-Os", NO_FP]),
    "clang-O2-fp": ("clang-19", ["-O2", "-fno-omit-frame-pointer"]),
    "clang++-O2-clash": ("clang++-19", ["-O2", NO_FP, "-fstack-clash-protection"]),
}


def plain(work, variant, mode, **options):
    compiler, flags = VARIANTS[variant]
    c = work.chain(**{"functions": 15, "depth": 30, **options})
    program = work.cc("plain", [HEADER + GLOBALS + c.source() + main_of(c)], flags, compiler=compiler)
    whole = [stack(START, c.frames)] if mode == "spin" else [stacks(START, c.walks())]
    return Program([program, mode], whole, c.functions | set(c.side_calls().values()), [program], passing=[stacks(START, c.walks())])


def one_function(work, kind, depth, mode="walk", flags=("-O2", NO_FP)):
    """Recursion: one function that calls itself; the number of frames is what is known."""
    c = work.chain(functions=1, depth=depth, kinds=(kind,), indirect=0)
    program = work.cc("recursion", [HEADER + GLOBALS + c.source() + main_of(c)], flags)
    whole = [stack(START, c.frames)] if mode == "spin" else [stacks(START, c.walks())]
    return Program([program, mode], whole, c.functions, [program], passing=[stacks(START, c.walks())])


CASES = {}
for v in VARIANTS:
    CASES[f"walk {v}"] = lambda w, v=v: plain(w, v, "walk")
for v in ("gcc-O0", "gcc-O2", "clang-O2"):
    CASES[f"spin {v}"] = lambda w, v=v: plain(w, v, "spin")
CASES["walk depth 200"] = lambda w: plain(w, "gcc-O2", "walk", functions=60, depth=200)
CASES["spin depth 400"] = lambda w: plain(w, "gcc-O2", "spin", functions=60, depth=400)
CASES["walk huge frames"] = lambda w: plain(w, "gcc-O2", "walk", functions=8, depth=24, kinds=("huge", "regs"), huge_bytes=100000)
CASES["walk huge frames clash"] = lambda w: plain(w, "gcc-O2-clash", "walk", functions=8, depth=24, kinds=("huge", "align"))
CASES["walk function pointers"] = lambda w: plain(w, "gcc-O2", "walk", indirect=1.0)
CASES["walk aligned"] = lambda w: plain(w, "gcc-O2", "walk", functions=8, kinds=("align", "align_alloca", "align_args"))
CASES["walk aligned clang"] = lambda w: plain(w, "clang-O2", "walk", functions=8, kinds=("align", "align_alloca", "align_args"))
CASES["recursion 20 -O0 fp"] = lambda w: one_function(w, "small", 20, flags=("-O0",))
CASES["recursion 20"] = lambda w: one_function(w, "small", 20)
CASES["recursion 50"] = lambda w: one_function(w, "regs", 50)
CASES["recursion 50 -O0"] = lambda w: one_function(w, "small", 50, flags=("-O0", NO_FP))
CASES["recursion 480 alloca"] = lambda w: one_function(w, "alloca", 480, mode="spin")
QUICK = ("walk gcc-O2", "walk clang-O2", "spin gcc-O0", "walk aligned", "walk huge frames", "recursion 50")
