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
        """The program is not named: it has the place of the package's own. Without a KIND (Churn.cs) it gets its LINES."""
        return [*self.argv, *arguments[1:], *([lines_beside(self.argv[0])] if len(arguments) == 2 else [])]


def lines_beside(command):
    return os.path.join(os.path.dirname(command), "lines")


def packages():
    """→ the folder of the npm packages"""
    done = subprocess.run([os.path.join(SUPPORT, "build-npm"), "dotnet"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"9.0.1: build-npm: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def runtime():
    """→ the folder of the package with the runtime as files"""
    return os.path.join(packages(), "@azure", "mcp-linux-x64")


def run(*argv, env=None):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ, **(env or {})))
    if done.returncode:
        raise Unavailable(f"all: {os.path.basename(argv[0])}: {(done.stderr + done.stdout).strip()[-300:]}")


def lines_of(program):
    return os.path.splitext(program)[0] + ".pdb"


def compile_sources(target, sources):
    """Writes the program and, beside it, the file with its lines, by Roslyn, which runs on the runtime. Its driver is compiled by mcs,
    which makes no such file. Two at once write the same."""
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compiler-", dir=CACHE) as folder:
        driver = os.path.join(folder, "csc.exe")
        run("mcs", "-sdk:4.5", f"-out:{driver}", "-r:System.Core", os.path.join(SUPPORT, "dotnet", "csc.cs"))
        compiler = put_in(os.path.join(folder, "runtime"), driver)
        new = os.path.join(folder, os.path.basename(target))
        run(compiler, os.path.join(packages(), "@wasmsharp", "core"), new, "portable", *sources, env=ENVIRONMENT)
        for file in (new, lines_of(new)):
            os.replace(file, os.path.join(os.path.dirname(target), os.path.basename(file)))


def compile_program():
    compile_sources(Build.program, [os.path.join(HERE, x) for x in ("Chains.cs", "Churn.cs")])


def put_in(folder, program):
    """A copy of the runtime in `folder` that runs the program. → its command"""
    shutil.copytree(runtime(), folder, dirs_exist_ok=True, copy_function=os.link)
    for name, source in ((PROGRAM + ".dll", program), (PROGRAM, os.path.join(folder, PROGRAM))):
        copy = os.path.join(folder, name + ".new")
        shutil.copy(source, copy)
        os.chmod(copy, 0o755)
        os.replace(copy, os.path.join(folder, name))
    return os.path.join(folder, PROGRAM)


def place(folder):
    """A copy of the runtime in `folder` that runs the program of known chains, with the file of its lines. → its command"""
    compile_program()
    command = put_in(folder, Build.program)
    shutil.copy(lines_of(Build.program), folder)
    run(command, os.path.join(folder, "no-truth"), lines_beside(command), env=ENVIRONMENT | TIERS["minimal"])
    return [command]


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
