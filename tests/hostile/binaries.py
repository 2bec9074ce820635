#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Binaries that claim more than they have, or hold more than they show, run by an unprivileged process.

Sparse files with 500,000 sections, terabytes of section names or symbols, 60,000 segments; sections that are compressed 1000
to 1; tables that take for ever. The agent, in a control group with the memory that the chart gives it, lives; programs beside,
old and new, have whole stacks; what could not be read is counted; and when it is over, the agent is idle again.
"""
import os
import struct
import subprocess
import sys
import time
import zlib

import attack
from attack import wait_for
from lib import cgroups, machine, programs
from lib.collector import Collector
from lib.profiles import ending, names
from lib.scenario import PROFLET

LIMIT, TOTAL = 160 << 20, 128 << 20  # of the group; memory.total: the chart's
NOBODY = "65534"
EM_X86_64, ET_DYN, PT_LOAD, PT_NOTE, SHF_COMPRESSED = 62, 3, 1, 4, 0x800
SPIN = b"\xeb\xfe"
COPIES = 4 if attack.QUICK else 34
SPIN_MS = 100
IDLE_WITHIN = 10  # s of a quiet machine
IDLE_SHARE = 0.05  # of a CPU, over 2 s


def header(phnum=1, phoff=64, shoff=0, shnum=0, shstrndx=0):
    return (b"\x7fELF\x02\x01\x01" + bytes(9) +
            struct.pack("<HHIQQQIHHHHHH", ET_DYN, EM_X86_64, 1, 0x1000, phoff, shoff, 0, 64, 56, phnum, 64, shnum, shstrndx))


def segment(kind, flags, offset, size, va=None):
    return struct.pack("<IIQQQQQQ", kind, flags, offset, offset if va is None else va, 0, size, size, 0x1000)


def section(name, kind, flags, offset, size, va=0, link=0, entry=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, va, offset, size, link, 0, 1, entry)


TEXT = segment(PT_LOAD, 5, 0, 0x2000)
NAMES = b"\0.shstrtab\0.eh_frame\0.symtab\0.strtab\0"
AT_SHSTRTAB, AT_EH_FRAME, AT_SYMTAB, AT_STRTAB = 1, 11, 21, 29


def write(path, parts, size=0):
    """`parts`: (offset, bytes); the rest is a hole."""
    with open(path, "wb") as f:
        f.truncate(size)
        for offset, content in [*parts, (0x1000, SPIN)]:
            f.seek(offset)
            f.write(content)


def with_sections(path, *sections, content=(), size=0):
    table = [section(0, 0, 0, 0, 0), section(AT_SHSTRTAB, 3, 0, 0x800, len(NAMES)), *sections]
    write(path, [(0, header(shoff=0x400, shnum=len(table), shstrndx=1) + TEXT), (0x400, b"".join(table)), (0x800, NAMES), *content],
          size)


def compressed(content_bytes, unit=bytes(1 << 20)):
    """An Elf64_Chdr and a zlib stream of so many zero bytes."""
    z, out = zlib.compressobj(9), []
    for _ in range(content_bytes // len(unit)):
        out.append(z.compress(unit))
    return struct.pack("<IIQQ", 1, 0, content_bytes, 1) + b"".join(out) + z.flush()


def many_fdes(n):
    """A CIE and n FDEs of one byte each, which all describe the same."""
    cie = struct.pack("<II", 20, 0) + b"\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0"
    cie = struct.pack("<I", len(cie) - 4) + cie[4:]
    fdes, at = [], len(cie)
    for i in range(n):
        fdes.append(struct.pack("<IIiIB3x", 16, at + 4, 0x1000 - (0x10000 + at + 8) + i % 0x1000, 1, 0))
        at += 20
    return cie + b"".join(fdes) + bytes(4)


def make_files(folder):
    """→ {kind: [paths]}"""
    bomb = compressed(250 << 20)
    fdes = many_fdes(400000)
    makers = {
        "section names": lambda p: write(p, [(0, header(shoff=0x400, shnum=3, shstrndx=1) + TEXT),
                                             (0x400, section(0, 0, 0, 0, 0) + section(1, 3, 0, 0x2000, 1 << 38))], 1 << 39),
        "sections": lambda p: write(p, [(0, header(shoff=0x400, shnum=0, shstrndx=1) + TEXT),
                                        (0x400, section(0, 0, 0, 0, 500000))], 1 << 30),
        "segments": lambda p: write(p, [(0, header(phnum=60000) + TEXT * 60000)]),
        "extended segments": lambda p: write(p, [(0, header(phnum=0xffff, shoff=0x400, shnum=1) + TEXT),
                                                 (0x400, struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 1 << 28, 0, 0))], 1 << 34),
        "symbols": lambda p: with_sections(p, section(AT_SYMTAB, 2, 0, 0x10000, 15 << 40, link=3, entry=24),
                                           section(AT_STRTAB, 3, 0, 0x8000, 100), size=(15 << 40) + 0x10000),
        "notes": lambda p: write(p, [(0, header(phnum=2) + TEXT + segment(PT_NOTE, 4, 0x2000, 1 << 36))], 1 << 37),
        "compressed": lambda p: with_sections(p, section(AT_EH_FRAME, 1, SHF_COMPRESSED | 2, 0x2000, len(bomb), va=0x10000),
                                              content=[(0x2000, bomb)]),
        "descriptions": lambda p: with_sections(p, section(AT_EH_FRAME, 1, 2, 0x2000, len(fdes), va=0x10000),
                                                content=[(0x2000, fdes)]),
    }
    files = {}
    for kind, make in makers.items():
        for i in range(COPIES):
            path = os.path.join(folder, f"{kind.replace(' ', '-')}-{i}")
            try:
                make(path)
            except OSError:  # a file system with smaller files
                break
            os.chmod(path, 0o755)
            files.setdefault(kind, []).append(path)
    return files


class Group:
    """A control group with a limit of memory: that of the chart."""

    def __init__(self, s, limit=LIMIT):
        top = cgroups.hierarchy_of("memory")
        self.path = cgroups.make(s, f"proflet-hostile-{os.getpid()}", top)
        self.unified = cgroups.is_unified(self.path)
        with open(os.path.join(self.path, "memory.max" if self.unified else "memory.limit_in_bytes"), "w") as f:
            f.write(str(limit))

    def program(self, s, proflet=PROFLET):
        """proflet, started in the group."""
        wrapper = s.path("in-group")
        with open(wrapper, "w") as f:
            f.write(f'#!/bin/sh\necho $$ > {self.path}/cgroup.procs || exit 1\nexec {proflet} "$@"\n')
        os.chmod(wrapper, 0o755)
        return wrapper

    def read(self, unified, old, key=None):
        try:
            with open(os.path.join(self.path, unified if self.unified else old)) as f:
                text = f.read()
        except FileNotFoundError:  # memory.peak is of Linux 5.19
            return 0
        return int(text) if key is None else int(dict(line.split() for line in text.splitlines()).get(key, 0))

    def peak(self):
        return self.read("memory.peak", "memory.max_usage_in_bytes")

    def kills(self):
        return self.read("memory.events", "memory.oom_control", "oom_kill")


def chain(s, name):
    return programs.build_c(s, "chain", f"-Wl,--build-id=0x{os.urandom(20).hex()}", program=name)


def cpu_share(pid, seconds):
    before, begin = machine.cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (machine.cpu_seconds(pid) - before) / (time.monotonic() - begin)


def check_victim(s, samples, name):
    mine = [x for x in samples if x.attributes.get("process.executable.name") == name]
    n = sum(x.count for x in mine)
    whole = sum(x.count for x in mine if ending(x) == "complete")
    named = sum(x.count for x in mine if ending(x) == "complete" and all(f in names(x) for f in programs.CHAIN[1:]))
    cut = sorted({ending(x) for x in mine} - {"complete"})
    s.check(f"{name}: stacks are whole and named", n >= 100 and whole >= 0.99 * n and named >= 0.98 * n,
            f"{whole} whole, {named} with the whole chain, of {n}; cut: {', '.join(cut) or 'none'}")


def run_files(tool, paths):
    return subprocess.run(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs", tool, str(SPIN_MS), *paths],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def attack_with(s, files):
    tool = programs.build_c(s, "runs_files")
    for kind, paths in files.items():
        run = run_files(tool, paths)
        s.check(f"{kind}: {len(paths)} files are mapped and run", run.returncode == 0, run.stdout.strip()[-200:])


def body(s):
    s.need_root()
    s.need("gcc", "setpriv")
    group, collector = Group(s), Collector(s)
    folder = s.folder("files")
    for path in (os.path.dirname(folder), folder):
        os.chmod(path, 0o755)
    files = make_files(folder)
    before = s.start([chain(s, "victim-before"), "3600"], "victim-before")
    agent = attack.Attacked(s, collector.endpoint(), "--memory.total", f"{TOTAL >> 20}MiB", program=group.program(s))
    watch = attack.Watch(s, agent)
    wait_for(lambda: machine.cpu_seconds(before.pid) > 1, 60, "the victim runs")
    attack_with(s, files)
    after = s.start([chain(s, "victim-after"), "3600"], "victim-after")
    attack_with(s, {kind: paths[:2] for kind, paths in files.items()})
    wait_for(lambda: machine.cpu_seconds(after.pid) > 3, 120, "the second victim runs")
    metrics = agent.metrics()
    for process in (before, after):
        process.kill()
    wait_for(lambda: cpu_share(agent.process.pid, 2) < IDLE_SHARE, IDLE_WITHIN, "the agent is idle again")
    s.check("the agent is idle again", True)
    watch.check(s, "the attack", resident_max=TOTAL)
    s.note(f"parser processes that the kernel ended because the group's memory was short: {group.kills()}")
    failed = {k: v for k, v in metrics.items() if k.startswith("proflet_parser_failures_total") and v}
    s.note(f"parser jobs {metrics.get('proflet_parser_jobs_total', 0):.0f}, failures {failed or 'none'}")
    s.check("no file system is said not to answer", not agent.lines("does not answer"), "; ".join(agent.lines("does not answer"))[:200])
    lines = agent.lines("the process that reads it")
    s.check("what could not be read is logged in a bounded number of lines", len(lines) <= 5, f"{len(lines)} lines")
    attack.check_stop(s, "the attack", agent)
    collector.stop()
    samples = collector.samples()
    check_victim(s, samples, "victim-before")
    check_victim(s, samples, "victim-after")


if __name__ == "__main__":
    sys.exit(attack.scenario("binaries").execute(body))
