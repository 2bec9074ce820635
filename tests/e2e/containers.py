#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The known-chain program in a containerd container, in a docker container and on the host at once; a real Collector.

What the Collector's file exporter wrote must have, in at least 99 % of the program's samples, the exact chain with names,
the right container.id (none on the host), the process id and the executable's name. The loss identity holds against the
same file, and every request on the wire conforms.
"""

import os

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.containers import Containerd, Docker, oci_archive, rootfs, tar_rootfs
from lib.profiles import share, total
from lib.scenario import Scenario

SECONDS = 12
NAME = "contained"  # of the chain program here: no other scenario has one of that name
AT_LEAST = 0.99
MIN_SAMPLES = 100  # of each process, in two seconds of CPU time and more


def start_targets(s):
    """(where, pid, container id or None, pod UID or None) of each running chain program."""
    program = programs.build_c(s, "chain", program=NAME)
    layer = tar_rootfs(s, rootfs(s, [program]))
    archive = oci_archive(s, layer, "localhost/chain:1")
    containerd = Containerd(s)
    ident, pod, pid = containerd.run(archive, "localhost/chain:1", "/bin/" + NAME, programs.LIFE)
    targets = [("containerd", pid, ident, pod)]
    ident, pid = Docker(s, containerd).run(layer, "chain:1", "/bin/" + NAME, programs.LIFE)
    targets.append(("docker", pid, ident, None))
    for _, pid, _, _ in targets:
        os.setpriority(os.PRIO_PROCESS, pid, s.busy_nice)  # as the host's: each gets its share of the CPUs
    targets.append(("host", s.start([program, programs.LIFE], NAME).pid, None, None))
    return targets


def check_target(s, samples, where, pid, ident, pod):
    mine = [x for x in samples if x.attributes.get("process.pid") == pid]
    n = total(mine)
    s.check(f"{where}: samples of the process", n >= MIN_SAMPLES, f"{n} samples, pid {pid}")
    facts = (
        ("exact chain from the leaf to main", programs.is_chain),
        ("container.id", lambda x: x.resource.get("container.id") == ident),
        ("process.executable.name", lambda x: x.attributes.get("process.executable.name") == NAME),
    )
    for what, holds in facts:
        good = total([x for x in mine if holds(x)])
        s.check(f"{where}: {what}", n > 0 and good >= AT_LEAST * n, share(good, n))
    good = total([x for x in mine if all(holds(x) for _, holds in facts)])
    s.check(f"{where}: all of these at once", n > 0 and good >= AT_LEAST * n, share(good, n))
    if pod:
        good = total([x for x in mine if x.resource.get("k8s.pod.uid") == pod])
        s.check(f"{where}: k8s.pod.uid", n > 0 and good >= AT_LEAST * n, share(good, n))
    s.note(f"{where}: {total([x for x in mine if programs.interrupted(x)])} of {n} samples are of kernel code on top of the chain")
    for x in [x for x in mine if not programs.is_chain(x)][:3]:
        s.note(f"{where}: another stack, {x.count} times: " + " < ".join(f.name or hex(f.address) for f in x.frames[:14]))


def body(s):
    s.need_root()
    s.need("containerd", "ctr", "dockerd", "docker", "busybox", "ldd")
    s.need_proflet()
    collector = Collector(s)
    recorder = Recorder(s, collector)
    targets = start_targets(s)
    agent = Agent(s, recorder.endpoint())
    samples = agent.samples_of(collector, SECONDS, [pid for _, pid, _, _ in targets])
    for target in targets:
        check_target(s, samples, *target)
    strangers = {x.attributes.get("process.pid") for x in samples
                 if x.attributes.get("process.executable.name") == NAME} - {t[1] for t in targets}
    s.check("no other process has its name", not strangers, str(strangers or "none"))
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("containers").execute(body)
