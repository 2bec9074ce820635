# SPDX-License-Identifier: Apache-2.0
"""Compiles table_equality, for those that run it."""
import glob
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DEFAULT = os.path.join(ROOT, "build", "oracle", "table_equality")


def sources():
    """→ (the tool's own files, those of the agent)"""
    names = sorted(glob.glob(os.path.join(HERE, "*.[ch]")))
    return names, [os.path.join(ROOT, "agent", "base", n + ".c") for n in ("clock", "map", "parse")]


def compile_tool(path=DEFAULT):
    """Makes it when it is not there, or older than its sources."""
    own, base = sources()
    wanted = [n for n in own if n.endswith(".c")] + base
    newest = max(os.path.getmtime(n) for n in own + base)
    if os.path.exists(path) and os.path.getmtime(path) > newest:
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", "-I" + ROOT, *wanted, "-o", path,
                    "-lelf", "-lm"], check=True)
    return path
