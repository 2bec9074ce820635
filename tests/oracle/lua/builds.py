# SPDX-License-Identifier: Apache-2.0
"""Lua builds to test with: Debian's of several suites (../debian.py), and this machine's, in place."""
import fnmatch
import os

import debian
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "luas")
SUITES = ("bullseye", "bookworm", "trixie", "sid")
VERSIONS = ("5.4", "5.3", "5.2", "5.1")
JIT = {"jit-interpreter": ["-joff"], "jit": []}  # LuaJIT, without and with its compiler
PACKAGES = [f"lua{v}" for v in VERSIONS] + ["luajit"]


def commands():
    """→ (version, program, its options)"""
    yield from ((v, f"/usr/bin/lua{v}", []) for v in VERSIONS)
    yield from ((v, "/usr/bin/luajit", options) for v, options in JIT.items())


class Build(debian.Build):
    cache = CACHE
    program = "lua/chains.lua"

    def command(self, *arguments):
        """Lua has no function that returns the process id."""
        return ["sh", "-c", 'exec "$@" $$', "sh", *super().command(*arguments)] if arguments else super().command()


def of_suite(suite):
    root = debian.fetch(suite, PACKAGES, CACHE)
    for v, program, options in commands():
        if suite == "bullseye" and v in JIT:
            continue  # its objects are of another model, with pointers of 32 bits: the agent says that it does not know them
        if os.path.exists(root + program):
            yield Build(f"{suite}-{v}", v, root, [program, *options])


def in_place():
    for v, program, options in commands():
        if os.path.exists(program):
            yield Build(f"here-{v}", v, None, [program, *options])


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (5.4) or patterns of names (sid-*); none: all."""
    builds, missing = list(in_place()), []
    for suite in SUITES:
        try:
            builds += of_suite(suite)
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if not wanted or any(w == b.version or fnmatch.fnmatchcase(b.name, w) for w in wanted)], missing
