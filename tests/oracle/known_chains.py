# SPDX-License-Identifier: Apache-2.0
"""Records a program of known call chains (python/chains.py, php/chains.php) under builds of its language, and judges the samples."""
import argparse
import collections
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

from lib import language_chains, profiles
from live import recording

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))


class Profile(recording.Profile):
    """Frames with what the function table has of them."""

    def _frame(self, location):
        line = location["lines"][-1] if location["lines"] else {"function_index": 0, "line": 0}
        function = self.d["function_table"][line["function_index"]]
        mapping = self.d["mapping_table"][location["mapping_index"]]
        kind = self._attributes(location["attribute_indices"]).get("profile.frame.type", "")
        if kind == "native" and not location["mapping_index"] and not location["address"] and self.strings[function["filename_strindex"]]:
            kind = "lua"  # which is no frame type
        return profiles.Frame(self.strings[function["name_strindex"]], location["address"], self.strings[mapping["filename_strindex"]], kind,
                              self.strings[function["filename_strindex"]], function["start_line"], line["line"])

    def as_received(self):
        """The samples as a server's are."""
        for s in self.samples:
            yield profiles.Sample(s.resource, {"process.pid": s.pid, "thread.id": s.tid}, s.frames, s.count, "", s.times)


def wait_until(condition, process, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"{what}: the program ended with {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


class Program:
    """The program (build.program, a file below this folder) under a build, until it is left."""

    def __init__(self, build, *options):
        self.folder = tempfile.mkdtemp(prefix="chains-", dir=build.folder())
        name = os.path.basename(build.program)
        for file in (build.program, *build.beside):
            shutil.copy(os.path.join(HERE, file), self.folder)
        self.truth_path, self.log = os.path.join(self.folder, "truth"), os.path.join(self.folder, "log")
        inside = build.inside(self.folder)
        argv = build.command(f"{inside}/{name}", f"{inside}/truth", *(o.replace("FOLDER", inside) for o in options))
        with open(self.log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                            env=dict(os.environ, TMPDIR=inside, **build.env))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def truth(self):
        try:
            wait_until(lambda: os.path.exists(self.truth_path), self.process, 120, "the chains")
        except RuntimeError as e:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                raise RuntimeError(f"{e}: {f.read()[-500:]}")
        return language_chains.Truth(self.truth_path)

    def threads(self):
        """→ {thread: its truth}, of threads that have truths of their own (php/embed.c)"""
        return {t.content["tid"]: t for t in map(language_chains.Truth, glob.glob(self.truth_path + ".[0-9]"))}


class Judges:
    """One for each thread that has a truth of its own, and one for all others; together they are as one."""

    def __init__(self, truth, threads):
        self.main, self.of = language_chains.Judge(truth), {tid: language_chains.Judge(t) for tid, t in threads.items()}
        self.all = [self.main, *self.of.values()]

    def add(self, sample):
        self.of.get(sample.attributes.get("thread.id"), self.main).add(sample)

    def total(self):
        return sum(j.total() for j in self.all)

    def exact_share(self):
        return min(j.exact_share() for j in self.all)

    def summary(self):
        return "; ".join(j.summary() for j in self.all)

    def faults(self, least, exact):
        for j in self.all:
            yield from j.faults(least // len(self.all), exact)

    def lines(self):
        for j in self.all:
            yield from j.lines()


def record(args, build):
    """→ the judge of what proflet says of the build"""
    with Program(build) as program:
        truth = program.truth()
        threads = program.threads()
        base = os.path.join(args.folder, build.name)
        more = ["--attributes.sample", "process.pid,thread.id"] if threads else []
        done = subprocess.run([args.proflet, "record", "-f", "-F", str(args.frequency), "-d", f"{args.seconds + build.settled}s", "-p", str(truth.pid),
                               "--format", "otlp", "--stack.depth", "1024", "-o", base, *more], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"proflet record: exit {done.returncode}: {done.stderr[-400:]}")
        with open(base + ".otlp", "rb") as f:
            profile = Profile(f.read())
        judge = Judges(truth, threads) if threads else language_chains.Judge(truth)
        for sample in language_chains.settled(profile.as_received(), truth.pids(), build.settled):
            judge.add(sample)
    return judge, list(judge.faults(args.samples, language_chains.EXACT))


def run(args, build):
    """→ whether it passed"""
    try:
        judge, faults = record(args, build)
    except (RuntimeError, OSError, ValueError) as e:
        print(f"FAIL {build.name}: {e}", flush=True)
        return False
    print(f"{'FAIL' if faults else 'PASS'} {build.name}: {100 * judge.exact_share():.3f} % exact of {judge.total()}: {judge.summary()}"
          + "".join(f"; {f}" for f in faults), flush=True)
    if faults or args.table:
        print("".join(f"     {line[:400]}\n" for line in judge.lines()), end="", flush=True)
    return not faults


def parse(document, versions):
    p = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--version", metavar="WHICH,…", help=f"versions ({versions}) or names of builds (sid-*)")
    p.add_argument("--list", action="store_true", help="print the builds' names")
    p.add_argument("--seconds", type=int, default=20, help="that are judged of each (20)")
    p.add_argument("-F", "--frequency", type=int, default=997, help="samples per second and CPU (997)")
    p.add_argument("--samples", type=int, help="that each must have at least (half of what seconds and frequency make)")
    p.add_argument("--table", action="store_true", help="print the samples of each situation")
    p.add_argument("--keep", metavar="DIR", help="leave the recordings there")
    p.add_argument("--proflet", default=os.environ.get("PROFLET", os.path.join(ROOT, "build", "release", "proflet")))
    args = p.parse_args()
    if not args.list and not os.access(args.proflet, os.X_OK):
        p.error(f"{args.proflet} is not a program; build it or give --proflet")
    args.proflet = os.path.abspath(args.proflet)
    args.samples = args.seconds * args.frequency // 2 if args.samples is None else args.samples
    return args


def main(document, builds, versions):
    """The program of an oracle that does nothing else. `builds`: its module; `versions`: an example for the help → exit code"""
    args = parse(document, versions)
    if os.geteuid() != 0:
        print("SKIP all: needs root")
        return 0
    found, missing = builds.find(args.version.split(",") if args.version else [])
    for why in missing:
        print(f"SKIP {why}", flush=True)
    if args.list:
        print("\n".join(f"{b.name:<16} {' '.join(b.command())}" for b in found))
        return 0
    args.folder = args.keep or tempfile.mkdtemp(prefix="proflet-chains-")
    os.makedirs(args.folder, exist_ok=True)
    try:
        counts = collections.Counter(run(args, b) for b in found)
    finally:
        if not args.keep:
            shutil.rmtree(args.folder, ignore_errors=True)
    print(f"{counts[True]} passed, {counts[False]} failed, {len(missing)} skipped")
    return 0 if counts[True] and not counts[False] else 1
