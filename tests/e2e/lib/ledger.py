# SPDX-License-Identifier: Apache-2.0
"""What a server of ours received, sample by sample, and what it said to each request: the other half of the loss identity.

A sample is known by its time, its stack and its attributes. Each request that came is an `Attempt` with a fate:

  stored   taken, and the sender was told so
  refused  the sender was told that it never will be
  later    not taken; the sender was told, or could see, that it was not
  unknown  taken whole, but the sender was not told: it may send it again, and that is the only way to a duplicate
"""
import gzip
import os
import struct
import sys
import threading
import time

from .machine import unhurried
from .scenario import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import otlp_conformance as otlp  # noqa: E402  a decoder that shares nothing with the encoder

SPOOL_HEADER = struct.Struct("<8sQQQQQIIII")  # otlp/spool_file.h
CODINGS = (lambda data: data, gzip.decompress)


def identities(message):
    """One hashable value for each event of an ExportProfilesServiceRequest, and the number of its profiles."""
    problems = []
    request = otlp.Decoder(lambda *what: problems.append(what)).message("Request", message, "request")
    if problems:
        raise ValueError(f"the request does not decode: {problems[0]}")
    d = request["dictionary"]
    strings = d["string_table"] if d else [""]

    def attributes(indices):
        pairs = [d["attribute_table"][i] for i in indices]
        return tuple(sorted((strings[a["key_strindex"]], str(otlp.Checker.plain(a["value"]))) for a in pairs))

    def frame(i):
        at = d["location_table"][i]
        names = tuple(strings[d["function_table"][line["function_index"]]["name_strindex"]] for line in at["lines"])
        return at["address"], strings[d["mapping_table"][at["mapping_index"]]["filename_strindex"]], names

    stacks, result, n_profiles = {}, [], 0

    def stack(i):
        if i not in stacks:
            stacks[i] = hash(tuple(map(frame, d["stack_table"][i]["location_indices"])))
        return stacks[i]

    for rp in request["resource_profiles"]:
        resource = tuple(sorted((a["key"], str(otlp.Checker.plain(a["value"])))
                                for a in (rp["resource"]["attributes"] if rp["resource"] else ())))
        for sp in rp["scope_profiles"]:
            for profile in sp["profiles"]:
                n_profiles += 1
                for x in profile["samples"]:
                    rest = hash((resource, attributes(x["attribute_indices"]), stack(x["stack_index"])))
                    result += [(t, rest) for t in x["timestamps_unix_nano"]]
    return result, n_profiles


def spooled(folder):
    """The events of the requests that wait in an agent's spool."""
    result = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".otlp"):
            with open(entry.path, "rb") as f:
                fields = SPOOL_HEADER.unpack(f.read(SPOOL_HEADER.size))
                result += identities(CODINGS[fields[7]](f.read()))[0]
    return result


class Attempt:
    def __init__(self, action):
        self.action = action
        self.begin, self.begin_unhurried = time.monotonic(), unhurried()
        self.answered = None  # not later than this the sender was told
        self.end = None
        self.fate = None
        self.message = None  # the request's bytes, uncompressed, once it was read whole
        self._decoded = None
        self.partial = 0  # of a stored one: samples that the answer excludes
        self.gone_after = None  # s, as a quiet machine counts them, until the sender gave up, where we waited for that

    def take(self, message):
        self.message = message
        self.fate = "unknown"

    def answers(self):
        self.answered = self.answered or time.monotonic()

    def gone(self):
        self.gone_after = unhurried() - self.begin_unhurried

    def decoded(self):
        """When somebody asks: an answer must not wait for it."""
        if self._decoded is None:
            self._decoded = identities(self.message) if self.message else ([], 0)
        return self._decoded

    @property
    def samples(self):
        return self.decoded()[0]

    @property
    def profiles(self):
        return self.decoded()[1]


class Ledger:
    def __init__(self):
        self.attempts = []
        self.connections = 0
        self.errors = []  # of the server itself
        self.lock = threading.Lock()

    def open(self, action):
        with self.lock:
            self.attempts.append(Attempt(action))
            return self.attempts[-1]

    def events(self, *fates):
        return [x for a in self.attempts if a.fate in fates for x in a.samples]

    def partial(self):
        return sum(a.partial for a in self.attempts if a.fate == "stored")

    def next_begin(self, attempt):
        """When the next one came, or None."""
        later = [a.begin for a in self.attempts if a.begin > attempt.begin]
        return min(later) if later else None
