#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`proflet show` and `proflet diff`: the formats of one recording show the same; profiles of Go programs, which Go wrote; differences."""
import os
import re
import time

from lib import programs
from lib.pages import commands_of
from lib.scenario import PROFLET, ROOT, Scenario

SECONDS = 2  # of CPU time
TRIES = 5
GO_PROGRAM = """package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

//go:noinline
func burn(n int) (x int) {
	for i := 0; i < n; i++ {
		x = x*31 + i%7
	}
	return x
}

//go:noinline
func keep() (kept [][]byte) {
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
	return kept
}

func main() {
	cpu, _ := os.Create(os.Args[1])
	heap, _ := os.Create(os.Args[2])
	pprof.StartCPUProfile(cpu)
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		burn(1000000)
	}
	pprof.StopCPUProfile()
	kept := keep()
	runtime.GC()
	pprof.WriteHeapProfile(heap)
	runtime.KeepAlive(kept)
}
"""


def show(s, *arguments, check=True):
    return s.run([PROFLET, "show", *arguments], check=check)


def line(text):
    return text.strip().replace("\n", " / ")[:400]


def functions(text):
    """[(self %, total %, samples, function)] of the table."""
    return [(float(m[1]), float(m[2]), int(m[3]), m[4]) for m in re.finditer(r"(?m)^ *(\d+\.\d\d) +(\d+\.\d\d) +(\d+)  (\S+)", text)]


def record(s, name, *command):
    base = s.path(name)
    s.run([PROFLET, "record", "-f", "-F", "499", "-o", base, "--", *command])
    return base


def record_steady(s, name, *command):
    """The same, of a program that got a third of a CPU at least: else its functions' shares vary more than they differ."""
    for _ in range(TRIES):
        started = time.monotonic()
        base = record(s, name, *command)
        took = time.monotonic() - started
        if took < 3 * SECONDS:
            break
        s.note(f"{name}: {SECONDS} s of CPU time took {took:.1f} s")
    return base


def check_formats(s, base):
    tables = {suffix: functions(show(s, f"{base}.{suffix}").stdout) for suffix in ("otlp", "pb.gz", "folded")}
    printed = [row for row in tables["otlp"] if row[0] >= 1]
    s.check("the functions that take the time are there", {"slow", "medium", "fast"} <= {row[3] for row in printed}, printed)
    for suffix, rows in tables.items():
        s.equal(f"{suffix}: the same functions with the same samples", [r[2:] for r in rows if r[0] >= 1], [r[2:] for r in printed])
    tree = show(s, "--tree", base + ".otlp").stdout
    s.check("tree: main calls the three", all(re.search(rf"  +{name}  load", tree) for name in ("slow", "medium", "fast")), line(tree))
    callers = show(s, "--callers", "--focus", "^medium$", base + ".pb.gz").stdout
    s.check("callers of one function", re.search(r"  medium  load\n.*   main  load\n", callers) and "slow" not in callers, line(callers))
    s.check("ignored stacks are left out", "slow" not in show(s, "--ignore", "^slow$", base + ".folded").stdout)
    s.check("one tree for each thread", re.search(r"(?m)^100\.00 .*  load$", show(s, "--by", "thread", base + ".otlp").stdout))


def check_files(s, base):
    for suffix in ("html", "folded", "pb.gz"):
        path = s.path("again." + suffix)
        show(s, "-o", path, base + ".otlp")
        s.check(f"{suffix} is written", os.path.getsize(path) > 0)
    with open(s.path("again.folded"), encoding="utf-8") as again, open(base + ".folded", encoding="utf-8") as first:
        s.check("folded stacks of the OTLP file are those that record wrote", again.read() == first.read())
    s.check("a page without a timeline says so", "no timeline" in show(s, "-f", "-o", s.path("again.html"), base + ".pb.gz").stderr)
    s.check("one of the OTLP file has one", "no timeline" not in show(s, "-f", "-o", s.path("again.html"), base + ".otlp").stderr)
    done = show(s, "-o", s.path("again.html"), base + ".otlp", check=False)
    s.check("a file that is there is kept", done.returncode == 1 and "is there already" in done.stderr, line(done.stderr))
    s.equal("unless -f overwrites it", show(s, "-f", "-o", s.path("again.html"), base + ".otlp", check=False).returncode, 0)


def check_mistakes(s, base):
    s.run(["strip", "-o", s.path("stripped"), s.path("load")])
    cases = {
        "no file": ([], 2, "no FILE given"),
        "an option that is none": (["--what"], 2, "--what"),
        "a pattern that is none": (["--focus", "a(", base + ".folded"], 2, "is no regular expression"),
        "a file that is not there": (["/nonexistent"], 1, "/nonexistent: No such file"),
        "a program": (["/bin/true"], 1, "is no recording"),
        "a type of values that it does not have": (["-v", "goroutines", base + ".pb.gz"], 1, "samples, cpu"),
        "a program that is none": (["-p", "/etc/passwd", "-o", s.path("x.fdata"), base + ".pb.gz"], 1, "it is no program"),
        "a program that did not run": (["-p", "/bin/sh", "-o", s.path("x.fdata"), base + ".pb.gz"], 1, "it has no samples in /bin/sh"),
        "a program without symbols": (["-p", s.path("stripped"), "-o", s.path("x.fdata"), base + ".pb.gz"], 1, "do not strip it"),
        "no program": (["-o", s.path("x.afdo"), base + ".pb.gz"], 2, "--program"),
        "nothing left": (["--focus", "no such function", base + ".folded"], 1, "no stack is left"),
    }
    for name, (arguments, code, text) in cases.items():
        done = show(s, *arguments, check=False)
        s.check(f"{name}: exit {code}, and what is wrong", done.returncode == code and text in done.stderr, line(done.stderr))


def check_go(s):
    """What Go's runtime writes, against what Go's tool says of it."""
    go = s.run([os.path.join(programs.SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("profiles of a Go program", "no Go: tests/support/install test")
        return
    with open(s.path("main.go"), "w", encoding="utf-8") as f:
        f.write(GO_PROGRAM)
    cpu, heap, program = s.path("cpu.pprof"), s.path("heap.pprof"), s.path("go-program")
    env = {"GOFLAGS": "-mod=mod", "GO111MODULE": "off", "PPROF_TMPDIR": s.tmp}
    s.run([go, "build", "-o", program, s.path("main.go")], env=env)
    s.run([program, cpu, heap])
    rows = functions(show(s, cpu).stdout)
    s.check("Go's CPU profile: nearly all is in the function that computes", any(r[3] == "main.burn" and r[1] > 60 for r in rows), rows[:2])
    top = s.run([go, "tool", "pprof", "-top", "-sample_index=samples", cpu], env=env).stdout
    counted = re.search(r"(?m)^ *(\d+) .* main\.burn$", top)
    s.check("its samples are those that go tool pprof counts", counted and [int(counted.group(1))] == [r[2] for r in rows if r[3] == "main.burn"],
            f"{counted and counted.group(0)}, {rows[:2]}")
    shown = show(s, "-v", "inuse_space", heap).stdout
    rows = functions(shown)
    s.check("Go's heap profile: who holds the memory", rows and rows[0][3] == "main.keep" and rows[0][2] >= 32 << 20, rows[:2])
    s.check("the unit of its values is said", "values: inuse_space, in bytes" in shown)


def check_differences(s, program, base):
    other, slower = record_steady(s, "other", program, str(SECONDS)), record_steady(s, "slower", program, str(SECONDS), "2")
    same = s.run([PROFLET, "diff", base + ".otlp", base + ".otlp"])
    s.check("a recording does not differ from itself", "no difference: " in same.stdout, line(same.stdout))
    done = s.run([PROFLET, "diff", "--fail-over", "5%", base + ".otlp", slower + ".otlp"], check=False)
    s.check("a function that takes twice as long is the first that takes more",
            re.search(r"takes more in B\n +\d+\.\d\d +\d+\.\d\d +\+\d+\.\d\d .*  medium  load\n", done.stdout), line(done.stdout))
    s.check("--fail-over: exit 1, and which function", done.returncode == 1 and "medium takes" in done.stderr, line(done.stderr))
    kept = s.run([PROFLET, "diff", "--fail-over", "90%", base + ".pb.gz", slower + ".folded"], check=False)
    s.check("--fail-over: exit 0 below; formats can differ", kept.returncode == 0 and re.search(r"\n.*\+.*  medium", kept.stdout), line(kept.stderr))
    done = s.run([PROFLET, "diff", base + ".otlp"], check=False)
    s.check("one file is not enough", done.returncode == 2 and "two files" in done.stderr, line(done.stderr))
    s.note(s.run([PROFLET, "diff", base + ".otlp", other + ".otlp"]).stdout.strip().splitlines()[-1])


def check_page(s, program):
    """The commands of deploy/ci.md, as they stand there."""
    folder = s.folder("page")
    os.symlink(os.path.abspath(PROFLET), os.path.join(folder, "proflet"))
    with open(os.path.join(folder, "benchmark"), "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nexec {program} 1\n")
    os.chmod(f.name, 0o755)
    commands = commands_of("deploy/ci.md")
    s.check("deploy/ci.md has commands", len(commands) >= 3, commands)
    for command in commands:
        done = s.run(["sh", "-c", f"cd {folder} && PATH={folder}:$PATH && {command}"], check=False)
        s.check(f"deploy/ci.md: {command}", done.returncode == 0, line(done.stderr))


def body(s):
    program = programs.build_c(s, "load")
    base = record_steady(s, "load", program, str(SECONDS))
    check_formats(s, base)
    check_files(s, base)
    check_mistakes(s, base)
    check_go(s)
    check_differences(s, program, base)
    check_page(s, program)


if __name__ == "__main__":
    Scenario("show").execute(body)
