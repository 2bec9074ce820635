# SPDX-License-Identifier: Apache-2.0
"""Java virtual machines to test with: those of this machine, in place, and Debian's of several suites (../debian.py); each in all its tiers."""
import fnmatch
import glob
import os
import subprocess

import debian
from debian import Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(debian.CACHE, "javas")
SUITES = {"11": "bullseye", "17": "bookworm", "21": "trixie", "25": "trixie", "8": "sid", "26": "sid"}
# -Xcomp compiles all that runs, which takes minutes where there are few processors
TIERS = {"mixed": [], "int": ["-Xint"], "c1": ["-XX:TieredStopAtLevel=1"], "c2": ["-XX:-TieredCompilation"]}
FLAGS = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+ShowHiddenFrames", "-Xshare:auto"]


class Build(debian.Build):
    cache = CACHE
    program = os.path.join(CACHE, "chains.jar")
    beside = [os.path.join(CACHE, "libchains.so")]

    def command(self, *arguments, without=None):
        """With a /proc, by which java finds its libraries, for as long as it runs. `without`: an argument that is left out."""
        command = [x for x in super().command(*arguments) if x != without]
        return ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec "$@"', self.root, *command] if self.root else command


def compile_program():
    classes = os.path.join(CACHE, "classes")
    os.makedirs(classes, exist_ok=True)
    headers = next(iter(glob.glob("/usr/lib/jvm/*/include/jni.h")), None)
    if not headers:
        raise Unavailable("all: no jni.h")
    include = os.path.dirname(headers)
    for command in (["gcc", "-O2", "-shared", "-fPIC", "-nostdlib", f"-I{include}", f"-I{include}/linux", "-o", Build.beside[0],
                     os.path.join(HERE, "chains.c")],
                    ["javac", "--release", "8", "-Xlint:-options", "-g", "-d", classes, *(os.path.join(HERE, f) for f in ("Chains.java", "Churn.java"))],
                    ["jar", "-c", "-f", Build.program, "-e", "Chains", "-C", classes, "."]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"all: {command[0]}: {done.stderr.strip()[-300:]}")


def of_tiers(name, version, root, java):
    for tier, flags in TIERS.items():
        yield Build(f"{name}-{tier}", version, root, [java, *FLAGS, *flags, "-jar"])


def in_place():
    """One of each version. """
    seen = set()
    for java in sorted(glob.glob("/usr/lib/jvm/*/bin/java")):
        done = subprocess.run([java, "-XshowSettings:properties", "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        version = next((line.split("=")[1].strip() for line in done.stderr.splitlines() if "java.specification.version =" in line), "")
        version = version.removeprefix("1.")
        if version and version not in seen:
            seen.add(version)
            yield from of_tiers(f"here-{version}", version, None, java)


def of_suite(version, suite):
    root = debian.fetch(suite, [f"openjdk-{version}-jre-headless"], os.path.join(CACHE, version))
    os.makedirs(os.path.join(root, "proc"), exist_ok=True)
    java = glob.glob(os.path.join(root, f"usr/lib/jvm/java-{version}-openjdk-*/**/bin/java"), recursive=True)
    if not java:
        raise Unavailable(f"{suite}-{version}: no java in the package")
    return of_tiers(f"{suite}-{version}", version, root, "/" + os.path.relpath(java[0], root))


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (17) or patterns of names (here-*-int); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    missing = []
    try:
        compile_program()
    except (Unavailable, OSError) as e:
        return [], [str(e)]
    builds = list(in_place())
    for version, suite in SUITES.items():
        if not any(chosen(f"{suite}-{version}-{tier}", version) for tier in TIERS):
            continue
        try:
            builds.extend(of_suite(version, suite))
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
