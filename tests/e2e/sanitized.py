#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The debug build (ASan, UBSan, leak check) as a whole agent on the running kernel: one recording and one run while short
processes come and go. No sanitizer may speak, and the account of samples must close."""
import os
import re
import subprocess
import time

from lib.scenario import ROOT, Scenario

DEBUG = os.path.join(ROOT, "build", "debug", "proflet")
SPEAKS = re.compile(r"Sanitizer|runtime error:")
ACCOUNT = re.compile(r"taken=(\d+) exported=(\d+) dropped=(\d+) in_flight=(\d+)")
SECONDS = 4


def churn(seconds):
    """Short processes, one after the other."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        subprocess.run(["ls", "-R", "/usr/share/doc"], stdout=subprocess.DEVNULL, check=True)


def check(s, what, output):
    s.check(f"{what}: no sanitizer report", not SPEAKS.search(output), "".join(output.splitlines(True)[-5:]) if SPEAKS.search(output) else "")
    found = ACCOUNT.findall(output)
    s.check(f"{what}: an account", bool(found))
    taken, exported, dropped, flying = map(int, found[-1]) if found else (0, 0, 0, 1)
    s.check(f"{what}: taken = exported + dropped, none in flight", taken > 0 and taken == exported + dropped and flying == 0,
            f"taken={taken} exported={exported} dropped={dropped} in_flight={flying}")


def finish(process):
    out, _ = process.communicate(timeout=60)
    return out, process.returncode


def body(s):
    s.need_root()
    if not os.path.exists(DEBUG):
        s.skip("the debug build as a whole agent", "build/debug/proflet is not there: tests/run build")
        return
    start = lambda *a: subprocess.Popen([DEBUG, *a], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    recording = start("record", "-d", f"{SECONDS}s", "-F", "199", "-o", s.path("recording"))
    churn(SECONDS)
    output, code = finish(recording)
    s.equal("record: exit code", code, 0)
    check(s, "record", output)
    agent = start("run", "--endpoint", "http://127.0.0.1:1", "--window", "1s", "--sampling.frequency", "199")
    churn(SECONDS)
    agent.terminate()
    output, code = finish(agent)
    s.equal("run: exit code", code, 0)
    check(s, "run", output)


if __name__ == "__main__":
    Scenario("sanitized").execute(body)
