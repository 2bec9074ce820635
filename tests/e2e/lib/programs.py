# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/support that scenarios profile, built into the scenario's folder, and interpreters that compute."""
import concurrent.futures
import os
import re
import shutil

from .scenario import LIFE, ROOT, Skip  # noqa: F401  scenarios take LIFE from here

SUPPORT = os.path.join(ROOT, "tests", "support")
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]
CHAIN = ["f8", "f7", "f6", "f5", "f4", "f3", "f2", "f1", "main"]  # leaf first


LARGE_PARTS = 8
LARGE_CHAIN = re.compile(r"(c\d_\d{3}_)(\d)")  # a function of large.c: 0 is the leaf, main calls 7
PYTHON = """
import hashlib, json
def fold(n):
    return sorted(json.loads(json.dumps([fold(n - 1), n, str(n)])), key=str) if n else []
while True:
    fold(40)
    hashlib.sha256(bytes(100000)).digest()
"""
PERL = "sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } while (1) { f(18); join ',', sort map { $_ * 7 % 1000 } 1 .. 2000 }"
NODE = "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); } for (;;) { f(22); JSON.parse(JSON.stringify([...Array(2000).keys()])); }"


def build_c(s, name, *flags, program=None):
    """Builds tests/support/NAME.c; returns the program's path."""
    s.need("gcc")
    path = s.path(program or name)
    s.run(["gcc", *FLAGS, *flags, "-o", path, os.path.join(SUPPORT, name + ".c")])
    return path


def modest(*argv):
    """The command, for a program that computes all the time and of which a few samples a second are enough: others go first."""
    return ["nice", "-n", "10", *argv]


def start_chain(s):
    """Starts tests/support/chain.c, modest, for the life of the scenario; returns the process."""
    return s.start(modest(build_c(s, "chain"), LIFE), "chain")


def go_cache():
    """Where Go keeps what it has compiled for tests: `go tool pprof` is built when it is first used, which takes minutes."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proflet", "go-build")


def build_large(s):
    """Builds tests/support/large.c, with a build id that no other build of it has."""
    s.need("gcc")
    source, folder, flags = os.path.join(SUPPORT, "large.c"), s.folder("large-parts"), [*FLAGS, "-O1", "-falign-functions=512"]
    parts = {os.path.join(folder, "main.o"): []} | {os.path.join(folder, f"{i}.o"): [f"-DPART={i}"] for i in range(LARGE_PARTS)}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda x: s.run(["gcc", *flags, *x[1], "-c", "-o", x[0], source], seconds=600), parts.items()):
            pass
    s.run(["gcc", f"-Wl,--build-id=0x{os.urandom(20).hex()}", "-o", s.path("large"), *parts], seconds=600)
    return s.path("large")


def build_go(s):
    go = s.run([os.path.join(SUPPORT, "install"), "--print-go"], check=False).stdout.strip()
    if not go:
        raise Skip("no Go: tests/support/install test")
    program = s.path("gospin")
    source = shutil.copy(os.path.join(SUPPORT, "gospin", "main.go"), s.folder("gospin-source"))
    s.run([go, "build", "-o", program, source], seconds=300, env={"GO111MODULE": "off", "GOFLAGS": ""})
    return program


def user_names(sample):
    """The names of the frames in user space, leaf first. An interrupt may be on top of them."""
    return [f.name for f in sample.frames if f.kind != "kernel"]


def is_chain(sample):
    """The exact chain from the program's leaf to main, with names, nothing between."""
    return user_names(sample)[:len(CHAIN)] == CHAIN


def interrupted(sample):
    """Kernel code on top of the program's own leaf."""
    return bool(sample.frames) and sample.frames[0].kind == "kernel"


def is_large_chain(sample):
    """A stack of large.c from where it is in one of its chains to main, with the right names; None where it is in no chain."""
    names = user_names(sample)
    first = LARGE_CHAIN.fullmatch(names[0]) if names else None
    if not first:
        return None
    wanted = [first[1] + str(i) for i in range(int(first[2]), 8)] + ["main"]
    return names[:len(wanted)] == wanted
