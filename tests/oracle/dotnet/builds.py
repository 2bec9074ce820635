# SPDX-License-Identifier: Apache-2.0
"""Runtimes of .NET to test with: packages of the npm registry with a program and the runtime that it needs, as files beside it (9.0.1), whose
program is replaced, or in one file; and ways in which the runtime compiles."""
import atexit
import fnmatch
import os
import shutil
import subprocess
import tempfile

import debian
from debian import Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.normpath(os.path.join(HERE, "..", "..", "support"))
CACHE = os.path.join(debian.CACHE, "dotnets")
PROGRAM = "azmcp"  # of the package: a program with the runtime's files beside it starts the assembly of its own name
ENVIRONMENT = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
TIERS = {"tiered": {}, "static": {"DOTNET_TieredPGO": "0"}, "optimized": {"DOTNET_TieredCompilation": "0"},
         "compiled": {"DOTNET_ReadyToRun": "0"}, "minimal": {"DOTNET_JITMinOpts": "1"}}


class Build(debian.Build):
    cache = CACHE
    program = os.path.join(CACHE, "chains.exe")

    def command(self, *arguments):
        """The program is not named: it has the place of the package's own."""
        return [*self.argv, *arguments[1:]]


def compile_program():
    os.makedirs(CACHE, exist_ok=True)
    done = subprocess.run(["mcs", "-sdk:4.5", "-unsafe", f"-out:{Build.program}", "-r:System.Core",
                           os.path.join(HERE, "Chains.cs"), os.path.join(HERE, "Churn.cs")],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"all: mcs: {(done.stderr + done.stdout).strip()[-300:]}")


def runtime():
    """→ the folder of the package with the runtime as files"""
    done = subprocess.run([os.path.join(SUPPORT, "build-npm"), "dotnet"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"9.0.1: build-npm: {done.stderr.strip()[-300:]}")
    return os.path.join(done.stdout.strip(), "@azure", "mcp-linux-x64")


def place(folder):
    """A copy of the runtime in `folder` that runs the program of known chains. → its command"""
    compile_program()
    shutil.copytree(runtime(), folder, dirs_exist_ok=True, copy_function=os.link)
    for name, source in ((PROGRAM + ".dll", Build.program), (PROGRAM, os.path.join(folder, PROGRAM))):
        copy = os.path.join(folder, name + ".new")
        shutil.copy(source, copy)
        os.chmod(copy, 0o755)
        os.replace(copy, os.path.join(folder, name))
    return [os.path.join(folder, PROGRAM)]


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (9) or patterns of names (9-opt*); none: all."""
    try:
        os.makedirs(CACHE, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="9.0.1-", dir=CACHE)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        command = place(folder)
    except (Unavailable, OSError) as e:
        return [], [str(e)]
    builds = [Build(f"9-{tier}", "9", None, command, ENVIRONMENT | flags) for tier, flags in TIERS.items()]
    return [b for b in builds if not wanted or any(w == b.version or fnmatch.fnmatchcase(b.name, w) for w in wanted)], []
