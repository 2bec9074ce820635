# SPDX-License-Identifier: Apache-2.0
"""A Python program that is always in the same chain of calls, for `take`. usage: calls.py READY SECONDS

`judge` reads from this text where each function waits for the next one: at its line with `# call`; the last one takes all of
the time, in those with `# burn`. C code stands between some. No module is needed but built-in ones.
"""
import sys
import time


def burn():
    x = 0  # burn
    for i in range(200000):  # burn
        x = (x * 31 + i) % 1000003  # burn
    return x  # burn


def by_key(n):
    return burn() + n  # call


def ordered():
    sorted([1, 2], key=by_key)  # call


class Kept:
    def __getitem__(self, n):
        ordered()  # call
        return n

    def last(self):
        return self[1]  # call


def produced(kept):
    while True:
        yield kept.last()  # call


def main():
    end = time.monotonic() + float(sys.argv[2])
    with open(sys.argv[1], "w") as f:
        f.write("ready")
    for _ in produced(Kept()):  # call
        if time.monotonic() > end:
            return


main()  # call
