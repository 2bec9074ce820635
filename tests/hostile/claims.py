#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant that may make control groups (a delegated one, or those below its own container) names them like its neighbour's.

Nothing of the tenant appears under the neighbour's container or pod: what it claims in a delegated group is not believed, and below
a container's group, that container stays what it is.
"""
import os
import secrets
import uuid

import attack
from lib import cgroups, machine, programs
from trial import Trial

TENANT = 65534


def start(s, program, group, name):
    """The program, as a tenant, in a group."""
    enter = f"echo $$ > {group}/cgroup.procs && exec nice -n 10 setpriv --reuid={TENANT} --regid={TENANT} --clear-groups {program} {programs.LIFE}"
    return s.start(["sh", "-c", enter], name)


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("setpriv")
    victim_id, tenant_id, pod = secrets.token_hex(32), secrets.token_hex(32), str(uuid.uuid4())
    kubepods = cgroups.make(s, f"kubepods-{os.getpid()}")
    made = {
        "victim": cgroups.make(s, victim_id, cgroups.make(s, f"pod{pod}", kubepods)),
        "container": cgroups.make(s, tenant_id, cgroups.make(s, f"pod{uuid.uuid4()}", kubepods)),
        "service": cgroups.make(s, "delegated"),
    }
    for group in (made["container"], made["service"]):
        os.chown(group, TENANT, TENANT)
    claims = {
        "below its container": cgroups.make(s, f"docker-{victim_id}.scope", made["container"]),
        "a pod below its container": cgroups.make(s, victim_id, cgroups.make(s, f"pod{pod}", made["container"])),
        "in a delegated group": cgroups.make(s, victim_id, made["service"]),
        "a pod in a delegated group": cgroups.make(s, victim_id, cgroups.make(s, f"pod{pod}", made["service"])),
        "as a user's unit": cgroups.make(s, f"libpod-{victim_id}.scope", made["service"]),
    }
    chain = programs.build_c(s, "chain")
    running = {how: start(s, chain, group, how.replace(" ", "-")) for how, group in {"victim": made["victim"], **claims}.items()}
    trial = Trial(s, "claims", window="500ms")
    claimed = machine.CpuTime([p.pid for p in running.values()])
    trial.endure()
    claimed.wait(0.4 if attack.QUICK else 10)
    metrics = trial.agent.metrics()
    s.check("claims are counted", metrics["proflet_workloads_suspicious_total"] >= 3)
    s.equal("the log says so, once", len(trial.agent.lines("is named like a container or pod")), 1)
    for process in running.values():
        process.kill()
    samples = trial.judge()
    of = lambda how: [x for x in samples if x.attributes.get("process.pid") == running[how].pid]
    ids = lambda how: ({x.resource.get("container.id") for x in of(how)}, {x.resource.get("k8s.pod.uid") for x in of(how)})
    s.equal("the victim is its container", ids("victim"), ({victim_id}, {pod}))
    for how in claims:
        inside = "container" in how
        found, pods = ids(how)
        s.equal(f"{how}: whose container", found, {tenant_id} if inside else {None})
        s.check(f"{how}: not the victim's pod", pod not in pods, f"{pods}")


if __name__ == "__main__":
    attack.scenario("claims").execute(body)
