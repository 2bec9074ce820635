#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two agents on one node for a time, as the chart's updates have it (maxSurge): the new one samples before the old one ends, and neither
disturbs the other. A spool goes from one to the other. What they cannot share, an address of `listen`, is refused by name: the chart's
reason to update otherwise.
"""
from lib import programs
from lib.agent import Agent
from lib.collector import Collector
from lib.scenario import Scenario, free_port, wait_for
from lib.spool import Spool

SAMPLING = 'msg="sampling"'


def named(s, endpoint, name, *options):
    return Agent(s, endpoint, *options, window="1s", env={"OTEL_RESOURCE_ATTRIBUTES": f"agent={name}"})


def times_of(samples, name):
    return sorted(t for x in samples if x.resource.get("agent") == name for t in x.times)


def handover(s):
    collector = Collector(s)
    old = named(s, collector.endpoint(), "old")
    old.wait_samples(collector)
    new = named(s, collector.endpoint(), "new")
    new.wait_line(SAMPLING, 30)
    wait_for(lambda: times_of(collector.samples(), "new"), 60, "samples of the new agent")
    s.equal("the old agent ends beside the new one: exit code", old.stop(60), 0)
    wait_for(lambda: times_of(collector.samples(), "new")[-1] > times_of(collector.samples(), "old")[-1] + 1e9, 60, "a second of the new one alone")
    s.equal("the new agent ends: exit code", new.stop(60), 0)
    collector.stop()
    samples = collector.samples()
    before, after = times_of(samples, "old"), times_of(samples, "new")
    s.check("no time without an agent", after[0] < before[-1], f"both sampled for {(before[-1] - after[0]) / 1e9:.2f} s")
    for name, agent, found in (("old", old, before), ("new", new, after)):
        final = agent.final() or {}
        s.equal(f"{name}: taken, exported and received", (final.get("taken"), final.get("exported")), (len(found), len(found)))


def shared_spool(s):
    spool, nobody = Spool(s), f"http://127.0.0.1:{free_port()}"
    first = named(s, nobody, "first", "--queue.spool", spool.folder)
    spool.wait(1)
    second = named(s, nobody, "second", "--queue.spool", spool.folder)
    second.wait_line("spool: another agent uses the folder", 30)
    second.wait_line(SAMPLING, 30)
    s.equal("one spool: the first has it, exit code", first.stop(60), 0)
    left = first.final() or {}
    second.wait_line("requests of an earlier run", 30)
    s.equal("one spool: the second takes it over, exit code", second.stop(60), 0)
    final = second.final() or {}
    s.check("one spool: what both have taken is in it, while the Collector is away", left.get("taken", 0) > 0 and final.get("taken", 0) > 0 and
            final.get("recovered") == left.get("spooled") == left["taken"] and final.get("spooled") == left["taken"] + final["taken"] == spool.samples(),
            f"first: {left}; second: {final}; {spool.samples()} on disk")


def shared_address(s):
    address = f"127.0.0.1:{free_port()}"
    first = named(s, "http://127.0.0.1:1", "first", "--listen", address)
    first.wait_line(SAMPLING, 30)
    second = named(s, "http://127.0.0.1:1", "second", "--listen", address)
    wait_for(lambda: second.process.poll() is not None, 60, "the second agent ends")
    s.check("one address of listen: the second agent ends, and names it", second.process.returncode == 1 and
            second.lines(f"listen {address}: Address already in use"), f"exit code {second.process.returncode}")
    s.equal("one address of listen: the first agent stays, exit code", first.stop(60), 0)


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    handover(s)
    shared_spool(s)
    shared_address(s)


if __name__ == "__main__":
    Scenario("surge").execute(body)
