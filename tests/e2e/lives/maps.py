# SPDX-License-Identifier: Apache-2.0
"""A process with very many mappings that come and go: are its stacks right, and what do its mappings cost the agent?"""
import collections
import os
import time

from lib import assertions
from lib.machine import CpuTime
from lib.profiles import ending, names, total
from lib.programs import FLAGS, SUPPORT
from lib.scenario import stop, wait_for

from . import work

LIMIT = "/proc/sys/vm/max_map_count"


def raise_limit(s, wanted):
    with open(LIMIT, "r+", encoding="ascii") as f:
        was = int(f.read())
        if was >= wanted:
            return
        s.defer(lambda: open(LIMIT, "w", encoding="ascii").write(str(was)))
        f.seek(0)
        f.write(str(wanted))


def right(sample):
    """Whole, by way of main; work is called by rounds alone. Without user frames the process begins or ends."""
    found = names(sample)
    if ending(sample) != "complete":
        return False
    if all(f.kind == "kernel" for f in sample.frames):
        return True
    return "main" in found and ("work" not in found or found[found.index("work"):found.index("main")] == ["work", "rounds"])


def one(s, program, mappings, rate, seconds, before):
    """Under an agent of its own; `before`: the process has its mappings when the agent comes. → agent's share of a core"""
    def load():
        p = s.start([program, str(mappings), str(rate)], f"storm-{mappings}-{rate}-{before}")
        wait_for(lambda: "ready" in open(p.log, encoding="ascii").read() or p.poll() is not None, 60, "the mappings")
        return p

    p = load() if before else None
    watched = work.Watched(s, 97)
    watched.agent.wait_samples(watched.collector)
    p = p or load()
    time.sleep(2)
    used, begin, cpu, got = work.host.cpu(p.pid), time.monotonic(), watched.cpu(), CpuTime([p.pid])
    time.sleep(seconds)
    got.wait(0.2)
    share = (watched.cpu() - cpu) / (time.monotonic() - begin)
    used = work.host.cpu(p.pid) - used
    rss = watched.rss()[0]
    stop(p)
    idle = watched.idle_rate(seconds)
    samples = watched.stop()
    mine = [x for x in samples if x.attributes.get("process.pid") == p.pid]
    good, reasons = total([x for x in mine if right(x)]), collections.Counter()
    for x in mine:
        if not right(x):
            reasons[f"{ending(x)}: {' < '.join(names(x)[:4])}"] += x.count
    stopped = watched.stopped()
    maps = stopped.get("arena_bytes", 0)
    s.note(f"{mappings} mappings, {rate or 'as many as it can'} replaced a second, there {'before' if before else 'after'} the agent: agent CPU "
           f"{100 * share:.2f} % of a core, {100 * idle:.2f} % without it, RSS {rss / work.MIB:.1f} MiB, tables {maps / work.MIB:.1f} MiB, "
           f"events lost {stopped.get('events_lost')}; {total(mine)} samples, {used:.1f} s of CPU measured")
    s.check(f"{mappings} mappings, rate {rate}, {'before' if before else 'after'}: stacks are right", mine and good >= 0.97 * total(mine),
            f"{work.percent(good, total(mine))} of {total(mine)}: " + ", ".join(f"{n} × {k}" for k, n in reasons.most_common(4)))
    assertions.loss_identity(s, watched.agent, total(samples))
    return share - idle


def build(s):
    s.run(["gcc", *FLAGS, "-o", s.path("storm"), os.path.join(SUPPORT, "storm.c")])
    return s.path("storm")


def quick(s):
    program = build(s)
    one(s, program, 20000, 1000, 2, True)
    one(s, program, 20000, 0, 2, False)


def full(s):
    raise_limit(s, 300000)
    program = build(s)
    for rate, before in ((0, True), (1000, True), (1000, False)):
        share = one(s, program, 130000, rate, 15, before)
        s.check(f"130000 mappings, rate {rate}: the agent's cost", share <= 0.02, f"{100 * share:.2f} % of a core")
