#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives that end at any moment: processes killed by SIGKILL on the host, in mount namespaces whose root is unmounted under
them, and with the init of their containers. The agent goes on, and when they are over it has what it had before: descriptors,
arena, processes, memory. The next processes have whole stacks.

`--lives N` (default 400; 10000 takes a quarter of an hour), `--containers N` (default 3).
"""
import argparse
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.request

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.containers import Containerd, oci_archive, rootfs, tar_rootfs
from lib.machine import hang_limit, wait_for_cpu
from lib.profiles import share, total
from lib.scenario import Scenario, free_port, wait_for

WARM = 60  # lives before it is counted: what they need stays
AT_ONCE = 4
LONGEST = 0.08  # s, of a life
BACK_WITHIN = 150  # s; a file that nobody maps is forgotten after 60 s, at the next sweep
FDS_MORE = 8
ARENA_MORE = 256 << 10
RSS_MORE = 16 << 20
FOREIGN_ARENA, FOREIGN_RSS = 2 << 20, 8 << 20  # of each binary that others run and we do not
CPU_SECONDS = 2  # of the process that comes after them
AT_LEAST = 0.99


def without_numbers(path):
    return re.sub(r"\d+", "N", path)


class State:
    """What the agent has, by its own figures and the kernel's."""

    def __init__(self, agent, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=hang_limit(10)) as r:
            text = r.read().decode()
        self.metrics = {m[1]: float(m[2]) for m in re.finditer(r"^(proflet_\w+)(?:\{[^}]*\})? (\S+)$", text, re.M)}
        pid = agent.process.pid
        self.links = collections.Counter()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                self.links[without_numbers(os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
            except OSError:
                pass
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            self.rss = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) << 10

    def fds(self, folder):
        """Without those of binaries that others run on this machine meanwhile."""
        return sum(n for link, n in self.links.items() if not link.startswith("/") or link.startswith(without_numbers(folder)))

    @property
    def arena(self):
        return self.metrics["proflet_arena_used_bytes"]

    @property
    def binaries(self):
        return self.metrics["proflet_binaries"]

    def text(self):
        return (f"{sum(self.links.values())} descriptors, {int(self.arena) >> 10} KiB of arena, {int(self.binaries)} binaries, "
                f"{int(self.metrics['proflet_processes'])} processes, {self.rss >> 20} MiB RSS")


class Lives:
    """Starts lives, a few at once, and ends each at a moment of its own."""

    def __init__(self, s, program, root):
        self.s, self.program, self.root = s, program, root
        self.random = random.Random(7)
        self.running = []
        self.kinds = collections.Counter()

    def _host(self):
        return subprocess.Popen([self.program, "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _copied(self):
        """A file of its own, which is gone before the life is."""
        path = shutil.copy(self.program, self.s.path(f"copy{self.kinds['copied'] % 64}"))
        process = subprocess.Popen([path, "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.unlink(path)
        return process

    def _namespace(self):
        """A root of its own, on a file system that is unmounted while programs run from it."""
        script = (f"mount -t tmpfs none {self.root} && cd {self.root} && cp -a {self.root}.image/. . && mkdir -p old && pivot_root . old "
                  "&& (sleep 0.02; umount -l /old /) & exec chroot . /bin/chain 60")
        return subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True)

    def _tree(self):
        return subprocess.Popen(["sh", "-c", f"{self.program} 60 & {self.program} 60 & exec {self.program} 60"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)

    def _end(self, kind, process):
        if kind in ("tree", "namespace"):
            os.killpg(process.pid, 9)
        else:
            process.kill()
        process.wait()

    def run(self, n, agent):
        due = []
        for _ in range(n):
            if agent.process.poll() is not None:
                raise RuntimeError(f"the agent ended with {agent.process.returncode}")
            kind = self.random.choice(("host", "host", "host", "copied", "tree", "namespace"))
            process = getattr(self, "_" + kind)()
            self.kinds[kind] += 1
            due.append((time.monotonic() + self.random.random() * LONGEST, kind, process))
            while len(due) >= AT_ONCE or due and due[0][0] < time.monotonic():
                due.sort(key=lambda x: x[0])
                at, kind, process = due.pop(0)
                time.sleep(max(0, at - time.monotonic()))
                self._end(kind, process)
        for _, kind, process in due:
            self._end(kind, process)


def container_lives(s, archive, n):
    """The init of each container is killed, and what is left of it removed, while it works."""
    containerd = Containerd(s)
    for i in range(n):
        ident, _, pid = containerd.run(archive, "localhost/chain:1", "/bin/sh", "-c", "/bin/chain 60 & /bin/chain 60")
        time.sleep(random.random() * 0.2)
        os.kill(pid, 9)
        wait_for(lambda: containerd.ctr("tasks", "rm", ident, check=False).returncode == 0, 20, "the task is removed")
        containerd.ctr("containers", "rm", ident, check=False)
        if i % 10 == 9:
            s.note(f"{i + 1} containers")


def foreign_limit(now, before, folder, each):
    """Others start programs meanwhile, whose tables and names come to stay: compilers have a million rows."""
    more = now.links - before.links
    return each * sum(n for link, n in more.items() if link.startswith("/") and not link.startswith(without_numbers(folder)))


def arena_limit(s, now, before):
    return before.arena + ARENA_MORE + foreign_limit(now, before, s.tmp, FOREIGN_ARENA)


def rss_limit(s, now, before):
    return before.rss + RSS_MORE + foreign_limit(now, before, s.tmp, FOREIGN_RSS)


def came_back(s, now, before):
    """→ the state, if what others took was given back; else None"""
    back = (now.fds(s.tmp) <= before.fds(s.tmp) + FDS_MORE and now.arena <= arena_limit(s, now, before) and
            now.rss <= rss_limit(s, now, before))
    return now if back else None


def body(s, lives, containers):
    s.need_root()
    s.need("gcc", "busybox", "unshare", "pivot_root")
    s.need_proflet()
    program = programs.build_c(s, "chain")
    image = rootfs(s, [program])
    shutil.copytree(image, s.path("root.image"), symlinks=True)
    for applet in ("sleep", "umount", "chroot"):
        os.symlink("busybox", s.path("root.image", "bin", applet))
    s.folder("root")
    collector, port = Collector(s), free_port()
    agent = Agent(s, f"http://127.0.0.1:{collector.port}", "--listen", f"127.0.0.1:{port}")
    agent.wait_samples(collector)
    stand = Lives(s, program, s.path("root"))
    stand.run(WARM, agent)
    time.sleep(20)  # a sweep
    before = State(agent, port)
    s.note("before: " + before.text())
    started = time.monotonic()
    done = 0
    while done < lives:
        n = min(1000, lives - done)
        stand.run(n, agent)
        done += n
        s.note(f"{done} lives in {time.monotonic() - started:.0f} s: {State(agent, port).text()}")
    if containers and shutil.which("containerd") and shutil.which("ctr"):
        container_lives(s, oci_archive(s, tar_rootfs(s, image), "localhost/chain:1"), containers)
    elif containers:
        s.skip("containers whose init is killed", "no containerd")
    ended = time.monotonic()
    try:
        now = wait_for(lambda: came_back(s, State(agent, port), before), BACK_WITHIN, "what they took is given back")
    except TimeoutError:
        now = State(agent, port)  # the figures below say it
    s.note(f"after {time.monotonic() - ended:.0f} s: {now.text()}; " + ", ".join(f"{n} {k}" for k, n in sorted(stand.kinds.items())))
    s.check("the agent lives", agent.process.poll() is None)
    s.check("descriptors are given back", now.fds(s.tmp) <= before.fds(s.tmp) + FDS_MORE,
            f"{before.fds(s.tmp)} before, {now.fds(s.tmp)} after")
    for name, n in (now.links - before.links).most_common(5):
        s.note(f"{n} more of {name}")
    s.check("the arena is given back", now.arena <= arena_limit(s, now, before),
            f"{int(before.arena)} bytes before, {int(now.arena)} after")
    s.check("memory is given back", now.rss <= rss_limit(s, now, before), f"{before.rss >> 20} MiB before, {now.rss >> 20} MiB after")
    process = s.start([program, programs.LIFE], "next")
    wait_for_cpu([process.pid], CPU_SECONDS)
    process.kill()
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    collector.stop()
    samples = collector.samples()
    mine = [x for x in samples if x.attributes.get("process.pid") == process.pid]
    good = total([x for x in mine if programs.is_chain(x)])
    s.check("the next process has whole stacks", total(mine) >= 20 and good >= AT_LEAST * total(mine), share(good, total(mine)))
    assertions.loss_identity(s, agent, total(samples))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lives", type=int, default=400)
    parser.add_argument("--containers", type=int, default=3)
    options = parser.parse_args()
    sys.argv[1:] = []
    Scenario("deaths").execute(lambda s: body(s, options.lives, options.containers))
