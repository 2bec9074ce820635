#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that take over the process that reads them.

A build of the agent has a bug that lets a file write to any address of its parser process (owned_parser.c). With it each file has
the process run a function of our choice. Attempts to get out: all succeed in a process with all rights, none does in a parser
process. Lies: answers with wrong bits, with limits in their words, random ones, packets of any kind, none at all; the agent lives,
and neighbours' stacks are whole. Such a file is not read twice, and a tenant that goes on bringing such files has to wait.
"""
import mmap
import os
import socket
import struct
import subprocess
import sys
import time

import attack
from attack import wait_for
from lib import cgroups, machine, programs
from lib.assertions import loss_identity
from lib.profiles import ending
from lib.scenario import ROOT
from trial import Trial

MAGIC = b"OWNED PARSER\1\2\3".ljust(16, b"\0")
WRITES_MAX = 4
LIES = {"owned_bits": 10, "owned_words": 10, "owned_random": 4, "owned_packets": 4, "owned_scribble": 2, "owned_spin": 1}
TIMES = 1 if attack.QUICK else 20
AT_ONCE = 8
FILE_CPU = 0.5 if attack.QUICK else 1.0  # s of CPU time that each file's program gets
EVIDENCE = struct.Struct("<IIq")
STRIKES = 14  # harmful files of one tenant
PAUSE = 8  # s that the last of them waits at least


def build(s):
    s.run(["cmake", "--build", os.path.join(ROOT, "build", "release"), "--target", "proflet_owned"], seconds=600)
    return os.path.join(ROOT, "build", "release", "proflet_owned")


class Owned:
    """The program, and the memory in which its processes leave their evidence."""

    def __init__(self, s, program=None):
        self.s, self.program = s, program or build(s)
        symbols = s.run(["nm", self.program]).stdout.split("\n")
        self.at = {x.split()[2]: int(x.split()[0], 16) for x in symbols if len(x.split()) == 3 and "owned_" in x}
        self.path = s.path("evidence")
        self.server = socket.create_server(("127.0.0.1", 0))
        s.defer(self.server.close)
        self.port = self.server.getsockname()[1]
        with open(self.path, "wb") as f:
            f.truncate(mmap.PAGESIZE)
        with open(self.path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), mmap.PAGESIZE)
        self.env = {"PROFLET_OWNED_EVIDENCE": self.path}

    def evidence(self, i):
        """→ (begun, ended, result)"""
        return EVIDENCE.unpack_from(self.memory, EVIDENCE.size * i)

    def control(self):
        """All attempts with all rights → their names."""
        env = dict(os.environ, **self.env, PROFLET_OWNED_CONTROL=str(self.port))
        run = subprocess.run([self.program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60)
        names = run.stdout.split("\n")[:-1]
        free = [n for i, n in enumerate(names) if self.evidence(i)[0] and self.evidence(i)[1] and self.evidence(i)[2] >= 0]
        self.s.check("with all rights each attempt succeeds", len(names) >= 25 and free == names,
                     ", ".join(f"{n}: {self.evidence(i)}" for i, n in enumerate(names) if n not in free) or f"{len(names)} attempts")
        self.memory[:] = bytes(len(self.memory))
        return names

    def order(self, function, agent, attempt=0, seed=0):
        """What a file has at its end: one write, to the pointer of the function that runs next."""
        base = self.at["owned_base"]
        writes = [(self.at["owned_next"] - base, self.at[function] - base)] + [(0, 0)] * (WRITES_MAX - 1)
        return MAGIC + struct.pack("<Q", 1) + b"".join(struct.pack("<qq", *w) for w in writes) + struct.pack("<4Q", attempt, seed, agent, self.port)

    def file(self, name, model, *order, **more):
        path = self.s.path(name)
        with open(model, "rb") as f:
            content = f.read()
        with open(path, "wb") as f:
            f.write(content + self.order(*order, **more))
        os.chmod(path, 0o755)
        return path


def run_all(s, files, seconds, where=""):
    """Runs each, in a control group of its own, until it has had so much CPU time. AT_ONCE at a time."""
    waiting, running = list(files), []
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            path = waiting.pop()
            name = os.path.basename(path)
            running.append(cgroups.start(s, cgroups.make(s, f"{name}{where}-{os.getpid()}"), [path, programs.LIFE], name))
        for process in [p for p in running if machine.cpu_seconds(p.pid) > seconds]:
            process.kill()
            process.wait()
            running.remove(process)
        time.sleep(0.05)


def attempts(s, owned, agent, names, model):
    files = [owned.file(f"attempt-{i}", model, "owned_attempt", agent.process.pid, attempt=i) for i in range(len(names))]
    run_all(s, files, FILE_CPU)
    begun = lambda: [n for i, n in enumerate(names) if owned.evidence(i)[0]]
    wait_for(lambda: len(begun()) == len(names), 60, "all attempts are made")
    s.equal("each attempt is made in a parser process", begun(), names)
    free = [n for i, n in enumerate(names) if owned.evidence(i)[1] and owned.evidence(i)[2] >= 0]
    ended = [n for i, n in enumerate(names) if owned.evidence(i)[1]]
    s.equal("none of them succeeds", free, [])
    s.note(f"the kernel kills who tries, but for: {', '.join(ended) or 'none'}")


def strikes(s, owned, agent, model):
    """One tenant with many such files: the pauses between them grow."""
    owned.memory[:] = bytes(len(owned.memory))
    group = cgroups.make(s, f"striker-{os.getpid()}")
    files = [owned.file(f"strike-{i}", model, "owned_attempt", agent.process.pid, attempt=i % 4) for i in range(STRIKES)]
    before = settled(agent, "proflet_files_in_quarantine")
    begin = time.monotonic()
    running = [cgroups.start(s, group, [path, programs.LIFE], os.path.basename(path)) for path in files]
    time.sleep(PAUSE)
    soon = total(agent, "proflet_files_in_quarantine") - before
    for p in running:
        p.kill()
    s.check("a tenant that brings one after the other waits", 3 <= soon < STRIKES, f"{soon:.0f} of {STRIKES} files read in {time.monotonic() - begin:.1f} s")


def total(agent, name):
    return sum(v for k, v in agent.metrics().items() if k.startswith(name))


def settled(agent, name):
    """The same, when it has been the same for 2 s: files of what was done before may still be read."""
    def same():
        value = total(agent, name)
        time.sleep(2)
        return total(agent, name) == value
    wait_for(same, 60, f"{name} rests")
    return total(agent, name)


def again(s, agent, path):
    """A file that is known to be harmful is started anew: nobody reads it."""
    before = settled(agent, "proflet_files_quarantined_total"), total(agent, 'proflet_parser_failures_total{reason="crashed"}')
    run_all(s, [path], FILE_CPU, where="-again")
    time.sleep(1)
    after = total(agent, "proflet_files_quarantined_total"), total(agent, 'proflet_parser_failures_total{reason="crashed"}')
    s.equal("a file is not read again when it is run again", after, before)


def body(s):
    s.need_root()
    s.need("gcc", "nm", "cmake")
    owned = Owned(s)
    names = owned.control()
    model = programs.build_c(s, "chain", program="model")
    begin = time.monotonic()
    trial = Trial(s, "owned parser processes", program=owned.program, env=owned.env)
    agent = trial.agent
    trial.victims.another()
    attempts(s, owned, agent, names, model)
    again(s, agent, s.path("attempt-0"))
    lies = [owned.file(f"{lie}-{n}", model, lie, agent.process.pid, seed=n + 1) for lie, count in LIES.items() for n in range(count * TIMES)]
    run_all(s, lies, FILE_CPU)
    company = owned.evidence(len(names))[0]
    strikes(s, owned, agent, model)
    trial.endure()
    metrics = agent.metrics()
    company += owned.evidence(len(names))[0]  # strikes() has begun anew
    s.check("none of their processes reads another file, though those of the system's files do",
            not company and metrics.get("proflet_parser_jobs_again_total", 0) > 0,
            f"{company} did, {metrics.get('proflet_parser_jobs_again_total', 0):.0f} of {metrics['proflet_parser_jobs_total']:.0f} jobs by one that had read a file")
    s.check("harmful files are counted", metrics.get('proflet_files_quarantined_total{reason="crashed"}', 0) >= len(names) // 2,
            str({k: int(v) for k, v in metrics.items() if v and k.startswith(("proflet_files_", "proflet_parser_failures"))}))
    lines, minutes = agent.lines("level=warn.*the process that read it for"), (time.monotonic() - begin) / 60
    s.check("and logged, with path and reason, once a minute", 1 <= len(lines) <= 2 + minutes, f"{len(lines)} in {minutes:.1f}: {lines[:1]}")
    samples = trial.judge()
    liars = [x for x in samples if (x.attributes.get("process.executable.name") or "").startswith("owned_")]
    s.check("the liars were sampled, and their stacks end", sum(x.count for x in liars) >= 20 * len(lies),
            f"{sum(x.count for x in liars)} samples, {sum(x.count for x in liars if ending(x) == 'complete')} of them to their end")
    loss_identity(s, agent, sum(x.count for x in samples))


if __name__ == "__main__":
    sys.exit(attack.scenario("owned_parser").execute(body))
