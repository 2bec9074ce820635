#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds from recordings: `go build` takes a recording of a Go program, and calls directly what the program calls most. The commands are
those of deploy/pgo.md.
"""
import os
import re
import shutil
import statistics

from lib import programs
from lib.scenario import PROFLET, ROOT, Scenario
from show import commands_of, line

SUPPORT = os.path.join(ROOT, "tests", "support")
PAGE = "deploy/pgo.md"
RUNS, SECONDS = 5, "1"


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
    """Runs both alternately. Noise of a busy machine is allowed for, not a build that became slower."""
    pairs = [(rounds(s, before), rounds(s, after)) for _ in range(RUNS)]
    first, second = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    s.check(f"{what} is not slower", second > 0.95 * first, f"{first:.0f} and {second:.0f} rounds per second of CPU time, x{second / first:.2f}")


def check_go(s):
    go = s.run([os.path.join(SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("a build of Go", "no Go: tests/support/install test")
        return
    folder, bare = s.folder("go"), s.path("bare")
    for name in ("main.go", "go.mod"):
        shutil.copy(os.path.join(SUPPORT, "shapes", name), folder)
    env = {"GOFLAGS": "", "GOCACHE": s.path("go-cache"), "PATH": f"{s.tmp}:{os.path.dirname(go)}:{os.environ['PATH']}"}
    s.run([go, "build", "-o", bare, "."], cwd=folder, env=env, seconds=300)
    outputs = run_page(s, "Go", folder, env)
    s.check("the call through the interface is a direct one", outputs and re.search(r"PGO devirtualizing \w+ call s\.area to \(\*square\)\.area", outputs[-1]),
            line(outputs[-1]) if outputs else "")
    compare(s, "Go: the build with the recording", bare, os.path.join(folder, "server"))


def check_perf(s):
    folder = s.folder("perf")
    shutil.copy(programs.build_c(s, "load"), folder)
    outputs = run_page(s, "perf, and what reads its files", folder, {"PATH": f"{s.tmp}:{os.environ['PATH']}", "HOME": s.tmp})
    s.check("perf report has the functions", all(name in outputs[1] for name in ("slow", "medium", "fast")), line(outputs[1]))


def body(s):
    s.need_root()
    s.need_proflet()
    os.symlink(os.path.abspath(PROFLET), s.path("proflet"))
    check_go(s)
    if shutil.which("perf"):
        check_perf(s)
    else:
        s.skip("perf", "not installed: tests/support/install test")


if __name__ == "__main__":
    Scenario("pgo").execute(body)
