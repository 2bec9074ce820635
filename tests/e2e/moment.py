#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of the moment: programs that change what they are many times a second, and a log of when they were what.

Programs, libraries and threads are called amber, birch and cedar, and spin in functions of their names. All that a sample has
by name (functions, files, executable, thread, service, container) must be of one of them, and of the one that its process was
at the sample's time. `moment.py --samples 10000` is the full form; --cases takes some of them.
"""
import argparse
import bisect
import collections
import os
import re
import secrets
import sys
import time

from lib.containers import remove_cgroup
from lib.scenario import PROFLET, ROOT, Scenario, Skip

sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from live import recording  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures", "moment")
NAMES = {"amber": 64, "birch": 320, "cedar": 1600}  # and the bytes of a frame
EVENTS_LOST = re.compile(r"\d+ process events or more are missing")
WORD = re.compile("|".join(NAMES))
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-I", FIXTURES]
ATTRIBUTES = "process.pid,process.executable.name,thread.name,thread.id"
FREQUENCY = 3999
EDGE_NS = 200_000  # so near to a change the log and the sample's clock do not say who it was
CUT_AT_MOST = 0.1  # of samples, where a change was not heard of yet
HOMELESS_AT_MOST = 0.05  # of samples without container: its first process was over before its cgroup could be read


def gcc(s, output, source, *flags):
    s.run(["gcc", *FLAGS, *flags, "-o", s.path(output), os.path.join(FIXTURES, source)])
    return s.path(output)


def build_programs(s, *flags):
    # at one address, so that a table, or a name, of another program would be found
    return [gcc(s, name, "program.c", f"-DNAME={name}", f"-DBYTES={size}", "-no-pie", *flags) for name, size in NAMES.items()]


def cgroup_root():
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup"):
        if os.path.exists(os.path.join(root, "cgroup.procs")):
            return root
    raise Skip("no cgroup file system")


def make_containers(s):
    """One cgroup a name, as docker's under systemd are called; → {name: (id, file of its processes)}"""
    result = {}
    for name in NAMES:
        ident = secrets.token_hex(32)
        path = f"/proflet-moment-{os.getpid()}/docker-{ident}.scope"
        s.defer(lambda path=path: remove_cgroup(path))
        try:
            os.makedirs(cgroup_root() + path)
        except OSError as e:
            raise Skip(f"cgroups cannot be made: {e}") from e
        result[name] = (ident, cgroup_root() + path + "/cgroup.procs")
    return result


# --- cases: → (command, what a sample must have beside the functions, and containers)
Case = collections.namedtuple("Case", "argv facets containers", defaults=[{}])


def case_exec(s, ms, *flags):
    programs = build_programs(s, *flags)
    return Case([programs[0], "LOG", ms, "UNTIL", "0", *programs], ("executable", "thread", "service"))


def case_exec_thread(s, ms):
    return case_exec(s, ms, "-pthread", "-DFROM_THREAD")


def case_dlopen(s, ms):
    libraries = [gcc(s, f"lib{name}.so", "library.c", f"-DNAME={name}", f"-DBYTES={size}", "-shared", "-fPIC")
                 for name, size in NAMES.items()]
    return Case([gcc(s, "opener", "opener.c"), "LOG", ms, "UNTIL", *libraries], ())


def case_pid(s, ms):
    containers = make_containers(s)
    pairs = [x for program, name in zip(build_programs(s), NAMES) for x in (program, containers[name][1])]
    return Case([gcc(s, "reuse", "reuse.c"), "LOG", ms, "UNTIL", *pairs],
                ("executable", "thread", "service", "container"), {ident: name for name, (ident, _) in containers.items()})


def case_tid(s, ms, *options):
    return Case([gcc(s, "threads", "threads.c", "-pthread"), "LOG", ms, "UNTIL", *options], ("thread",))


def case_alone(s, ms):
    return case_tid(s, ms, "alone")


CASES = {"execve of three programs": case_exec, "execve by a thread": case_exec_thread, "three libraries at one address": case_dlopen,
         "three programs and containers of one pid": case_pid, "threads of one tid, and renamed": case_tid,
         "a thread that outlives the main one": case_alone}


# --- the log: who was that thread when
class Log:
    def __init__(self, path):
        self.spans = collections.defaultdict(list)
        with open(path, encoding="utf-8") as f:
            for line in f:
                name, pid, tid, begin, end = line.split()
                self.spans[int(tid)].append((int(begin), int(end), name))
        for spans in self.spans.values():
            spans.sort()

    def at(self, tid, time_ns):
        """The name, or None where the log does not say."""
        spans = self.spans.get(tid, [])
        i = bisect.bisect(spans, (time_ns,)) - 1
        if i < 0 or not spans[i][0] + EDGE_NS < time_ns < spans[i][1] - EDGE_NS:
            return None
        return spans[i][2]


class Verdict:
    def __init__(self):
        self.samples = self.right = self.cut = self.elsewhere = self.homeless = self.lost = 0
        self.wrong = collections.Counter()

    def add(self, case, sample, log, offset_ns):
        user = [f for f in sample.frames if f.kind != "kernel"]
        code = set(WORD.findall(" ".join(f.name + " " + f.module for f in user)))
        told = {"executable": sample.process, "thread": sample.thread, "service": sample.resource.get("service.name", ""),
                "container": case.containers.get(sample.resource.get("container.id"), "-")}
        names = {facet: (WORD.findall(told[facet]) or ["-"])[0] for facet in case.facets}
        cut = bool(user) and user[-1].name.startswith("[truncated")
        for t in sample.times:
            true = log.at(sample.tid, t - offset_ns)
            if not code and not true:
                self.elsewhere += 1  # the launcher, or the kernel on its way from one to the next
                continue
            self.samples += 1
            self.cut += cut
            if names.get("container") == "-":
                self.homeless += 1
                del names["container"]
            if len(code) > 1 or any(x != (true or min(code)) for x in code | set(names.values())):
                text = ";".join(f.name for f in reversed(user))
                self.wrong[f"{true or '?'} is called {names} in {text}"] += 1
            else:
                self.right += 1


def record(s, case, seconds, verdict):
    log, base = s.path("moment.log"), s.path("recording")
    open(log, "w", encoding="utf-8").close()
    start = time.monotonic_ns() + 500_000_000
    places = {"LOG": log, "UNTIL": str(start + int(seconds * 1e9))}
    offset_ns = time.time_ns() - time.monotonic_ns()
    done = s.run([PROFLET, "record", "-f", "-F", str(FREQUENCY), "-d", f"{seconds + 60:.0f}s", "--format", "otlp", "-o", base,
                  "--attributes.sample", ATTRIBUTES, "--", *[places.get(x, x) for x in case.argv]], seconds=seconds + 120, check=False)
    if done.returncode:
        raise RuntimeError(f"proflet record: exit {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    if EVENTS_LOST.search(done.stderr):  # it says that it does not know what it missed
        verdict.lost += 1
        return ""
    with open(base + ".otlp", "rb") as f:
        profile = recording.Profile(f.read())
    truth = Log(log)
    for sample in profile.samples:
        verdict.add(case, sample, truth, offset_ns)
    return " ".join(x for x in done.stdout.splitlines() if re.match(r"\d+ of ", x))


def run_case(s, name, make, args):
    case = make(s, str(args.ms))
    verdict, seconds, begin = Verdict(), 3.0, time.monotonic()
    for _ in range(40):
        said = record(s, case, seconds, verdict)
        if verdict.samples >= args.samples:
            break
        rate = max(verdict.samples / (time.monotonic() - begin), 50)
        seconds = min(max(1.2 * (args.samples - verdict.samples) / rate, 1), 20)
    v = verdict
    s.check(f"{name}: no wrong name", v.samples >= args.samples and not v.wrong,
            f"{v.samples} samples, wrong {sum(v.wrong.values())}, cut {v.cut}, no container {v.homeless}; "
            f"{v.elsewhere} of in between; {v.lost} recordings lost events; {time.monotonic() - begin:.0f} s; {said}")
    for text, n in v.wrong.most_common(5):
        s.note(f"{n:>6} × {text[:300]}")
    s.check(f"{name}: few are cut", v.cut <= CUT_AT_MOST * v.samples, f"{100 * v.cut / max(v.samples, 1):.2f} %")
    if case.containers:
        s.check(f"{name}: few are without container", v.homeless <= HOMELESS_AT_MOST * v.samples,
                f"{100 * v.homeless / max(v.samples, 1):.2f} %")


def body(s, args):
    s.need_root()
    s.need("gcc")
    s.need_proflet()
    for name, make in CASES.items():
        if not args.cases or args.cases in name:
            try:
                run_case(s, name, make, args)
            except Skip as e:
                s.skip(name, e)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--samples", type=int, default=1000, help="of each case (1000)")
    p.add_argument("--ms", type=int, default=10, help="until the next change (10)")
    p.add_argument("--cases", default="", metavar="TEXT", help="only those with the text in their name")
    return p.parse_args()


if __name__ == "__main__":
    arguments = parse()
    Scenario("moment").execute(lambda s: body(s, arguments))
