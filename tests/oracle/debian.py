# SPDX-License-Identifier: Apache-2.0
"""Interpreters of Debian's suites to test with, unpacked into the cache and run in a chroot.

A suite is fetched by an apt with a state of its own: apt resolves the dependencies, checks the signature of the index and the sum
of each package. The machine's own packages are not touched.
"""
import glob
import os
import shutil
import subprocess
import time

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proflet")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """The build cannot be had here; the text says why."""


class Build:
    """One interpreter. `root`: the folder that it sees as /, None: in place; `argv`: how it starts there; `env`: what it needs more."""

    cache = os.path.join(CACHE, "builds")
    program = None  # that known_chains.py runs, below this folder
    beside = ()  # files that it needs in its folder
    settled = 2  # s of the agent's life that are not judged: it reads the binaries

    def __init__(self, name, version, root, argv, env=None):
        self.name, self.version, self.root, self.argv, self.env = name, version, root, argv, env or {}

    def folder(self):
        """A folder for its files, as seen from outside."""
        path = os.path.join(self.root, "oracle") if self.root else os.path.join(self.cache, "in-place", self.name)
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
    """An apt for one suite, or several (sid+experimental), that has installed nothing."""

    def __init__(self, suite, cache):
        self.suite, self.folder = suite, os.path.join(cache, "apt", suite)
        for part in ("none", "lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, part), exist_ok=True)
        open(os.path.join(self.folder, "status"), "w").close()
        if not os.path.exists(KEYRING):
            raise Unavailable(f"no {KEYRING}: install debian-archive-keyring")
        with open(os.path.join(self.folder, "sources.list"), "w", encoding="utf-8") as f:
            for part in suite.split("+"):
                for kind in ("deb [arch=amd64 target=Packages pdiffs=no", "deb-src [pdiffs=no"):
                    f.write(f"{kind} signed-by={KEYRING}] {os.environ.get('MIRROR') or mirror()} {part} main\n")

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
        """Downloads the sources of packages into a folder: the newest that the mirror has, which may be an older one than it lists."""
        self.run("apt-get", "update")
        for package in packages:
            listed = [line.split("|")[1].strip() for line in self.run("apt-cache", "madison", package).splitlines() if line.endswith("Sources")]
            for version in [None, *reversed(listed)]:
                try:
                    self.run("apt-get", "--download-only", "source", package + (f"={version}" if version else ""), folder=folder)
                    break
                except Unavailable as e:
                    why = e
            else:
                raise why


def fetch(suite, wanted, cache):
    """→ the root file system, in the folder `cache`, with those of the packages that the suite has"""
    root = os.path.join(cache, suite)
    if os.path.exists(os.path.join(root, "complete")):
        return root
    begin = time.monotonic()
    say(f"{suite}: the list of packages")
    apt = Apt(suite, cache)
    apt.run("apt-get", "update")
    packages = [p for p in wanted if apt.has(p)]
    if not packages:
        raise Unavailable(f"{suite} has none of {', '.join(wanted)}")
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


def unpack_source(folder, name, into=None):
    """The upstream's part of a source that was downloaded into a folder, in a folder of that: Debian's changes are for Debian."""
    archive = next(f for f in sorted(os.listdir(folder)) if f.startswith(name + "_") and ".orig.tar." in f and not f.endswith(".asc"))
    target = os.path.join(folder, into or name)
    os.makedirs(target, exist_ok=True)
    subprocess.run(["tar", "-xf", os.path.join(folder, archive), "-C", target, "--strip-components=1"], check=True)


def unpack(file, root):
    """As dpkg -x, but links of the root's own (usrmerge) stay."""
    tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE)
    done = subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root, "--exclude=./usr/share/doc", "--exclude=./usr/share/man"],
                          stdin=tar.stdout, capture_output=True, text=True)
    tar.stdout.close()
    if tar.wait() or done.returncode:
        raise Unavailable(f"{os.path.basename(file)}: {done.stderr.strip()[-200:] or 'not a package'}")
