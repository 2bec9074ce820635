# SPDX-License-Identifier: Apache-2.0
"""Records a program of known call chains (python/chains.py, php/chains.php) under one build of its language, and judges the samples."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from lib import language_chains, profiles
from live import recording

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLED = 2  # s of the agent's life that are not judged: it reads the binaries


class Profile(recording.Profile):
    """Frames with what the function table has of them."""

    def _frame(self, location):
        line = location["lines"][-1] if location["lines"] else {"function_index": 0, "line": 0}
        function = self.d["function_table"][line["function_index"]]
        mapping = self.d["mapping_table"][location["mapping_index"]]
        kind = self._attributes(location["attribute_indices"]).get("profile.frame.type", "")
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
        shutil.copy(os.path.join(HERE, build.program), self.folder)
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


def record(args, build):
    """→ the judge of what proflet says of the build"""
    with Program(build) as program:
        truth = program.truth()
        base = os.path.join(args.folder, build.name)
        done = subprocess.run([args.proflet, "record", "-f", "-F", str(args.frequency), "-d", f"{args.seconds + SETTLED}s", "-p", str(truth.pid),
                               "--format", "otlp", "--stack.depth", "1024", "-o", base], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"proflet record: exit {done.returncode}: {done.stderr[-400:]}")
        with open(base + ".otlp", "rb") as f:
            profile = Profile(f.read())
        judge = language_chains.Judge(truth)
        for sample in language_chains.settled(profile.as_received(), truth.pids(), SETTLED):
            judge.add(sample)
    return judge, list(judge.faults(args.samples, language_chains.EXACT))
