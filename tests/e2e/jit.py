#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code that processes make at run time: Node.js with a perf map (and runtimes.node off) and a program with a jitdump file, each on the host and
in a container with mount and PID namespaces of its own; and Node's own jitdump, which it writes at its end. The hot
functions are known by construction: the frames have their names, in the order in which they call one another.
"""
import os
import re
import shutil

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.containers import Containerd, rootfs, tar_rootfs, oci_archive
from lib.profiles import share, total
from lib.scenario import PROFLET, Scenario

SECONDS = 16
AT_LEAST = 0.95
MIN_SAMPLES = 40
# `fold` is called with the same few objects, and does next to nothing itself: the time is spent in `hot_loop`
SCRIPT = """
function proflet_hot_loop(n) { let s = 0; for (let i = 0; i < n; i++) s = (s + i * 31) % 1000003; return s; }
function proflet_fold(a) { let t = 0; for (const x of a) t += proflet_hot_loop(20000 + x); return t; }
function proflet_outer() { let t = 0; for (let k = 0; k < 50; k++) t += proflet_fold([k, k + 1, k + 2]); return t; }
const end = 1e6 * Number(process.argv[1]); let x = 0; // of CPU time
while (process.cpuUsage().user < end) x += proflet_outer();
"""
NODE = ["--no-turbo-inlining", "--no-maglev-inlining"]
CALLS = ("proflet_hot_loop", "proflet_fold", "proflet_outer")  # leaf first
PAIR = re.compile(r"(leaf|outer)_(\d+)$")


def node_argv(s, node, kind, seconds):
    """Flags that this Node.js knows, so that each function keeps a frame of its own."""
    known = [f for f in NODE if s.run([node, f, "-e", ""], check=False, cwd=s.tmp).returncode == 0]
    return [node, kind, *known, "-e", SCRIPT, str(seconds)]


def start_targets(s, node, jitdump):
    """(what, where, pid, container id or None) of each."""
    perf_map = node_argv(s, node, "--perf-basic-prof", programs.LIFE)
    targets = [("node", "host", s.start(perf_map, "node", cwd=s.tmp).pid, None),
               ("jitdump", "host", s.start([jitdump, programs.LIFE], "jitdump").pid, None)]
    for what, pid in ((t[0], t[2]) for t in targets[:]):
        left = f"/tmp/perf-{pid}.map" if what == "node" else f"/tmp/jit-{pid}.dump"
        s.defer(lambda path=left: os.path.exists(path) and os.unlink(path))
    containerd = Containerd(s)
    archive = oci_archive(s, tar_rootfs(s, rootfs(s, [node, jitdump])), "localhost/jit:1")
    for what, argv in (("node", ["/bin/node", *perf_map[1:]]), ("jitdump", ["/bin/jitdump", programs.LIFE])):
        ident, _, pid = containerd.run(archive, "localhost/jit:1", *argv)
        targets.append((what, "container", pid, ident))
    return targets


def made_at_run_time(sample):
    """The user's frames outside of any file."""
    return [f for f in sample.frames if f.kind != "kernel" and not f.file and not f.name.startswith("[truncated")]


def node_frames_right(names):
    """The functions of the script, in the order of their calls; between and around them is code of Node's own, named too."""
    ours = [name.split(" ")[0] for name in names if name.startswith("proflet_")]
    return ours == [c for c in CALLS if c in ours] and not any(n.startswith("[anonymous]") for n in names)


def pair_frames_right(names):
    """leaf_N under outer_N, or outer_N alone."""
    found = [PAIR.match(name) for name in names]
    if not found or not all(found) or len(found) > 2 or found[-1].group(1) != "outer":
        return False
    return len(found) == 1 or (found[0].group(1) == "leaf" and found[0].group(2) == found[1].group(2))


def check_frames(s, what, samples, kinds):
    """Every frame has a name, every stack its functions in order, every named frame the runtime's type."""
    is_right = node_frames_right if what.startswith("node") else pair_frames_right
    jit = [(x, [f.name for f in made_at_run_time(x)]) for x in samples if made_at_run_time(x)]
    n = sum(x.count for x, _ in jit)
    n_frames = sum(x.count * len(names) for x, names in jit)
    right = sum(x.count for x, names in jit if is_right(names))
    right_frames = sum(x.count * len(names) for x, names in jit if is_right(names))
    s.check(f"{what}: samples in code made at run time", n >= MIN_SAMPLES and n >= 0.5 * total(samples), share(n, total(samples)))
    s.check(f"{what}: stacks named right", n > 0 and right >= AT_LEAST * n, share(right, n))
    s.check(f"{what}: frames named right", n_frames > 0 and right_frames >= AT_LEAST * n_frames, share(right_frames, n_frames))
    found = {f.kind for x, _ in jit for f in made_at_run_time(x) if f.name.startswith(("proflet_", "leaf_", "outer_"))}
    s.check(f"{what}: frame type", bool(found) and found <= kinds, ", ".join(sorted(found)))
    for x, names in [y for y in jit if not is_right(y[1])][:3]:
        s.note(f"{what}: another stack, {x.count} times: " + " < ".join(names[:10]))
    return jit


def check_leaf(s, what, jit, prefix):
    """Where the time is spent is known too."""
    n = sum(x.count for x, _ in jit)
    top = sum(x.count for x, names in jit if names[0].startswith(prefix))
    s.check(f"{what}: the time is that of {prefix}", n > 0 and top >= 0.8 * n, share(top, n))


def check_target(s, samples, what, where, pid, ident):
    mine = [x for x in samples if x.attributes.get("process.pid") == pid]
    name = f"{what} in {where}" if where == "container" else f"{what} on the {where}"
    jit = check_frames(s, name, mine, {"v8js"} if what == "node" else {"native"})
    check_leaf(s, name, jit, "proflet_hot_loop" if what == "node" else "leaf_")
    if ident:
        good = total([x for x in mine if x.resource.get("container.id") == ident])
        s.check(f"{name}: container.id", mine and good >= 0.99 * total(mine), share(good, total(mine)))
    if what == "jitdump":
        pairs = {PAIR.match(n).group(2) for _, names in jit for n in names if PAIR.match(n)}
        s.check(f"{name}: names made while it ran", len(pairs) >= 20, f"{len(pairs)} pairs of functions")


def check_record(s, node):
    """Node writes its jitdump file when its buffer is full, or at its end: one recording has all of it."""
    if s.run([node, "--perf-prof", "-e", ""], check=False, cwd=s.tmp).returncode:
        s.skip("node's own jitdump", "this Node.js has no --perf-prof")
        return
    out = s.path("recording")
    s.run([PROFLET, "record", "-d", "300s", "-F", "99", "-o", out, "--format", "folded", "--runtimes.node", "off", "--",
           *node_argv(s, node, "--perf-prof", 4)], cwd=s.tmp, seconds=120)
    right = n = 0
    with open(out + ".folded", encoding="utf-8") as f:
        for line in f:
            stack, _, count = line.rpartition(" ")
            names = [name for name in reversed(re.split(";(?! )", stack)) if name.startswith("proflet_") or "0x" in name[:2]]
            if names:
                n += int(count)
                right += int(count) * node_frames_right(names)
    s.check("node's own jitdump: stacks named right", n >= MIN_SAMPLES and right >= AT_LEAST * n, share(right, n))


def body(s):
    s.need_root()
    s.need("containerd", "ctr", "busybox", "ldd", "node")
    s.need_proflet()
    if os.uname().machine != "x86_64":
        s.skip("rest of the scenario", "tests/support/jitdump.c makes x86-64 code")
        return
    node, jitdump = os.path.realpath(shutil.which("node")), programs.build_c(s, "jitdump")
    collector = Collector(s)
    recorder = Recorder(s, collector)
    targets = start_targets(s, node, jitdump)
    agent = Agent(s, recorder.endpoint(), "--runtimes.node", "off")
    samples = agent.samples_of(collector, SECONDS, [pid for _, _, pid, _ in targets])
    for target in targets:
        check_target(s, samples, *target)
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())
    check_record(s, node)


if __name__ == "__main__":
    Scenario("jit").execute(body)
