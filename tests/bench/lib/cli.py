# SPDX-License-Identifier: Apache-2.0
"""Command line of `run` and `compare`."""
import argparse
import glob
import os
import signal
import sys
import tempfile

from . import measure, report

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(HERE))
OURS = "{program} run --endpoint http://{endpoint} --sampling.frequency {hz} --window {window}s"
FILES = ("/usr/lib/*-linux-gnu/libc.so.6", "/usr/lib/*-linux-gnu/libcrypto.so.3", "/usr/lib/*-linux-gnu/libstdc++.so.6",
         "/usr/bin/perl", "/usr/bin/git", "/usr/lib/*-linux-gnu/libLLVM*.so.*")


def arguments(doc, peer=False):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default=os.path.join(ROOT, "build/release/proflet"))
    p.add_argument("--json", metavar="FILE", help="write all figures, every run's among them")
    p.add_argument("--rounds", type=int, default=3, help="interleaved repetitions (default %(default)s)")
    p.add_argument("--seconds", type=float, default=4, help="measured in each run (default %(default)s)")
    p.add_argument("--settle", type=float, default=2, help="between attaching and measuring (default %(default)s)")
    p.add_argument("--hz", type=int, default=97, help="samples per second and CPU (default %(default)s)")
    p.add_argument("--window", type=int, default=2, help="seconds a batch (default %(default)s)")
    p.add_argument("--processes", type=int, default=50, help="short processes a run (default %(default)s)")
    p.add_argument("--burst-ms", type=int, default=30, help="CPU of each (default %(default)s)")
    p.add_argument("--python", metavar="FILE", default="/usr/bin/python3", help="of the Python loads (default %(default)s)")
    p.add_argument("--pythons", type=int, default=100, help="processes of the load of that name (default %(default)s)")
    p.add_argument("--only", action="append", metavar="NAME", help="scenarios whose name begins so; repeatable")
    p.add_argument("--file", action="append", metavar="ELF", help="files for tables; repeatable")
    if peer:
        p.add_argument("--peer", required=True, metavar="COMMAND",
                       help="with {endpoint} (HOST:PORT of the receiver), {hz} and {window} (seconds) in it")
    return p.parse_args()


def prepare(options, work):
    if os.geteuid() != 0:
        sys.exit("bench: not root")
    if not os.access(options.program, os.X_OK):
        sys.exit("bench: no %s: cmake --preset release && cmake --build --preset release" % options.program)
    options.deep = measure.build(os.path.join(ROOT, "tests/support/deep.c"), work)
    options.recurse = os.path.join(HERE, "workloads/recurse.py")
    path = os.path.realpath(options.python)
    options.python = [path, "-I", "-S"] if os.access(path, os.X_OK) else None
    options.burst = measure.build(os.path.join(HERE, "workloads/burst.c"), work)


def table_figures(options):
    if options.only and "tables" not in options.only:
        return []
    files = options.file or [f for pattern in FILES for f in sorted(glob.glob(pattern))[:1]]
    return [measure.tables(options.program, files) for _ in range(options.rounds)]


def main(doc, peer=False):
    """The program's exit code: 0 if every run gave its figures."""
    options = arguments(doc, peer)
    for signo in (signal.SIGTERM, signal.SIGHUP):  # what was started is stopped as at any other end
        signal.signal(signo, lambda *_: sys.exit(1))
    agents = {"proflet": OURS.replace("{program}", options.program)}
    if peer:
        agents["peer"] = options.peer
    with tempfile.TemporaryDirectory(prefix="proflet-bench.") as work:
        prepare(options, work)
        rounds = report.collect(agents, options, work)
        tables = table_figures(options)
    result = report.document(agents, rounds, tables, options)
    report.show(result)
    if options.json:
        report.save(result, options.json)
    complete = all(len(r.get(s, ())) == options.rounds for r in rounds.values() for s, _ in report.scenarios(options))
    return 0 if complete else 1

