#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`record --format perf`: perf itself reads the file, and finds in it what the pprof file of the same recording has: the same share for
each function, alone and with what it calls, of programs at fixed addresses and others, of Go, and of the kernel.
"""
import os
import re
import shutil

from lib import programs
from lib.scenario import PROFLET, Scenario
from show import line

SECONDS = "2"  # of CPU time
OVER, WITHIN = 1.0, 0.1  # percent
UNNAMED = re.compile(r"(\S+\+)?0x[0-9a-f]+|\[.*\]")


def perf(s, *arguments):
    return s.run(["perf", *arguments], env={"HOME": s.tmp}, seconds=120)


def plain(name):
    """The name of a function without what one of both adds: versions of symbols, Go's calling convention, how a clone is written,
    the mark of the kernel's."""
    name = re.sub(r"@@?[\w.]+$|\.abi0$|_\[k\]$", "", name.strip())
    return re.sub(r" \[clone (\.[\w.]+)\]", r"\1", name)


def shares_of_perf(s, path, children):
    column = "overhead_children" if children else "overhead"
    out = perf(s, "report", "--stdio", "-i", path, "-g", "none", "--children" if children else "--no-children", "--no-inline", "--max-stack", "2048",
               "-F", f"{column},sym", "-t", "|", "--percent-limit", "0").stdout
    shares = {}
    for m in re.finditer(r"(?m)^ *([\d.]+)% *\| *\[.\] (.+)$", out):
        shares[plain(m[2])] = shares.get(plain(m[2]), 0) + float(m[1])
    return shares


def shares_of_pprof(s, base):
    folded = s.path("shares.folded")
    s.run([PROFLET, "show", "-f", "-o", folded, base + ".pb.gz"])
    alone, total, samples = {}, {}, 0
    with open(folded, encoding="utf-8") as f:
        for text in f:
            stack, _, count = text.rpartition(" ")
            names = [plain(name) for name in stack.split(";")[1:]]
            samples += int(count)
            alone[names[-1]] = alone.get(names[-1], 0) + int(count)
            for name in set(names):
                total[name] = total.get(name, 0) + int(count)
    return [{name: 100 * n / samples for name, n in counts.items()} for counts in (alone, total)], samples


def compare(s, base):
    (alone, total), samples = shares_of_pprof(s, base)
    for what, ours, children in (("alone", alone, False), ("with what they call", total, True)):
        theirs = shares_of_perf(s, base + ".perf.data", children)
        names = {n for n, share in (*ours.items(), *theirs.items()) if share > OVER and not UNNAMED.fullmatch(n)}
        worst = sorted((abs(ours.get(n, 0) - theirs.get(n, 0)), n, ours.get(n), theirs.get(n)) for n in names)
        s.check(f"functions {what} have the shares of the pprof file", len(names) >= 4 and worst[-1][0] <= WITHIN,
                f"{len(names)} over {OVER} %, worst {worst[-1:]}")
    return samples


def start_all(s):
    load = programs.build_c(s, "load")
    fixed = s.path("fixed")
    s.run(["gcc", "-O2", "-no-pie", "-o", fixed, os.path.join(programs.SUPPORT, "load.c")])
    commands = [f"{load} {SECONDS}", f"{fixed} {SECONDS} 2"]
    go = s.run([os.path.join(programs.SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if go:
        folder = shutil.copytree(os.path.join(programs.SUPPORT, "shapes"), s.path("shapes-source"))
        s.run([go, "build", "-o", s.path("shapes"), "."], cwd=folder, env={"GOFLAGS": ""}, seconds=300)
        commands.append(f"{s.path('shapes')} {SECONDS}")
    return " & ".join(commands) + " & wait"


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("perf", "objdump")
    base = s.path("all")
    printed = s.run([PROFLET, "record", "-F", "499", "--format", "pprof,perf,perf-flat", "-o", base, "--", "sh", "-c", start_all(s)], seconds=180).stdout
    path = base + ".perf.data"
    samples = compare(s, base)
    script = perf(s, "script", "-i", path, "-F", "comm,pid,tid,cpu,time,ip,sym,dso").stdout
    s.equal("perf script: each sample is there", len(re.findall(r"(?m)^\S.*: *$", script)), samples)
    s.check("nothing else is: as many as record has counted", f"taken={samples} " in printed, line(printed[-200:]))
    times = [float(t) for t in re.findall(r"(?m)^\S+ +\d+/\d+ +\[\d+\] +([\d.]+): *$", script)]
    s.check("with their times, in order", times == sorted(times) and times[-1] - times[0] > 1, f"{times[:1]} to {times[-1:]}")
    s.check("and each thread's name", {"load", "fixed"} <= set(re.findall(r"(?m)^(\S+) +\d+/\d+ ", script)))
    s.check("perf annotate: the instructions of a function", re.search(r"(?m)^ *\d+\.\d+ .*:\s+[0-9a-f]+:", perf(s, "annotate", "--stdio", "-i", path, "slow").stdout))
    ids = perf(s, "buildid-list", "-i", path).stdout
    own = re.search(r"Build ID: (\w+)", s.run(["readelf", "-n", s.path("load")]).stdout)
    s.check("perf buildid-list: the program's and the kernel's", own and own[1] in ids and "[kernel.kallsyms]" in ids, line(ids))
    flat = perf(s, "script", "-i", base + ".flat.perf.data", "-F", "pid,event,ip").stdout
    s.equal("perf-flat: an address for each sample", len(re.findall(r"(?m)^ *\d+ +cpu-clock: +[0-9a-f]+ *$", flat)), samples)
    s.note(", ".join(f"{os.path.basename(p)} {os.path.getsize(p)}" for p in (path, base + ".flat.perf.data", base + ".pb.gz")) + f" bytes, {samples} samples")


if __name__ == "__main__":
    Scenario("perf_data").execute(body)
