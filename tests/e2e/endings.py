#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way in which an unwind ends, provoked by a program made for it (tests/support/endings.c), as it arrives at the
Collector: root frame `[truncated: REASON]` and attribute proflet.stack.truncated, and in the counters of the agent's log.
The rules that the kernel cannot do, and user space finishes, are here too: they must not be truncated.

Not provoked here:
  no registers       a read of the kernel's own stack of the running task that fails; only before Linux 5.15. No program can
  no process         ends in the BPF program (tests/unit/agent/probe has it on the running kernel); the agent walks such a sample
                     on, as soon as it knows the process, also when its mappings find no room in the program's memory
  outdated mappings  tests/oracle/live_truth, cases "dlopen*", counts them; where they are cut, tests/unit/agent/unwind
"""
import collections
import os
import re
import shutil
import time

from lib import assertions
from lib.agent import Agent, parse_log
from lib.collector import Collector
from lib.machine import HANG_FACTOR, unhurried
from lib.profiles import ending, names, total
from lib.programs import FLAGS, LIFE, SUPPORT
from lib.scenario import Scenario, stop, wait_for

ATTRIBUTE = "proflet.stack.truncated"
SECONDS = 40       # of a quiet machine, at most: it ends as soon as there are enough samples of every program
MIN_SAMPLES = 15
MIN_EXITING = 5    # the rest of that program is in fork and wait
EXITING_WANTED = 30
LIMIT = 64  # frames, of stack.depth
OMITTED = "[frames omitted]"

# case of endings.c: (ending, names of the stack from the leaf on, "..." for the rest)
CASES = {
    "base-register": ("complete", ["spin", "saves_rbx", "base_register", "main", "..."]),
    "expression": ("complete", ["spin", "saves_rbx", "expression", "main", "..."]),
    "in-data": ("unsupported rule", ["spin", "saves_rbx", "in_data"]),
    "bad-cfa": ("bad CFA", ["bad_cfa"]),
    "read-fault": ("read fault", ["read_fault"]),
    "no-mapping": ("no mapping", ["no_mapping"]),
    "no-row": ("no row", ["no_row"]),
    "no-table": ("no row", ["..."]),  # code in memory without a file, which does not show its frame
    "depth-limit": ("depth limit", ["..."]),
    "recursion": ("complete", ["spin", *["recurse"] * (LIMIT // 2 - 1), OMITTED, "..."]),
    "no-row-in-file": ("complete", ["..."]),  # its code is all there is, and shows that the entry point is the outermost
    "32-bit": ("32-bit task", []),
}


def name_of(case):
    return "end-" + case  # at most 15 characters of it are a thread's name; the executable's is whole


def build(s):
    s.need("gcc")
    program = s.path("endings")
    s.run(["gcc", *FLAGS, "-o", program, os.path.join(SUPPORT, "endings.c")])
    for case in CASES:
        shutil.copy(program, s.path(name_of(case)))
    for case in ("exiting", "no-process"):
        shutil.copy(program, s.path(name_of(case)))
    # without a library and without call-frame information: no table, and with -m32 no 64-bit registers
    s.run(["gcc", *FLAGS, "-nostdlib", "-static", "-o", s.path(name_of("32-bit")), "-m32", os.path.join(SUPPORT, "endings32.S")])
    s.run(["gcc", *FLAGS, "-nostdlib", "-static", "-o", s.path(name_of("no-row-in-file")), os.path.join(SUPPORT, "endings32.S")])


def start(s, case):
    return s.start([s.path(name_of(case)), case, LIFE], name_of(case))


def only(programs):
    """Options that leave out what else the machine does."""
    return ["--select.include", ",".join(f"pid={p.pid}" for p in programs)]


def matches(found, wanted):
    if wanted and wanted[-1] == "...":
        return found[:len(wanted) - 1] == wanted[:-1]
    return found == wanted


def of_program(samples, case):
    return [x for x in samples if x.attributes.get("process.executable.name") == name_of(case)]


def user_names(sample):
    return [f.name for f in sample.frames if f.kind != "kernel" and not f.name.startswith("[truncated:")]


def check_case(s, samples, case):
    reason, stack = CASES[case]
    mine = of_program(samples, case)
    endings = collections.Counter()
    for x in mine:
        endings[ending(x)] += x.count
    right = [x for x in mine if ending(x) == reason and matches(user_names(x), stack)]
    n = total(mine)
    text = ", ".join(f"{k} {v}" for k, v in endings.most_common())
    # a few samples are of its start and end: the loader, fork, a thread that exits
    s.check(f"{case}: ends \"{reason}\", with the stack there is", n >= MIN_SAMPLES and total(right) >= 0.9 * n,
            f"{total(right)} of {n}: {text}")
    if total(right) < 0.9 * n:
        for x in [x for x in mine if x not in right][:3]:
            s.note(f"{x.count} times {' < '.join(names(x))}")


def check_attributes(s, samples):
    """The attribute is on every truncated sample, and says what the root frame says."""
    differ = [x for x in samples if x.attributes.get(ATTRIBUTE, "complete") != ending(x)]
    s.check("attribute and root frame say the same on every sample", samples and not differ,
            f"{total(samples)} samples" if not differ else f"{differ[0].attributes.get(ATTRIBUTE)}, {names(differ[0])[-1]}")


def check_counters(s, agent, samples):
    """The counters of the log at the end are the samples that arrived, reason by reason."""
    arrived = collections.Counter()
    for x in samples:
        arrived[ending(x)] += x.count
    stopped = [f for f in parse_log(agent.text()) if f.get("msg") == "stopped"]
    counted = {k[len("ending_"):].replace("_", " ").replace("32 bit", "32-bit"): int(v) for k, v in (stopped[-1] if stopped else {}).items() if k.startswith("ending_")}
    fields = {k: int(v) for k, v in (stopped[-1] if stopped else {}).items() if v.isdigit()}
    s.check("rules that the table cannot hold were followed, and not", fields.get("rules_followed", 0) >= 2 * MIN_SAMPLES and
            fields.get("rules_not_followed", 0) >= MIN_SAMPLES and fields.get("rules_failed", 1) == 0,
            ", ".join(f"{k} {v}" for k, v in fields.items() if k.startswith("rules_")))
    s.check("the agent counted every reason that arrived", counted and all(counted.get(k, 0) == v for k, v in arrived.items() if k != "complete"),
            ", ".join(f"{k} {v}" for k, v in sorted(counted.items())))
    return counted


def check_exiting(s, samples, counted):
    """A task without memory has no user stack: kernel frames alone, and that is the whole of it."""
    mine = of_program(samples, "exiting")
    alone = [x for x in mine if not user_names(x) and ending(x) == "complete"]
    s.check("exiting: kernel frames alone, complete", total(alone) >= MIN_EXITING, f"{total(alone)} of {total(mine)}")
    s.check("exiting: counted as \"task exiting\"", counted.get("task exiting", 0) >= total(alone), f"{counted.get('task exiting', 0)}")
    faults = total([x for x in mine if ending(x) == "read fault"])
    s.check("exiting: hardly a read fault", faults <= 0.02 * total(mine) + 1, f"{faults} of {total(mine)}")
    in_exit = total([x for x in alone if any(re.search(r"exit", name) for name in names(x))])
    s.check("exiting: the kernel frames are those of exit", in_exit >= 0.9 * total(alone), f"{in_exit}")


def gather(agent, collector, wanted):
    """Until the Collector has so many samples of each program, or the time is over."""
    end = unhurried() + HANG_FACTOR * SECONDS
    while unhurried() < end and agent.process.poll() is None:
        time.sleep(1)
        samples = collector.samples()
        if all(total(of_program(samples, case)) >= n for case, n in wanted.items()):
            return


def one_agent(s):
    """All programs at once, with a short limit of frames."""
    collector = Collector(s)
    programs = [start(s, case) for case in list(CASES) + ["exiting"]]
    agent = Agent(s, collector.endpoint(), "--stack.depth", str(LIMIT), *only(programs))
    agent.wait_samples(collector, 120)
    gather(agent, collector, dict({case: 2 * MIN_SAMPLES for case in CASES}, exiting=EXITING_WANTED))
    s.equal("exit code at SIGTERM", agent.stop(), 0)
    for program in programs:
        stop(program)
    collector.stop()
    samples = collector.samples()
    for case in CASES:
        check_case(s, samples, case)
    deep = {sum(1 for f in x.frames if f.kind != "kernel") - 1 for x in of_program(samples, "depth-limit") if ending(x) == "depth limit"}
    s.equal("depth-limit: as many user frames as allowed", deep, {LIMIT})
    check_attributes(s, samples)
    counted = check_counters(s, agent, samples)
    check_exiting(s, samples, counted)
    assertions.loss_identity(s, agent, total(samples))


def no_room(s):
    """Processes whose lists of mappings find no room in memory.tables: the program cannot walk their stacks, the agent does, with
    what of the lists each stack takes. The stop does not wait for it."""
    programs = [start(s, "no-process") for _ in range(5)]
    wait_for(lambda: open(programs[0].log).read().count("mapped") == len(programs), 20, "the programs' mappings")
    collector = Collector(s)
    agent = Agent(s, collector.endpoint(), "--memory.tables", "4MiB", *only(programs))
    agent.wait_samples(collector, 120)
    gather(agent, collector, {"no-process": 4 * MIN_SAMPLES})
    begin = time.monotonic()
    s.equal("exit code at SIGTERM, without room", agent.stop(), 0)
    s.note(f"the stop took {time.monotonic() - begin:.1f} s")
    collector.stop()
    samples = collector.samples()
    mine = of_program(samples, "no-process")
    endings = collections.Counter()
    for x in mine:
        endings[ending(x)] += x.count
    s.check("no room: kept, whole, or it says what was missing", sum(endings.values()) >= MIN_SAMPLES and
            set(endings) <= {"no process", "no mapping", "no table", "no row", "complete", "task exiting"} and
            endings["complete"] >= 0.9 * sum(endings.values()), ", ".join(f"{k} {v}" for k, v in endings.most_common()))
    named = [names(x) for x in mine if ending(x) == "complete" and "spin" in names(x)]  # of the first window names may be missing
    s.check("no room: whole is right", named and all({"no_process", "main", "_start"} <= set(n) for n in named), str(named[:1]))
    check_attributes(s, samples)
    assertions.loss_identity(s, agent, total(samples))


def body(s):
    s.need_root()
    s.need_proflet()
    build(s)
    one_agent(s)
    no_room(s)


if __name__ == "__main__":
    Scenario("endings").execute(body)
