# SPDX-License-Identifier: Apache-2.0
"""CPython builds to test with: Debian's of several suites, unpacked into the cache and run in a chroot, and those of pyenv, in place.

A suite is fetched by an apt with a state of its own: apt resolves the dependencies, checks the signature of the index and the sum
of each package. The machine's own packages are not touched.
"""
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import time

import musl

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proflet", "pythons")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# suite → packages; those that a suite does not have (any longer) are left out
SUITES = {
    "bullseye": ["python3.9"],
    "bookworm": ["python3.11"],
    "trixie": ["python3.13", "python3.13-nogil", "libpython3.13"],
    "sid": ["python3.13", "python3.14", "python3.15", "python3.14-nogil", "python3.15-nogil", "libpython3.14"],
}
MUSL_SUITE, MUSL_VERSION = "bookworm", musl.SOURCES[-1][len("python"):]
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


class Unavailable(Exception):
    """The build cannot be had here; the text says why."""


class Build:
    """One interpreter. `root`: the folder that it sees as /, None: in place; `argv`: how it starts there; `env`: what it needs more."""

    def __init__(self, name, version, root, argv, env=None):
        self.name, self.version, self.root, self.argv, self.env = name, version, root, argv, env or {}

    def folder(self):
        """A folder for its files, as seen from outside."""
        path = os.path.join(self.root, "oracle") if self.root else os.path.join(CACHE, "in-place", self.name)
        os.makedirs(path, exist_ok=True)
        return path

    def inside(self, path):
        return os.path.join("/", os.path.relpath(path, self.root)) if self.root else path

    def command(self, *arguments):
        return [*(["chroot", self.root] if self.root else []), *self.argv, *arguments]


def say(text):
    print("     " + text, flush=True)


def mirror():
    """Where the machine's own apt gets Debian from."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Identifier: Packages"],
                          capture_output=True, text=True)
    found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Debian ")]
    if not found:
        raise Unavailable("no Debian mirror in apt's sources: run apt-get update once, or set MIRROR")
    return found[0]


class Apt:
    """An apt for one suite that has installed nothing."""

    def __init__(self, suite):
        self.suite, self.folder = suite, os.path.join(CACHE, "apt", suite)
        for part in ("none", "lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, part), exist_ok=True)
        open(os.path.join(self.folder, "status"), "w").close()
        if not os.path.exists(KEYRING):
            raise Unavailable(f"no {KEYRING}: install debian-archive-keyring")
        with open(os.path.join(self.folder, "sources.list"), "w", encoding="utf-8") as f:
            for kind in ("deb [arch=amd64 target=Packages pdiffs=no", "deb-src [pdiffs=no"):
                f.write(f"{kind} signed-by={KEYRING}] {os.environ.get('MIRROR') or mirror()} {suite} main\n")

    def run(self, tool, *arguments, folder=None):
        options = {"Dir::Etc::sourcelist": f"{self.folder}/sources.list", "Dir::Etc::sourceparts": "-",
                   "Dir::Etc::preferencesparts": f"{self.folder}/none", "Dir::State": self.folder, "Dir::State::status": f"{self.folder}/status",
                   "Dir::Cache": f"{self.folder}/cache", "APT::Architecture": "amd64", "APT::Architectures": "amd64", "APT::Sandbox::User": "root",
                   "Acquire::Languages": "none", "Acquire::Retries": "3", "APT::Update::Error-Mode": "any",
                   "Acquire::Check-Valid-Until": "false", "Debug::NoLocking": "1", "APT::Install-Recommends": "false"}
        flags = [x for k, v in options.items() for x in ("-o", f"{k}={v}")]
        done = subprocess.run([tool, "-q", *flags, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            why = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith(("E:", "Err"))]
            raise Unavailable(f"{self.suite}: {tool} {arguments[-1]}: {'; '.join(why[:2]) or done.stderr.strip()[-200:] or 'failed'}")
        return done.stdout

    def has(self, package):
        return bool(self.run("apt-cache", "madison", package).strip())

    def download(self, packages):
        """→ the files of the packages and of all that they depend on"""
        self.run("apt-get", "-y", "--download-only", "install", *packages)
        return sorted(glob.glob(os.path.join(self.folder, "cache/archives/*.deb")))

    def sources(self, packages, folder):
        """Downloads the sources of packages into a folder."""
        self.run("apt-get", "update")
        self.run("apt-get", "--download-only", "source", *packages, folder=folder)


def fetch(suite):
    """→ the root file system with the pythons of the suite"""
    root = os.path.join(CACHE, suite)
    if os.path.exists(os.path.join(root, "complete")):
        return root
    begin = time.monotonic()
    say(f"{suite}: the list of packages")
    apt = Apt(suite)
    apt.run("apt-get", "update")
    packages = [p for p in SUITES[suite] if apt.has(p)]
    if not packages:
        raise Unavailable(f"{suite} has none of {', '.join(SUITES[suite])}")
    say(f"{suite}: downloading {', '.join(packages)} and what they need")
    part = root + ".part"
    shutil.rmtree(part, ignore_errors=True)
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "tmp", "dev"):
        os.makedirs(os.path.join(part, folder))
    for name in ("bin", "lib", "lib64"):  # as usrmerge has it: packages of all suites fit
        os.symlink("usr/" + name, os.path.join(part, name))
    files = apt.download(packages + ["libc6"])
    for file in files:
        unpack(file, part)
    open(os.path.join(part, "complete"), "w").close()
    shutil.rmtree(root, ignore_errors=True)
    os.rename(part, root)
    shutil.rmtree(apt.folder, ignore_errors=True)
    say(f"{suite}: {len(files)} packages unpacked, {time.monotonic() - begin:.0f} s")
    return root


def unpack(file, root):
    """As dpkg -x, but links of the root's own (usrmerge) stay."""
    tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE)
    done = subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root, "--exclude=./usr/share/doc", "--exclude=./usr/share/man"],
                          stdin=tar.stdout, capture_output=True, text=True)
    tar.stdout.close()
    if tar.wait() or done.returncode:
        raise Unavailable(f"{os.path.basename(file)}: {done.stderr.strip()[-200:] or 'not a package'}")


def of_suite(suite):
    root = fetch(suite)
    for path in sorted(glob.glob(f"{root}/usr/bin/python3.*[0-9t]")):
        version = os.path.basename(path)[len("python"):]
        yield Build(f"{suite}-{version}", version, root, ["/usr/bin/python" + version])
        if version in JIT:
            yield Build(f"{suite}-{version}-jit", version, root, ["/usr/bin/python" + version], {"PYTHON_JIT": "1"})
    for path in sorted(glob.glob(f"{root}/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0")):
        version = re.search(r"libpython(3\.\d+t?)", path)[1]
        yield Build(f"{suite}-{version}-shared", version, root, [embedder(root), os.path.basename(path)])


def embedder(root):
    """Built here, so for a suite whose C library is not older than that of this machine."""
    program = os.path.join(root, "usr/bin/embedder")
    if not os.path.exists(program):
        done = subprocess.run(["gcc", "-O2", "-x", "c", "-o", program, "-", "-ldl"], input=EMBEDDER, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"the embedder does not build: {done.stderr[-200:]}")
    return "/usr/bin/embedder"


def of_musl():
    folder = os.path.join(CACHE, "musl")
    try:
        python = musl.build(lambda *what: Apt(MUSL_SUITE).sources(*what), folder, say)
    except RuntimeError as e:
        raise Unavailable(str(e))
    yield Build("musl-" + MUSL_VERSION, MUSL_VERSION, None, [python])


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
    if chosen("musl-" + MUSL_VERSION, MUSL_VERSION):
        try:
            builds += of_musl()
        except (Unavailable, OSError) as e:
            missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
