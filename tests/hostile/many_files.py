#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that maps more binaries than the agent can know, and keeps them mapped.

Its neighbours, one that ran before and one that starts afterwards, have whole stacks with names. What the agent does not take of the
tenant's files is counted and logged once, and when the tenant is gone, it takes files again.
"""
import os

import attack
from attack import wait_for
from binaries import TEXT, header, write
from lib import cgroups, programs
from lib.scenario import tail
from lives.maps import raise_limit
from trial import Trial

TENANT = "65534"
FILES_MAX = 16384  # the agent's maximum


def make_files(s, n):
    """Executable files that all are different."""
    folder = s.folder("files")
    for path in (os.path.dirname(folder), folder):
        os.chmod(path, 0o755)
    for i in range(n):
        write(os.path.join(folder, f"{i:05}"), [(0, header() + TEXT), (0x800, b"%d" % i), (0x1000, b"\xc3")], 0x2000)
    return folder


def start_tenant(s, group, maps_files, folder):
    tenant = cgroups.start(s, group, ["setpriv", f"--reuid={TENANT}", f"--regid={TENANT}", "--clear-groups", maps_files, folder], "tenant")
    wait_for(lambda: "ready" in tail(tenant.log) or tenant.poll() is not None, 120, "the tenant has mapped all")
    s.check("the tenant runs", tenant.poll() is None, tail(tenant.log).strip())
    return tenant


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("gcc", "setpriv")
    raise_limit(s, FILES_MAX + 5000)
    folder = make_files(s, FILES_MAX + 1000)
    maps_files = programs.build_c(s, "maps_files")
    group = cgroups.make(s, f"tenant-{os.getpid()}")
    trial = Trial(s, "many files")
    agent = trial.agent
    tenant = start_tenant(s, group, maps_files, folder)
    refused = lambda: agent.metrics().get('proflet_binaries_refused_total{reason="share"}', 0)
    wait_for(lambda: refused() > 0, 120, "the agent refuses some")
    trial.endure()
    metrics = agent.metrics()
    known, unmapped = metrics["proflet_binaries"], metrics["proflet_binaries_unmapped"]
    s.check("the rest is for others", 0 < known - unmapped <= 0.8 * FILES_MAX,
            f"{known:.0f} known, {unmapped:.0f} of them make room, {refused():.0f} refused")
    s.equal("the log says so, once", len(agent.lines("binaries mapped: of")), 1)
    tenant.kill()
    trial.judge()


if __name__ == "__main__":
    attack.scenario("many_files").execute(body)
