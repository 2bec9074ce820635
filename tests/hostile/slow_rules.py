#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose call-frame information is expressions that loop: each of their samples could cost milliseconds.

With `cpu.max`, the node goes on being sampled as often as before, a neighbour's stacks are whole, and where such a stack is not
followed any further it says so and is counted.
"""
import attack
from attack import wait_for
from lib import programs
from lib.profiles import ending, total
from lib.scenario import tail
from trial import Trial

CPU_MAX = "5%"  # of one CPU


def tenants(s, slow):
    started = [s.start(["nice", "-n", "5", slow, str(depth)], f"slow-{depth}") for depth in (40, 300)]
    wait_for(lambda: all("ready" in tail(p.log) or p.poll() is not None for p in started), 20, "the tenant's programs")
    s.check("the tenant's programs run", all(p.poll() is None for p in started))
    return started


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc")
    trial = Trial(s, "slow rules", "--cpu.max", CPU_MAX)
    agent = trial.agent
    started = tenants(s, programs.build_c(s, "slow_rules"))
    trial.endure()
    metrics = agent.metrics()
    cost = {k.split('"')[1]: 1e6 * v / metrics["proflet_samples_taken_total"] for k, v in metrics.items() if k.startswith("proflet_samples_cpu_seconds_total")}
    s.note(", ".join(f"{k} {v:.1f} µs a sample" for k, v in cost.items()))
    s.check("expressions that cost too much are counted", metrics.get("proflet_stacks_rules_too_costly_total", 0) > 0)
    s.equal("the log says so, once", len(agent.lines("to follow its call-frame information")), 1)
    for process in started:
        process.kill()
    samples = trial.judge()
    for process in started:
        mine = [x for x in samples if x.attributes.get("process.pid") == process.pid]
        s.note(f"process {process.pid}: {total([x for x in mine if ending(x) == 'complete'])} of {total(mine)} whole; "
               f"{sorted({ending(x) for x in mine})}")


if __name__ == "__main__":
    attack.scenario("slow_rules").execute(body)
