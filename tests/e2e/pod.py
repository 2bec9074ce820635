#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent as in a pod with hostPID: control group, mount, UTS and cgroup namespace of its own, in the PID namespace of a node.
The node is a PID namespace with its own name and machine id, so that all of it is looked at from inside. The pod beside the
agent has its ids although the paths that the agent reads are relative to its own; host.name and host.id are the node's.
"""
import os
import secrets
import uuid

from lib import assertions, cgroups, machine, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.profiles import share, total
from lib.scenario import PROFLET, Scenario, kill, wait_for

CPU_SECONDS = 1  # of each program
AT_LEAST = 0.98
LITTLE_CPU = "the agent gets too little CPU time"

# PID 1 of the node. `wait` at the end: it lives as long as what it started.
NODE = """#!/bin/sh
set -e
hostname {node}
mount --bind {files}/node-machine-id /etc/machine-id
mount --bind {files}/node-hostname /etc/hostname
echo up > {files}/up
while [ ! -e {files}/over ]; do sleep 0.2; done
"""
# Into the node's namespaces, into the agent's group, then into the agent's own namespaces.
ENTER = """#!/bin/sh
nsenter -t {pid} -p -m -u -- {inner} "$@" &
child=$!
trap 'kill -TERM $(cat /proc/$child/task/$child/children)' TERM
wait $child
code=$?
while kill -0 $child 2> /dev/null; do wait $child; code=$?; done
exit $code
"""
INNER = """#!/bin/sh
set -e
echo $$ > {group}/cgroup.procs
exec unshare --cgroup --mount --uts -- {inmost} "$@"
"""
INMOST = """#!/bin/sh
set -e
hostname proflet-x7k2p
mount --bind {files}/pod-machine-id /etc/machine-id
mount --bind {files}/pod-hostname /etc/hostname
umount -l {hierarchy}
mount -t cgroup2 cgroup2 {hierarchy}
exec {proflet} "$@"
"""


def write(s, name, text, mode=0o644):
    path = s.path(name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def start_node(s, name, ident):
    for who, machine, host in (("node", ident, name), ("pod", secrets.token_hex(16), "proflet-x7k2p")):
        write(s, f"{who}-machine-id", machine + "\n")
        write(s, f"{who}-hostname", f"# {who}\n{host}\n")
    script = write(s, "be-" + name, NODE.format(node=name, files=s.tmp), 0o755)
    process = s.start(["unshare", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child", script], "node", end=kill)
    s.defer(lambda: write(s, "over", ""))
    wait_for(lambda: os.path.exists(s.path("up")) or process.poll() is not None, 20, "the node is up")
    if process.poll() is not None:
        s.skip("a node with a name of its own", "no namespaces can be made here")
        return None
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as f:
        return int(f.read().split()[0])


def members(group):
    with open(os.path.join(group, "cgroup.procs")) as f:
        return [int(x) for x in f.read().split()]


def check_sample(s, what, samples, pid, wanted):
    mine = [x for x in samples if x.attributes.get("process.pid") == pid]
    n = total(mine)
    s.check(f"{what}: samples", n >= 5, f"{n}")
    for key, value in wanted.items():
        good = total([x for x in mine if x.resource.get(key) == value])
        s.check(f"{what}: {key} is {value}", n and good >= AT_LEAST * n, share(good, n))


def body(s):
    s.need_root()
    s.need("unshare", "nsenter", "mount", "hostname")
    s.need_proflet()
    hierarchy = cgroups.hierarchy()
    if "cgroup2" not in s.run(["stat", "-f", "-c", "%T", hierarchy]).stdout:
        s.skip("all", "no unified hierarchy is mounted")
        return
    name, ident = "node-" + secrets.token_hex(3), secrets.token_hex(16)
    pods = [str(uuid.uuid4()) for _ in range(2)]
    own, beside, other = ((pods[0], secrets.token_hex(32)), (pods[0], secrets.token_hex(32)), (pods[1], secrets.token_hex(32)))
    groups = {c: cgroups.make(s, f"kubepods/burstable/pod{c[0]}/{c[1]}") for c in (own, beside, other)}
    node = start_node(s, name, ident)
    if not node:
        return
    chain = programs.build_c(s, "chain")
    for c in (own, beside, other):
        s.start(["nsenter", "-t", str(node), "-p", "-m", "-u", "--", "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"',
                 groups[c], chain, programs.LIFE], "chain")
    s.start(["nsenter", "-t", str(node), "-p", "-m", "-u", "--", chain, programs.LIFE], "chain of the node")
    pids = [wait_for(lambda c=c: members(groups[c]), 20, "a program is in its group")[0] for c in (own, beside, other)]
    inmost = write(s, "inmost", INMOST.format(files=s.tmp, hierarchy=hierarchy, proflet=PROFLET), 0o755)
    inner = write(s, "inner", INNER.format(group=groups[own], inmost=inmost), 0o755)
    enter = write(s, "enter", ENTER.format(pid=node, inner=inner), 0o755)
    collector = Collector(s)
    agent = Agent(s, collector.endpoint(), "--kubernetes.node", "as-the-cluster-says", program=enter)
    agent.wait_samples(collector)
    machine.wait_for_cpu(pids, CPU_SECONDS)
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    collector.stop()
    samples = collector.samples()
    host = {"host.name": name, "host.id": ident, "k8s.node.name": "as-the-cluster-says"}
    for what, c in (("the agent's own container", own), ("the container beside the agent", beside), ("another pod", other)):
        chains = [x for x in samples if programs.is_chain(x) and x.resource.get("container.id") == c[1]]  # not the agent's processes
        pid = chains[0].attributes["process.pid"] if chains else None
        check_sample(s, what, samples, pid, {"container.id": c[1], "k8s.pod.uid": c[0], **host})
    of_node = {x.attributes["process.pid"] for x in samples if programs.is_chain(x) and "container.id" not in x.resource}
    s.equal("one chain is of no container", len(of_node), 1)
    check_sample(s, "a process of the node", samples, of_node.pop() if of_node else None, host)
    s.equal("warnings, but for one about a busy machine", [x for x in agent.lines("level=warn") if LITTLE_CPU not in x], [])
    assertions.loss_identity(s, agent, total(samples))


if __name__ == "__main__":
    Scenario("pod").execute(body)
