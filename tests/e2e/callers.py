#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each caller in stacks of real programs is proven by the code around its return address: tests/oracle/run_callers, a few of its
loads; and it finds out falsified recordings.
"""
import os
import sys

from lib.scenario import PROFLET, ROOT, Scenario

TOOL = os.path.join(ROOT, "tests", "oracle", "run_callers")


def last(text, lines=30):
    return text.strip().splitlines()[-lines:]


def run(s, what, *arguments):
    done = s.run([sys.executable, TOOL, *arguments, "--no-install", "--proflet", PROFLET], seconds=180, check=False)
    lines = done.stdout.strip().splitlines()
    figures = [line for line in lines if " samples of " in line or "callers unexplained" in line or line.startswith("falsified:")]
    if not s.check(what, done.returncode == 0, "; ".join(figures)):
        for line in last(done.stdout) + last(done.stderr, 5):
            s.note(line)


def body(s):
    s.need_root()
    s.need("gcc")
    s.need_proflet()
    if not os.path.exists("/usr/include/Zydis/Zydis.h"):
        s.skip("callers", "libzydis-dev is not installed")
        return
    run(s, "falsified recordings", "--self-test")
    run(s, "callers", "--quick", "--keep", s.folder("callers"))


if __name__ == "__main__":
    Scenario("callers").execute(body)
