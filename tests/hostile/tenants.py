#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One attack of this folder against an agent that runs already: tenants.py NAME SECONDS SETTING. `soak` starts it.

SETTING is JSON: the agent's `pid`, `port`, `spool` and `program`, the `gate` to its Collector and a `seed`. An attack is a function
that begins it, and may return what is to be done again and again until its time is over. It ends with its scenario.
"""
import json
import os
import random
import secrets
import shutil
import signal
import stat
import sys
import time

import attack
import binaries
import claims
import code_lists
import connections
import impostors
import killed_parsers
import machine_pages
import many_files
import mappings
import odd_programs
import owned_parser
import pretenders
import python_lists
import python_pages
import servers
import slow_rules
import spool_owner
from attack import wait_for
from hanging import start_all
from lib import cgroups, machine, programs
from lib.scenario import Scenario, stop
from python import python  # tests/e2e/python.py

PAUSE = 0.2  # s between two rounds
BINARIES = 4  # of each kind
LIAR_CPU = 0.5  # s
ODD_THREADS = 3000
MACHINES = 6  # virtual machines with memory that never arrives


def for_all(path):
    for p in (os.path.dirname(path), path):
        os.chmod(p, 0o755)
    return path


def changed_mappings(s, c):
    what = c.random.choice(list(mappings.ATTACKS))
    mappings.attackers(s, what, for_all(programs.build_c(s, "mappings")))


def costly_rules(s, _):
    slow_rules.tenants(s, programs.build_c(s, "slow_rules"))


def too_many_files(s, _):
    folder = many_files.make_files(s, many_files.FILES_MAX + 1000)
    group = cgroups.make(s, f"files-{os.getpid()}")
    many_files.start_tenant(s, group, programs.build_c(s, "maps_files"), folder)


def looks_like_another(s, c):
    """The neighbour's process id is printed: `soak` looks at its names."""
    name = c.random.choice(list(impostors.SCENES))
    folder = s.folder(name)
    for_all(folder)
    binary = impostors.make_scene(s, name, folder, name == "debug-files")
    impostors.tenant(s, name, binary, folder)
    time.sleep(3)
    neighbour = cgroups.start(s, cgroups.make(s, f"neighbour-{os.getpid()}"), [binary, programs.LIFE], "neighbour")
    print(f"NEIGHBOUR {neighbour.pid}", flush=True)


def claims_a_container(s, _):
    """The program's name says whose container it must not be in: `soak` looks at it."""
    victim = secrets.token_hex(32)
    service = cgroups.make(s, f"delegated-{os.getpid()}")
    os.chown(service, claims.TENANT, claims.TENANT)
    program = programs.build_c(s, "chain", program=f"claims-{victim[:8]}")
    for name in (victim, f"docker-{victim}.scope", f"libpod-{victim}.scope"):
        claims.start(s, for_all(program), cgroups.make(s, name, service), name)


def others_lists(s, _):
    code_lists.start_with_others_files(s, programs.build_c(s, "generated"))


def rewritten_lists(s, _):
    code_lists.start_rewriting(s, programs.build_c(s, "generated"))


def silent_lists(s, _):
    code_lists.start_silence(s, programs.build_c(s, "generated"))


def lying_binaries(s, c):
    folder, tool = for_all(s.folder("files")), programs.build_c(s, "runs_files")
    binaries.COPIES = BINARIES
    paths = [path for kind in binaries.make_files(folder).values() for path in kind]
    return lambda: binaries.run_files(tool, [c.random.choice(paths)])


def peers(s, c):
    act, every, _ = c.random.choice(list(connections.attacks(c.port).values()))
    connections.Peer(s, act, every)


def endless_answers(s, c):
    flood = c.random.choice([f for f in servers.FLOODS.values() if f[0] == "grpc"])
    server = servers.Server(s, flood)
    s.defer(lambda: os.truncate(c.gate, 0))
    with open(c.gate, "w", encoding="ascii") as f:
        f.write(server.endpoint.rpartition(":")[2])


def spool_given_away(s, c):
    def give_back():
        os.chown(c.spool, 0, 0)
        os.chmod(c.spool, stat.S_IRWXU)
    s.defer(give_back)
    os.chown(c.spool, spool_owner.TENANT, spool_owner.TENANT)
    os.chmod(c.spool, 0o777)
    spool_owner.planted_all_the_time(s, c.spool)


def parsers_killed(s, c):
    killer = killed_parsers.Killer(list(killed_parsers.keepers_of(c.pid).values()), 1 << 30)
    s.defer(killer.ended.set)


def parsers_taken_over(s, c):
    owned, model = owned_parser.Owned(s, c.program), programs.build_c(s, "chain", program="model")

    def lie():
        name, seed = c.random.choice(list(owned_parser.LIES)), c.random.randrange(1 << 30)
        owned_parser.run_all(s, [owned.file(f"{name}-{seed}", model, name, c.pid, seed=seed)], LIAR_CPU)
    return lie


def rounds(start_one):
    """Again and again: a process that `start_one` gives (or None) computes for a while."""
    def one():
        process = start_one()
        if process:
            wait_for(lambda: process.poll() is not None or machine.cpu_seconds(process.pid) > LIAR_CPU, 120, "the tenant computes")
            stop(process)
    return one


def false_interpreters(s, c):
    made = pretenders.build(s)

    def start():
        name, mode = c.random.choice(pretenders.modes())
        return pretenders.start(s, made[name], mode)
    return rounds(start)


def false_python_frames(s, c):
    program = for_all(shutil.copy(python_lists.LIAR, s.path("python_liar.py")))
    return rounds(lambda: python_lists.start(s, program, c.random.choice(python_lists.MODES)))


def odd_stacks(s, c):
    odd_programs.raise_limits(s)
    program, code = odd_programs.build(s)
    modes = odd_programs.modes(code, ODD_THREADS)
    return rounds(lambda: odd_programs.start(s, program, *c.random.choice(modes)))


def wake_at_end(s, server):
    """Else the programs that wait for it could not end."""
    if server:
        s.defer(lambda: server.send_signal(signal.SIGCONT))


def frames_that_never_arrive(s, _):
    program, interpreter = for_all(shutil.copy(python_lists.LIAR, s.path("python_liar.py"))), python()
    wake_at_end(s, start_all(s, python_pages.PLACES, lambda place, whose, file: [interpreter, program, f"{place}_{whose}", file])[1])


def machines_that_never_arrive(s, c):
    made = pretenders.build(s)
    wake_at_end(s, machine_pages.start_liars(s, made, c.random.sample(machine_pages.LIARS_AND_PLACES, MACHINES))[1])


ATTACKS = {f.__name__: f for f in (changed_mappings, costly_rules, too_many_files, looks_like_another, claims_a_container, others_lists,
                                   rewritten_lists, silent_lists, lying_binaries, peers, endless_answers, spool_given_away,
                                   parsers_killed, parsers_taken_over, false_interpreters, false_python_frames,
                                   frames_that_never_arrive, machines_that_never_arrive, odd_stacks)}


class Setting:
    def __init__(self, text):
        self.__dict__.update(json.loads(text))
        self.random = random.Random(self.seed)


def main():
    name, seconds, setting = sys.argv[1], float(sys.argv[2]), Setting(sys.argv[3])

    def body(s):
        again, end = ATTACKS[name](s, setting), time.monotonic() + seconds
        print("BEGUN", flush=True)
        while time.monotonic() < end:
            if again:
                again()
            time.sleep(PAUSE)
    Scenario(name, suite="soak").execute(body)


if __name__ == "__main__":
    main()
