#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes the golden request of tests/fixtures/otlp with protoc, by otlp/proto and without any schema, compares both with
the texts that are checked in, and holds it against the rules of OTLP.

usage: otlp_golden.py [--update]
"""
import os
import subprocess
import sys

from otlp_conformance import Checker

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDER = os.path.join(ROOT, "tests", "fixtures", "otlp")
REQUEST = "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest"


def protoc(data, *options):
    proto = os.path.join(ROOT, "otlp", "proto")
    done = subprocess.run(["protoc", "--proto_path=" + proto, *options], input=data, capture_output=True, check=True)
    return done.stdout.decode()


def difference(name, found, update):
    """What is wrong with a text, as a list."""
    path = os.path.join(FOLDER, name)
    if update:
        with open(path, "w", encoding="utf-8") as f:
            f.write(found)
    with open(path, encoding="utf-8") as f:
        wanted = f.read()
    if found == wanted:
        return []
    pairs = enumerate(zip(found.splitlines() + [""], wanted.splitlines() + [""]), 1)
    number, (a, b) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    return [f"{name}:{number}: protoc says {a.strip()!r}, wanted {b.strip()!r}"]


def main():
    update = sys.argv[1:] == ["--update"]
    if sys.argv[1:] and not update:
        sys.exit(__doc__)
    with open(os.path.join(FOLDER, "request.hex"), encoding="ascii") as f:
        data = bytes.fromhex(f.read())
    wrong = difference("request.txt", protoc(data, "--decode=" + REQUEST, "profiles_service.proto"), update)
    wrong += difference("request.raw.txt", protoc(data, "--decode_raw"), update)
    checker = Checker([])
    checker.check(data)
    wrong += checker.violations
    print("\n".join(wrong) or f"{len(data)} bytes, {checker.counts['events']} events: as they were")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
