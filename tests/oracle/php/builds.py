# SPDX-License-Identifier: Apache-2.0
"""PHP builds to test with: Debian's of several suites (../debian.py), and this machine's, in place."""
import fnmatch
import glob
import os
import re

import debian
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "phps")
SUITES = {"bullseye": "7.4", "bookworm": "8.2", "trixie": "8.4", "sid+experimental": "8.5"}
SETTINGS = ["-n", "-d", "memory_limit=-1", "-d", "zend.enable_gc=0"]


class Build(debian.Build):
    cache = CACHE
    program = "php/chains.php"


def packages(version):
    return [f"php{version}-cli", f"php{version}-fpm", f"php{version}-opcache"]


def of_suite(suite):
    root = debian.fetch(suite, packages(SUITES[suite]), CACHE)
    for path in sorted(glob.glob(f"{root}/usr/bin/php[0-9]*")):
        version = os.path.basename(path)[len("php"):]
        yield Build(f"{suite.partition('+')[0]}-{version}", version, root, [f"/usr/bin/php{version}", *SETTINGS])


def in_place():
    for path in sorted(glob.glob("/usr/bin/php[0-9]*")):
        version = re.search(r"php(\d\.\d)$", path)
        if version:
            yield Build(f"here-{version[1]}", version[1], None, [os.path.realpath(path), *SETTINGS])


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (8.2) or patterns of names (sid-*); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    builds, missing = list(in_place()), []
    for suite, version in SUITES.items():
        if not chosen(f"{suite.partition('+')[0]}-{version}", version):
            continue
        try:
            builds += of_suite(suite)
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
