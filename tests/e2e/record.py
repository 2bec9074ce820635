#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`proflet record`: four outputs of one recording, each read back by a program that is not ours."""
import glob
import os
import re
import signal
import time

from lib import assertions, programs
from lib.agent import wait_recording
from lib.machine import PromiseClock, cpu_seconds, wait_exit, wait_for_cpu
from lib.scenario import PROFLET, Scenario, wait_for
from lib.terminal import Terminal

CHAIN = list(reversed(programs.CHAIN))  # root first
FOLDED = re.compile(r"^chain;(?:.*;)?" + ";".join(CHAIN) + r"(?:;[^;]*_\[k\])* (\d+)$")
SUFFIXES = ("html", "folded", "pb.gz", "otlp")
MIN_SAMPLES = 10


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def check_folded(s, what, path):
    lines = read(path).splitlines()
    mine = [line for line in lines if line.startswith("chain;")]
    n = sum(int(line.rpartition(" ")[2]) for line in mine)
    exact = sum(int(m.group(1)) for m in map(FOLDED.match, mine) if m)
    s.check(f"{what}: folded lines have the form STACK COUNT", bool(lines) and all(re.search(r".;.* \d+$", x) for x in lines),
            f"{len(lines)} lines")
    s.check(f"{what}: folded lines are distinct", len({x.rpartition(' ')[0] for x in lines}) == len(lines))
    s.check(f"{what}: folded stacks of the chain are exact", n >= MIN_SAMPLES and exact >= 0.99 * n, f"{exact} of {n}")
    return n


def pprof(s, *arguments):
    """→ what `go tool pprof` says; None without Go, which is a skip"""
    go = s.run([os.path.join(programs.SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        s.skip("go tool pprof reads the recording", "no Go: tests/support/install test")
        return None
    env = {"PPROF_TMPDIR": s.tmp, "PPROF_BINARY_PATH": s.tmp}
    return s.run([go, "tool", "pprof", "-symbolize=none", *arguments], check=False, env=env)


def check_pprof(s, path):
    top = pprof(s, "-top", path)
    if not top:
        return
    s.check("go tool pprof -top names the leaf", top.returncode == 0 and re.search(r"\bf8\b", top.stdout),
            (top.stdout + top.stderr).strip()[:200].replace("\n", " / "))
    leaf_first = r"\s+\d\S*\s+f8\b[^\n]*" + "".join(rf"\n\s+{name}\b[^\n]*" for name in programs.CHAIN[1:])
    s.check("go tool pprof -traces has the exact chain", re.search(leaf_first, pprof(s, "-traces", path).stdout))


def check_html(s, path):
    text = read(path)
    s.check("html asks for nothing from elsewhere", not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text))
    s.check("html has the names", all(name in text for name in CHAIN))


def check_host(s, chain):
    base = s.path("host")
    for seconds in (3, 12, 48):  # until the chain has got its CPU time, where others compute
        before = cpu_seconds(chain)
        done = s.run([PROFLET, "record", "-f", "-d", f"{seconds}s", "-F", "99", "-o", base], check=False)
        if cpu_seconds(chain) - before >= 1:
            break
    s.equal("host: exit code", done.returncode, 0)
    for suffix in SUFFIXES:
        size = os.path.getsize(f"{base}.{suffix}") if os.path.exists(f"{base}.{suffix}") else 0
        s.check(f"host: {suffix} is written", size > 0, f"{size} bytes")
    s.check("host: the top functions are printed", re.search(r"\bf8\b", done.stdout), done.stdout.strip()[:200].replace("\n", " / "))
    check_folded(s, "host", base + ".folded")
    check_pprof(s, base + ".pb.gz")
    check_html(s, base + ".html")
    assertions.conforms(s, [base + ".otlp"])


def check_one_process(s, pid):
    base = s.path("process")
    s.run([PROFLET, "record", "-d", "2s", "-F", "99", "-p", str(pid), "-o", base, "--format", "folded"])
    check_folded(s, "one process", base + ".folded")
    others = [x for x in read(base + ".folded").splitlines() if not x.startswith("chain;")]
    s.equal("one process: stacks of others", len(others), 0)
    s.check("one process: only the format asked for", not any(os.path.exists(f"{base}.{x}") for x in SUFFIXES if x != "folded"))


def check_command(s, program):
    base, clock = s.path("command"), PromiseClock(s)
    start = clock.now()
    done = s.run([PROFLET, "record", "-d", "60s", "-F", "99", "-o", base, "--format", "folded", "--", program, "2"], check=False)
    seconds = clock.now() - start
    s.check("command: record ends with it", done.returncode == 0 and seconds < 30, f"exit {done.returncode}, {seconds:.1f} s")
    n = check_folded(s, "command", base + ".folded")
    dropped = re.search(r", (\d+) dropped", done.stdout)
    s.check("command: what others did is not called dropped", dropped and int(dropped.group(1)) < 0.05 * n, dropped and dropped.group(0))
    s.note(f"command: {n} samples of 2 s at 99 Hz")


def check_exit_codes(s):
    for name, command, code in (("fails with 7", ["sh", "-c", "exit 7"], 7), ("is killed", ["sh", "-c", "kill -9 $$"], 137)):
        done = s.run([PROFLET, "record", "-f", "-o", s.path("ended"), "--format", "folded", "--", *command], check=False)
        s.equal(f"a command that {name}: exit code", done.returncode, code)
        s.check(f"a command that {name}: the recording is kept", os.path.exists(s.path("ended.folded")))


def check_interrupt(s, pid):
    base = s.path("interrupted")
    process = s.start([PROFLET, "record", "-d", "3600s", "-F", "99", "-o", base], "interrupted")
    wait_recording(process, 3600)
    wait_for_cpu([pid], 1)
    process.send_signal(signal.SIGINT)
    s.equal("Ctrl-C: exit code", wait_exit(process, 30), 0)
    for suffix in SUFFIXES:
        s.check(f"Ctrl-C: {suffix} is written", os.path.exists(f"{base}.{suffix}") and os.path.getsize(f"{base}.{suffix}") > 0)
    check_folded(s, "Ctrl-C", base + ".folded")


def check_interrupt_at_start(s):
    base = s.path("early")
    process = s.start([PROFLET, "record", "-d", "3600s", "-o", base], "early")

    def waits():
        with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"(?m)^SigBlk:\s+(\w+)", f.read())[1], 16) & 1 << signal.SIGINT - 1

    end = time.monotonic() + 30
    while not waits() and time.monotonic() < end:
        pass
    process.send_signal(signal.SIGINT)
    s.equal("Ctrl-C during the start: exit code", wait_exit(process, 30), 1)
    s.check("Ctrl-C during the start: it says that nothing is written", "nothing is written" in read(process.log), read(process.log)[-200:])
    s.equal("Ctrl-C during the start: files", [x for x in glob.glob(base + ".*") if x != process.log], [])


def check_progress(s):
    screen = Terminal(s, [PROFLET, "record", "-d", "1s", "-F", "99", "--format", "folded", "-o", s.path("progress")])
    wait_for(lambda: screen.read() is None or "progress.folded" in screen.text, 60, "the recording")
    start, recording = screen.text.find("starting"), screen.text.find("recording ")
    s.check("progress shows before sampling begins, and is wiped off", 0 <= start < recording and "\r\x1b[K" in screen.text[recording:],
            repr(screen.text[:120]))


THREADS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *spin(void *name) { pthread_setname_np(pthread_self(), name); printf("%s %d\\n", (char *)name, gettid()); fflush(stdout); for (;;) ; }
int main(void) { pthread_t t; pthread_create(&t, NULL, spin, "left"); spin("right"); }
"""


def check_threads(s):
    with open(s.path("threads.c"), "w", encoding="ascii") as f:
        f.write(THREADS)
    program, base = s.path("threads"), s.path("thread")
    s.run(["gcc", "-O1", "-pthread", "-o", program, s.path("threads.c")])
    process = s.start([program], "threads")
    wait_for(lambda: read(process.log).count("\n") == 2, 30, "its threads")
    tids = dict(line.split() for line in read(process.log).splitlines())

    def levels(*options):
        s.run([PROFLET, "record", "-f", "-d", "2s", "-F", "99", "--format", "folded", "-o", base, "--by", "thread", *options])
        return {tuple(line.split(";")[:2]) for line in read(base + ".folded").splitlines()}

    s.equal("--by thread: the thread is behind the process", {x[1] for x in levels("-p", str(process.pid))}, {"left", "right"})
    for name in ("left", "right"):
        s.equal(f"-t: only the thread {name}", {x[1] for x in levels("-t", tids[name])}, {name})
    s.equal("-t: both", {x[1] for x in levels("-t", tids["left"], "-t", tids["right"])}, {"left", "right"})
    done = s.run([PROFLET, "record", "-o", base, "-t", "4194305"], check=False)
    s.check("-t: no such thread", done.returncode == 1 and "there is no thread 4194305" in done.stderr, done.stderr)


def check_cpu(s):
    """A program on each of two CPUs, which is called as its CPU."""
    base, cpus = s.path("cpu"), sorted(os.sched_getaffinity(0))[:2]
    for cpu in cpus:
        s.start(["taskset", "-c", str(cpu), programs.build_c(s, "chain", program=f"on{cpu}"), programs.LIFE], f"on{cpu}")
    for cpu in cpus:
        s.run([PROFLET, "record", "-f", "-d", "2s", "-F", "199", "--format", "folded", "-o", base, "-C", str(cpu)])
        found = {line.split(";")[0] for line in read(base + ".folded").splitlines()} & {f"on{c}" for c in cpus}
        s.equal(f"-C {cpu}: only what runs there", found, {f"on{cpu}"})
    done = s.run([PROFLET, "record", "-o", base, "-C", "65535"], check=False)
    s.check("-C: no such CPU", done.returncode == 1 and "there is no CPU 65535" in done.stderr, done.stderr)


def check_fork(s, program):
    """The command's process is a fork of proflet's until it executes; at 5,000 Hz that would have samples."""
    base, lines, mine = s.path("fork"), [], os.path.basename(PROFLET)[:15] + ";"
    for _ in range(5):
        s.run([PROFLET, "record", "-f", "-F", "5000", "--cpu.max", "6400%", "-o", base, "--format", "folded", "--", program, "1"], check=False)
        lines += read(base + ".folded").splitlines()
    s.equal("command: stacks of proflet's fork", [x[:120] for x in lines if x.startswith(mine)], [])
    s.check("command: its own are there", sum(x.startswith("chain;") for x in lines) >= 5)


def check_overwrite(s):
    base = s.path("there")
    with open(base + ".pb.gz", "w") as f:
        f.write("mine")
    clock = PromiseClock(s)
    start = clock.now()
    done = s.run([PROFLET, "record", "-d", "10s", "-o", base], check=False)
    s.check("a file that is there: refused, at once, with its name", done.returncode == 1 and clock.now() - start < 8 and
            done.stderr == f"proflet: {base}.pb.gz is there already: -f overwrites it\n", done.stderr)
    s.equal("a file that is there: what is in it", read(base + ".pb.gz"), "mine")
    s.check("a file that is there: no other is written", not os.path.exists(base + ".html"))
    done = s.run([PROFLET, "record", "-d", "1s", "-o", base, "--format", "folded"], check=False)
    s.equal("a file of another format may be there: exit code", done.returncode, 0)
    done = s.run([PROFLET, "record", "-f", "-d", "1s", "-o", base], check=False)
    s.check("with -f it is overwritten", done.returncode == 0 and os.path.getsize(base + ".pb.gz") > len("mine"), done.stderr)
    done = s.run([PROFLET, "record", "-o", "/nonexistent/x"], check=False)
    s.check("a folder that is not there is said at once", done.returncode == 1 and
            done.stderr == "proflet: /nonexistent: No such file or directory\n", done.stderr)


INLINED = """
__attribute__((noinline)) static unsigned long leaf(unsigned long x) { for (int i = 0; i < 100000; i++) x = x * 5 + 1; return x; }
__attribute__((always_inline)) static inline unsigned long inner(unsigned long x) { return leaf(x) + 1; }
__attribute__((noinline)) static unsigned long outer(unsigned long x) { return inner(x) + 2; }
int main(void) { unsigned long x = 1; for (int i = 0; i < 8000; i++) x += outer(x); return x == 0; }
"""


def check_lines(s):
    with open(s.path("inlined.c"), "w") as f:
        f.write(INLINED)
    program, base = s.path("inlined"), s.path("lines")
    s.run(["gcc", "-O2", "-g", "-o", program, s.path("inlined.c")])
    stacks = {}
    for option in ([], ["--lines"]):
        s.run([PROFLET, "record", "-f", "-F", "199", "--format", "folded,pprof,html", "-o", base, *option, "--", program], check=False)
        stacks[bool(option)] = read(base + ".folded")
    s.check("--lines: inlined calls are frames", ";main;outer;inner;leaf" in stacks[True] and ";main;outer;leaf" not in stacks[True],
            stacks[True][:300])
    s.check("without it they are not", ";main;outer;leaf" in stacks[False] and ";inner" not in stacks[False], stacks[False][:300])
    s.check("--lines: the page knows the source file, and where functions begin in it",
            re.search('"' + re.escape(s.path("inlined.c")) + r':\d+"', read(base + ".html")))
    top = pprof(s, "-lines", "-top", base + ".pb.gz")
    if top:
        s.check("--lines: go tool pprof has the lines", re.search(r"leaf .*inlined\.c:2\b", top.stdout) and
                re.search(r"outer .*inlined\.c:4\b", top.stdout), top.stdout[-600:].replace("\n", " / "))


def body(s):
    s.need_root()
    s.need_proflet()
    program = programs.build_c(s, "chain")
    chain = s.start([program, programs.LIFE], "chain")
    check_host(s, chain.pid)
    check_one_process(s, chain.pid)
    check_command(s, program)
    check_exit_codes(s)
    check_interrupt(s, chain.pid)
    check_interrupt_at_start(s)
    check_progress(s)
    check_threads(s)
    check_cpu(s)
    check_fork(s, program)
    check_overwrite(s)
    check_lines(s)


if __name__ == "__main__":
    Scenario("record").execute(body)
