#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The debug build (ASan, UBSan, leak check) as a whole agent on the running kernel: one recording and one run while short
processes come and go. No sanitizer may speak, and the account of samples must close."""
import os
import re
import subprocess
import time

from lib.scenario import ROOT, Scenario, stop, wait_for

DEBUG = os.path.join(ROOT, "build", "debug", "proflet")
SPEAKS = re.compile(r"Sanitizer|runtime error:")
ACCOUNT = re.compile(r"taken=(\d+) exported=(\d+) dropped=(\d+) in_flight=(\d+)")
SECONDS = 4


def churn(over, seconds, what):
    """Short processes, one after the other, until it is over."""
    def another():
        subprocess.run(["ls", "-R", "/usr/share/doc"], stdout=subprocess.DEVNULL, check=True)
        return over()

    wait_for(another, seconds, what)


def read(process):
    with open(process.log, errors="replace") as f:
        return f.read()


def check(s, what, output):
    s.check(f"{what}: no sanitizer report", not SPEAKS.search(output), "".join(output.splitlines(True)[-5:]) if SPEAKS.search(output) else "")
    found = ACCOUNT.findall(output)
    s.check(f"{what}: an account", bool(found))
    taken, exported, dropped, flying = map(int, found[-1]) if found else (0, 0, 0, 1)
    s.check(f"{what}: taken = exported + dropped, none in flight", taken > 0 and taken == exported + dropped and flying == 0,
            f"taken={taken} exported={exported} dropped={dropped} in_flight={flying}")


def body(s):
    s.need_root()
    if not os.path.exists(DEBUG):
        s.skip("the debug build as a whole agent", "build/debug/proflet is not there: tests/run build")
        return
    recording = s.start([DEBUG, "record", "-d", f"{SECONDS}s", "-F", "199", "-o", s.path("recording")], "recording")
    churn(lambda: recording.poll() is not None, 60, "the recording's end")
    s.equal("record: exit code", recording.returncode, 0)
    check(s, "record", read(recording))
    agent = s.start([DEBUG, "run", "--endpoint", "http://127.0.0.1:1", "--window", "1s", "--sampling.frequency", "199"], "run")
    churn(lambda: 'msg="sampling"' in read(agent) or agent.poll() is not None, 60, "sampling")
    end = time.monotonic() + SECONDS
    churn(lambda: time.monotonic() > end, 2 * SECONDS, "the time of the run")
    s.equal("run: exit code", stop(agent, 60), 0)
    check(s, "run", read(agent))


if __name__ == "__main__":
    Scenario("sanitized").execute(body)
