#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant whose files look like a neighbour's, or that shows a public binary with file systems of its own around it.

A doctored copy has the build id, size and times of the neighbour's binary. A debug file with its build id is in a tmpfs that only the
tenant sees, on /usr/lib/debug. The binary itself is bind-mounted, hard-linked and below an overlay of the tenant's. The tenant is
always there first. The neighbour keeps its own functions' names and whole stacks, and the tenant's copies get theirs.
"""
import os
import re
import shutil

import attack
from attack import wait_for
from lib import machine, programs
from lib.profiles import ending, names, total
from lib.scenario import tail
from trial import Trial

TENANT = 65534
PROGRAM_CPU = 0.8 if attack.QUICK else 11  # s of each, twice for a tenant's
FALSE = "false_"
# In mount and user namespaces of its own, as the tenant; $1 is the public binary, $2 the tenant's folder, $3 the seconds.
SCENES = {
    "debug-files": 'mount -t tmpfs none /usr/lib/debug && cp -r "$2/build-id" /usr/lib/debug/.build-id && exec "$1" "$3"',
    "bind-mount": 'mount --bind "$2/copy" "$1" && exec "$1" "$3"',
    "overlay": 'mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work /mnt/all && cp --preserve=mode,timestamps "$2/copy" "/mnt/up/$(basename "$1")" && '
               'mount -t overlay -o "lowerdir=$(dirname "$1"),upperdir=/mnt/up,workdir=/mnt/work" none /mnt/all && '
               'exec "/mnt/all/$(basename "$1")" "$3"',
}


def build(s, name, build_id, *flags):
    return programs.build_c(s, "chain", f"-Wl,--build-id=0x{build_id}", *flags, program=name)


def public(path):
    """All may read and run it; nobody but root may write it."""
    os.chmod(path, 0o755)
    return path


def doctored(s, build_id, of):
    """The same program with other names for its functions, and the size and times of `of`."""
    path = build(s, "doctored", build_id, *(f"-Df{i}={FALSE}{i}" for i in range(1, 9)))
    stat = os.stat(of)
    if os.path.getsize(path) < stat.st_size:
        os.truncate(path, stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return path


def debug_files(s, folder, build_id, program):
    """A folder as .build-id of /usr/lib/debug, with the names of `program`."""
    path = os.path.join(folder, "build-id", build_id[:2], build_id[2:] + ".debug")
    os.makedirs(os.path.dirname(path))
    s.run(["objcopy", "--only-keep-debug", program, path])


def tenant(s, scene, binary, folder):
    """Starts the scene; None where the machine refuses it."""
    argv = ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", "unshare", "--user", "--map-root-user", "--mount",
            "sh", "-c", SCENES[scene], "sh", binary, folder, programs.LIFE]
    process = s.start(argv, scene)
    wait_for(lambda: process.poll() is not None or os.readlink(f"/proc/{process.pid}/exe").endswith(os.path.basename(binary)), 20, scene)
    if process.poll() is not None:
        s.skip(scene, tail(process.log).strip()[-200:])
        return None
    return process


def await_cpu(processes):
    machine.wait_for_cpu([p.pid for p in processes], PROGRAM_CPU)


def is_false(sample):
    return any(n.startswith(FALSE) for n in names(sample))


def check_neighbour(s, what, samples, named):
    n = total(samples)
    s.equal(f"{what}: the neighbour's samples with the tenant's names", total([x for x in samples if is_false(x)]), 0)
    whole = total([x for x in samples if ending(x) == "complete"])
    s.check(f"{what}: the neighbour's stacks are whole", n >= 50 and whole >= 0.99 * n, f"{whole} of {n}")
    if named:
        right = total([x for x in samples if programs.is_chain(x) or ending(x) == "complete" and "f8" not in names(x)])
        s.check(f"{what}: the neighbour's functions have their names", right >= 0.99 * n, f"{right} of {n}")


def make_scene(s, name, folder, stripped):
    """→ the public binary; what the tenant needs is in the folder."""
    build_id = os.urandom(20).hex()
    os.chmod(folder, 0o755)
    binary = public(build(s, f"public-{name}", build_id))
    fake = doctored(s, build_id, binary)
    if stripped:
        debug_files(s, folder, build_id, fake)
        s.run(["strip", binary])
    shutil.copy2(fake, os.path.join(folder, "copy"))
    os.chmod(os.path.join(folder, "copy"), 0o755)
    return binary


class Scene:
    """The tenant first, then the neighbour with the same binary."""

    def __init__(self, s, name):
        self.s, self.name, self.stripped, folder = s, name, name == "debug-files", s.folder(name)
        self.binary = make_scene(s, name, folder, self.stripped)
        self.tenants = [p for p in [tenant(s, name, self.binary, folder)] if p]

    def enter(self):
        self.neighbour = self.s.start([self.binary, programs.LIFE], f"neighbour-{self.name}")

    def judge(self, of):
        check_neighbour(self.s, self.name, of(self.neighbour), not self.stripped)
        for process in self.tenants if not self.stripped else ():
            own = of(process)
            right = total([x for x in own if ending(x) != "complete" or "f8" not in names(x)])
            self.s.equal(f"{self.name}: the tenant's copy does not have the neighbour's names", right, total(own))


class Copies(Scene):
    """A copy under another name, and a hard link to the neighbour's binary."""

    def __init__(self, s):
        self.s, self.name, build_id = s, "copy", os.urandom(20).hex()
        self.binary = public(build(s, "public-copy", build_id))
        fake = public(doctored(s, build_id, self.binary))
        os.link(self.binary, s.path("linked"))
        self.tenants = [s.start(["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", path, programs.LIFE], os.path.basename(path))
                        for path in (fake, s.path("linked"))]

    def judge(self, of):
        check_neighbour(self.s, "copy", of(self.neighbour), True)
        own = of(self.tenants[0])
        self.s.check("copy: the doctored one has names of its own", total([x for x in own if is_false(x)]) >= 0.9 * total(own), f"of {total(own)}")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("setpriv", "unshare", "objcopy", "strip")
    os.chmod(s.path(""), 0o755)
    os.makedirs("/usr/lib/debug", exist_ok=True)
    trial = Trial(s, "impostors", window="500ms")
    scenes = [Copies(s), *(Scene(s, name) for name in SCENES)]
    await_cpu([p for scene in scenes for p in scene.tenants])
    trial.victims.another()
    for scene in scenes:
        scene.enter()
    everybody = [p for scene in scenes for p in (*scene.tenants, scene.neighbour)]
    await_cpu(everybody)
    for process in everybody:
        process.kill()
    trial.endure()
    samples = trial.judge()
    by_pid = lambda process: [x for x in samples if x.attributes.get("process.pid") == process.pid]
    for scene in scenes:
        scene.judge(by_pid)
    s.equal("nothing is wrong in the log", [m for m in trial.agent.lines("level=error") if not re.search("starved", m)], [])


if __name__ == "__main__":
    attack.scenario("impostors").execute(body)
