# SPDX-License-Identifier: Apache-2.0
"""Requests as a server kept them: NNNNNN.otlp, the uncompressed message, and NNNNNN.status, the code it was answered with."""
import concurrent.futures
import functools
import glob
import os
import sys

from .scenario import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from otlp_conformance import Checker, messages_of  # noqa: E402


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.otlp")))


def accepted(folder):
    """Those that were answered OK."""
    return [f for f in files(folder) if status(f) == "OK"]


def status(path):
    try:
        with open(path[:-len(".otlp")] + ".status") as f:
            return f.read().split()[0]
    except (OSError, IndexError):
        return ""


def judge(ignore, data):
    """→ (counts, profile ids, violations) of one request"""
    checker = Checker(ignore)
    checker.check(data)
    return checker.counts, checker.profile_ids, checker.violations


class Contents:
    """What requests hold: events (samples taken), profile ids, and what breaks the rules of OTLP but for those in `ignore`."""

    def __init__(self, paths=(), ignore=()):
        self.ignore = ignore
        self.events = self.samples = 0
        self.ids, self.violations = [], []
        for path in paths:
            with open(path, "rb") as f:
                self.add(os.path.basename(path), f.read())

    def add(self, name, data):
        self.take(name, judge(self.ignore, data))

    def take(self, name, judged):
        counts, ids, violations = judged
        self.events += counts["events"]
        self.samples += counts["samples"]
        self.ids += ids
        self.violations += [f"{name}: {v}" for v in violations]

    def twice(self):
        return len(self.ids) - len(set(self.ids))


def prefixed(path, ignore):
    """The contents of a file in which each message has its length in front, judged on all CPUs."""
    contents, (names, requests) = Contents(ignore=ignore), zip(*messages_of(path, True)) if os.path.getsize(path) else ((), ())
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, judged in zip(names, pool.map(functools.partial(judge, ignore), requests, chunksize=4)):
            contents.take(os.path.basename(name), judged)
    return contents
