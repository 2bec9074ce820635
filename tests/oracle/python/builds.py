# SPDX-License-Identifier: Apache-2.0
"""CPython builds to test with: Debian's of several suites (../debian.py), uv's (portable.py), some made from sources (sources.py), and those of pyenv, in place."""
import fnmatch
import glob
import os
import re
import subprocess

import debian
import portable
import sources
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "pythons")
# suite → packages; those that a suite does not have (any longer) are left out
SUITES = {
    "bullseye": ["python3.9"],
    "bookworm": ["python3.11"],
    "trixie": ["python3.13", "python3.13-nogil", "libpython3.13"],
    "sid": ["python3.13", "python3.14", "python3.15", "python3.14-nogil", "python3.15-nogil", "libpython3.14"],
}
JIT = ("3.14", "3.15")  # Debian builds them with it, switched off
# Runs what is in libpython3.X.so: its first argument is the library's name.
EMBEDDER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : NULL;
	if (!run) {
		fprintf(stderr, "%s\\n", dlerror());
		return 127;
	}
	argv[1] = argv[0];
	return run(argc - 1, argv + 1);
}
"""


class Build(debian.Build):
    cache = CACHE
    program = "python/chains.py"


def of_suite(suite):
    root = debian.fetch(suite, SUITES[suite], CACHE)
    for path in sorted(glob.glob(f"{root}/usr/bin/python3.*[0-9t]")):
        version = os.path.basename(path)[len("python"):]
        yield Build(f"{suite}-{version}", version, root, ["/usr/bin/python" + version])
        if version in JIT:
            yield Build(f"{suite}-{version}-jit", version, root, ["/usr/bin/python" + version], {"PYTHON_JIT": "1"})
    for path in sorted(glob.glob(f"{root}/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0")):
        version = re.search(r"libpython(3\.\d+t?)", path)[1]
        embedder(root, "usr/bin")
        yield Build(f"{suite}-{version}-shared", version, root, ["/usr/bin/embedder", os.path.basename(path)])


def embedder(root, folder):
    """→ the program in the folder of `root`. Built here, so for a suite whose C library is not older than that of this machine."""
    program = os.path.join(root, folder, "embedder")
    if not os.path.exists(program):
        done = subprocess.run(["gcc", "-O2", "-x", "c", "-o", program, "-", "-ldl"], input=EMBEDDER, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"the embedder does not build: {done.stderr[-200:]}")
    return program


def of_sources(name):
    def of_suite(suite, packages, folder):
        debian.Apt(suite, CACHE).sources(packages, folder)

    try:
        root, python = sources.build(name, of_suite, os.path.join(CACHE, name), debian.say)
    except RuntimeError as e:
        raise Unavailable(str(e))
    yield Build(name, sources.version(name), root, [python])


def of_uv(version):
    try:
        folder = portable.build(version, os.path.join(CACHE, "portable", version), debian.say)
    except RuntimeError as e:
        raise Unavailable(str(e))
    build = Build(f"portable-{version}", version, None, [f"{folder}/bin/python{version}"])
    build.settled = 8  # the table of 30 MB that BOLT has rearranged takes half a second of CPU time
    yield build
    if os.path.getsize(f"{folder}/bin/python{version}") > 1 << 20:  # the runtime is in it, and not in the library
        library = f"{folder}/lib/libpython{version}.so.1.0"
        yield Build(f"portable-{version}-shared", version, None, [embedder(folder, "bin"), library], {"PYTHONHOME": folder})


def in_place():
    """Debian's own of this machine, and pyenv's."""
    paths = [p for p in glob.glob("/usr/bin/python3.*") if re.search(r"python3\.\d+t?$", p)]
    paths += glob.glob(os.path.join(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions/*/bin/python3.*"))
    for path in sorted(paths):
        version = re.search(r"python(3\.(\d+)t?)$", path)
        if version and int(version[2]) >= 8:
            yield Build(f"{'pyenv' if 'versions' in path else 'here'}-{version[1]}", version[1], None, [os.path.realpath(path)])


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (3.13, 3.13t) or patterns of names (sid-*); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    builds, missing = list(in_place()), []
    for suite, packages in SUITES.items():
        names = [re.sub(r"-nogil$", "t", re.sub("^(lib)?python", "", p)) for p in packages]
        if not any(chosen(f"{suite}-{n}{kind}", n) for n in names for kind in ("", "-shared", "-jit")):
            continue
        try:
            builds += of_suite(suite)
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    others = [([name], sources.version(name), lambda name=name: of_sources(name)) for name in sources.VARIANTS]
    others += [([f"portable-{v}", f"portable-{v}-shared"], v, lambda v=v: of_uv(v)) for v in portable.VERSIONS]
    for names, version, make in others:
        if any(chosen(n, version) for n in names):
            try:
                builds += make()
            except (Unavailable, OSError) as e:
                missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
