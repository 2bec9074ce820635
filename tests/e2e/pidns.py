#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PID namespaces, real ones: known-chain programs on the host, in a namespace as a node in a container has it, and one deeper;
agents on the host, in that namespace, and as its own first child. Each agent reports the pids of its own namespace, of the
processes that are visible there; the others' samples are counted, and are nobody's.
"""
import os
import re
import secrets
import shutil
import time

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector
from lib.machine import CpuTime
from lib.profiles import ending, share, total
from lib.scenario import PROFLET, Scenario, kill, wait_for

SECONDS, CPU_SECONDS = 8, 1  # of the recording; of each program in it
MARK = secrets.token_hex(3)  # other tests may run beside us
OUTSIDE, INSIDE, DEEPER, NODE = (f"{name}-{MARK}" for name in ("outside", "inside", "deeper", "node"))
AT_LEAST = 0.98  # of some hundred samples

# PID 1 of the node: two programs, and short lives beside them.
NODE_SCRIPT = """#!/bin/sh
{inside} 3600 &
unshare --pid --fork --mount-proc --kill-child {deeper} 3600 &
nice -n 19 sh -c "while :; do /bin/true; done" &
wait
"""
# nsenter forks, and does not hand signals on.
ENTER = """#!/bin/sh
nsenter -t {pid} -p -m -- {proflet} "$@" &
child=$!
trap 'kill -TERM $(cat /proc/$child/task/$child/children)' TERM
wait $child
code=$?
while kill -0 $child 2> /dev/null; do wait $child; code=$?; done
exit $code
"""
# PID 1 of a namespace of its own, as a pod without hostPID.
ALONE = """#!/bin/sh
unshare --pid --fork --mount-proc -- {proflet} "$@" &
child=$!
trap 'kill -TERM $(cat /proc/$child/task/$child/children)' TERM
wait $child
code=$?
while kill -0 $child 2> /dev/null; do wait $child; code=$?; done
exit $code
"""


def script(s, name, text):
    path = s.path(name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


def pids_of(name):
    """The pids of a program, from the outermost namespace to its own; None: it does not run."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() != name:
                    continue
            with open(f"/proc/{pid}/status") as f:
                return [int(n) for n in re.search(r"^NSpid:(.*)$", f.read(), re.M)[1].split()]
        except OSError:
            continue
    return None


def start(s):
    """Starts all; returns each program's pids, and the host's pid of the node's PID 1."""
    chain = programs.build_c(s, "chain")
    paths = {name: shutil.copy(chain, s.path(name)) for name in (OUTSIDE, INSIDE, DEEPER)}
    s.start([paths[OUTSIDE], programs.LIFE], OUTSIDE)
    s.start(["nice", "-n", "19", "sh", "-c", "while :; do /bin/true; done"], "short lives outside")
    node = script(s, NODE, NODE_SCRIPT.format(inside=paths[INSIDE], deeper=paths[DEEPER]))
    s.start(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", node], "node", end=kill)
    wait_for(lambda: all(map(pids_of, paths)), 20, "the programs run")
    pids = {name: pids_of(name) for name in paths}
    if [len(pids[n]) for n in (OUTSIDE, INSIDE, DEEPER)] != [1, 2, 3]:
        raise RuntimeError(f"not the namespaces that were wanted: {pids}")
    return pids, wait_for(lambda: pids_of(NODE), 10, "the node's PID 1")[0]


def run(s, where, program, wanted, on_host):
    """An agent there; `wanted`: program → pid that its samples must have, for those that it can see. `on_host`: of all."""
    collector = Collector(s)
    agent = Agent(s, collector.endpoint(), program=program)
    if wanted:
        agent.wait_samples(collector)
    else:
        agent.wait_line('msg="sampling"', 30)  # there is little to be seen
    end, got = time.monotonic() + SECONDS, CpuTime(on_host)
    wait_for(lambda: time.monotonic() > end, SECONDS + 5, "the recording's time")
    got.wait(CPU_SECONDS)
    s.equal(f"{where}: exit code at SIGTERM", agent.stop(), 0)
    collector.settle()
    samples = collector.samples()
    for name in (OUTSIDE, INSIDE, DEEPER):
        mine = [x for x in samples if x.attributes.get("process.executable.name") == name]
        if name not in wanted:
            s.equal(f"{where}: samples of {name}", total(mine), 0)
            continue
        n, good = total(mine), total([x for x in mine if programs.is_chain(x)])
        s.check(f"{where}: samples of {name}", n >= 20, f"{n}")
        s.equal(f"{where}: pids of {name}", {x.attributes.get("process.pid") for x in mine}, {wanted[name]})
        s.check(f"{where}: chains of {name}", n and good >= AT_LEAST * n, share(good, n))
        for x in [x for x in mine if not programs.is_chain(x)][:3]:
            s.note(f"{where}: another stack of {name}, {x.count} times: {ending(x)}: " +
                   " < ".join(f.name or hex(f.address) for f in x.frames[:14]))
    strangers = [x for x in samples if x.attributes.get("process.pid") in wanted.values() and
                 x.attributes.get("process.executable.name") not in wanted]
    s.equal(f"{where}: samples of others under these pids", total(strangers), 0)
    final = assertions.loss_identity(s, agent, total(samples), where)
    collector.stop()
    return final, samples


def check_line(s, where, program, wanted):
    done = s.run([program, "check"], check=False)
    line = next((line for line in done.stdout.splitlines() if "pid namespace" in line), "no line")
    s.check(f"{where}: what check says", wanted in line, line)


def body(s):
    s.need_root()
    s.need("unshare", "nsenter")
    s.need_proflet()
    pids, node = start(s)
    enter = script(s, "enter", ENTER.format(pid=node, proflet=PROFLET))
    alone = script(s, "alone", ALONE.format(proflet=PROFLET))

    on_host = [pids[name][0] for name in pids]
    final, _ = run(s, "host", PROFLET, {name: pids[name][0] for name in pids}, on_host)
    s.equal("host: samples of tasks that are not visible", final.get("dropped_no_pid", 0), 0)

    final, samples = run(s, "nested", enter, {name: pids[name][1] for name in (INSIDE, DEEPER)}, on_host)
    s.check("nested: those of the host are counted", final.get("dropped_no_pid", 0) > 20, str(final.get("dropped_no_pid")))
    short = [x for x in samples if x.attributes.get("process.executable.name") == "true"]
    s.note(f"nested: {total(short)} samples of short lives, {len({x.attributes.get('process.pid') for x in short})} pids")

    final, samples = run(s, "alone", alone, {}, on_host)
    s.check("alone: all but its own are counted", final.get("dropped_no_pid", 0) >= 0.8 * final.get("taken", 1),
            f"{final.get('dropped_no_pid')} of {final.get('taken')}")
    others = {x.attributes.get("process.pid") for x in samples if not x.attributes["process.executable.name"].startswith("proflet")}
    s.equal("alone: whose samples", others - {1}, set())  # its own: also those of the processes that read binaries for it

    initial = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    check_line(s, "host", PROFLET, "that of the host" if initial else "a nested one")
    check_line(s, "nested", enter, "a nested one")
    check_line(s, "alone", alone, "only the agent's own container is seen")


if __name__ == "__main__":
    Scenario("pidns").execute(body)
