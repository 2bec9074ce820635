#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds from recordings: `go build` takes a recording of a Go program, and calls directly what the program calls most; clang and
llvm-bolt take what `show --program` writes, and perf2bolt finds the same in perf.data. The commands are those of deploy/pgo.md.
"""
import os
import re
import shutil

from lib import programs
from lib.pages import commands_of
from lib.scenario import PROFLET, ROOT, Scenario
from show import line

SUPPORT = os.path.join(ROOT, "tests", "support")
PAGE = "deploy/pgo.md"
LLVM = "/usr/lib/llvm-19/bin"
SECONDS = "1"


def run_page(s, title, folder, env):
    """Runs the commands of a section in a folder, as they stand there; → their outputs."""
    outputs = []
    for command in commands_of(PAGE, title):
        done = s.run(["sh", "-c", command], cwd=folder, env=env, check=False, seconds=300)
        s.check(f"{PAGE}: {command}", done.returncode == 0, line(done.stderr))
        outputs.append(done.stdout)
    return outputs


def rounds(s, program):
    return float(re.search(r"([\d.]+) rounds", s.run([program, SECONDS]).stdout)[1])


def compare(s, what, before, after):
    """Runs both, and says how fast they were. No check: a time on a machine with other work proves nothing."""
    first, second = rounds(s, before), rounds(s, after)
    s.note(f"{what}: {first:.0f} before, {second:.0f} rounds per second of CPU time after, x{second / first:.2f}")


def counts_in_code(s, folder, env, *options):
    """How often the code that clang optimizes carries counts of a profile: {kind: number}."""
    done = s.run(["clang", "-O2", "-g", "-fdebug-info-for-profiling", *options, "-S", "-emit-llvm", "-o", "-", "parse.c"], cwd=folder, env=env)
    return {kind: len(re.findall(rf'!\{{!"{kind}", [^}}]*i(?:32|64) [1-9]', done.stdout)) for kind in ("function_entry_count", "branch_weights")}


def check_go(s):
    go = s.run([os.path.join(SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("a build of Go", "no Go: tests/support/install test")
        return
    folder, bare = s.folder("go"), s.path("bare")
    for name in ("main.go", "go.mod"):
        shutil.copy(os.path.join(SUPPORT, "shapes", name), folder)
    env = {"GOFLAGS": "", "GOCACHE": s.path("go-cache"), "PATH": f"{s.path('bin')}:{os.path.dirname(go)}:{os.environ['PATH']}"}
    s.run([go, "build", "-o", bare, "."], cwd=folder, env=env, seconds=300)
    outputs = run_page(s, "Go", folder, env)
    s.check("the call through the interface is a direct one", outputs and re.search(r"PGO devirtualizing \w+ call s\.area to \(\*square\)\.area", outputs[-1]),
            line(outputs[-1]) if outputs else "")
    compare(s, "Go: the build with the recording", bare, os.path.join(folder, "server"))


def check_perf(s):
    folder = s.folder("perf")
    shutil.copy(programs.build_c(s, "load"), folder)
    outputs = run_page(s, "perf, and what reads its files", folder, {"PATH": f"{s.path('bin')}:{os.environ['PATH']}", "HOME": s.tmp})
    s.check("perf report has the functions", all(name in outputs[1] for name in ("slow", "medium", "fast")), line(outputs[1]))


def compile_folder(s, name):
    """A folder with the program's source, and the environment in which the commands of the page run there."""
    folder = s.folder(name)
    shutil.copy(os.path.join(SUPPORT, "parse.c"), folder)
    return folder, {"PATH": f"{s.path('bin')}:{LLVM}:{os.environ['PATH']}", "HOME": s.tmp}


def quiet_page(s, title, folder, env):
    """Runs a section of the page; → everything that its commands have said."""
    said = ""
    for command in commands_of(PAGE, title):
        done = s.run(["sh", "-c", command], cwd=folder, env=env, check=False, seconds=300)
        complaint = re.search(r"(?i).*\b(?:warning|error)\b.*", done.stdout + done.stderr)  # not a function such as the kernel's error_entry
        s.check(f"{PAGE}: {command}", done.returncode == 0 and not complaint, complaint[0] if complaint else line(done.stderr))
        said += done.stdout + done.stderr
    return said


def check_clang(s):
    folder, env = compile_folder(s, "clang")
    said = quiet_page(s, "clang", folder, env)
    s.check("llvm-profdata finds the functions, and those that were inlined", "Function: sum: " in said and "inlined callee: is_digit: " in said, line(said[-200:]))
    bare, used = counts_in_code(s, folder, env), counts_in_code(s, folder, env, "-fprofile-sample-use=parse.afdo")
    s.check("clang has used it: functions and branches have counts that they have not without", not any(bare.values()) and all(used.values()),
            f"{bare} without, {used} with")
    compare(s, "clang: the build with the recording", os.path.join(folder, "parse"), os.path.join(folder, "parse-fast"))


def check_bolt(s):
    folder, env = compile_folder(s, "bolt")
    said = quiet_page(s, "BOLT", folder, env)
    s.check("llvm-bolt has used it", re.search(r"[1-9]\d* out of \d+ functions in the binary \([\d.]+%\) have non-empty execution profile", said), line(said[-200:]))
    s.note(f"before, after: {rounds(s, os.path.join(folder, 'parse')):.0f}, {rounds(s, os.path.join(folder, 'parse-fast')):.0f} rounds per second")
    for command in ("proflet record -f --format pprof,perf-flat -F 997 -o both -- ./parse 3", "proflet show --program parse -o ours.fdata both.pb.gz",
                    "perf2bolt -nl -p both.flat.perf.data -o theirs.fdata parse"):
        s.run(["sh", "-c", command], cwd=folder, env=env)
    ours, theirs = ({*open(os.path.join(folder, name + ".fdata"), encoding="utf-8").read().splitlines()[1:]} for name in ("ours", "theirs"))
    s.check("perf2bolt finds the same in perf.data of one recording", len(ours) > 5 and ours == theirs, f"{len(ours)} addresses, {sorted(ours ^ theirs)[:4]}")


def body(s):
    s.need_root()
    s.need_proflet()
    os.symlink(os.path.abspath(PROFLET), os.path.join(s.folder("bin"), "proflet"))
    check_go(s)
    if shutil.which("perf"):
        check_perf(s)
    else:
        s.skip("perf", "not installed: tests/support/install test")
    for check, needed in ((check_clang, ("clang", "llvm-profdata")), (check_bolt, ("clang", "llvm-bolt", "perf2bolt"))):
        missing = [name for name in needed if not os.access(os.path.join(LLVM, name), os.X_OK)]
        if missing:
            s.skip(check.__name__[6:], f"not installed: {', '.join(missing)}: tests/support/install test")
        else:
            check(s)


if __name__ == "__main__":
    Scenario("pgo").execute(body)
