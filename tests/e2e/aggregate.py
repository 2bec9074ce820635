#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`samples: aggregate`: one value a stack and window instead of timestamps. The real Collector takes it, every request
conforms, each stack occurs once in a profile, the values add up to what the agent counts, and the profile says how long its
window was.
"""
from lib import assertions, profiles, programs
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.scenario import Scenario, wait_for

WINDOW = 1


def check_shape(s, collector):
    found = list(profiles.every_profile(collector.file()))
    samples = [x for p in found for x in p.get("samples", [])]
    s.check("no sample has a timestamp, each has one value", samples and all(
        "timestampsUnixNano" not in x and len(x.get("values", [])) == 1 and int(x["values"][0]) > 0 for x in samples),
        f"{len(samples)} samples in {len(found)} profiles")
    s.check("some stand for more than one event", any(int(x["values"][0]) > 1 for x in samples),
            f"most: {max((int(x['values'][0]) for x in samples), default=0)}")
    twice = sum(len(p["samples"]) - len({(x.get("stackIndex", 0), tuple(sorted(x.get("attributeIndices", [])))) for x in p["samples"]})
                for p in found if p.get("samples"))
    s.equal("samples of one identity that occur twice in a profile", twice, 0)
    durations = sorted(int(p.get("durationNano", 0)) / 1e9 for p in found)
    s.check(f"profiles last a window of {WINDOW} s or more on a busy machine", durations[len(durations) // 2] >= 0.9 * WINDOW,
            f"{durations[0]:.2f} to {durations[-1]:.2f} s")


def body(s):
    s.need_root()
    s.need_proflet()
    collector = Collector(s)
    recorder = Recorder(s, collector)
    programs.start_chain(s)
    agent = Agent(s, recorder.endpoint(), "--samples", "aggregate", window=f"{WINDOW}s")
    wait_for(lambda: len(recorder.requests()) >= 4, 60, "four requests")
    s.equal("exit code", agent.stop(60), 0)
    collector.settle()
    received = collector.samples()
    assertions.loss_identity(s, agent, profiles.total(received))
    check_shape(s, collector)
    own = [x for x in received if x.attributes.get("process.executable.name") == "chain"]
    whole = profiles.total(x for x in own if programs.is_chain(x))
    s.check("the known chain is among the stacks", whole > 0, profiles.share(whole, profiles.total(own)))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("aggregate").execute(body)
