#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant whose list of generated code (a perf map) is a file of somebody else.

A perf map that is a bind mount, a symbolic or hard link of a file that only root may read, or such a file itself, renamed: none
of its lines comes out as a function's name. The map of the process's own is read.
"""
import os
import re

import attack
from attack import wait_for
from lib import programs
from lib.collector import Collector

TENANT = 65534
CODE = 0x500000000000
SECRET = "ROOT_ONLY_SECRET_password"
MINE = "function_of_my_own"


def text(name):
    return f"{CODE:x} 1000 {name}\n"


def plant(path, how, secret):
    """Puts the root-only file at the map's name as root could be brought to do, or as a sloppy /tmp permits it."""
    if how == "symlink":
        os.symlink(secret, path)
    elif how == "fd_link":
        os.symlink(f"/proc/{os.getpid()}/fd/{plant.fd}", path)
    elif how == "hardlink":
        os.link(plant.linked, path)
    elif how == "renamed":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text(SECRET))
        os.chmod(path, 0o600)
    elif how == "own":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text(MINE))
        os.chown(path, TENANT, TENANT)
        os.chmod(path, 0o600)


def root_only(s, what):
    path = f"/tmp/proflet-{what}-{os.getpid()}"
    s.defer(lambda: os.unlink(path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
        f.write(text(SECRET))
    return path


def start(s, program, how, secret):
    process = s.start([program, str(TENANT)] + (["bind", secret] if how == "mounted" else []), how)
    path = f"/tmp/perf-{process.pid}.map"
    s.defer(lambda: os.path.lexists(path) and os.unlink(path))
    wait_for(lambda: process.poll() is not None or "ready" in open(process.log, encoding="utf-8").read(), 10, "the tenant runs")
    if process.poll() is not None:
        s.skip(how, open(process.log, encoding="utf-8").read().strip())
        return None
    plant(path, how, secret)
    return process


REASONS = {"mounted": "mounted", "symlink": "not_regular", "fd_link": "not_regular", "hardlink": "foreign", "renamed": "foreign"}


def body(s):
    s.need_root()
    s.need_proflet()
    program = programs.build_c(s, "generated")
    secret, plant.linked = root_only(s, "secret"), root_only(s, "linked")
    plant.fd = os.open(secret, os.O_RDONLY)
    running = {how: start(s, program, how, secret) for how in [*REASONS, "own"]}
    collector = Collector(s)
    agent = attack.Attacked(s, collector.endpoint(), "--select.include", "comm=generated", window="300ms")
    watch = attack.Watch(s, agent)
    pids = {p.pid: how for how, p in running.items() if p}

    def seen():
        found = {}
        for x in collector.samples():
            how = pids.get(x.attributes.get("process.pid"))
            if how:
                found.setdefault(how, []).append(x)
        return found

    seconds = 3 if attack.QUICK else 15
    wait_for(lambda: all(len(seen().get(how, [])) >= 3 * seconds for how in pids.values()), 60, "samples of all tenants")
    metrics = agent.metrics()
    names = {how: {f.name for x in samples for f in x.frames} for how, samples in seen().items()}
    s.check("a map of the process's own is read", any(MINE in n for n in names["own"]), f"{sorted(names['own'])[:3]}")
    for how, reason in REASONS.items():
        if how not in names:
            continue
        s.check(f"{how}: no line of the root-only file is a name", not any(SECRET in n for n in names[how]), f"{sorted(names[how])[:2]}")
        value = metrics.get(f'proflet_code_lists_refused_total{{reason="{reason}"}}', 0)
        s.check(f"{how}: counted", value > 0, f"{reason} {value:.0f}")
    lines = [m for m in agent.lines("perf map, jitdump") if "is not read" in m]
    said = [re.sub(r".*is not read: ([^;\"]*).*", r"\1", m, flags=re.S).strip() for m in lines]
    s.check("the log says why, once for each reason", len(said) == len(set(said)) and len(said) >= 2, f"{said}")
    watch.check(s, "code lists", 160 << 20)
    attack.check_stop(s, "code lists", agent)


if __name__ == "__main__":
    attack.scenario("code_lists").execute(body)
