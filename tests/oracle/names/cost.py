# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of naming the addresses of a file, with tests/bench/names.c."""
import os
import subprocess

from . import reference

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def run(files, program):
    if not os.access(program, os.X_OK):
        subprocess.run(["ninja", "-C", os.path.dirname(program), "bench_names"], check=True, capture_output=True)
    print(f"{'file':<34}{'MB':>6}{'symbols':>9}{'addresses':>11}{'named':>7}{'ranges':>8}{'bytes':>9}{'B/range':>9}{'beside names':>14}{'ms CPU':>8}{'peak KiB':>10}")
    for path in files:
        file = reference.File(path)
        symbols = len({s for s, _, _ in file.symbols.all}) or file.go_functions()
        for count in ("1", "1000", "4000"):
            done = subprocess.run([program, path, count], capture_output=True, text=True, check=True)
            addresses, named, ranges, total, ns, peak = map(int, done.stdout.split())
            print(f"{os.path.basename(path)[:33]:<34}{os.path.getsize(path) / 1e6:>6.0f}{symbols:>9}{addresses:>11}{named:>7}{ranges:>8}{total:>9}"
                  f"{total / ranges:>9.1f}{RANGE:>14}{ns / 1e6:>8.1f}{peak:>10}")
    return 0


RANGE = 48 + 16  # struct symbol_range, and what the allocation of its names costs; the lines of Go functions have one more
