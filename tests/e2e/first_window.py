#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first window ends with the first samples. It is sent as any other: whole, with the names of all native functions, also
where a large binary's take longer to read than the samples took to come.
"""
import json
import os
import shutil

from lib import profiles, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.scenario import Scenario

AGENTS = 4
WINDOW = "60s"  # the first one does not wait for that
WITHIN = 30  # s, on a busy machine


def first_request(s, agent, collector):
    agent.wait_samples(collector, WITHIN)
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    collector.stop()
    with open(collector.file(), encoding="utf-8") as f:
        return list(profiles.Request(json.loads(f.readline())).samples())


def native(sample):
    """Frames of files, with names or not."""
    return [f for f in sample.frames if f.file and not f.file.startswith("[")]


def body(s):
    s.need_root()
    s.need("node")
    s.need_proflet()
    node = s.start([shutil.which("node"), "-e", programs.NODE], "node")
    seen, nameless = 0, []
    for _ in range(AGENTS):
        collector = Collector(s)
        agent = Agent(s, collector.endpoint(), "--select.include", f"pid={node.pid}", window=WINDOW, frequency=997)
        mine = first_request(s, agent, collector)
        frames = [f for x in mine for f in native(x)]
        seen += len(frames)
        nameless += [f for f in frames if not f.name or "+0x" in f.name]
        s.equal("samples of the first window that are not whole", [profiles.ending(x) for x in mine if profiles.ending(x) != "complete"], [])
    s.check("native frames of the first windows", seen >= AGENTS, f"{seen}")
    s.equal("those without a name", sorted({f"{os.path.basename(f.file)} {f.name or hex(f.address)}" for f in nameless}), [])


if __name__ == "__main__":
    Scenario("first_window").execute(body)
