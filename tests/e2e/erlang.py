#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of Erlang: a program whose processes are in known chains of calls (tests/oracle/erlang/chains.erl), under this distribution's
Erlang/OTP. tests/oracle/run_erlang does the same under others, and with frame records.
"""
import os
import shutil
import subprocess
import sys

from lib import assertions, programs
from lib.agent import Agent
from lib.collector import Collector, Recorder
from lib.profiles import share, total
from lib.scenario import ROOT, Scenario, free_port, wait_for
from status import Pages

ORACLE = os.path.join(ROOT, "tests", "oracle", "erlang")
sys.path.append(ORACLE)
import judge  # noqa: E402

SECONDS = 12
CPU = 10.0  # s that the program gets at least, of which up to two CPUs' part of SETTLED is not judged
MIN_SAMPLES = 500
SETTLED = 2.0  # s: until then, the agent reads the binary
WHOLE = 0.97  # the rest is in code that the virtual machine's functions share
CHAINS = 9  # kinds of them, of which each is seen


def start_chains(s):
    folder = s.folder("erlang")
    shutil.copy(os.path.join(ORACLE, "chains.erl"), folder)
    evaluate = 'case compile:file("chains") of {ok, _} -> halt(0); _ -> halt(1) end.'
    compiled = subprocess.run(["erl", "-noinput", "-eval", evaluate], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=os.environ | {"HOME": folder})
    if compiled.returncode:
        raise RuntimeError(f"chains.erl: {compiled.stdout[-300:]}")
    pid_file = os.path.join(folder, "pid")
    command = ["erl", "-noinput", "-pa", folder, "-s", "chains", "main", "-extra", programs.LIFE]
    process = s.start(command, "erlang", env={"PID_FILE": pid_file, "HOME": folder})
    wait_for(lambda: process.poll() is not None or os.path.exists(pid_file) and os.path.getsize(pid_file), 60, "the program of known chains")
    if process.poll() is not None:
        raise RuntimeError(f"chains.erl ended with {process.returncode}")
    return process


def judged(samples, pid):
    """→ what became of its samples, but for those of the agent's first seconds"""
    found = judge.Judge()
    mine = [x for x in samples if x.attributes.get("process.pid") == pid]
    begin = min((t for x in mine for t in x.times), default=0) + SETTLED * 1e9
    for x in mine:
        n = sum(t >= begin for t in x.times)
        if n:
            found.add(x._replace(count=n), not any(f.name.startswith("[truncated") for f in x.frames))
    return found


def check_chains(s, found):
    c = found.counts
    n = sum(c.values())
    s.check("samples of known chains", c["exact"] >= MIN_SAMPLES, str(dict(c)))
    s.check("no whole stack has another chain", not c["wrong"], f"{c['wrong']} of {n}")
    s.check("stacks are whole", n > 0 and n - c["cut"] >= WHOLE * n, share(n - c["cut"], n))
    s.check("each kind of chain is seen", len(found.chains) >= CHAINS, str(dict(found.chains)))
    for kind, notes in found.examples.items():
        for note, k in notes.most_common(6):
            s.note(f"{kind}: {k} {note[:300]}")


def counted(pages):
    return sum(v for k, v in pages.metrics().items() if k.startswith("proflet_erlang_samples_total"))


def body(s):
    s.need_root()
    s.need("erl")
    s.need_proflet()
    process = start_chains(s)
    collector = Collector(s)
    recorder = Recorder(s, collector)
    port = free_port()
    agent = Agent(s, recorder.endpoint(), "--listen", f"127.0.0.1:{port}", frequency=97)
    agent.wait_samples(collector)
    wait_for(lambda: counted(Pages(port)) or None, 60, "samples of Erlang in the metrics")
    samples = agent.samples_of(collector, SECONDS, [process.pid], cpu=CPU)
    check_chains(s, judged(samples, process.pid))
    assertions.loss_identity(s, agent, total(samples))
    assertions.conforms(s, recorder.requests())


if __name__ == "__main__":
    Scenario("erlang").execute(body)
