# SPDX-License-Identifier: Apache-2.0
"""What every scenario shares: result lines, a temporary folder, and processes that end with the scenario.

A result line is `PASS|FAIL|SKIP e2e/SCENARIO: what (detail)`; tests/run counts them. Started processes are stopped by
process id in reverse order, also when the scenario fails or is interrupted.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

from .machine import communicate, unhurried, wait_exit, wait_for  # noqa: F401  scenarios take wait_for from here

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PROFLET = os.environ.get("PROFLET", os.path.join(ROOT, "build", "release", "proflet"))
LIFE = "3600"  # s, longer than any scenario: the last argument of programs that compute until it ends
BUSY_NICE = 10  # such programs give way to the agent, servers and judges; among attackers all are equal


os.environ.setdefault("LSAN_OPTIONS", "print_suppressions=0:suppressions=" + os.path.join(ROOT, "tests", "support", "lsan.supp"))


class Skip(Exception):
    """The rest of the scenario cannot run here; the text says why."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def tail(path, lines=20):
    try:
        with open(path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])
    except OSError as e:
        return f"({e})\n"


class Scenario:
    def __init__(self, name, suite="e2e"):
        self.name, self.suite = name, suite
        self.passed = self.failed = 0
        self.tmp = None
        self.busy_nice = BUSY_NICE if suite == "e2e" else 0
        self._ends, self._at_end = [], []
        self._logs = []

    # --- results
    def _say(self, word, what, detail):
        print(f"{word} {self.suite}/{self.name}: {what}" + (f" ({detail})" if detail else ""), flush=True)

    def check(self, what, ok, detail=""):
        self._say("PASS" if ok else "FAIL", what, detail)
        self.passed += 1 if ok else 0
        self.failed += 0 if ok else 1
        return bool(ok)

    def equal(self, what, found, wanted):
        return self.check(what, found == wanted, f"{found}" if found == wanted else f"found {found}, wanted {wanted}")

    def skip(self, what, why):
        self._say("SKIP", what, why)

    def note(self, text):
        print("     " + text, flush=True)

    # --- processes and folders
    def path(self, *parts):
        return os.path.join(self.tmp, *parts)

    def folder(self, *parts):
        os.makedirs(self.path(*parts), exist_ok=True)
        return self.path(*parts)

    def at_end(self, look):
        """Calls `look` behind the body, which may check more; not after a failure or Skip."""
        self._at_end.append(look)

    def defer(self, end):
        """Calls `end` when the scenario is over, last one first."""
        self._ends.append(end)

    def start(self, argv, name, env=None, cwd=None, stdout=None, session=False, end=None):
        """Starts a program with its output in NAME.log, on request in a session of its own; it is stopped with the scenario, by `end`."""
        log = self.path(name + ".log")
        if log not in self._logs:
            self._logs.append(log)
        gives_way = (lambda: os.nice(self.busy_nice)) if argv[-1] == LIFE and self.busy_nice else None
        with open(log, "ab") as out:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stdout or out, stderr=out, cwd=cwd, preexec_fn=gives_way,
                                       env=dict(os.environ, **(env or {})), start_new_session=session)
        process.log = log
        self.defer(lambda: (end or stop)(process))
        return process

    def run(self, argv, seconds=60, env=None, check=True, cwd=None):
        """Runs a program to its end, which `seconds` of a quiet machine are enough for; with `check`, a failure raises
        RuntimeError with what it printed."""
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", cwd=cwd, env=dict(os.environ, **(env or {})))
        out, errors = communicate(process, seconds, argv[0])
        done = subprocess.CompletedProcess(argv, process.returncode, out, errors)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return done

    def need_root(self):
        if os.geteuid() != 0:
            raise Skip("needs root")

    def need(self, *programs):
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        missing = [p for p in programs if not shutil.which(p, path=path)]
        if missing:
            raise Skip("not installed: " + ", ".join(missing))

    def need_proflet(self):
        if not os.access(PROFLET, os.X_OK):
            raise RuntimeError(f"{PROFLET} is not built (cmake --preset release && cmake --build --preset release)")

    def execute(self, body):
        """Runs body(self) and ends the program with 0 or 1."""
        unhurried()  # the clock knows the whole of the scenario
        for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signo, lambda *_: sys.exit(1))
        os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        self.tmp = tempfile.mkdtemp(prefix=f"proflet-{self.name}-")
        try:
            body(self)
            for look in self._at_end:
                look()
        except Skip as e:
            self.skip("rest of the scenario", e)
        except Exception as e:  # whatever broke the scenario is a failure of the scenario
            traceback.print_exc()
            self.check("ran to its end", False, f"{type(e).__name__}: {e}")
        finally:
            self._finish()
        sys.exit(1 if self.failed else 0)

    def _finish(self):
        if self.failed:
            for log in self._logs:
                print(f"--- {os.path.basename(log)}\n{tail(log, 60 if 'proflet' in os.path.basename(log) else 8)}", end="", file=sys.stderr)
        while self._ends:
            try:
                self._ends.pop()()
            except Exception:
                traceback.print_exc()
        if os.environ.get("KEEP"):
            print(f"     kept {self.tmp}", flush=True)
        else:
            shutil.rmtree(self.tmp, ignore_errors=True)


def stop(process, seconds=20):
    """SIGTERM, and SIGKILL to what does not end in time; returns the exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            wait_exit(process, seconds)
        except TimeoutError:
            print(f"     {process.args}: did not end in time, and is killed", flush=True)
            process.kill()
    return process.wait()


def kill(process):
    """For what does not heed SIGTERM, as unshare --fork."""
    process.kill()
    process.wait()
