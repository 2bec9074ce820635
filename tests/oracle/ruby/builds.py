# SPDX-License-Identifier: Apache-2.0
"""Ruby builds to test with: Debian's of several suites (../debian.py), and this machine's, in place."""
import fnmatch
import glob
import os
import re

import debian
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "rubies")
SUITES = {"bullseye": "2.7", "bookworm": "3.1", "trixie": "3.3", "sid": "3.3", "experimental+sid": "3.4"}


class Build(debian.Build):
    cache = CACHE
    program = "ruby/chains.rb"


WITH_YJIT = ("3.1",)  # Debian builds later ones without it


def of_program(place, version, root, path):
    yield Build(f"{place}-{version}", version, root, [path, "--disable-gems"])
    if version in WITH_YJIT:
        yield Build(f"{place}-{version}-yjit", version, root, [path, "--disable-gems", "--yjit"])


def of_suite(suite, version):
    root = debian.fetch(suite, [f"ruby{version}"], CACHE)
    yield from of_program(suite.partition("+")[0], version, root, f"/usr/bin/ruby{version}")


def in_place():
    for path in sorted(glob.glob("/usr/bin/ruby[0-9]*")):
        version = re.search(r"ruby(\d\.\d)$", path)
        if version:
            yield from of_program("here", version[1], None, os.path.realpath(path))


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (3.1) or patterns of names (sid-*); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    builds, missing = list(in_place()), []
    for suite, version in SUITES.items():
        name = f"{suite.partition('+')[0]}-{version}"
        if not chosen(name, version) and not chosen(f"{name}-yjit", version):
            continue
        try:
            builds += of_suite(suite, version)
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
