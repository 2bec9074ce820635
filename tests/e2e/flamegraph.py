#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `proflet record` in a real browser: a recording of C, Go, run-time and kernel code in two containers and on the
host, looked at in headless Chromium by clicks and keys, and held against the folded file of the same recording. A second page
has what no short recording has: 2,000 frames beside each other and a stack 500 deep; a third one has all language runtimes; a
fourth one compares two recordings and is held against what `proflet diff` prints of them.

--full: a page of 200,000 different stacks, too: at most 15 MB; how long it takes to draw it, and a span of its time, is printed.
KEEP=1 leaves the screenshots, light and dark, in the folder that it names.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from lib import cgroups, programs
from lib.machine import hang_limit
from lib.scenario import PROFLET, ROOT, Scenario, Skip, stop

SUPPORT = programs.SUPPORT
sys.path.insert(0, SUPPORT)
import otlp_conformance as otlp  # noqa: E402  a decoder that shares nothing with the encoder
RELEASE = os.path.join(ROOT, "build", "release")
GROUP = "/proflet-e2e-flamegraph/"
CONTAINERS = {"chain": "0c" * 32, "gospin": "0d" * 32}
PROCESS = "page_chain"  # nobody else's
STACKS, MAX_MB = 200_000, 15


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--full", action="store_true")
    p.add_argument("--keep", action="store_true", help="as KEEP=1")
    return p.parse_args()


class Browser:
    """Chromium, which starts while there is something else to do, and the checks that it is asked for."""

    def __init__(self, s):
        s.need("chromium", "node")
        done = subprocess.run([os.path.join(SUPPORT, "build-npm"), "browser"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Skip("puppeteer-core cannot be had: " + done.stderr.strip()[-300:])
        self.s = s
        env = dict(os.environ, NODE_PATH=done.stdout.strip(), HOME=s.tmp, TMPDIR=s.tmp)
        script = os.path.join(SUPPORT, "browser", "flamegraph.js")
        shots = [s.folder("shots")] if os.environ.get("KEEP") else []
        self.process = subprocess.Popen(["node", script, shutil.which("chromium"), *shots], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=env)
        s.defer(lambda: stop(self.process))

    def look(self, *pages):
        """Everything that is asked, one after the other; its end is the browser's."""
        limit = threading.Timer(hang_limit(240), self.process.terminate)  # ends Chromium, too
        limit.start()
        self.process.stdin.write("".join(json.dumps(p) + "\n" for p in pages))
        self.process.stdin.close()
        for line in self.process.stdout:
            result = json.loads(line)
            self.s.check(result["what"], result["ok"], result["detail"])
        self.s.equal("the browser's end: exit code", self.process.wait(), 0)
        limit.cancel()


def build_pages(s):
    """The program that writes pages with the release build's own writer."""
    libraries = [os.path.join(RELEASE, f"libproflet_{name}.a") for name in ("output", "base")]
    program = s.path("pages")
    s.run(["gcc", "-O2", "-D_GNU_SOURCE", "-I", ROOT, "-o", program, os.path.join(SUPPORT, "pages.c"), *libraries, "-lz", "-lm", "-lpthread"])
    return program


def start_programs(s):
    """Something of every kind of code. Returns the kinds and the processes, the chain program's first."""
    kinds = ["NATIVE", "KERNEL", "JIT"]
    chain = shutil.move(programs.build_c(s, "chain"), s.path(PROCESS))
    chain = cgroups.start(s, cgroups.make(s, GROUP + CONTAINERS["chain"]), [chain, programs.LIFE], "chain")
    jit = s.start([programs.build_c(s, "jitdump"), programs.LIFE], "jitdump")
    s.defer(lambda: os.path.exists(f"/tmp/jit-{jit.pid}.dump") and os.unlink(f"/tmp/jit-{jit.pid}.dump"))
    running = [chain, jit, s.start(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"], "dd")]
    try:
        program = programs.build_go(s)
        running.append(cgroups.start(s, cgroups.make(s, GROUP + CONTAINERS["gospin"]), [program, programs.LIFE], "gospin"))
        kinds.append("GO")
    except Skip as e:
        s.skip("colours of Go code", e)
    return kinds, running


def record(s):
    base = s.path("recording")
    s.run([PROFLET, "record", "-d", "2s", "-F", "997", "-o", base, "--format", "html,folded,otlp", "--by", "container"])
    with open(base + ".folded", encoding="utf-8") as f:
        stacks = [line.rstrip("\n").rpartition(" ") for line in f]
    return base, [(stack.split(";"), int(count)) for stack, _, count in stacks]


def sample_times(path):
    """[(ns since 1970, names of the functions on the stack)] of the samples of a recording."""
    with open(path, "rb") as f:
        request = otlp.Decoder(lambda *what: None).message("Request", f.read(), "request")
    d, result = request["dictionary"], []
    profiles = [p for rp in request["resource_profiles"] for sp in rp["scope_profiles"] for p in sp["profiles"]]

    def names(location):
        return {d["string_table"][d["function_table"][line["function_index"]]["name_strindex"]] for line in location["lines"]}

    for sample in (x for p in profiles for x in p["samples"]):
        stack = set().union(*(names(d["location_table"][i]) for i in d["stack_table"][sample["stack_index"]]["location_indices"]))
        result += [(t, stack) for t in sample["timestamps_unix_nano"]]
    return result


def times_of_page(page, path, function):
    """In which of the page's columns each sample of the OTLP file lies, and whether it has the function on its stack."""
    with open(page, encoding="utf-8") as f:
        data = json.loads(re.search(r'id="profile">(.*?)</script>', f.read()).group(1))
    width, start = data["time"]["width_ns"], data["info"]["start_ms"] * 10**6 + data["time"]["from_ns"]
    first = -(-start // width)  # a column begins at a multiple of its width; the page's start has lost what is below a millisecond
    return [[t // width - first, function in stack] for t, stack in sample_times(path)]


def samples_matching(stacks, query):
    """Of stacks with a name that matches, containers and processes included, as the page's rows are: without marks and files."""
    pattern = re.compile(query, re.IGNORECASE if query == query.lower() else 0)
    return sum(n for names, n in stacks if any(pattern.search(re.sub(r"_\[k\]$| \([^() ]+\.\w+\)$", "", name)) for name in names))


def expected(page, stacks, kinds, pid):
    containers = collections.Counter()
    for names, n in stacks:
        containers[names[0]] += n
    ids = {ident[:12]: ident for ident in CONTAINERS.values()}
    return {
        "page": page, "kinds": kinds, "total": sum(containers.values()), "containers": containers, "ids": ids,
        "process": PROCESS, "pid": pid, "inner": "f4", "leaf": "f8",
        "leafSamples": sum(n for names, n in stacks if names[1] == PROCESS and names[-1] == "f8"),
        "searches": [{"query": q, "samples": samples_matching(stacks, q)} for q in ("^f8$", f"^{PROCESS}$", "leaf_[0-9]|main")],
    }


def percent(text):
    return text.replace("-", "−").replace("+−", "−") + " %"


def compare(s):
    """A page of two recordings, of a program and the same program with one function that takes four times as long; and its numbers."""
    program, files = programs.build_c(s, "load"), []
    for name, arguments in (("before", ["2"]), ("after", ["2", "4"])):
        s.run([PROFLET, "record", "-F", "997", "-o", s.path(name), "--format", "otlp", "--", program, *arguments])
        files.append(s.path(name + ".otlp"))
    page = s.path("difference.html")
    printed = s.run([PROFLET, "diff", "--rows", "1000", *files, "-o", page]).stdout
    rows = re.findall(r"(?m)^ *(\d+\.\d\d) +(\d+\.\d\d) +([+-]\d+\.\d\d) +([+-]\d+\.\d\d) … +([+-]\d+\.\d\d)  (\S+)", printed)
    done = s.run([PROFLET, "diff", *files, "-o", page], check=False)
    s.check("a page that is there is kept", done.returncode == 1 and "is there already" in done.stderr, done.stderr)
    shapes = re.findall(r"(?m)^[AB] .*: (\d+) samples", printed)
    return {"page": page, "samples": [int(n) for n in shapes], "more": "medium", "less": "slow",
            "rows": [[percent(a), percent(b), percent(by), f"{percent(low)} … {percent(high)}", name] for a, b, by, low, high, name in rows]}


def check_size(s, path, printed):
    counts = dict(re.findall(r"(\w+)=(\d+)", printed))
    size = os.path.getsize(path) / 1e6
    s.check(f"{STACKS} different stacks: all of them are in the page", int(counts["stacks"]) >= STACKS and counts["merged"] == "0",
            f"{counts['stacks']} stacks, {counts['frames']} frames")
    s.check(f"{STACKS} different stacks: the page has at most {MAX_MB} MB", size <= MAX_MB, f"{size:.1f} MB")


def body(s, full):
    s.need_root()
    s.need_proflet()
    begin = time.monotonic()
    browser = Browser(s)
    kinds, running = start_programs(s)
    base, stacks = record(s)
    page = base + ".html"
    recorded = time.monotonic()
    for process in running:
        stop(process)
    difference = compare(s)
    pages = build_pages(s)
    made = {shape: s.path(f"{shape}.html") for shape in ("shapes", "languages")}
    for shape, path in made.items():
        s.run([pages, shape, path])
    recording = expected(page, stacks, kinds, running[0].pid)
    wanted = [dict(recording, times=times_of_page(page, base + ".otlp", recording["inner"]), **made), {"difference": difference}]
    if full:
        many = s.path("many.html")
        check_size(s, many, s.run([pages, "many", str(STACKS), many], seconds=240).stdout)
        s.run([pages, "untimed", str(STACKS), s.path("untimed.html")], seconds=240)
        s.note(f"without times it has {os.path.getsize(s.path('untimed.html')) / 1e6:.1f} MB")
        wanted.append({"many": many, "stacks": STACKS})
    browser.look(*wanted)
    s.note(f"{recorded - begin:.1f} s to make the recording, {time.monotonic() - recorded:.1f} s to look at it")


if __name__ == "__main__":
    given = options()
    if given.keep:
        os.environ["KEEP"] = "1"
    Scenario("flamegraph").execute(lambda s: body(s, given.full))
