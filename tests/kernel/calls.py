# SPDX-License-Identifier: Apache-2.0
"""A Python program that is always in the same chain of calls, for `languages`. usage: calls.py READY SECONDS

The innermost function takes all of the time, in its lines with `# burn`; C code stands between some of the others.
`judge_languages` knows the chain, and reads the lines from this text. No module is needed but built-in ones.
"""
import sys
import time


def burn():
    x = 0  # burn
    for i in range(1000000):  # burn
        x = (x * 31 + i) % 1000003  # burn
    return x  # burn


def by_key(n):
    return burn() + n


def ordered():
    sorted([1, 2], key=by_key)


class Kept:
    def __getitem__(self, n):
        ordered()
        return n

    def last(self):
        return self[1]


def produced(kept):
    while True:
        yield kept.last()


def main():
    end = time.monotonic() + float(sys.argv[2])
    with open(sys.argv[1], "w") as f:
        f.write("ready")
    for _ in produced(Kept()):
        if time.monotonic() > end:
            return


main()
