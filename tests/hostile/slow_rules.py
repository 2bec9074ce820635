#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose call-frame information is expressions that loop: each of their samples could cost milliseconds.

With `cpu.max`, the node goes on being sampled as often as before, a neighbour's stacks are whole, and where such a stack is not
followed any further it says so and is counted.
"""
import time

import attack
from attack import wait_for
from binaries import chain, check_victim
from lib import machine, programs
from lib.collector import Collector
from lib.profiles import ending, total
from lib.scenario import tail

HZ = 97
CPU_MAX = "5%"  # of one CPU
SECONDS = 8 if attack.QUICK else 60


def tenants(s, slow):
    started = [s.start([slow, str(depth)], f"slow-{depth}") for depth in (40, 300)]
    wait_for(lambda: all("ready" in tail(p.log) or p.poll() is not None for p in started), 20, "the tenant's programs")
    s.check("the tenant's programs run", all(p.poll() is None for p in started))
    return started


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc")
    slow = programs.build_c(s, "slow_rules")
    victim = s.start([chain(s, "victim-before"), programs.LIFE], "victim-before")
    started = tenants(s, slow)
    collector = Collector(s)
    agent = attack.Attacked(s, collector.endpoint(), "--cpu.max", CPU_MAX, window="1s", frequency=HZ)
    watch = attack.Watch(s, agent)
    begin = time.monotonic()
    wait_for(lambda: machine.cpu_seconds(victim.pid) > SECONDS and time.monotonic() - begin > SECONDS, 300, "the victim runs")
    metrics = agent.metrics()
    s.equal("the node is sampled as often as before", metrics["proflet_sampling_frequency_hertz"], metrics["proflet_sampling_frequency_max_hertz"])
    cost = {k.split('"')[1]: 1e6 * v / metrics["proflet_samples_taken_total"] for k, v in metrics.items() if k.startswith("proflet_samples_cpu_seconds_total")}
    s.note(", ".join(f"{k} {v:.1f} µs a sample" for k, v in cost.items()))
    s.check("expressions that cost too much are counted", metrics.get("proflet_stacks_rules_too_costly_total", 0) > 0)
    victim.kill()
    for process in started:
        process.kill()
    s.equal("the log says so, once", len(agent.lines("expressions of its call-frame information")), 1)
    watch.check(s, "slow rules", 160 << 20)
    attack.check_stop(s, "slow rules", agent)
    collector.stop()
    samples = collector.samples()
    check_victim(s, samples, "victim-before")
    for process in started:
        mine = [x for x in samples if x.attributes.get("process.pid") == process.pid]
        s.note(f"process {process.pid}: {total([x for x in mine if ending(x) == 'complete'])} of {total(mine)} whole; "
               f"{sorted({ending(x) for x in mine})}")


if __name__ == "__main__":
    attack.scenario("slow_rules").execute(body)
