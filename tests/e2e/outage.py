#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Collector goes away: killed and started again, never there, there but without a profiles pipeline.

Nothing that fits the queue is lost, the log says once that it is away and once that it is back, and the agent runs on.
"""
import re
import time

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.profiles import total
from lib.scenario import Scenario, free_port, wait_for

AWAY = r"(?i)collector\b.*\baway\b|\baway\b.*\bcollector\b"
BACK = r"(?i)collector\b.*\bback\b|\bback\b.*\bcollector\b"
AWAY_SECONDS = 8  # several windows of samples pile up in the queue


def pass_time(agent, seconds):
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > end or agent.process.poll() is not None, seconds + 5, "time passes")


def killed_and_restarted(s):
    collector = Collector(s)
    agent = Agent(s, collector.endpoint())
    agent.wait_samples(collector)
    collector.kill()
    agent.wait_line(AWAY, 30)
    pass_time(agent, AWAY_SECONDS)
    collector.start()
    agent.wait_line(BACK, 90)
    agent.wait_samples(collector)
    s.equal("restart: exit code at SIGTERM", agent.stop(), 0)
    collector.stop()
    s.equal("restart: lines that say away", len(agent.lines(AWAY)), 1)
    s.equal("restart: lines that say back", len(agent.lines(BACK)), 1)
    final = assertions.loss_identity(s, agent, total(collector.samples()))
    assertions.delivered(s, final, "restart")
    s.check("restart: the second life received what the queue held", collector.size() > 0, f"{collector.size()} bytes")


def never_there(s):
    agent = Agent(s, f"http://127.0.0.1:{free_port()}")
    agent.wait_line(AWAY, 30)
    pass_time(agent, AWAY_SECONDS)
    s.check("no Collector: the agent runs on", agent.process.poll() is None)
    s.equal("no Collector: exit code at SIGTERM", agent.stop(60), 0)
    s.equal("no Collector: lines that say away", len(agent.lines(AWAY)), 1)
    s.equal("no Collector: lines that say back", len(agent.lines(BACK)), 0)
    final = assertions.loss_identity(s, agent, 0)
    s.check("no Collector: what was lost is counted", final.get("dropped", 0) > 0, f"dropped {final.get('dropped')}")


def without_pipeline(s):
    collector = Collector(s, "config-traces.yaml", gate=False)
    agent = Agent(s, collector.endpoint())
    agent.wait_line(r"service\.profilesSupport", 30)
    pass_time(agent, 4)
    s.check("UNIMPLEMENTED: the agent runs on", agent.process.poll() is None)
    s.equal("UNIMPLEMENTED: exit code at SIGTERM", agent.stop(60), 0)
    lines = agent.lines(r"service\.profilesSupport")
    s.check("UNIMPLEMENTED: one line names gate, pipeline and version",
            len(lines) == 1 and "pipeline" in lines[0] and bool(re.search(r"\bv?0\.1\d\d\b", lines[0])),
            f"{len(lines)} lines: {lines[0] if lines else ''}")
    assertions.loss_identity(s, agent, 0)


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    killed_and_restarted(s)
    never_there(s)
    without_pipeline(s)


if __name__ == "__main__":
    Scenario("outage").execute(body)
