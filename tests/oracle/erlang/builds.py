# SPDX-License-Identifier: Apache-2.0
"""Erlang virtual machines to test with: Debian's of several suites (../debian.py), each with and without frame pointers."""
import glob
import os
import subprocess

import debian
from debian import Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(debian.CACHE, "erlangs")
SUITES = {"25": "bookworm", "27": "trixie", "29": "sid"}
MOUNTS = 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec "$@"'  # it starts a child with /dev/null
COMPILE = """case compile:file("/oracle/chains.erl", [{outdir, "/oracle"}]) of
    {ok, _} -> halt(0);
    X -> io:format("~p", [X]), halt(1)
end."""
TIERS = {"default": [], "perf": ["+JPperf", "true"]}


class Build(debian.Build):
    cache = CACHE

    def command(self, *arguments):
        command = super().command(*arguments)
        return ["unshare", "--mount", "sh", "-c", MOUNTS, self.root, *command]


def fetch(version):
    """→ the root file system, with the programs compiled in /oracle"""
    root = debian.fetch(SUITES[version], ["erlang-base"], CACHE)
    for folder in ("proc", "oracle", "dev", "tmp"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    with open(os.path.join(HERE, "chains.erl"), encoding="utf-8") as f, open(os.path.join(root, "oracle", "chains.erl"), "w", encoding="utf-8") as to:
        to.write(f.read())
    erlang = glob.glob(os.path.join(root, "usr/lib/erlang/erts-*/bin"))
    if not erlang:
        raise Unavailable(f"{version}: no erts in it")
    inside = "/" + os.path.relpath(erlang[0], root)
    build = Build(f"otp-{version}", version, root, [f"{inside}/erlexec"])
    compile_it(build, inside)
    return build, inside


def compile_it(build, inside):
    command = build.command("-noinput", "-boot", "start_clean", "-eval", COMPILE)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment(inside), timeout=60)
    except subprocess.TimeoutExpired as e:
        raise Unavailable(f"{build.version}: its compiler does not end") from e
    if done.returncode:
        raise Unavailable(f"{build.version}: {(done.stderr + done.stdout).strip()[-300:]}")


def environment(inside):
    return {"ROOTDIR": "/usr/lib/erlang", "BINDIR": inside, "EMU": "beam", "PROGNAME": "erl", "HOME": "/tmp", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
