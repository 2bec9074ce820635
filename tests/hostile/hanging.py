# SPDX-License-Identifier: Apache-2.0
"""Programs with memory that never arrives: of a file on a FUSE server that was stopped, or of a userfaultfd that nobody serves. Whoever
touches it waits for ever, the agent's own reads too.
"""
import os
import re
import signal
import subprocess

from attack import wait_for
from lib import machine
from lib.scenario import ROOT, stop, tail

TENANT = "65534"
CHILDREN_OF = {"file": ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups"], "userfault": []}  # where only root may


def serve(s):
    """→ (the server of a file that nothing has read, the file); None where the machine refuses it."""
    s.run(["gcc", "-O2", "-o", s.path("hangfs"), os.path.join(ROOT, "tests", "support", "hangfs.c")])
    folder, content = s.folder("hanging"), s.path("content")
    with open(content, "wb") as f:
        f.write(bytes(1 << 20))
    server = s.start([s.path("hangfs"), folder, content], "hangfs")
    wait_for(lambda: server.poll() is not None or "ready" in tail(server.log), 10, "the file system")
    if server.poll() is not None:
        s.skip("file", f"no FUSE mount: {tail(server.log).strip()}")
        return None
    s.defer(lambda: server.send_signal(signal.SIGCONT))
    return server, os.path.join(folder, "file")


def start(s, name, whose, argv):
    """→ the program, which says "mapped" or "ready" when it has the memory"""
    log = s.path(name + ".log")
    with open(log, "wb") as out:
        process = subprocess.Popen(["nice", "-n", "14", *CHILDREN_OF[whose], *argv], stdin=subprocess.PIPE, stdout=out, stderr=out)
    process.log = log
    s.defer(lambda: stop(process))
    return process


def is_placed(s, name, process):
    """Waits until it has the memory; whether it has."""
    wait_for(lambda: process.poll() is not None or re.search("mapped|ready", tail(process.log)), 60, name)
    if process.poll() is not None:
        s.skip(name, tail(process.log).strip()[-200:])
    return process.poll() is None


def start_all(s, places, argv_of):
    """Starts argv_of(place, whose, file) for each place and each kind of such memory. → ({"PLACE_KIND": process}, the server, stopped)"""
    served = serve(s)
    file = served[1] if served else "-"
    started = {f"{place}_{whose}": start(s, f"{place}_{whose}", whose, argv_of(place, whose, file))
               for whose in CHILDREN_OF for place in places if served or whose != "file"}
    running = {name: process for name, process in started.items() if is_placed(s, name, process)}
    if served:
        served[0].send_signal(signal.SIGSTOP)
    for process in running.values():
        process.stdin.write(b"\n")
        process.stdin.flush()
    wait_for(lambda: all("ready" in tail(p.log) for p in running.values()), 60, "all of them lie")
    return running, served and served[0]


def compute(s, running, seconds):
    """Until each has had so much CPU time."""
    begin = {name: machine.cpu_seconds(p.pid) for name, p in running.items()}
    for name, p in running.items():
        wait_for(lambda p=p, name=name: p.poll() is not None or machine.cpu_seconds(p.pid) > begin[name] + seconds, 600, f"{name} computes")
        s.check(f"{name}: the tenant ran to the end", p.poll() is None, tail(p.log).strip().replace("\n", " ")[-200:])


def is_stopped(process):
    return machine.read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()[0] == "T"
