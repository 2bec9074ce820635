# SPDX-License-Identifier: Apache-2.0
"""Requests as a server kept them: NNNNNN.otlp, the uncompressed message, and NNNNNN.status, the code it was answered with."""
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
        checker = Checker(self.ignore)
        checker.check(data)
        self.events += checker.counts["events"]
        self.samples += checker.counts["samples"]
        self.ids += checker.profile_ids
        self.violations += [f"{name}: {v}" for v in checker.violations]

    def twice(self):
        return len(self.ids) - len(set(self.ids))


def prefixed(path, ignore):
    """The contents of a file in which each message has its length in front."""
    contents = Contents(ignore=ignore)
    for name, data in messages_of(path, True):
        contents.add(os.path.basename(name), data)
    return contents
