#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tenant who can write to the spool's folder: FIFOs, links, folders and sparse files in it, or the folder itself a link.

A folder that belongs to somebody else, or is a symbolic link, is refused, and the agent goes on in memory. A folder that is
given away while the agent uses it fills with entries that would block a reader or take all the room: the agent goes on, and
what it stored itself is delivered when the Collector is there.
"""
import os
import stat
import subprocess
import sys

import attack
from attack import wait_for
from lib.profiles import total
from lib.scenario import stop
from trial import Trial, away
from victims import Victims

TENANT = 65534


def refused(s, victims, what, folder, pattern):
    trial = Trial(s, what, "--queue.spool", folder, collector=away(s), victims=victims, window="300ms")
    agent = trial.agent
    s.check(f"{what}: the log says why, once", len(agent.wait_line(pattern, 20)) == 1, agent.lines(pattern)[0][-120:])
    return trial


def judge_refused(s, trial):
    metrics = trial.agent.metrics()
    s.check(f"{trial.what}: nothing is stored there", metrics["proflet_samples_taken_total"] > 0 and not metrics["proflet_samples_spooled"] and
            not metrics["proflet_samples_exported_total"], f"{metrics['proflet_samples_taken_total']:.0f} taken")
    trial.deliver()
    trial.judge()


# The tenant's program, in the folder and under its own user: entries under the name of the file being written, and under the
# names of requests, older and newer ones. It takes away whatever is in its way, again and again.
TENANTS_PROGRAM = f"""
import os, time
os.setgroups([])
os.setgid({TENANT})
os.setuid({TENANT})
def sparse(path):
    with open(path, "xb") as f:
        f.truncate(5 << 30)
n = 0
while True:
    for name, make in (("new.part", os.mkfifo), (f"{{n:016x}}-1.otlp", os.mkfifo), (f"{{n:016x}}-2.otlp", sparse),
                       (f"{{n:016x}}-3.otlp", lambda p: os.symlink("/dev/zero", p)), (f"{{n:016x}}-4.otlp", os.mkdir)):
        try:
            make(name)
        except FileExistsError:
            pass
    n += n < 200
    time.sleep(0.01)
"""


def planted_all_the_time(s, folder):
    process = subprocess.Popen([sys.executable, "-c", TENANTS_PROGRAM], cwd=folder,
                               stdin=subprocess.DEVNULL)
    s.defer(lambda: stop(process))
    return process


def given_away(s, victims, folder):
    trial = Trial(s, "a folder given away", "--queue.spool", folder, collector=away(s), victims=victims, window="300ms")
    agent = trial.agent
    wait_for(lambda: agent.metrics()["proflet_samples_spooled"] > 0, 30, "samples in the spool")
    os.chown(folder, TENANT, TENANT)
    os.chmod(folder, 0o777)
    tenant = planted_all_the_time(s, folder)
    trial.endure()
    metrics = agent.metrics()
    s.equal("a folder given away: nothing of the agent's was evicted",
            [metrics[f'proflet_samples_dropped_total{{reason="{r}"}}'] for r in ("spool_full", "spool_damaged")], [0, 0])
    s.check("a folder given away: the tenant was at work to the end", tenant.poll() is None)
    stop(tenant)
    os.chown(folder, 0, 0)
    trial.settle()
    trial.stop()
    return trial


def next_life(s, folder, trial):
    collector, final = trial.collector, trial.agent.final()
    collector.start()
    agent = attack.Attacked(s, collector.endpoint(), "--queue.spool", folder, "--select.include", "comm=nobody", window="300ms")
    wait_for(lambda: agent.metrics()["proflet_samples_spooled"] == 0, 60, "the spool is delivered")
    metrics = agent.metrics()
    s.equal("the next start: what the agent stored is there and nothing else", metrics["proflet_samples_recovered_total"], final["spooled"])
    s.check("the next start: foreign entries are counted", metrics["proflet_spool_foreign_entries"] >= 4,
            f"{metrics['proflet_spool_foreign_entries']:.0f}")
    s.equal("the next start: the log says so, once", len(agent.lines("entries that are not the agent's")), 1)
    s.equal("a folder that others could write to is the agent's alone", stat.S_IMODE(os.stat(folder).st_mode), 0o700)
    attack.check_stop(s, "the next start", agent)
    collector.stop()
    samples = collector.samples()
    s.equal("the next start: what was stored has arrived", total(samples), final["spooled"])
    trial.judge_victims(samples)


def body(s):
    s.need_root()
    s.need_proflet()
    victims = Victims(s)
    foreign = s.folder("foreign")
    os.chown(foreign, TENANT, TENANT)
    link = s.path("link")
    os.symlink(s.folder("target"), link)
    refusals = [refused(s, victims, "a folder of somebody else", foreign, "belongs to another user"),
                refused(s, victims, "a folder that is a link", link, "symbolic link")]
    folder = s.folder("spool")
    trial = given_away(s, victims, folder)
    for refusal in refusals:
        judge_refused(s, refusal)
    next_life(s, folder, trial)


if __name__ == "__main__":
    attack.scenario("spool_owner").execute(body)
