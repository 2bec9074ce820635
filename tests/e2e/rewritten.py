#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are written anew, over the same inode: a program between its runs, a library between its openings, and a library
where it is mapped; on a disk, in tmpfs, in overlayfs with and without copy-up, through a bind mount, in memory. The contents
have equal sizes and, on request, equal times. The programs log when they were what (tests/fixtures/moment): no sample may have
the name of the other content, or a stack that only the other one's rows lead to. And files that only seem to change: replaced
by rename as packages do it, deleted, linked, chmod: their programs keep their names.

usage: rewritten.py [--rewrites N] [--samples N] [--cases TEXT]     default: 6 and 60; in full: 100 and 5000, about 10 minutes
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import time

from lib.scenario import PROFLET, ROOT, Scenario, Skip
from moment import EVENTS_LOST, FLAGS, WORD, Log

sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from live import recording  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures", "moment")
SIZES = {"amber": 320, "birch": 1600}  # bytes of a frame
FREQUENCY = 997
MS = 40
FORCED_NS = 1_700_000_000_000_000_005
NO_PLT = "-fno-plt"  # so that the program calls the clock without a frame between
FRAMES = {"program": 4, "seeming": 4}  # of the file: spin, run, main, _start
LIBRARY_FRAMES = 3  # spin, run, enter
NO_ID = "-Wl,--build-id=none"
SEEM = ["rename", "delete", "link", "chmod"]
KEPT_AT_LEAST = 0.95  # of samples of files that only seem to change have names


def gcc(s, output, source, *flags):
    s.run(["gcc", *FLAGS, NO_PLT, *flags, "-o", s.path(output), os.path.join(FIXTURES, source)])
    return s.path(output)


def same_sizes(paths):
    size = max(map(os.path.getsize, paths))
    for path in paths:
        os.truncate(path, size)
    return paths


def programs(s, *flags):
    return same_sizes([gcc(s, f"once-{name}", "once.c", f"-DNAME={name}", f"-DBYTES={n}", *flags) for name, n in SIZES.items()])


def libraries(s, *flags):
    return same_sizes([gcc(s, f"lib-{name}", "library.c", f"-DNAME={name}", f"-DBYTES={n}", "-shared", "-fPIC",
                           "-Wl,-Bsymbolic", *flags)  # so that both have the same layout
                       for name, n in SIZES.items()])


# --- places: → (path to write to, path to run), and what begins a round
Place = collections.namedtuple("Place", "write run begin", defaults=[lambda: None])


def mount(s, *arguments):
    done = s.run(["mount", *arguments], check=False)
    if done.returncode:
        raise Skip("mount: " + done.stderr.strip())
    s.defer(lambda: subprocess.run(["umount", "-l", arguments[-1]], check=False))


def on_disk(s, _):
    return Place(s.path("file"), s.path("file"))


def in_tmpfs(s, _):
    mount(s, "-t", "tmpfs", "tmpfs", s.folder("tmpfs"))
    return Place(s.path("tmpfs", "file"), s.path("tmpfs", "file"))


def in_overlay(s, _):
    mount(s, "-t", "tmpfs", "tmpfs", s.folder("layers"))
    lower, upper, work, merged = (s.folder(x) for x in ("layers/lower", "layers/upper", "layers/work", "merged"))
    mount(s, "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", merged)
    return Place(s.path("merged", "file"), s.path("merged", "file"))


def copied_up(s, content):
    """The first content of each round is in the lower layer; to write the second is to copy the file up."""
    mount(s, "-t", "tmpfs", "tmpfs", s.folder("layers"))
    lower, merged = s.folder("layers/lower"), s.folder("merged")
    shutil.copy(content, lower + "/file")
    os.utime(lower + "/file", ns=(FORCED_NS, FORCED_NS))
    rounds = [0]

    def begin():
        rounds[0] += 1
        subprocess.run(["umount", "-l", merged], check=False, stderr=subprocess.DEVNULL)
        upper, work = (s.folder(f"layers/{x}{rounds[0]}") for x in ("upper", "work"))
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", merged],
                       check=True)

    s.defer(lambda: subprocess.run(["umount", "-l", merged], check=False))
    return Place(merged + "/file", merged + "/file", begin)


def bound(s, _):
    mount(s, "--bind", s.folder("source"), s.folder("target"))
    return Place(s.path("source", "file"), s.path("target", "file"))


def in_memory(_s, _):
    fd = os.memfd_create("file", 0)
    os.set_inheritable(fd, True)
    return Place(f"/proc/self/fd/{fd}", f"/proc/self/fd/{fd}")


# --- cases: what changes, within the recorded command
def write(content, path, forced):
    with open(path, "wb") as f, open(content, "rb") as source:  # truncated, and written
        f.write(source.read())
    os.chmod(path, 0o755)
    if forced:
        os.utime(path, ns=(FORCED_NS, FORCED_NS))


def run_once(place, log, ms=MS):
    subprocess.run([place.run, log, str(ms)], check=True, close_fds=False)


def drive_program(s, args, place, log):
    contents, forced = args.contents, args.forced
    for i in range(args.rewrites):
        if i % 2 == 0:
            place.begin()
        if i % 2 or args.place != "copied_up":
            write(contents[i % 2], place.write, forced)
        run_once(place, log)


def drive_library(s, args, place, log):
    place.begin()
    if not os.path.exists(place.write):
        write(args.contents[0], place.write, args.forced)
    subprocess.run([args.holder, args.kind, log, str(MS), str(args.rewrites), place.run, *args.contents,
                    *(["forced"] if args.forced else [])], check=True, close_fds=False)


def drive_seeming(s, args, place, log):
    """One that is known by name before, and one that is not sampled before."""
    for i in range(args.rewrites):
        if os.path.exists(place.write):
            os.unlink(place.write)
        write(args.contents[i % 2], place.write, args.forced)
        running = subprocess.Popen([place.run, log, "250"])
        time.sleep(0.12)
        how = SEEM[i % len(SEEM)]
        if how == "rename":
            write(args.contents[(i + 1) % 2], place.write + ".new", args.forced)
            os.rename(place.write + ".new", place.write)
        elif how == "delete":
            os.unlink(place.write)
        elif how == "link":
            os.link(place.write, f"{place.write}.{time.monotonic_ns()}")
        else:
            os.chmod(place.write, 0o700)
        running.wait()


Case = collections.namedtuple("Case", "kind place forced flags", defaults=[()])
CASES = {
    "program on a disk": Case("program", "on_disk", False),
    "program on a disk, equal times": Case("program", "on_disk", True),
    "program on a disk, equal times, no build id": Case("program", "on_disk", True, (NO_ID,)),
    "program in tmpfs, equal times": Case("program", "in_tmpfs", True),
    "program in overlayfs, equal times": Case("program", "in_overlay", True),
    "program that is copied up, equal times": Case("program", "copied_up", True),
    "program that is copied up, equal times, no build id": Case("program", "copied_up", True, (NO_ID,)),
    "program through a bind mount": Case("program", "bound", False),
    "program in memory, equal times": Case("program", "in_memory", True),
    "library opened again": Case("reopened", "on_disk", False),
    "library opened again, equal times, no build id": Case("reopened", "on_disk", True, (NO_ID,)),
    "library in overlayfs opened again, equal times": Case("reopened", "in_overlay", True),
    "library that is mapped": Case("held", "on_disk", False),
    "library that is mapped, equal times, no build id": Case("held", "on_disk", True, (NO_ID,)),
    "library in tmpfs that is mapped, equal times": Case("held", "in_tmpfs", True),
    "replaced, deleted, linked, chmod": Case("seeming", "on_disk", False),
    "replaced, deleted, linked, chmod, no build id": Case("seeming", "on_disk", False, (NO_ID,)),
}
DRIVERS = {"program": drive_program, "reopened": drive_library, "held": drive_library, "seeming": drive_seeming}


class Verdict:
    def __init__(self):
        self.samples = self.named = self.cut = self.lost = 0
        self.wrong = collections.Counter()

    def add(self, sample, log, offset_ns, frames):
        user = [f for f in sample.frames if f.kind != "kernel"]
        words = set(WORD.findall(" ".join(f.name for f in user)))
        cut = bool(user) and user[-1].name.startswith("[truncated")
        own = [f for f in user if re.fullmatch(r"file(\.new|\.\d+)?|memfd:file.*|\d+", os.path.basename(f.module).removesuffix(" (deleted)"))]
        for t in sample.times:
            true = log.at(sample.tid, t - offset_ns)
            if not true:
                continue
            self.samples += 1
            self.cut += cut
            self.named += words == {true}
            if words - {true}:
                self.wrong[f"{true} is called {words} in " + ";".join(f.name for f in reversed(user))] += 1
            elif not cut and own and len(own) != frames:
                self.wrong[f"{true}: {len(own)} frames in " + ";".join(f.name for f in reversed(user))] += 1


def record(s, name, case, args, verdict):
    base, log = s.path("recording"), s.path("rewritten.log")
    open(log, "w", encoding="utf-8").close()
    offset_ns = time.time_ns() - time.monotonic_ns()
    done = s.run([PROFLET, "record", "-f", "-F", str(FREQUENCY), "-d", "600s", "--format", "otlp", "-o", base, "--attributes.sample",
                  "process.pid,process.executable.name,thread.name,thread.id", "--", sys.executable, __file__, "--drive", name,
                  "--folder", s.tmp, "--rewrites", str(args.rewrites), "--log", log, "--contents", *args.contents], seconds=900, check=False)
    if done.returncode:
        raise RuntimeError(f"proflet record: exit {done.returncode}: {(done.stdout + done.stderr)[-1200:]}")
    if EVENTS_LOST.search(done.stderr):
        verdict.lost += 1
        return
    with open(base + ".otlp", "rb") as f:
        profile = recording.Profile(f.read())
    truth = Log(log)
    for sample in profile.samples:
        verdict.add(sample, truth, offset_ns, FRAMES.get(case.kind, LIBRARY_FRAMES))


def run_case(s, name, case, args):
    args.contents = (programs if case.kind in ("program", "seeming") else libraries)(s, *case.flags)
    verdict, begin = Verdict(), time.monotonic()
    for _ in range(20):
        record(s, name, case, args, verdict)
        if verdict.samples >= args.samples:
            break
    v = verdict
    s.check(f"{name}: no wrong name or stack", v.samples >= args.samples and not v.wrong,
            f"{v.samples} samples, wrong {sum(v.wrong.values())}, named {v.named}, cut {v.cut}; {v.lost} recordings lost events; "
            f"{time.monotonic() - begin:.0f} s")
    for text, n in v.wrong.most_common(5):
        s.note(f"{n:>6} × {text[:300]}")
    if case.kind == "seeming":
        s.check(f"{name}: names are kept", v.named >= KEPT_AT_LEAST * v.samples, f"{v.named} of {v.samples}")


class Driven:
    """What the recorded command has of a scenario: its folder, and what ends with it."""

    def __init__(self, folder):
        self.tmp, self.ends = folder, []

    path, folder = Scenario.path, Scenario.folder

    def run(self, argv, check=True):
        return subprocess.run(argv, check=check, capture_output=True, text=True)

    def defer(self, end):
        self.ends.append(end)


def drive(args):
    case, s = CASES[args.drive], Driven(args.folder)
    args.kind, args.forced, args.place, args.holder = case.kind, case.forced, case.place, s.path("holder")
    try:
        place = globals()[case.place](s, args.contents[0])
        DRIVERS[case.kind](s, args, place, args.log)
    finally:
        while s.ends:
            s.ends.pop()()


def body(s, args):
    s.need_root()
    s.need("gcc")
    s.need_proflet()
    gcc(s, "holder", "holder.c", "-ldl")
    for name, case in CASES.items():
        if not args.cases or args.cases in name:
            try:
                run_case(s, name, case, args)
            except Skip as e:
                s.skip(name, e)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rewrites", type=int, default=6, help="of each case, in a recording (6)")
    p.add_argument("--samples", type=int, default=60, help="of each case (60)")
    p.add_argument("--cases", default="", metavar="TEXT", help="only those with the text in their name")
    for name in ("--drive", "--folder", "--log"):
        p.add_argument(name, help=argparse.SUPPRESS)
    p.add_argument("--contents", nargs=2, help=argparse.SUPPRESS)
    return p.parse_args()


if __name__ == "__main__":
    arguments = parse()
    if arguments.drive:
        drive(arguments)
    else:
        Scenario("rewritten").execute(lambda s: body(s, arguments))
