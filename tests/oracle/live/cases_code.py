# SPDX-License-Identifier: Apache-2.0
"""The same chains without call-frame information: by compiler and optimisation, with and without symbols, removed afterwards;
with musl, static and dynamic, whose own functions have none either."""
from .cases_layout import strip_sections, with_copy
from .chain import GLOBALS, HEADER
from .work import START, Program, main_of, stacks

NO_FP = "-fomit-frame-pointer"
NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]
PROTECTOR = "-fstack-protector-all"
VARIANTS = {
    **{f"gcc-{o}": ("gcc", [f"-{o}"]) for o in ("O0", "O1", "O2", "O3", "Os")},
    **{f"gcc-{o}-protector": ("gcc", [f"-{o}", PROTECTOR]) for o in ("O0", "O1", "O2", "O3", "Os")},
    "gcc-O0-nofp": ("gcc", ["-O0", NO_FP]),
    "gcc-O2-fp": ("gcc", ["-O2", "-fno-omit-frame-pointer"]),
    "gcc-O2-clash": ("gcc", ["-O2", "-fstack-clash-protection", PROTECTOR]),
    "gcc-O2-nopie": ("gcc", ["-O2", "-no-pie", "-fno-pie"]),
    "gcc-O2-cet": ("gcc", ["-O2", "-fcf-protection=full"]),
    **{f"clang-{o}": ("clang-19", [f"-{o}"]) for o in ("O0", "O1", "O2", "O3", "Os")},
    **{f"clang-{o}-protector": ("clang-19", [f"-{o}", PROTECTOR]) for o in ("O0", "O1", "O2", "O3", "Os")},
    "clang-O0-nofp": ("clang-19", ["-O0", NO_FP]),
}
# A static program of musl: _start calls its C part, that calls main.
MUSL_START = r"_start;(?:[^;]+;){0,3}main"


def walk(work, compiler, flags, start=START, **options):
    c = work.chain(**{"functions": 15, "depth": 30, **options})
    program = work.cc("code", [HEADER + GLOBALS + c.source() + main_of(c)], flags, compiler=compiler)
    return Program([program, "walk"], [stacks(start, c.walks())], c.functions | set(c.side_calls().values()), [program])


def no_tables(work, variant, **options):
    compiler, flags = VARIANTS[variant]
    return walk(work, compiler, [*flags, *NO_TABLES], **options)


def stripped(work, variant, headers=False):
    program = no_tables(work, variant)
    return with_copy(program, strip_sections if headers else lambda path: work.run(["strip", "-s", path]))


def removed(work, *flags):
    """Call-frame information that is removed when the program is there."""
    program = walk(work, "gcc", ["-O2", NO_FP, *flags])
    work.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", program.argv[0]])
    return program


def musl(work, *flags, strip=False):
    work.need("musl-gcc")
    # musl has no header for stack alignment above what the compiler does itself, so the kinds are the same
    program = walk(work, "musl-gcc", ["-O2", NO_FP, *flags], start=MUSL_START)
    return with_copy(program, lambda path: work.run(["strip", "-s", path])) if strip else program


CASES = {f"code {v}": lambda w, v=v: no_tables(w, v) for v in VARIANTS}
CASES["code stripped"] = lambda w: stripped(w, "gcc-O2")
CASES["code stripped -O0"] = lambda w: stripped(w, "gcc-O0-protector")
CASES["code stripped clang"] = lambda w: stripped(w, "clang-O2")
CASES["code without section headers"] = lambda w: stripped(w, "gcc-O2", headers=True)
CASES["code removed"] = lambda w: removed(w)
CASES["code removed static"] = lambda w: removed(w, "-static")
CASES["code musl"] = lambda w: musl(w)
CASES["code musl static"] = lambda w: musl(w, "-static")
CASES["code musl static, no tables"] = lambda w: musl(w, "-static", *NO_TABLES)
CASES["code musl stripped, no tables"] = lambda w: musl(w, "-static", *NO_TABLES, strip=True)
QUICK = ("code gcc-O2-protector", "code clang-Os", "code stripped", "code removed static", "code musl stripped, no tables")
