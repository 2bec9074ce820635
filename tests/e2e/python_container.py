#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of CPython in a containerd container: the program of known chains (tests/oracle/python/chains.py) in a root file system that
has this machine's Python and nothing else; a real Collector.

The samples with the container's container.id have the exact chains, by names, files and lines; no other sample has such a function.
"""
import os
import secrets
import shutil

from lib import assertions, language_chains
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.containers import Containerd, libraries, oci_archive, rootfs, tar_rootfs
from lib.profiles import share, total
from lib.scenario import Scenario, wait_for
from python import ATTRIBUTES, CHAINS, CPU, MIN_SAMPLES, SECONDS, SETTLED, python

IMAGE, LIFE = "localhost/python:1", "3600"
PROGRAM = f"/opt/chains-{secrets.token_hex(4)}.py"  # of this run: no other container has one of that name
AT_LEAST = 0.99  # of the samples that are in a chain: `python` judges them more strictly, and what lies between two chains
LEFT_OUT = ("__pycache__", "test", "idlelib", "lib2to3", "ensurepip", "config-*", "dist-packages", "tkinter", "sitecustomize.py")


def add(root, path, target=None):
    target = root + (target or path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(path, target)


def image(s, interpreter):
    """An archive with the interpreter, its library, and the shared libraries of both."""
    root, library = rootfs(s, []), "/usr/lib/" + os.path.basename(interpreter)
    shutil.copytree(library, root + library, ignore=shutil.ignore_patterns(*LEFT_OUT))
    add(root, interpreter)
    add(root, CHAINS, PROGRAM)
    modules = os.path.join(library, "lib-dynload")
    needed = {x for f in [interpreter, *(os.path.join(modules, m) for m in os.listdir(modules))] for x in libraries(s, f)}
    for x in needed:
        add(root, x)
    return oci_archive(s, tar_rootfs(s, root), IMAGE)


def start_chains(s, archive, interpreter):
    """→ (the container's id, the pod's UID, process id, truth)"""
    containerd = Containerd(s)
    ident, pod, pid = containerd.run(archive, IMAGE, interpreter, PROGRAM, "/tmp/truth", "--seconds", LIFE)
    path = f"/proc/{pid}/root/tmp/truth"
    wait_for(lambda: os.path.exists(path) or not os.path.exists(f"/proc/{pid}"), 120, "the program of known chains")
    return ident, pod, pid, language_chains.Truth(path)


def check(s, archive, interpreter, settled=SETTLED):
    """Runs the chains in a container with this image, where the interpreter is, and checks what the Collector gets `settled` s later."""
    collector = Collector(s)
    recorder = Recorder(s, collector)
    ident, pod, pid, truth = start_chains(s, archive, interpreter)
    agent = Agent(s, recorder.endpoint(), "--attributes.sample", ATTRIBUTES, "--stack.depth", "1024", frequency=997)
    samples = agent.samples_of(collector, SECONDS, [pid], cpu=CPU)
    mine = [x for x in samples if x.resource.get("container.id") == ident]
    s.check("samples of the container", pid in {x.attributes.get("process.pid") for x in mine}, f"{total(mine)} samples, pid {pid}")
    good = total([x for x in mine if x.resource.get("k8s.pod.uid") == pod])
    s.equal("k8s.pod.uid", share(good, total(mine)), share(total(mine), total(mine)))
    named = [x for x in samples if any(f.kind == "cpython" and f.source == PROGRAM for f in x.frames)]
    s.equal("nobody else has its functions", total([x for x in named if x.resource.get("container.id") != ident]), 0)
    judge = language_chains.Judge(truth)
    for x in language_chains.settled(samples, {x.attributes["process.pid"] for x in mine}, settled):
        judge.add(x)
    s.check("samples of known chains", judge.total() >= MIN_SAMPLES, judge.summary())
    exact = s.check("their chains are exact", judge.exact_share() >= AT_LEAST, f"{100 * judge.exact_share():.3f} %")
    for line in [] if exact else judge.lines():
        s.note(line[:300])
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


def body(s):
    s.need_root()
    s.need("containerd", "ctr", "busybox", "ldd")
    s.need_proflet()
    interpreter = python()
    check(s, image(s, interpreter), interpreter)


if __name__ == "__main__":
    Scenario("python_container").execute(body)
