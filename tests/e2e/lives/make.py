# SPDX-License-Identifier: Apache-2.0
"""A build of a real C project, git's own sources from Debian: how much of the CPU time of make and all it starts arrives.

The sources come once, by apt-get source with lists of its own, and stay in the cache folder.
"""
import collections
import glob
import os
import signal
import tarfile
import time

from lib import assertions
from lib.profiles import ending, names, total
from lib.scenario import Skip

from . import work

PACKAGE = "git"
LEAST_FILES = 200
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
WITHOUT = [f"NO_{x}=1" for x in "OPENSSL CURL EXPAT GETTEXT TCLTK PERL PYTHON ICONV".split()]


def cache():
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proflet", "sources")
    os.makedirs(folder, exist_ok=True)
    return folder


def archive(s):
    found = glob.glob(os.path.join(cache(), f"{PACKAGE}_*.orig.tar.*"))
    return found[0] if found else download(s)


def download(s):
    """By apt, with sources and lists of our own: the machine's may know binary packages only."""
    lists = s.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Identifier: Packages"]).stdout.splitlines()
    if not lists:
        raise Skip("apt knows no repository")
    folder = s.folder("apt")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(os.path.join(folder, "sources.list"), "w", encoding="utf-8") as f:
        for line in sorted(set(lists)):
            f.write(f"deb-src {f'[signed-by={KEYS}]' if os.path.exists(KEYS) else ''} {line} main\n")
    options = ["-q", "-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={folder}/lists",
               "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User=root"]
    for command in (["update"], ["source", "--download-only", PACKAGE]):
        done = s.run(["apt-get", *options, *command], seconds=300, check=False, cwd=cache())
        if done.returncode:
            raise Skip(f"apt-get {command[0]}: {(done.stdout + done.stderr)[-300:]}")
    return glob.glob(os.path.join(cache(), f"{PACKAGE}_*.orig.tar.*"))[0]


def one(s, tree, argv, frequency, whole, sampled_least):
    """`make` in a process that waits for us: the agent samples it and all that it forks. The last two are shares; 0: not asked."""
    s.run(["make", "-s", "clean"], cwd=tree, seconds=120)
    child = os.fork()
    if child == 0:
        os.chdir(tree)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        signal.sigwait({signal.SIGUSR1})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        os.dup2(os.open(s.path("make.log"), os.O_WRONLY | os.O_CREAT), 1)
        os.execvp(argv[0], argv)
    watched = work.Watched(s, frequency, "--select.include", f"pid={child}")
    time.sleep(2)
    idle, begin, cpu = watched.idle_rate(3), time.monotonic(), watched.cpu()
    os.kill(child, signal.SIGUSR1)
    _, status, use = os.wait4(child, 0)
    wall = time.monotonic() - begin
    cost = watched.cpu() - cpu
    time.sleep(1)
    samples = watched.stop()
    used = use.ru_utime + use.ru_stime
    sampled = total(samples) / frequency
    good, reasons, programs = 0, collections.Counter(), collections.Counter()
    for x in samples:
        programs[x.attributes.get("process.executable.name")] += x.count
        if ending(x) == "complete":
            good += x.count
        else:
            reasons[f"{x.attributes.get('process.executable.name')}, {ending(x)}: {names(x)[-2] if len(x.frames) > 1 else ''}"] += x.count
    stopped = watched.stopped()
    s.equal("make's exit status", status, 0)
    s.note(f"make -j2 in {os.path.basename(tree)} at {frequency} Hz: {used:.1f} s of CPU in {wall:.1f} s, {stopped.get('execs')} starts, {sampled:.1f} s sampled; agent CPU "
           f"{cost:.2f} s ({100 * cost / used:.2f} % of the build's, {100 * cost / wall:.2f} % of a core; idle {100 * idle:.2f} %)")
    s.note("programs: " + ", ".join(f"{k} {n}" for k, n in programs.most_common(8)))
    what = ", ".join(f"{n} × {k}" for k, n in reasons.most_common(5)) or "none is not"
    s.check(f"{frequency} Hz: stacks are whole", samples and good >= whole * total(samples), f"{work.percent(good, total(samples))} of {total(samples)}: {what}")
    if sampled_least:
        s.check("sampled share of the build's CPU time", sampled >= sampled_least * used, work.percent(sampled, used))
    assertions.loss_identity(s, watched.agent, total(samples))


FUNCTION = """
struct s@ { int a[@ + 1]; double b; };
double f@(struct s@ *p, int n) { double x = p->b; for (int i = 0; i < n; i++) { p->a[i % (@ + 1)] += i; x += p->a[(i * 7) % (@ + 1)] / (x + @); } return x; }
"""


def quick(s):
    """Forty files of our own."""
    s.need("make", "gcc")
    tree = s.folder("small")
    for i in range(40):
        with open(os.path.join(tree, f"file{i}.c"), "w", encoding="ascii") as f:
            f.write("".join(FUNCTION.replace("@", str(k)) for k in range(12)))
    with open(os.path.join(tree, "Makefile"), "w", encoding="ascii") as f:
        f.write("all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\nclean:\n\trm -f *.o\n")
    one(s, tree, ["make", "-s", "-j2"], 997, 0.9, 0)


def full(s):
    s.need("make", "gcc", "apt-get")
    with tarfile.open(archive(s)) as tar:
        tar.extractall(s.folder("sources"))
    tree = glob.glob(os.path.join(s.path("sources"), "*"))[0]
    n = len(glob.glob(os.path.join(tree, "**", "*.c"), recursive=True))
    if not s.check("files of the project", n >= LEAST_FILES, f"{n} C files"):
        return
    argv = ["make", "-s", "-j2", "all", *WITHOUT]
    one(s, tree, argv, 997, 0.99, 0.97)
    one(s, tree, argv, 97, 0.99, 0)
