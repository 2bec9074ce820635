#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that pretend to be HotSpot, BEAM or .NET (tests/support/pretender_java.c and others) whose tables, code, methods or names lie in
memory that never arrives (hanging.py). Whoever touches it waits for ever, the agent's own reads too. The agent stops in time while all of
it is still so, and honest ones beside them, one which runs before, and another, which starts then, are shown as they say.
"""
import os
import signal

import attack
from attack import wait_for
from hanging import compute, is_stopped, start_all
from lib import assertions, machine
from lib.profiles import ending, total
from pretenders import LIARS, build, check_functions, check_mode, start
from trial import Trial

PLACES = {
    "pretender_java": ("fields_hang", "types_hang", "strings_hang", "heaps_hang", "heap_hangs", "segments_hang", "code_hangs", "blob_name_hangs",
                       "method_hangs", "constants_hang", "pool_hangs", "class_hangs", "symbol_hangs", "scopes_hang", "interpreted_hangs"),
    "pretender_beam": ("tables_hang", "module_hangs", "atoms_hang", "piece_hangs", "atom_hangs", "text_hangs", "code_hangs", "callee_hangs",
                       "process_hangs"),
    "pretender_dotnet": ("levels_hang", "fragment_hangs", "section_hangs", "heap_hangs", "map_hangs", "header_hangs", "method_hangs", "dynamic_hangs",
                         "table_hangs", "module_hangs", "image_hangs", "debug_hangs", "lines_hang"),
}
LIARS_AND_PLACES = [f"{liar} {place}" for liar in PLACES for place in PLACES[liar]]
CPU = 0.2 if attack.QUICK else 10  # s that each gets
HONEST_CPU = 2 if attack.QUICK else 3
WHOLE_AT_LEAST = 0.9  # of an honest one's samples, behind those before its functions are known


def start_liars(s, made, liars):
    """As start_all, for "LIAR PLACE" each."""
    return start_all(s, liars, lambda which, whose, file: [made[which.split()[0]], which.split()[1], *([file] if whose == "file" else [])])


def honest(s, made, when):
    """→ {(liar, when): (process, its CPU time)}"""
    started = {(liar, when): start(s, made[liar], "honest", when) for liar in PLACES}
    return {which: (process, machine.cpu_seconds(process.pid)) for which, process in started.items()}


def check_honest(s, which, mine):
    """From the first sample with functions on, as it says; which comes as soon as with nobody beside it."""
    liar, name = LIARS[which[0]], f"{which[0]}, honest, {which[1]}"
    with_functions = [x for x in mine if any(f.kind == liar.kind for f in x.frames)]
    begin = min((t for x in with_functions for t in x.times), default=0)
    known = sum(sum(t >= begin for t in x.times) for x in mine)
    whole = [x for x in with_functions if ending(x) == "complete"]
    check_functions(s, which[0], name, whole)
    s.check(f"{name}: its stacks are whole", 0 < total(whole) >= WHOLE_AT_LEAST * known >= WHOLE_AT_LEAST * total(mine) / 2,
            f"{total(whole)} of {known}, {total(mine) - known} before")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    os.chmod(s.tmp, 0o755)
    made = build(s)
    innocent = honest(s, made, "before")
    trial = Trial(s, "machine pages")
    running, server = start_liars(s, made, LIARS_AND_PLACES)
    innocent |= honest(s, made, "then")
    trial.endure()
    for which, (process, begin) in innocent.items():
        wait_for(lambda p=process, b=begin: machine.cpu_seconds(p.pid) > b + HONEST_CPU, 600, f"{which} computes")
        process.kill()
    compute(s, running, CPU)
    for p in running.values():
        p.kill()
    samples = trial.judge(stop_within=5)
    if server:
        s.check("the server is stopped to the end", is_stopped(server))
        server.send_signal(signal.SIGCONT)
    of = lambda process: [x for x in samples if x.attributes.get("process.pid") == process.pid]
    for which, process in running.items():
        check_mode(s, *which.split(), of(process))
    for which, (process, _) in innocent.items():
        check_honest(s, which, of(process))
    assertions.loss_identity(s, trial.agent, total(samples))


if __name__ == "__main__":
    attack.scenario("machine_pages").execute(body)
