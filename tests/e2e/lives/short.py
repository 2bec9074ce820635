# SPDX-License-Identifier: Apache-2.0
"""Short processes, each of a copy of the program that nobody has seen: how much of their CPU time arrives, and whether each
sample is right.

Truth: one runs after the other, and the program that runs them says when each began and ended and what the kernel says it
used. A sample belongs to a life by its process id on the host, by its time in a container. Functions of a copy carry the
copy's number, as does its file's name; so a stack, an executable's name or a container of another life is found out.
"""
import bisect
import collections
import os
import re
import signal
import time

from lib import assertions, containers
from lib.profiles import ending, total

from . import work
from bench.lib.measure import distinct_copy

OWN = re.compile(r"^(leaf|middle|outer)_N(\d{5})$")
LIES = ("container.id", "executable name", "functions of another", "other functions")
BUSY = 0.5  # who waits long for a CPU finds that many files are gone
CHAIN = ["leaf", "middle", "outer", "main"]
Life = collections.namedtuple("Life", "number pid begin end cpu")


def copies(program, folder, first, count):
    for number in range(first, first + count):
        path = distinct_copy(program, os.path.join(folder, f"life-{number:05d}"), number)
        with open(path, "r+b") as f:
            data = f.read().replace(b"_N00000", b"_N%05d" % number)
            f.seek(0)
            f.write(data)


class Case:
    """`count` lives of `ms` each in one place. `root`: where the place's / is, to read what it wrote."""

    def __init__(self, what, ms, first, count):
        self.what, self.ms, self.first, self.count = what, ms, first, count
        self.driver = self.ident = None
        self.root = ""
        self.lives, self.cost = [], 0.0

    def argv(self, program, folder):
        self.folder = folder
        return [program, "runs", str(self.ms), str(self.first), str(self.count), folder]

    def run(self, watched, idle):
        cpu, begin = watched.cpu(), time.monotonic()
        os.kill(self.driver, signal.SIGUSR1)
        lines = work.wait_file(f"{self.root}{self.folder}/runs-{self.first}", 60 + self.count * (self.ms + 100) / 100)
        time.sleep(0.5)  # what is left to do for the last ones
        self.cost = (watched.cpu() - cpu - idle * (time.monotonic() - begin)) / self.count
        for i, line in enumerate(lines):
            pid, start, end, cpu = map(int, line.split())
            self.lives.append(Life(self.first + i, pid, start, end, cpu / 1e6))


def on_host(s, program, case):
    folder = s.folder(f"host-{case.first}")
    copies(program, folder, case.first, case.count)
    case.driver = s.start(case.argv(program, folder), f"runs-{case.first}").pid
    return case


def in_containers(s, program, cases):
    """`cases`: (kind, Case)s; all copies are in one image."""
    root = containers.rootfs(s, [program])
    os.makedirs(os.path.join(root, "lives"))
    for _, case in cases:
        copies(program, os.path.join(root, "lives"), case.first, case.count)
    layer = containers.tar_rootfs(s, root)
    archive = containers.oci_archive(s, layer, "localhost/lives:1")
    containerd = containers.Containerd(s)
    docker = containers.Docker(s, containerd)
    for kind, case in cases:
        argv = case.argv("/bin/" + os.path.basename(program), "/lives")
        if kind == "docker":
            case.ident, case.driver = docker.run(layer, f"lives:{case.first}", *argv)
        else:
            case.ident, _, case.driver = containerd.run(archive, "localhost/lives:1", *argv)
        case.root = f"/proc/{case.driver}/root"
    return [case for _, case in cases]


def verdict(sample, life, ident, driver):
    """What is wrong with the sample, "" if nothing is."""
    if sample.resource.get("container.id") != ident:
        return "container.id"
    if ending(sample) != "complete":
        return ending(sample)
    if sample.attributes.get("process.executable.name") == "[exited]":
        return "process unknown"
    user = [f for f in sample.frames if f.kind != "kernel"]
    own = [(i, OWN.match(f.name)) for i, f in enumerate(user) if OWN.match(f.name)]
    name = f"life-{life.number:05d}"
    executable = sample.attributes.get("process.executable.name")
    # until its execve it is the program that runs the lives, in vfork
    if executable != name and not (executable == driver and not any(f.file.endswith(name) for f in user)):
        return f"executable name {executable}"
    if any(int(m[2]) != life.number or not user[i].file.endswith(name) for i, m in own):
        return "functions of another copy"
    if own:
        last = own[-1][0]
        found = [m[1] for _, m in own] + [f.name for f in user[last + 1:last + 2]]
        if own[-1][0] - own[0][0] != len(own) - 1 or found != CHAIN[-len(found):]:
            return "other functions: " + " < ".join(f.name for f in user)
    return ""


def life_at(case, begins, t):
    i = bisect.bisect_right(begins, t) - 1
    return case.lives[i] if i >= 0 else None


def in_container(samples, case):
    """(sample, life, how often). By the time of most of its process's samples: the last ones of a life, in its exit, may be
    of the next one's time."""
    begins, late = [l.begin for l in case.lives], case.lives[-1].end
    mine = [(x, [t for t in x.times if begins[0] <= t <= late]) for x in samples
            if x.resource.get("container.id") == case.ident and x.attributes.get("process.pid") != case.driver]
    by_pid = collections.defaultdict(collections.Counter)
    for x, times in mine:
        by_pid[x.attributes.get("process.pid")].update(life_at(case, begins, t) for t in times)
    for x, times in mine:
        if times:
            yield x, by_pid[x.attributes.get("process.pid")].most_common(1)[0][0], len(times)


def of_case(samples, case):
    """(sample, life, how often)"""
    if case.ident:
        yield from in_container(samples, case)
        return
    by_pid = {l.pid: l for l in case.lives}
    for x in samples:
        pid = x.attributes.get("process.pid")
        if pid in by_pid:
            life = by_pid[pid]
            n = sum(life.begin <= t <= life.end for t in x.times)
            if n:
                yield x, life, n


def judge(s, samples, case, frequency, at_least):
    """`at_least`: shares of the CPU time and of whole samples; None: of a busy machine nothing is asked but the truth."""
    used = sum(l.cpu for l in case.lives)
    seen, lies, wrong, examples, lives = 0, 0, collections.Counter(), {}, set()
    for x, life, n in of_case(samples, case):
        seen += n
        lives.add(life.number)
        what = verdict(x, life, case.ident, "lives" if "static" not in case.what else "lives-static")
        if what:
            lies += n if what.startswith(LIES) else 0
            wrong[what] += n
            examples.setdefault(what, f"{life.number}: " + " < ".join(f"{f.name or hex(f.address)}@{os.path.basename(f.file)}" for f in x.frames))
    sampled = seen / frequency
    s.note(f"{case.what}, {case.count} × {case.ms} ms at {frequency} Hz: {seen} samples, {sampled:.2f} s of {used:.2f} s, "
           f"{len(lives)} lives seen, agent CPU {1e3 * case.cost:.2f} ms a life")
    text = ", ".join(f"{k} {n}" for k, n in wrong.most_common(6)) or "nothing wrong"
    for what in list(wrong)[:4]:
        s.note(f"{what}, for example of life {examples[what]}")
    good = seen - sum(wrong.values())
    what = f"{case.what}, {case.ms} ms at {frequency} Hz"
    s.check(f"{what}: no wrong name", lies == 0, f"{lies} of {seen}: {text}")
    if at_least is not None:
        s.check(f"{what}: sampled share of the CPU time", sampled >= at_least * used, work.percent(sampled, used))
    s.check(f"{what}: whole, with the right names, executable and container", seen > 0 and good >= (at_least or BUSY) * seen,
            f"{work.percent(good, seen)} of {seen}: {text}")


def one_agent(s, frequency, cases, at_least):
    """All cases under one agent, one after the other."""
    watched = work.Watched(s, frequency)
    watched.agent.wait_samples(watched.collector)
    time.sleep(1)
    idle = watched.idle_rate(3 if at_least else 1)
    for case in cases:
        case.run(watched, idle)
    rss, peak = watched.rss()
    samples = watched.stop()
    s.note(f"{frequency} Hz: agent idle {100 * idle:.2f} % of a core, RSS {rss / work.MIB:.1f} MiB, at most {peak / work.MIB:.1f}")
    for case in cases:
        judge(s, samples, case, frequency, at_least)
    mine = {c.ident for c in cases}
    stray = total([x for x in samples if any(OWN.match(f.name) for f in x.frames) and x.resource.get("container.id") not in mine])
    s.equal("functions of a life in another container", stray, 0)
    assertions.loss_identity(s, watched.agent, total(samples))


def quick(s):
    s.need("containerd", "ctr", "dockerd", "docker", "busybox", "ldd", "gcc")
    program, static = work.build(s), work.build(s, "lives-static", "-static")
    cases = in_containers(s, program, [("containerd", Case("containerd", 20, 1, 20)), ("docker", Case("docker", 20, 101, 20))])
    cases += [on_host(s, program, Case("host", 20, 201, 40)), on_host(s, static, Case("host, static", 20, 301, 20))]
    one_agent(s, 997, cases, None)


def full(s):
    """997 Hz: 500 × 20 ms are 10,000 samples, whose number has a sigma of 1 %; at 97 Hz it is 3 %, which cannot tell 97 % from
    94 %. What a process costs is told from 97 Hz, where samples cost little."""
    s.need("containerd", "ctr", "dockerd", "docker", "busybox", "ldd", "gcc")
    program, static = work.build(s), work.build(s, "lives-static", "-static")
    inside = [(kind, Case(kind, ms, 1000 * i + 1, 500)) for i, (kind, ms) in enumerate((k, m) for k in ("containerd", "docker") for m in (50, 20))]
    cases = in_containers(s, program, inside)
    for first, ms in ((5001, 50), (6001, 20)):
        cases.append(on_host(s, program, Case("host", ms, first, 500)))
        cases.append(on_host(s, static, Case("host, static", ms, first + 2000, 500)))
    one_agent(s, 997, cases, 0.97)
    low = []
    for first, ms in ((11001, 50), (12001, 20)):
        low.append(on_host(s, program, Case("host", ms, first, 500)))
        low.append(on_host(s, static, Case("host, static", ms, first + 2000, 500)))
    one_agent(s, 97, low, 0.9)  # three sigma below
