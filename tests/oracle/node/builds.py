# SPDX-License-Identifier: Apache-2.0
"""Node.js to test with: the official binaries of several versions, which npm has as packages; each in all its tiers."""
import fnmatch
import glob
import os
import subprocess

import debian
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "nodes")
VERSIONS = ("18", "20", "22", "24", "26")
# The default one puts functions into their callers, which the other ones do not.
TIERS = {
    "default": [],
    "interpreted": ["--no-sparkplug", "--no-opt"],
    "baseline": ["--always-sparkplug", "--no-opt"],
    "optimised": ["--no-turbo-inlining"],
}


def fetch(version, architecture="x64"):
    """→ the binary, from the cache or from npm's registry"""
    folder = os.path.join(CACHE, version if architecture == "x64" else f"{version}-{architecture}")
    path = os.path.join(folder, "package", "bin", "node")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        for command in (["npm", "pack", "--silent", f"node-linux-{architecture}@{version}"], ["tar", "xzf"]):
            if command[0] == "tar":
                command += glob.glob(os.path.join(folder, "*.tgz")) + ["package/bin/node"]
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"{version}: {command[0]}: {done.stderr.strip()[-300:]}")
    return path


def flags(node, tier):
    """Those of the tier that this version has: maglev is one of the compilers from 22 on."""
    known = subprocess.run([node, "--v8-options"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    if tier == "optimised" and "--maglev " in known:
        return TIERS[tier] + ["--no-maglev"]
    if tier in ("interpreted", "baseline") and "--maglev " in known:
        return TIERS[tier] + ["--no-maglev"]
    return TIERS[tier]


class Build(debian.Build):
    cache = CACHE


def find(wanted=()):
    """→ (builds, why others are missing), each with all of V8's compilers. `wanted`: versions (22) or patterns of names (node-2*); none: all."""
    builds, missing = [], []
    for version in VERSIONS:
        name = f"node-{version}"
        if wanted and not any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted):
            continue
        try:
            builds.append(Build(name, version, None, [fetch(version)]))
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return builds, missing
