#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks that are known by construction, from the kernel to the OTLP file: some cases of tests/oracle/live_truth. Every
sample right; what a case counts and does not judge is in its line.
"""
import os
import re
import sys

from lib.scenario import PROFLET, ROOT, Scenario

# One of each kind: compilers' frames, large frames, exceptions, signals, threads, children, libraries that come and go, other
# languages, places.
CASES = ("walk aligned", "walk huge frames", "exception in destructor walk", "signal anywhere", "threads walk", "vfork spin",
         "dlopen dlclose", "dlopen dlclose fast", "go walk", "rust walk", "layout replaced")
LINE = re.compile(r"^(PASS|FAIL|SKIP) ([^:]*): (.*)$")


def body(s):
    s.need_root()
    s.need("gcc", "g++", "nm", "objdump", "readelf")
    s.need_proflet()
    tool = os.path.join(ROOT, "tests", "oracle", "live_truth")
    done = s.run([sys.executable, tool, "--cases", ",".join(CASES), "--seconds", "2", "--proflet", PROFLET, "--keep",
                  s.folder("cases")], seconds=380, check=False)
    cases = 0
    for line in done.stdout.splitlines():
        m = LINE.match(line)
        if not m:
            s.note(line.strip())
        elif m.group(1) == "SKIP":
            s.skip(m.group(2), m.group(3))
        else:
            cases += 1
            s.check(m.group(2), m.group(1) == "PASS", m.group(3))
    s.check("cases ran", cases > 0 and done.returncode in (0, 1), f"{cases}, exit {done.returncode}: {done.stderr.strip()[-300:]}")


if __name__ == "__main__":
    Scenario("live_truth").execute(body)
