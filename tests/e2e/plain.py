#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plain cases, each with a program of its own whose one stack is known: with and without frame pointers, at -O0 and -O2,
deep, across a library, PIE or not, static or not, Rust, Go, from a file that is gone, with names in .gnu_debugdata alone. `proflet record` takes them all; every
complete sample of the program's leaf must be that stack, in OTLP and folded. The kernel's frame-pointer unwinder, which samples
beside it, must never see more frames. And a program that does not exist.
"""
import collections
import os
import re
import shutil
import sys

from lib.machine import wait_exit
from lib.programs import LIFE
from lib.scenario import PROFLET, ROOT, Scenario, wait_for

sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from live import judge as live_judge, recording  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures", "plain")
SUPPORT = os.path.join(ROOT, "tests", "support")
SECONDS = 7
MIN_SAMPLES = 20  # there is more on a machine that has nothing else to do
WHOLE_AT_LEAST = 0.99
EARLY_AT_MOST = 0.1  # taken before the tables were there, and not finished afterwards; more of them on a busy machine
FP, NO_FP = "-fno-omit-frame-pointer", "-fomit-frame-pointer"
NO_CFI = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]

# What is above a program's own functions, root first. Debian's libc has no name for the function that calls main.
START = r"_start;__libc_start_main;(?:__libc_start_call_main;|libc\.so\.6\+0x[0-9a-f]+;)?"
STATIC = r"_start;__libc_start_main;__libc_start_call_main;"
RUST = START + r"main;(?:(?:std|core|<)[^;]*;)+"
GO = r"runtime\.goexit(?:\.abi0)?;runtime\.main;"
CHAIN = ["main", *(f"f{i}" for i in range(1, 9))]
LIBRARY = ["main", "use", "library_enter", "relay", "callback", "library_spin"]
RUST_CHAIN = ["chain::main", "chain::load", "chain::Parser::parse", "chain::fold", "chain::Parser::parse::{{closure}}", "chain::spin"]
GO_CHAIN = ["main.main", "main.load", "main.(*parser).parse", "main.fold", "main.(*parser).parse.func1", "main.spin"]


def recursion(depth):
    return ["main", *(f"level{i % 8 + 1}" for i in range(depth - 1)), "bottom"]


# `build` makes the program from `flags`, `start` starts it with `arguments`; `shape` is what binutils must say about it, so
# that a case is what it claims to be.
Case = collections.namedtuple("Case", "name build flags shape above chain arguments start")


def case(name, build, flags, shape, above=START, chain=None, arguments=(LIFE,), start="start_file"):
    return Case(name, build, flags, shape, above, chain or CHAIN, arguments, start)


def deep(name, depth, flags, shape):
    return case(name, "deep", flags, shape, chain=recursion(depth), arguments=(str(depth), LIFE))


CASES = [
    case("fp-chain", "chain", ["-O2", FP], "fp cfi"),
    case("fp-no-cfi", "chain", ["-O2", FP, *NO_CFI], "fp no-cfi"),
    deep("fp-recurse20", 20, ["-O2", FP], "fp cfi"),
    case("chain-O0", "chain", ["-O0", NO_FP], "no-fp cfi"),
    case("chain-O2", "chain", ["-O2", NO_FP], "no-fp cfi"),
    deep("recurse20", 20, ["-O2", NO_FP], "no-fp cfi"),
    deep("recurse50", 50, ["-O2", NO_FP], "no-fp cfi"),
    case("library", "library", ["-O2", NO_FP], "cfi", chain=LIBRARY),
    case("pie", "chain", ["-O2", NO_FP, "-fpie", "-pie"], "DYN interp"),
    case("no-pie", "chain", ["-O2", NO_FP, "-fno-pie", "-no-pie"], "EXEC interp"),
    case("static", "chain", ["-O2", NO_FP, "-static"], "EXEC no-interp", STATIC),
    case("static-pie", "chain", ["-O2", NO_FP, "-static-pie"], "DYN no-interp", STATIC),
    case("rust", "rust", ["-C", "opt-level=3"], "interp", RUST, RUST_CHAIN),
    case("go", "go", [], "no-interp", GO, GO_CHAIN),
    case("mini-debuginfo", "mini_debuginfo", ["-O2", NO_FP], "no-symtab debugdata"),
    case("deleted", "chain", ["-O2", NO_FP], "cfi", start="start_deleted"),
    case("memfd", "chain", ["-O2", NO_FP], "cfi", start="start_memfd"),
    case("namespace", "chain", ["-O2", NO_FP], "cfi", start="start_namespace"),
]
FUNCTION = {"chain": "f4", "deep": "level2", "library": "use"}  # whose code and CFI are looked at


# --- builders: return the program's path
def build_c(s, c, source, *more):
    program = s.path(c.name)
    s.run(["gcc", "-Wall", "-Wextra", "-Werror", "-fno-optimize-sibling-calls", *c.flags, "-o", program,
           source, *more])
    return program


def build_library(s, c):
    library = s.path("libplain.so")
    s.run(["gcc", *c.flags, "-fPIC", "-shared", "-o", library, os.path.join(FIXTURES, "library.c")])
    return build_c(s, c, os.path.join(FIXTURES, "library_main.c"), library, "-Wl,-rpath,$ORIGIN")


def build_rust(s, c):
    s.run(["rustc", "--crate-name", "chain", *c.flags, "-o", s.path(c.name), os.path.join(FIXTURES, "chain.rs")], seconds=120)
    return s.path(c.name)


def build_go(s, c):
    go = s.run([os.path.join(SUPPORT, "install"), "--print-go"]).stdout.strip()
    source = shutil.copy(os.path.join(FIXTURES, "chain.go"), s.folder("go-source"))
    s.run([go, "build", "-o", s.path(c.name), source], seconds=300, env={"GO111MODULE": "off", "GOFLAGS": ""})
    return s.path(c.name)


def build_mini_debuginfo(s, c):
    """Stripped, with an ELF file in .gnu_debugdata that has the names of its functions: as Fedora's find-debuginfo makes it."""
    program, mini, symbols = build_c(s, c, os.path.join(SUPPORT, "chain.c")), s.path("mini"), s.path("functions")
    names = {line.split()[0] for line in s.run(["nm", "--defined-only", "--format=posix", program]).stdout.splitlines() if line.split()[1] in "tT"}
    with open(symbols, "w", encoding="ascii") as f:
        f.write("\n".join(sorted(names)) + "\n")
    s.run(["objcopy", "--only-keep-debug", program, mini])
    s.run(["objcopy", "-S", "--remove-section", ".comment", f"--keep-symbols={symbols}", mini])
    s.run(["strip", "--strip-all", "-R", ".comment", program])
    s.run(["xz", "--force", mini])
    s.run(["objcopy", "--add-section", f".gnu_debugdata={mini}.xz", program])
    return program


BUILDERS = {
    "mini_debuginfo": build_mini_debuginfo,
    "chain": lambda s, c: build_c(s, c, os.path.join(SUPPORT, "chain.c")),
    "deep": lambda s, c: build_c(s, c, os.path.join(SUPPORT, "deep.c")),
    "library": build_library,
    "rust": build_rust,
    "go": build_go,
}


def shape(s, c, program):
    """What binutils say about a program, in the words of the cases."""
    kind = re.search(r"Type:\s+(\w+)", s.run(["readelf", "-hW", program]).stdout).group(1)
    words = [kind, "interp" if "INTERP" in s.run(["readelf", "-lW", program]).stdout else "no-interp"]
    sections = s.run(["readelf", "-SW", program]).stdout
    words += ["symtab" if " .symtab " in sections else "no-symtab"] + ["debugdata"] * (" .gnu_debugdata " in sections)
    function = FUNCTION.get(c.build)
    if function:
        code = s.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", program]).stdout
        address = re.search(rf"^([0-9a-f]+) <{function}>:", code, re.M).group(1)
        words.append("fp" if re.search(r"mov\s+%rsp,%rbp", code) else "no-fp")
        words.append("cfi" if f"pc={address}.." in s.run(["readelf", "--debug-dump=frames", program]).stdout else "no-cfi")
    return words


# --- starters: return the process
def start_file(s, c, program):
    return s.start([program, *c.arguments], c.name)


def start_deleted(s, c, program):
    process = start_file(s, c, program)
    os.unlink(program)
    return process


def start_memfd(s, c, program):
    """A file that never had a name."""
    fd = os.memfd_create(c.name, 0)
    s.defer(lambda: os.close(fd))
    with open(program, "rb") as f:
        os.write(fd, f.read())
    os.unlink(program)
    return s.start([f"/proc/{os.getpid()}/fd/{fd}", LIFE], c.name)


def start_namespace(s, c, program):
    """A file that only the process's own mount namespace has."""
    folder = s.folder("mounted")
    script = f"mount -t tmpfs none {folder} && cp {program} {folder}/inside && exec {folder}/inside {LIFE}"
    process = s.start(["unshare", "-m", "sh", "-c", script], c.name)
    wait_for(lambda: os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == "inside" or process.poll() is not None, 10,
             "the program in its mount namespace")
    if os.path.exists(os.path.join(folder, "inside")):
        raise RuntimeError("the mount is seen outside of its namespace")
    os.unlink(program)
    return process


def start_all(s):
    programs = [BUILDERS[c.build](s, c) for c in CASES]
    for c, program in zip(CASES, programs):
        found = shape(s, c, program)
        s.check(f"{c.name}: the program is {c.shape}", set(c.shape.split()) <= set(found), " ".join(found))
    return {c.name: globals()[c.start](s, c, program) for c, program in zip(CASES, programs)}


def record(s, running):
    """Records with proflet and with the kernel's unwinder at once; returns (profile, folded, {pid: (samples, deepest)})."""
    reference = s.path("callchain")
    s.run(["gcc", "-O2", "-o", reference, os.path.join(SUPPORT, "callchain.c")])
    pids = [str(p.pid) for p in running.values()]
    owner = {tid: int(pid) for pid in pids for tid in os.listdir(f"/proc/{pid}/task")}
    log = open(s.path("frame-pointers"), "w+", encoding="utf-8")
    s.defer(log.close)
    beside = s.start([reference, str(SECONDS), *owner], "callchain", stdout=log)
    base = s.path("plain")
    only = [word for pid in pids for word in ("-p", pid)]
    done = s.run([PROFLET, "record", "-d", f"{SECONDS}s", "-F", "999", "-o", base, "--format", "folded,otlp", *only], check=False)
    s.equal("record: exit code", done.returncode, 0)
    s.equal("the frame-pointer unwinder: exit code", wait_exit(beside, 30), 0)
    log.seek(0)
    depths = collections.defaultdict(lambda: (0, 0))
    for tid, n, deepest in map(str.split, log):
        before = depths[owner[tid]]
        depths[owner[tid]] = before[0] + int(n), max(before[1], int(deepest))
    with open(base + ".otlp", "rb") as f:
        return recording.Profile(f.read()), recording.read_folded(base + ".folded"), depths


def judge(s, c, samples):
    """Compares the samples of one program with its stack; returns the depth that all of them have."""
    exact = re.compile(c.above + re.escape(";".join(c.chain)))
    counts, others = collections.Counter(), collections.Counter()
    depth = 0
    for x in samples:
        names = [f.name for f in reversed(x.frames) if f.kind != "kernel"]
        text = ";".join(names)
        if not names or names[-1] != c.chain[-1]:
            verdict = "elsewhere"
        elif live_judge.EARLY.match(names[0]):
            verdict = "early"
        elif names[0].startswith("[truncated:"):
            verdict = "incomplete"
        elif exact.fullmatch(text):
            verdict, depth = "exact", len(names)
        else:
            verdict = "wrong"
        counts[verdict] += x.count
        others[text] += x.count if verdict != "exact" else 0
    late = counts["exact"] + counts["wrong"] + counts["incomplete"]
    s.check(f"{c.name}: every complete stack is the known one", counts["wrong"] == 0 and counts["exact"] >= MIN_SAMPLES,
            f"{counts['exact']} exact, {counts['wrong']} wrong, of depth {depth}")
    s.check(f"{c.name}: stacks are complete",
            counts["exact"] >= WHOLE_AT_LEAST * late and counts["early"] <= EARLY_AT_MOST * (late + counts["early"]),
            f"{counts['incomplete']} incomplete, {counts['early']} early, {counts['elsewhere']} elsewhere")
    if c.build != "go":  # its runtime works beside the program
        s.check(f"{c.name}: all time is in the leaf", counts["elsewhere"] <= (1 - WHOLE_AT_LEAST) * sum(counts.values()))
    for text, n in [x for x in others.most_common(3) if x[1]]:
        s.note(f"{c.name}, {n} times: {text}")
    return depth


def check_depths(s, c, depth, reference):
    samples, deepest = reference
    s.check(f"{c.name}: not shallower than frame pointers", samples > 0 and 0 < deepest <= depth,
            f"{depth} frames; by frame pointers at most {deepest}, {samples} samples")
    if c.shape.startswith("fp"):
        s.check(f"{c.name}: frame pointers see the chain and who called main", deepest > len(c.chain), f"{deepest} frames")


def check_folded(s, profile, folded):
    """The same stacks, without the process: a folded line begins with its name, a sample has its executable's."""
    by_otlp, by_line = collections.Counter(), collections.Counter()
    for x in profile.samples:
        by_otlp[recording.fold(x).partition(";")[2]] += x.count
    for line, n in folded.items():
        by_line[line.partition(";")[2]] += n
    s.check("the folded file has the stacks of the OTLP file", by_line == by_otlp, f"{sum(folded.values())} samples")
    for text in sorted(t for t in by_line | by_otlp if by_line[t] != by_otlp[t])[:5]:
        s.note(f"folded {by_line[text]}, OTLP {by_otlp[text]}: {text}")


def check_nothing_to_run(s):
    for what, path, error, code in (("a program that does not exist", "/no/such/program", "No such file or directory", 1),
                                    ("a file that cannot be run", os.path.join(SUPPORT, "chain.c"), "Permission denied", 3)):
        base = s.path("nothing")
        done = s.run([PROFLET, "record", "-d", "30s", "-o", base, "--", path], check=False)
        s.equal(f"{what}: exit code", done.returncode, code)
        s.equal(f"{what}: one line says which and why", done.stderr.strip(), f"proflet: {path}: {error}")
        s.check(f"{what}: no files are left", not [x for x in os.listdir(s.tmp) if x.startswith("nothing")])


def body(s):
    s.need_root()
    s.need("gcc", "rustc", "unshare", "readelf", "objdump", "objcopy", "nm", "strip", "xz")
    s.need_proflet()
    check_nothing_to_run(s)
    running = start_all(s)
    profile, folded, depths = record(s, running)
    check_folded(s, profile, folded)
    for c in CASES:
        process = running[c.name]
        s.check(f"{c.name}: still runs", process.poll() is None)
        depth = judge(s, c, [x for x in profile.samples if x.pid == process.pid])
        check_depths(s, c, depth, depths[process.pid])


if __name__ == "__main__":
    Scenario("plain").execute(body)
