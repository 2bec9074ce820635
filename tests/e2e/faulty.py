#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A scripted faulty server against whole agents, release and sanitized: lib/faults.py is the table of what it does.

An agent goes through a row of faults, each met once and then served properly, or meets one fault for good. Then it ends,
and what it says (the final line, what is in its spool) must agree, sample by sample, with what the server received and
what it answered: lib/ledger.py. Nothing may crash or hang, and a sample comes twice only after a cut that left the agent
in doubt, which it counts (`unanswered`).

Usage: faulty.py [PART OF A NAME]...
"""
import os
import re
import statistics
import sys
import time

from lib import assertions, faults, programs
from lib.agent import Agent
from lib.faulty_server import Server, Step
from lib.ledger import spooled
from lib.machine import HANG_FACTOR, slowness, unhurried
from lib.scenario import ROOT, Scenario, stop

DEBUG = os.path.join(ROOT, "build", "debug", "proflet")
SPEAKS = re.compile(r"Sanitizer|runtime error:")
AT_ONCE = 8  # agents, on a quiet machine
# In seconds of a quiet machine. All servers share one Python process: what they answer is late on a busy one.
SHORT = 1.5  # of one attempt, where the server lets it pass
LONG = 10.0  # the same elsewhere: nobody is to run into it
SLACK = 5.0
FLUSH = 15.0  # that an agent takes at most to give its account: names, then delivery
END = 60.0  # more to be gone: a table worker may be in the middle of a large file, on a busy disk
SECONDS = 240  # at most, for a row of faults
# Not delivery's: the selection, and the kernel's buffer when an agent does not get the processor.
NO_FAULT = ("dropped_rejected", "dropped_partial_success", "dropped_ring_full")


class Run:
    """One agent against one server."""

    def __init__(self, s, name, server, *options, spool=False, sanitized=False, window="300ms", all_processes=False,
                 drops=(), seconds=0, timeout=LONG):
        self.s, self.name, self.server, self.sanitized, self.drops = s, name, server, sanitized, drops
        self.timeout = server.timeout = timeout * slowness()
        self.folder = s.path("spool-" + re.sub(r"\W", "_", name)) if spool else None
        self.options = ["--timeout", f"{int(self.timeout * 1000)}ms", *options]
        if spool:
            self.options += ["--queue.spool", self.folder]
        if server.http:
            self.options += ["--protocol", "http/protobuf"]
        if not all_processes:
            self.options += ["--select.include", "comm=chain"]
        self.window, self.seconds = window, seconds
        self.agent = self.begin = self.stopping = None
        self.problems, self.ended_in = [], 0

    def start(self):
        self.agent = Agent(self.s, self.server.endpoint(), *self.options, window=self.window, frequency=199,
                           program=DEBUG if self.sanitized else None)
        self.begin = unhurried()

    def step(self):
        """True when it is over."""
        now = unhurried()
        if self.agent.process.poll() is not None:
            self.ended_in = now - (self.stopping or now)
            if self.stopping is None:
                self.problems.append("the agent ended by itself")
            elif now - self.stopping > FLUSH + END:
                self.problems.append(f"it took {now - self.stopping:.1f} s to end")
            return True
        if self.stopping is None:
            late = now - self.begin > HANG_FACTOR * SECONDS
            if late:
                left = [x.name for x in self.server.steps]
                self.problems.append(f"not done within {now - self.begin:.0f} s, left: {left[:3]}")
            if late or (self.server.done.is_set() and now - self.begin > self.seconds):
                self.agent.process.terminate()
                self.stopping = now
        elif now - self.stopping > FLUSH + END:
            self.problems.append("it does not end")
            stop(self.agent.process, 0)
        return False

    # --- the other half of the account
    def need(self, ok, text):
        if not ok:
            self.problems.append(text)

    def account(self):
        final, ledger = self.agent.final() or {}, self.server.ledger
        self.need(final, "no final line")
        stored, refused = ledger.events("stored"), ledger.events("refused")
        unknown, later = ledger.events("unknown"), ledger.events("later")
        left = spooled(self.folder) if self.folder else []
        self.final, self.doubles = final, len(stored) + len(unknown) - len(set(stored + unknown))
        value = lambda key: final.get(key, 0)
        drops = {k: v for k, v in final.items() if k.startswith("dropped_")}
        self.need(value("taken") + value("recovered") == value("exported") + value("dropped") + value("in_flight") +
                  value("spooled") and sum(drops.values()) == value("dropped") and not value("in_flight"),
                  "the account does not close")
        # an answer may come to the server's mind in time and to the agent too late: then both copies are in `doubles`, in doubt
        known = set(stored) - set(left)  # what was on its way when the agent had to end is spooled, too
        # an answer that the agent did not live to see: the samples count as dropped, and the server has them
        unseen = len(known) - ledger.partial() - value("exported")
        self.need(0 <= unseen <= min(value("unanswered"), value("dropped_shutdown")),
                  f"exported {value('exported')}, the server took {len(known)} less {ledger.partial()}")
        self.need(value("dropped_partial_success") == ledger.partial(), "partial success is not what was answered")
        self.need(value("dropped_rejected") == len(refused),
                  f"rejected {value('dropped_rejected')}, the server refused {len(refused)}")
        self.need(value("spooled") == len(left), f"spooled {value('spooled')}, {len(left)} on disk")
        self.need(not set(refused) & set(stored), "samples that were refused came again")
        self.need(len(set(left) & set(stored)) <= value("unanswered"), "samples that were delivered are in the spool")
        self.need(self.doubles <= value("unanswered"), f"{self.doubles} came twice, {value('unanswered')} in doubt")
        other = {k: v for k, v in drops.items()
                 if k not in NO_FAULT and k not in self.drops}
        self.need(not other, f"dropped: {other}")
        kept = set(stored) | set(refused) | set(left)
        lost = [x for x in set(later + unknown) if x not in kept]
        self.need(len(lost) <= sum(value(k) for k in self.drops), f"{len(lost)} samples are nowhere")

    def behaviour(self):
        self.need(self.agent.process.returncode == 0, f"exit code {self.agent.process.returncode}")
        spoken = SPEAKS.findall(self.agent.text())
        self.need(not spoken, "a sanitizer speaks")
        self.need(not self.server.ledger.errors, str(self.server.ledger.errors[:2]))
        waits = [a.gone_after for a in self.server.ledger.attempts if a.gone_after is not None]
        self.need(all(w <= self.timeout + SLACK for w in waits), f"it held on for {max(waits, default=0):.1f} s")
        self.waited = max(waits, default=0)

    def step_problems(self, step):
        """What became of the samples that this fault met."""
        ledger = self.server.ledger
        attempts = [a for a in ledger.attempts if a.action == step.name]
        if len(attempts) != 1:
            return [f"met {len(attempts)} times"]
        a, found = attempts[0], []
        others = {x for b in ledger.attempts if b is not a for x in b.samples if b.fate == "stored"}
        mine = set(a.samples)
        if a.fate in ("later", "unknown") and not mine <= others:
            found.append(f"{len(mine - others)} of {len(mine)} samples were not delivered")
        if a.fate in ("stored", "refused") and mine & others:
            found.append(f"{len(mine & others)} samples came again")
        again = ledger.next_begin(a)
        since = a.answered or a.end
        if step.delay and (again is None or again - since < step.delay):
            found.append(f"asked again after {(again or 0) - since:.2f} s")
        return found

    def report(self, steps):
        self.account()
        self.behaviour()
        ledger = self.server.ledger
        for step in steps:
            problems = self.step_problems(step)
            self.s.check(f"{self.name}: {step.name}", not problems, "; ".join(problems))
        f = self.final
        detail = (f"taken {f.get('taken')}, exported {f.get('exported')}, rejected {f.get('dropped_rejected', 0)}, spooled "
                  f"{f.get('spooled')}; {len(ledger.attempts)} attempts, {ledger.connections} connections, {self.doubles} twice, "
                  f"{f.get('unanswered', 0)} in doubt, longest wait {self.waited:.2f} s, ended in "
                  f"{self.ended_in:.1f} s")
        self.s.check(f"{self.name}: the account is exact, nothing crashed or hung", not self.problems,
                     "; ".join([*self.problems, detail]))


def certain(run):
    """No fault of this row leaves the sender in doubt."""
    run.s.check(f"{run.name}: nothing came twice, nothing is in doubt",
                run.doubles == 0 and run.final.get("unanswered") == 0, f"{run.doubles}, {run.final.get('unanswered')}")


def aged(run):
    run.s.check(f"{run.name}: a new connection each time", run.server.ledger.connections >= 3,
                f"{run.server.ledger.connections} connections")
    run.s.equal(f"{run.name}: the Collector never was away", len(run.agent.lines("away")), 0)


def halved(run):
    sizes = [len(a.message) for a in run.server.ledger.attempts if a.fate == "stored" and a.message]
    asked = [a for a in run.server.ledger.attempts if a.fate == "later"]
    run.s.check(f"{run.name}: requests were divided", bool(asked) and bool(sizes), f"{len(asked)} too large, {len(sizes)} of at most {max(sizes, default=0)} bytes taken")


def not_flooded(run):
    """A Collector that is back is not flooded with what waited. A server that was late for one request sees the next one sooner
    after it, so half of the gaps may be shorter."""
    begins = [a.begin for a in run.server.ledger.attempts if a.fate == "stored"][:12]
    gaps = [b - a for a, b in zip(begins, begins[1:])]
    run.s.check(f"{run.name}: no more than 20 requests a second", bool(gaps) and statistics.median(gaps) > 0.045,
                f"{len(gaps)} gaps, {1000 * min(gaps, default=0):.0f} to {1000 * max(gaps, default=0):.0f} ms")


def rows(s):
    """(Run, its steps, more checks)."""
    def row(name, steps, *more, http=False, timeout=LONG, **options):
        for debug in (False, True):
            title = name + (", sanitized" if debug else "")
            yield Run(s, title, Server(s, steps, http=http), sanitized=debug, timeout=timeout, **options), steps, more

    yield from row("codes", faults.CODES_ONCE, certain)
    yield from row("answers", faults.ANSWERS, certain)
    yield from row("streams", faults.STREAMS)
    yield from row("cuts", faults.CUTS_KEPT[:10], certain)
    yield from row("cuts when whole", [faults.CUTS_KEPT[10], *faults.CUTS_FIRST])
    # each of these faults doubles the back-off: larger windows, so that what waits at the end is sent within the agent's flush
    yield from row("stalls", faults.STALLS, timeout=SHORT, window="1s")
    yield from row("garbage", faults.GARBAGE, timeout=SHORT, window="1s")
    yield from row("http answers", faults.HTTP_ANSWERS, certain, http=True)
    yield from row("http cuts", faults.HTTP_CUTS, http=True)
    yield from row("http stalls", faults.HTTP_STALLS, http=True, timeout=SHORT, window="1s")


def single(s):
    yield Run(s, "max_connection_age 2 s", Server(s, max_age=2), seconds=9), [], (certain, aged)
    for name, http in (("limit", False), ("http limit", True)):
        server = Server(s, then=Step("limit", faults.limit(8 << 10, http)), http=http, enough=5)
        # beside a compiler, whose functions have long names, six halvings are not enough for this limit: dropped, and counted
        yield Run(s, name, server, all_processes=True, window="1s", drops=("dropped_too_large",)), [], (certain, halved)
    server = Server(s, then=Step("large limit", faults.limit(4 << 20)), enough=2)
    yield Run(s, "limit of 4 MiB", server, "--attributes.sample", "process.pid,thread.id,process.executable.path",
              all_processes=True, window="3s"), [], (certain,)
    server = Server(s, then=Step("away", faults.away_for(5)), enough=16)
    yield Run(s, "replay", server, spool=True, window="100ms"), [], (not_flooded,)
    for name, act, kept, http in faults.forever():
        yield Run(s, name, Server(s, then=Step(name, act), http=http, enough=2), spool=kept, timeout=SHORT), [], ()
    server = Server(s, then=Step("UNAVAILABLE", faults.grpc_code(14)), enough=2)
    yield Run(s, "UNAVAILABLE forever, no spool", server, drops=("dropped_shutdown",)), [], (certain,)


def play(s, waiting):
    """All of them, some at a time. What they did is looked at when all have ended: it takes the servers' processor."""
    plan, running, at_once = list(waiting), [], max(2, int(AT_ONCE / slowness()))
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0)[0])
            running[-1].start()
        running = [x for x in running if not x.step()]
        time.sleep(0.05)
    for run, steps, more in plan:
        run.report(steps)
        for check in more:
            check(run)


def conformance(s, runs):
    """Of every request that came whole, each once."""
    messages = {a.message for run in runs for a in run.server.ledger.attempts if a.message}
    folder, files = s.folder("requests"), []
    for i, message in enumerate(sorted(messages)):
        files.append(os.path.join(folder, f"{i:06}.otlp"))
        with open(files[-1], "wb") as f:
            f.write(message)
    assertions.conforms(s, files)


def body(s):
    s.need_root()
    s.need_proflet()
    programs.start_chain(s)
    plan = [*rows(s), *single(s)]
    if not os.path.exists(DEBUG):
        s.skip("the rows on the sanitized build", "build/debug/proflet is not there: tests/run build")
        plan = [x for x in plan if not x[0].sanitized]
    if sys.argv[1:]:
        plan = [x for x in plan if any(a in x[0].name for a in sys.argv[1:])]
    begin = time.monotonic()
    play(s, list(plan))
    conformance(s, [x[0] for x in plan])
    doubles = sum(x[0].doubles for x in plan)
    s.note(f"{len(plan)} agents, {sum(len(x[1]) for x in plan)} faults, {doubles} samples came twice, "
           f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    Scenario("faulty").execute(body)
