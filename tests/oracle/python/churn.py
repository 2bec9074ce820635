# SPDX-License-Identifier: Apache-2.0
"""A Python program whose functions live a tenth of a millisecond. It runs on CPython 3.8 to 3.15 and needs no package.

    python3 churn.py TRUTH [--seconds N] [--rate N] [--kind KIND]

Turn N compiles a text of its own, executes it, and frees it at once, so that the next turn's code objects and strings take the memory
of this one's. By KIND:

    function    f_N calls g_N, which computes, both in the file "<churn N>", f_N at line N%1000+1: its name says all
    lambda      the same of two lambdas: what tells them apart is the file and the line
    file        two lambdas that are always at the same lines: what tells them apart is the file alone
    replaced    one function, of which each turn makes a copy with another name, file and line (code.replace), f_N and g_N
    same        the same, but for the line, which is always the same, and names that are always of the same length

TRUTH gets a record for each turn: when its functions began and ended to run (ns since 1970), and N: three 64-bit numbers.
"""
import argparse
import os
import struct
import time

RECORD = struct.Struct("<QQQ")
LINES = 1000
now = time.time_ns
FUNCTION = "def g_{n}(end):\n    x = 0\n    while now() < end:\n        x += 1\ndef f_{n}(end):\n    return g_{n}(end)\nf = f_{n}\n"
LAMBDA = "g = lambda end, x=0: [x + 1 for _ in iter(lambda: now() < end, False)]\nf = lambda end: g(end)\n"


def g_template(end):
    x = 0
    while now() < end:
        x += 1


def f_template(end):
    return g(end)  # noqa: F821  of the copy's own globals


def compiled(text, n, lines):
    content = {"now": now}
    exec(compile("\n" * (n % lines) + text.format(n=n), f"<churn {n}>", "exec"), content)
    return content["f"]


def copied(n, lines):
    content = {"now": now}
    for function, name in ((g_template, "g"), (f_template, "f")):
        other = {"co_name": f"{name}_{n}", "co_filename": f"<churn {n}>", "co_firstlineno": n % lines + 1}
        if hasattr(function.__code__, "co_qualname"):
            other["co_qualname"] = other["co_name"]
        content[name] = type(function)(function.__code__.replace(**other), content)
    return content["f"]


KINDS = {"function": lambda n: compiled(FUNCTION, n, LINES), "lambda": lambda n: compiled(LAMBDA, n, LINES),
         "file": lambda n: compiled(LAMBDA, n, 1), "replaced": lambda n: copied(n, LINES), "same": lambda n: copied(n, 1)}


def turn(make, n, end, out):
    """Makes, runs and frees the functions of turn n."""
    function = make(n)
    begin = now()
    function(max(end, begin + 20000))
    after = now()
    del function
    out += RECORD.pack(begin, after, n)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("truth")
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--rate", type=int, default=10000)
    p.add_argument("--kind", choices=KINDS, default="function")
    args = p.parse_args()
    make, n, step = KINDS[args.kind], 100000000, 10**9 // args.rate
    with open(args.truth, "wb", buffering=0) as f:
        print(os.getpid(), flush=True)
        end = now()
        last = end + int(args.seconds * 1e9)
        while end < last:
            out = bytearray()
            for _ in range(1000):
                n, end = n + 1, max(end + step, now() - 10**9)
                turn(make, n, end, out)
            f.write(out)


if __name__ == "__main__":
    main()
