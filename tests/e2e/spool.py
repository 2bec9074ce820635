#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Collector that is away over three lives of the agent: the first is killed, the second ends by SIGTERM, the third delivers.

Every sample that was on disk arrives once; a kill loses no more than the window that was in memory.
"""
import os
import signal
import time

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import PromiseClock
from lib.profiles import total
from lib.scenario import Scenario, wait_for
from lib.spool import Spool

WINDOW = 1


def agent_with(s, spool, collector, *options):
    return Agent(s, collector.endpoint(), "--queue.spool", spool.folder, *options, window=f"{WINDOW}s")


def killed(s, spool, collector):
    clock = PromiseClock(s)
    agent = agent_with(s, spool, collector)
    spool.wait(4)
    agent.process.send_signal(signal.SIGKILL)
    killed_at = time.time()
    agent.process.wait()
    age = clock.between(os.path.getmtime(spool.files()[-1]), killed_at)
    s.check("kill -9: what is not on disk is one window", age < 2 * WINDOW + 0.5, f"last request written {age:.2f} s before")
    return spool.samples()


def ended(s, spool, collector, before):
    agent = agent_with(s, spool, collector)
    agent.wait_line(r"spool: \d+ requests of an earlier run", 30)
    spool.wait(len(spool.files()) + 3)
    s.equal("SIGTERM: exit code", agent.stop(60), 0)
    final = agent.final() or {}
    s.equal("SIGTERM: recovered is what the killed one left", final.get("recovered"), before)
    s.equal("SIGTERM: spooled is what is on disk", final.get("spooled"), spool.samples())
    s.equal("SIGTERM: nothing was dropped on the way", assertions.lost_on_the_way(final), {})
    assertions.loss_identity(s, agent, 0)
    return spool.samples()


def delivered(s, spool, collector, before):
    collector.start()
    agent = agent_with(s, spool, collector)
    wait_for(lambda: not spool.files(), 60, "an empty spool")
    s.equal("back: exit code", agent.stop(60), 0)
    collector.stop()
    final = assertions.loss_identity(s, agent, total(collector.samples()))
    s.equal("back: recovered is what was on disk", final.get("recovered"), before)
    assertions.delivered(s, final, "back")
    s.equal("back: nothing is left on disk", (spool.files(), final.get("spooled")), ([], 0))
    events = [(t, x.attributes.get("thread.name"), x.frames) for x in collector.samples() for t in x.times]
    s.equal("back: no sample came twice", len(events), len(set(events)))


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    collector = Collector(s)
    collector.stop()
    spool = Spool(s)
    before = killed(s, spool, collector)
    before = ended(s, spool, collector, before)
    delivered(s, spool, collector, before)


if __name__ == "__main__":
    Scenario("spool").execute(body)
