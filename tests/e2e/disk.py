#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A spool on a disk that fails: full, read-only, with damaged files; and a wall clock that steps back over a kill.

Each is counted and said once, and profiling goes on: what can be delivered arrives once, the rest is in the account.
"""
import json
import os
import signal
import time

from lib import assertions, profiles, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.profiles import total
from lib.scenario import Scenario, wait_for
from lib.spool import Spool, samples_of

FULL = r'msg="spool: cannot write: No space left on device"'
READ_ONLY = r'msg="spool: cannot write: Read-only file system"'
STAY = r'msg="spool: cannot remove what was delivered: Read-only file system"'
UNUSABLE = r'msg="spool: cannot use the folder: Read-only file system"'
DAMAGED = r'msg="spool: a request on disk was damaged"'
GAP = 3.0  # s without a sample of a busy program, on a busy machine
GATHER = 3  # s of samples while the disk fails


def away(s):
    """A Collector that is not there yet."""
    collector = Collector(s)
    collector.stop()
    return collector


def agent_with(s, spool, collector, *options, env=None):
    return Agent(s, collector.endpoint(), "--queue.spool", spool.folder, *options, window="500ms", env=env)


def end(s, what, agent, collector):
    """Stops both; the account closes and nothing came twice. Returns the final line and the times of what arrived."""
    s.equal(f"{what}: exit code", agent.stop(60), 0)
    collector.stop()
    samples = collector.samples()
    final = assertions.loss_identity(s, agent, total(samples))
    events = [(t, tuple(sorted(x.attributes.items())), x.frames) for x in samples for t in x.times]
    s.equal(f"{what}: no sample came twice", len(events) - len(set(events)), 0)
    return final, sorted(t for t, _, _ in events)


def went_on(s, what, times):
    gap = max([b - a for a, b in zip(times, times[1:])], default=0) / 1e9
    s.check(f"{what}: profiling went on", len(times) > 100 and gap < GAP, f"{len(times)} samples, longest gap {gap:.2f} s")


def said_once(s, what, agent, pattern):
    s.equal(f"{what}: lines that say so", len(agent.lines(pattern)), 1)


def mount(s, folder, *how):
    """Onto a new folder, until the scenario ends."""
    os.makedirs(folder, exist_ok=True)
    s.run(["mount", *how, folder])
    s.defer(lambda: s.run(["umount", "-l", folder], check=False))


def full(s, what, spool, free):
    collector = away(s)
    agent = agent_with(s, spool, collector)
    agent.wait_line(FULL, 90)
    time.sleep(GATHER)
    n = len(spool.files())
    s.check(f"{what}: some requests had room", n > 0, f"{n}")
    if free:
        free()
        wait_for(lambda: len(spool.files()) > n, 90, "more requests on disk when there is room again")
    collector.start()
    wait_for(lambda: not spool.files(), 90, "an empty spool")
    agent.wait_line("collector is back", 90)
    final, times = end(s, what, agent, collector)
    said_once(s, what, agent, FULL)
    s.equal(f"{what}: what had no room waited in memory", assertions.lost_on_the_way(final), {})
    went_on(s, what, times)


def full_tmpfs(s):
    spool = Spool(s, "small/spool")
    mount(s, s.path("small"), "-t", "tmpfs", "-o", "size=128k", "tmpfs")
    full(s, "full tmpfs", spool, None)


def ext4(s, name):
    """A file system of 8 MiB on a loop device, or None and a line that says why."""
    image = s.path(name + ".image")
    s.run(["truncate", "-s", "8M", image])
    s.run(["mkfs.ext4", "-q", image])
    try:
        mount(s, s.path(name), "-o", "loop", image)
    except RuntimeError as e:
        s.skip(f"{name} ext4", f"no loop device: {e}")
        return None
    return s.path(name)


def full_ext4(s):
    """A file fills it, and goes again."""
    folder, spool = ext4(s, "full"), Spool(s, "full/spool")
    if not folder:
        return
    filler = os.path.join(folder, "filler")
    with open(filler, "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(65536))
        except OSError:
            f.truncate(max(0, f.tell() - 65536))  # room for some requests
    full(s, "full ext4", spool, lambda: os.unlink(filler))


def read_only(s):
    """From the start: the agent does without. Later: it keeps in memory what it cannot write."""
    mount(s, s.path("ro"), "-t", "tmpfs", "-o", "ro", "tmpfs")
    collector = away(s)
    agent = agent_with(s, Spool(s, "ro/spool"), collector)
    agent.wait_line(UNUSABLE, 30)
    time.sleep(GATHER)
    collector.start()
    agent.wait_line("collector is back", 60)
    final, times = end(s, "read-only", agent, collector)
    said_once(s, "read-only", agent, UNUSABLE)
    s.equal("read-only: nothing was lost", assertions.lost_on_the_way(final), {})
    went_on(s, "read-only", times)


def turns_read_only(s):
    """As a file system does when its disk fails. What was delivered cannot be removed either: said, too."""
    folder, spool = ext4(s, "turns"), Spool(s, "turns/spool")
    if not folder:
        return
    collector = away(s)
    agent = agent_with(s, spool, collector)
    spool.wait(2)
    s.run(["mount", "-o", "remount,abort", folder])
    agent.wait_line(READ_ONLY, 60)
    time.sleep(GATHER)
    collector.start()
    agent.wait_line("collector is back", 60)
    final, times = end(s, "turns read-only", agent, collector)
    said_once(s, "turns read-only", agent, READ_ONLY)
    said_once(s, "turns read-only, files stay", agent, STAY)
    s.equal("turns read-only: nothing was lost", assertions.lost_on_the_way(final), {})
    went_on(s, "turns read-only", times)


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x10]))


def lengthen(path):
    """A length of 4 GiB in the header."""
    with open(path, "r+b") as f:
        f.seek(48)
        f.write(b"\xff\xff\xff\xff")


def append(path):
    with open(path, "ab") as f:
        f.write(b"more")


DAMAGE = (
    ("a bit of the header", lambda p: flip(p, 20)),
    ("a bit of the data", lambda p: flip(p, os.path.getsize(p) // 2)),
    ("a bit of the checksum", lambda p: flip(p, 57)),
    ("torn", lambda p: os.truncate(p, os.path.getsize(p) // 2)),
    ("less than a header", lambda p: os.truncate(p, 30)),
    ("empty", lambda p: os.truncate(p, 0)),
    ("a huge length", lengthen),
    ("longer than it says", append),
)


def foreign(spool):
    """Names that are not the spool's, and things that are no files; all to be left alone. Returns them."""
    join = lambda name: os.path.join(spool.folder, name)
    with open(join("README"), "w") as f:
        f.write("not a request")
    with open(join("zzzz-5.otlp"), "w") as f:
        f.write("not a request")
    with open(join("0000000000000001-07.otlp"), "w") as f:
        f.write("nobody writes a number like that")
    os.mkdir(join("0000000000000000-5.otlp"))
    os.mkfifo(join("0000000000000000-6.otlp"))
    os.symlink("/etc/passwd", join("0000000000000000-7.otlp"))
    return ["README", "zzzz-5.otlp", "0000000000000001-07.otlp"] + [f"0000000000000000-{n}.otlp" for n in (5, 6, 7)]


def damaged(s):
    spool, collector = Spool(s, "damaged"), away(s)
    first = agent_with(s, spool, collector)
    spool.wait(len(DAMAGE) + 4)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    files = spool.files()
    whole = sum(map(samples_of, files))
    lost = 0
    for (_, damage), path in zip(DAMAGE, files[1:]):  # the oldest stays whole
        lost += samples_of(path)
        damage(path)
    names = foreign(spool)
    with open(os.path.join(spool.folder, "new.part"), "w") as f:
        f.write("torn while it was written")
    collector.start()
    agent = agent_with(s, spool, collector)
    agent.wait_line('msg="sampling"', 60)
    wait_for(lambda: not spool.files(), 60, "an empty spool")
    final, times = end(s, "damaged", agent, collector)
    s.equal("damaged: all that was there is taken over", final.get("recovered"), whole)
    s.equal("damaged: what cannot be read is counted", final.get("dropped_spool_damaged"), lost)
    s.equal("damaged: nothing else is lost", sum(assertions.lost_on_the_way(final).values()), lost)
    said_once(s, "damaged", agent, DAMAGED)
    s.equal("damaged: foreign files are left alone", sorted(n for n in os.listdir(spool.folder) if n != "lock"), sorted(names))
    s.note("damaged: " + ", ".join(what for what, _ in DAMAGE))


def counts(collector):
    """Samples of each request, in order of arrival."""
    with open(collector.file(), encoding="utf-8") as f:
        return [total(profiles.Request(json.loads(line)).samples()) for line in f]


def clock(s):
    """An hour back in the middle of an outage, and a kill after it: order on disk and of delivery is that of the samples."""
    library, switch = s.path("stepped_clock.so"), s.path("step")
    s.run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library,
           os.path.join(programs.SUPPORT, "stepped_clock.c")])
    env = {"LD_PRELOAD": library, "STEP_BACK": switch}
    spool, collector = Spool(s, "clock"), away(s)
    agent = agent_with(s, spool, collector, env=env)
    spool.wait(4)
    before = spool.files()
    open(switch, "w").close()
    spool.wait(8)
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()
    held = spool.files()
    s.check("clock: after the step, files come behind the others", held[:len(before)] == before, f"{len(held)} files")
    agent = agent_with(s, spool, collector, env=env)
    spool.wait(len(held) + 3)
    s.check("clock: so they do in the next life", spool.files()[:len(held)] == held, f"{len(spool.files())} files")
    wanted = [samples_of(f) for f in spool.files()]
    collector.start()
    wait_for(lambda: not spool.files(), 60, "an empty spool")
    final, times = end(s, "clock", agent, collector)
    arrived = counts(collector)
    s.equal("clock: requests arrive in the order of the disk", arrived[:len(wanted)], wanted)
    s.equal("clock: nothing was lost", assertions.lost_on_the_way(final), {})
    hour = max([b - a for a, b in zip(times, times[1:])], default=0) / 1e9
    s.check("clock: it did step", 3000 < hour < 3700, f"{hour:.0f} s between two samples")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("mount", "mkfs.ext4", "gcc")
    programs.start_chain(s)
    full_tmpfs(s)
    full_ext4(s)
    read_only(s)
    turns_read_only(s)
    damaged(s)
    clock(s)


if __name__ == "__main__":
    Scenario("disk").execute(body)
