#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost at the start of a process, nor where there are many: short lives, starts of programs by the thousand, a host
that is busy when the agent comes.

Without options a few seconds of each part, with what must hold at any speed: whole stacks, right names, the loss identity.
--full: the sizes of the promise, with shares, times and memory judged; half an hour of a machine that does nothing else.
--only NAME,…: parts.
"""
import argparse

from lib.scenario import Scenario
from lives import make, many, maps, short, start

PARTS = {"short": short, "start": start, "many": many, "maps": maps, "make": make}


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--full", action="store_true")
    p.add_argument("--only", metavar="NAME,…", default=",".join(PARTS), help=" ".join(PARTS))
    args = p.parse_args()
    unknown = set(args.only.split(",")) - set(PARTS)
    if unknown:
        p.error(f"no part is called {', '.join(sorted(unknown))}")
    return args


def main():
    args = parse()

    def body(s):
        s.need_root()
        s.need_proflet()
        for name in args.only.split(","):
            (PARTS[name].full if args.full else PARTS[name].quick)(s)

    Scenario("churn").execute(body)


if __name__ == "__main__":
    main()
