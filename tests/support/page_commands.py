# SPDX-License-Identifier: Apache-2.0
"""The commands that a page of the documentation shows: for the tests that run them, and the check that each has such a test."""
import os
import re

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FENCE = re.compile(r"^(```|~~~)")


def commands(text):
    """(line, section, command): lines with four blanks, outside of lists and fences, joined where they end in a backslash; no comments."""
    section, fence, in_list, begun = None, False, False, None
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fence = not fence
        elif line.startswith("## "):
            section = line[3:].strip()
        if line and not line.startswith(" "):
            in_list = line.startswith(("- ", "* "))
        if fence or in_list or not line.startswith("    ") or not line.strip():
            continue
        part = line.partition(" #")[0].strip()
        if begun:
            number, part = begun[0], begun[1] + " " + part
        begun = (number, part[:-1].strip()) if part.endswith("\\") else None
        if not begun:
            yield number, section, part


def commands_of(page, section=None):
    """Those of a page, or of one section of it."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        return [command for _, where, command in commands(f.read()) if section in (None, where)]
