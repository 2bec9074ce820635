#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mapped files that do not answer: a FUSE server that stops, in every place where a profiler may run into it: the executable,
code mapped later, memory that the environment lies in, mappings that are locked for as long as the server is silent, and the
pages that the table is made from. And files that are no files any more, or pretend to be 100 GiB.

The main loop goes on all the time (programs beside it, old and new, have whole stacks), what cannot be had is said, and read
when it can be had again, and the end comes in time.
"""
import os
import re
import shutil
import signal
import struct
import sys
import threading
import time

from lib.agent import wait_recording
from lib.machine import PromiseClock, cpu_seconds, wait_exit, wait_for_cpu
from lib.scenario import PROFLET, ROOT, Scenario, Skip, tail, wait_for

sys.path.append(os.path.join(ROOT, "tests"))
from bench.lib import host  # noqa: E402

SUPPORT = os.path.join(ROOT, "tests", "support")
EXIT_WITHIN = 20  # s of a quiet machine, after SIGINT; the stop waits 3 s for each kind of worker
LONGEST = 3600  # s of a recording, which is ended before
SHORT_CPU = 0.1  # s of CPU time that a short-lived program gets
D_AT_MOST = 10  # times in a row that the main thread is seen in an uninterruptible wait, every 50 ms
GIB = 1 << 30
SHORT = 12
PAGES_STUCK = re.compile(r"mount-pages/file: .* does not answer")


def build(s):
    for name, options in (("hangfs", []), ("mapper", ["-pthread"])):
        s.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", *options, "-o", s.path(name), os.path.join(SUPPORT, name + ".c")])
    # other ids: what is known by its id is not read again
    for name, ident in (("served", "1"), ("pages", "2"), ("again", "3")):
        s.run(["gcc", "-O2", "-pthread", f"-Wl,--build-id=0x{ident * 40}", "-o", s.path(name), os.path.join(SUPPORT, "mapper.c")])


def mount(s, name, *options, content="served"):
    folder = s.folder("mount-" + name)
    server = s.start([s.path("hangfs"), folder, s.path(content), *options], "hangfs-" + name)
    wait_for(lambda: server.poll() is not None or "ready" in tail(server.log), 10, "the file system")
    if server.poll() is not None:
        raise Skip(f"no FUSE mount: {tail(server.log).strip()}")
    return server, os.path.join(folder, "file")


def mapper(s, name, how, path, program=None):
    """A copy of its own, so that samples say whose they are."""
    if not program:
        program = shutil.copy(s.path("mapper"), s.path(name))
    process = s.start([program, how, path], name)
    wait_for(lambda: "ready" in tail(process.log), 10, f"{name} runs")
    return process


class Watch(threading.Thread):
    """The longest time that the main thread was seen blocked in the kernel."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path = f"/proc/{pid}/task/{pid}/stat"
        self.longest = 0
        self.ended = False
        self.start()

    def run(self):
        row = 0
        while not self.ended:
            try:
                with open(self.path, encoding="ascii", errors="replace") as f:
                    state = f.read().rpartition(")")[2].split()[0]
            except OSError:
                return
            row = row + 1 if state == "D" else 0
            self.longest = max(self.longest, row)
            time.sleep(0.05)


def short_lived(s, what):
    """Programs that nobody has seen before, while it hangs."""
    for i in range(SHORT):
        program = shutil.copy(s.path("mapper"), s.path(f"{what}{i}"))
        process = s.start([program, "code", "/dev/null"], what)
        wait_for(lambda: cpu_seconds(process.pid) >= SHORT_CPU, 10, f"{what}{i} computes")
        process.kill()
        process.wait()


def record(s, name, seconds, meanwhile, end):
    """Records while it hangs, for so long and until `meanwhile` is done; returns (folded stacks by process, log). `end` makes the
    server answer, or end."""
    base, clock = s.path(name), PromiseClock(s)
    process = s.start([PROFLET, "record", "-d", f"{LONGEST}s", "-F", "199", "-o", base, "--format", "folded,otlp"], name)
    watch = Watch(process.pid)
    wait_recording(process, LONGEST)
    started = time.monotonic()
    time.sleep(3)  # it meets what hangs
    meanwhile(process)
    wait_for(lambda: time.monotonic() > started + seconds, seconds, "the recording's time")
    process.send_signal(signal.SIGINT)
    stopped = clock.now()
    wait_for(lambda: process.poll() is not None or os.path.exists(base + ".folded") and "in_flight" in tail(process.log, 50),
             EXIT_WITHIN, f"{name}: the recording is written")
    took = clock.now() - stopped
    s.check(f"{name}: the recording ends in time, whatever still hangs", took <= EXIT_WITHIN, f"{took:.1f} s after SIGINT")
    watch.ended = True
    s.check(f"{name}: the main thread is never held", watch.longest < D_AT_MOST, f"{watch.longest} times in a row")
    end(process)
    s.equal(f"{name}: exit code", wait_exit(process, 30), 0)
    stacks = {}
    with open(base + ".folded", encoding="utf-8", errors="replace") as f:
        for line in f:
            stack, _, count = line.rpartition(" ")
            stacks.setdefault(stack.split(";")[0], {})[stack] = int(count)
    with open(process.log, errors="replace") as f:
        return stacks, f.read()


def check_whole(s, what, stacks, names, function="spin"):
    whole = cut = 0
    for name in names:
        for stack, n in stacks.get(name, {}).items():
            if "[truncated" in stack:
                cut += n
            elif function in stack:
                whole += n
    s.check(f"{what}: whole stacks with names", whole >= 5 and cut <= 0.05 * (whole + cut) + 2,
            f"{whole} whole, {cut} cut, of {sum(n in stacks for n in names)}/{len(names)} programs")


def check_identity(s, name, log):
    found = re.search(r"taken=(\d+) exported=(\d+) dropped=(\d+) in_flight=(\d+)", log)
    s.check(f"{name}: loss identity", found and int(found[1]) == sum(int(found[i]) for i in (2, 3, 4)), found and found[0])


def hanging_server(s):
    """Requests are read and never answered: not even a signal ends the wait."""
    server, file = mount(s, "silent")
    locking, locked = mount(s, "locked")  # a program that runs cannot be written to
    beside = mapper(s, "beside", "code", "/dev/null")
    running = {
        "exec": mapper(s, "exec", "code", "/dev/null", program=file),
        "code": mapper(s, "mapscode", "code", file),
        "env": mapper(s, "mapsenv", "env", file),
        "lock": mapper(s, "mapslock", "lock", locked),
    }

    def each(number):
        for x in (server, locking):
            x.send_signal(number)

    each(signal.SIGUSR1)
    for name in ("code", "lock"):
        running[name].send_signal(signal.SIGUSR1)

    def meanwhile(_):
        short_lived(s, "brief")

    stacks, log = record(s, "silent", 10, meanwhile, lambda _: each(signal.SIGUSR2))
    check_whole(s, "silent: a program that ran before", stacks, ["beside"])
    check_whole(s, "silent: short-lived programs that start meanwhile", stacks, [f"brief{i}" for i in range(SHORT)])
    check_whole(s, "silent: a program that has mapped code of it, and its own", stacks, ["mapscode"])
    said = [name for name, p in running.items() if re.search(rf"process {p.pid}: .* does not answer", log)]
    s.check("silent: it says whose files do not answer", said, ", ".join(said))  # the others are on the same file system
    check_identity(s, "silent", log)
    held = len(re.findall("^held", tail(server.log, 10000), re.M))
    s.check("silent: requests were held, and few", 1 <= held <= 40, f"{held}")
    for process in (beside, *running.values()):
        process.kill()


def stopped_server(s):
    """Requests are not even read: the end of the process ends the wait."""
    server, file = mount(s, "stopped")
    beside = mapper(s, "beside2", "code", "/dev/null")
    running = mapper(s, "exec2", "code", "/dev/null", program=file)
    server.send_signal(signal.SIGSTOP)

    def end(process):
        begin = time.monotonic()
        wait_exit(process, EXIT_WITHIN)
        s.check("stopped: the agent ends while it hangs", True, f"{time.monotonic() - begin:.1f} s after its files")
        server.send_signal(signal.SIGCONT)

    try:
        # sampling begins once it is known that the server does not answer
        stacks, log = record(s, "stopped", 12, lambda _: wait_for_cpu([beside.pid], 0.5), end)
    finally:
        server.send_signal(signal.SIGCONT)
    check_whole(s, "stopped: a program that ran before", stacks, ["beside2"])
    check_identity(s, "stopped", log)
    running.kill()
    beside.kill()


def answering_again(s):
    """A server that is silent when the agent starts, and answers later: the files are read then."""
    server, file = mount(s, "again", content="again")
    running = mapper(s, "exec3", "code", "/dev/null", program=file)
    server.send_signal(signal.SIGUSR1)

    def meanwhile(_):
        time.sleep(4)
        server.send_signal(signal.SIGUSR2)

    stacks, log = record(s, "again", 16, meanwhile, lambda _: None)
    found = stacks.get(os.path.basename(file), {})
    whole = sum(n for stack, n in found.items() if "spin" in stack and "[truncated" not in stack)
    s.check("again: whole stacks with names once it answers", whole >= 5 and whole >= 0.2 * sum(found.values()),
            f"{whole} of {sum(found.values())}")
    s.equal("again: the log says that it does not answer", len(re.findall("does not answer", log)), 1)
    s.equal("again: and that it does", len(re.findall("answers again", log)), 1)
    check_identity(s, "again", log)
    running.kill()


def hanging_pages(s):
    """It opens, its headers can be read, what the table is made from cannot: the table workers' turn to give up."""
    server, file = mount(s, "pages", "reads", content="pages")
    running = mapper(s, "mapspages", "code", file)
    server.send_signal(signal.SIGUSR1)

    def meanwhile(process):
        running.send_signal(signal.SIGUSR1)
        wait_for(lambda: PAGES_STUCK.search(tail(process.log, 1000)) or process.poll() is not None, 60, "the file does not answer")
        short_lived(s, "after")

    stacks, log = record(s, "pages", 15, meanwhile, lambda _: server.send_signal(signal.SIGUSR2))
    s.check("pages: it says that the file does not answer", PAGES_STUCK.search(log) is not None)
    check_whole(s, "pages: programs that start after that", stacks, [f"after{i}" for i in range(SHORT)])
    check_identity(s, "pages", log)
    running.kill()


def section_size_set(path, name, size):
    """Makes a section's header lie about its size."""
    with open(path, "r+b") as f:
        header = f.read(64)
        offset, = struct.unpack_from("<Q", header, 0x28)
        entry, count, names = struct.unpack_from("<HHH", header, 0x3a)
        f.seek(offset)
        table = f.read(entry * count)
        f.seek(struct.unpack_from("<Q", table, names * entry + 0x18)[0])
        strings = f.read(struct.unpack_from("<Q", table, names * entry + 0x20)[0])
        for i in range(count):
            at = struct.unpack_from("<I", table, i * entry)[0]
            if strings[at:strings.index(b"\0", at)].decode() == name:
                f.seek(offset + i * entry + 0x20)
                f.write(struct.pack("<Q", size))
                return
    raise RuntimeError(f"{path} has no {name}")


def odd_files(s):
    """Huge and sparse, with sections that claim gigabytes; replaced by a FIFO and by a device."""
    names = {}
    for name, size, lies in (("sparse", 100 * GIB, {}), ("claims", 100 * GIB, {".eh_frame": 90 * GIB, ".symtab": 80 * GIB}),
                             ("claimsless", 2 * GIB, {".eh_frame": GIB - 4096, ".strtab": GIB - 4096})):
        program = shutil.copy(s.path("mapper"), s.path(name))
        os.truncate(program, size)
        for section, claimed in lies.items():
            section_size_set(program, section, claimed)
        names[name] = mapper(s, name, "code", "/dev/null", program=program)
    for name, make in (("fifo", os.mkfifo), ("device", lambda p: os.mknod(p, 0o20666, os.makedev(1, 3)))):
        names[name] = mapper(s, name, "code", "/dev/null")
        os.unlink(s.path(name))
        make(s.path(name))
    base = s.path("odd")
    process = s.start([PROFLET, "record", "-d", f"{LONGEST}s", "-F", "199", "-o", base, "--format", "folded"], "odd")
    wait_recording(process, LONGEST)
    time.sleep(6)
    wait_for_cpu([p.pid for p in names.values()], 0.2)
    peak = host.resident([process.pid])[1]
    process.send_signal(signal.SIGINT)
    clock = PromiseClock(s)
    while process.poll() is None and clock.now() < EXIT_WITHIN:
        peak = max(peak, host.resident([process.pid])[1])
        time.sleep(0.1)
    s.equal("odd files: exit code", wait_exit(process, 1), 0)
    s.check("odd files: what they claim is not taken into memory", 0 < peak < 400 << 20, f"{peak >> 20} MiB at most")
    stacks = {}
    with open(base + ".folded", encoding="utf-8", errors="replace") as f:
        for line in f:
            stack, _, count = line.rpartition(" ")
            stacks.setdefault(stack.split(";")[0], {})[stack] = int(count)
    for name in ("sparse", "fifo", "device"):
        # names out of 100 GiB may come too late for the recording, which does not wait for them
        check_whole(s, f"odd files: {name}", stacks, [name], name)
    for name in ("claims", "claimsless"):
        found = sum(stacks.get(name, {}).values())
        s.check(f"odd files: {name}: its samples are there", found >= 10, f"{found}")
        for stack, n in list(stacks.get(name, {}).items())[:2]:
            s.note(f"{name}, {n} times: {stack}")
    for process in names.values():
        process.kill()


def body(s):
    s.need_root()
    s.need("gcc")
    s.need_proflet()
    build(s)
    odd_files(s)
    if not os.path.exists("/dev/fuse"):
        raise Skip("the kernel has no FUSE")
    hanging_server(s)
    stopped_server(s)
    answering_again(s)
    hanging_pages(s)


if __name__ == "__main__":
    Scenario("stuck").execute(body)
