# SPDX-License-Identifier: Apache-2.0
"""Perl builds to test with: Debian's of several suites (../debian.py), and this machine's, in place."""
import fnmatch
import os
import subprocess

import debian
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "perls")
SUITES = {"bullseye": "5.32", "bookworm": "5.36", "trixie": "5.40", "sid": "5.42"}


class Build(debian.Build):
    cache = CACHE
    program = "perl/chains.pl"


def of_suite(suite):
    root = debian.fetch(suite, ["perl"], CACHE)
    return Build(f"{suite}-{SUITES[suite]}", SUITES[suite], root, ["/usr/bin/perl"])


def in_place():
    try:
        version = subprocess.run(["/usr/bin/perl", "-e", 'printf "5.%d", $] * 1000 % 1000'], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    yield Build(f"here-{version}", version, None, ["/usr/bin/perl"])


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (5.36) or patterns of names (sid-*); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    builds, missing = list(in_place()), []
    for suite, version in SUITES.items():
        if not chosen(f"{suite}-{version}", version):
            continue
        try:
            builds.append(of_suite(suite))
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
