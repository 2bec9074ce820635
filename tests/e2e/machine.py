#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages for one machine, as they stand there: deploy/machine.md with its service, deploy/backends.md up to a Collector's file,
`On this machine` of deploy/look.md, `One machine` and `To a Collector` of README.md. In a network and folders of their own (/etc, /usr/local/bin, /var/lib),
so that nothing of the machine is changed. The unit is verified, started by systemd where it runs, and its program with the unit's capabilities."""
import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

from lib import collector, programs
from lib.machine import unhurried
from lib.pages import commands_of
from lib.scenario import PROFLET, ROOT, Scenario, stop, wait_for
from show import line

NEW_NAMESPACES = 0x00020000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWNET
UNIT = os.path.join(ROOT, "deploy", "systemd", "proflet.service")
EXPOSURE = 60  # tenths: what systemd-analyze calls medium


def separate(s, otelcol):
    """Changes what this process and its children see from here on; → the folder in which the pages' commands run."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NAMESPACES):
        raise OSError(ctypes.get_errno(), "unshare")
    over, work = s.folder("over"), s.folder("work")
    s.defer(lambda: s.run(["umount", "-l", "/etc", over], check=False))
    s.run(["sh", "-ec", f"""
        mount --make-rprivate /
        ip link set lo up
        mount -t tmpfs tmpfs {over}
        mkdir {over}/upper {over}/work {over}/tmp
        mount -t overlay overlay -o lowerdir=/etc,upperdir={over}/upper,workdir={over}/work /etc
        mount -t tmpfs tmpfs /usr/local/bin
        mount -t tmpfs tmpfs /var/lib
        mkdir -p -m 700 /var/lib/proflet {work}/build/release /etc/systemd/system
        ln -s {ROOT}/deploy {work}/deploy
        cp {os.path.abspath(PROFLET)} {work}/build/release/proflet
        ln -s {otelcol}/otelcol /usr/local/bin/otelcol
        printf '#!/bin/sh\\nexec "$@"\\n' > /usr/local/bin/sudo
        chmod +x /usr/local/bin/sudo
    """])
    return work


def check_command(s, page, command, work, seconds=120):
    done = s.run(["sh", "-c", command], cwd=work, check=False, seconds=seconds)
    s.check(f"{page}: {command}", done.returncode == 0, line(done.stderr or done.stdout))
    return done.stdout


def check_file(s, work):
    """The section is one script, since two of its programs go on behind its end."""
    os.symlink(os.path.abspath(PROFLET), "/usr/local/bin/proflet")
    script = "\n".join(commands_of("deploy/backends.md", "A Collector's file"))
    with open(s.path("section.log"), "w+", encoding="utf-8") as log:
        shell = subprocess.Popen(["sh", "-c", script], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                 text=True, start_new_session=True)
        first = shell.stdout.readline()  # of grep
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait()
        shell.stdout.close()
    s.check("deploy/backends.md: requests are in the Collector's file", re.fullmatch(r"[1-9]\d*\n", first), first.strip())
    os.unlink("/usr/local/bin/proflet")


def check_to_collector(s, work):
    """`To a Collector` of README.md: the second one goes on until it is stopped."""
    check, run = commands_of("README.md", "To a Collector")
    check_command(s, "README.md", check, work)
    agent = s.start(["sh", "-c", "exec " + run], "to-collector", cwd=work)

    def log():
        with open(agent.log, encoding="utf-8") as f:
            return f.read()

    wait_for(lambda: 'msg="sampling"' in log(), 60, "the agent samples")
    time.sleep(3)
    stop(agent)
    exported = re.search(r'msg="final" taken=(\d+) exported=(\d+) dropped=0', log())
    s.check(f"README.md: {run}", exported and exported[1] == exported[2] != "0", line(log().splitlines()[-1]))


def unit_values(name):
    with open(UNIT, encoding="utf-8") as f:
        return re.findall(rf"^{name}=(.*)$", f.read(), re.M)


def check_unit(s):
    done = s.run(["systemd-analyze", "verify", "--man=no", "/etc/systemd/system/proflet.service"], check=False)
    s.check("systemd-analyze verify: nothing to say", done.returncode == 0 and "proflet.service" not in done.stderr, line(done.stderr))
    done = s.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", "/etc/systemd/system/proflet.service"], check=False)
    s.check(f"systemd-analyze security: at most {EXPOSURE / 10}", done.returncode == 0, (done.stdout or done.stderr).strip().splitlines()[-1])


def check_systemd(s):
    """The unit under the machine's own systemd, by another name and without a Collector, for some seconds."""
    if not os.path.isdir("/run/systemd/system"):
        s.skip("the unit under systemd", "systemd does not run here")
        return
    with open(UNIT, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"(?m)^ExecStart=.*", f"ExecStart={os.path.abspath(PROFLET)} run --endpoint http://127.0.0.1:9 --listen off", text)
    path = "/run/systemd/system/proflet-e2e.service"
    s.defer(lambda: os.path.exists(path) and os.unlink(path))
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("StateDirectory=proflet", "StateDirectory=proflet-e2e"))
    s.defer(lambda: s.run(["systemctl", "stop", "proflet-e2e"], check=False))
    s.run(["systemctl", "daemon-reload"])
    s.run(["systemctl", "start", "proflet-e2e"])
    time.sleep(3)
    s.equal("systemd: the unit is active after 3 s", s.run(["systemctl", "is-active", "proflet-e2e"], check=False).stdout.strip(), "active")
    s.run(["systemctl", "stop", "proflet-e2e"])
    s.equal("systemd: and ends well", s.run(["systemctl", "show", "-P", "Result", "proflet-e2e"]).stdout.strip(), "success")


def start_service(s, work):
    """The unit's program with the unit's capabilities: systemd does not see the folders of this test."""
    names = ",".join("+" + c.removeprefix("CAP_").lower() for c in unit_values("CapabilityBoundingSet")[0].split())
    argv = ["setpriv", "--no-new-privs", f"--bounding-set=-all,{names}", "--", *shlex.split(unit_values("ExecStart")[0])]
    return s.start(argv, "service", cwd=work)


def check_machine(s, work):
    page = "deploy/machine.md"
    receiver = s.start(["otelcol", "--config", "deploy/collector/file.yaml", "--feature-gates=+service.profilesSupport"], "collector", cwd=work)
    wait_for(lambda: s.run(["sh", "-c", "ss -ltn | grep -q :4317"], check=False).returncode == 0, 30, "the Collector")
    check_to_collector(s, work)
    for command in commands_of(page, None):
        if "systemctl" in command or "proflet check --ready" in command:
            break
        check_command(s, page, command, work)
    check_unit(s)
    check_systemd(s)
    service = start_service(s, work)
    wait_for(lambda: s.run(["proflet", "check", "--ready"], check=False).returncode == 0, 30, "the service")
    for command in commands_of(page, "Look"):
        said = check_command(s, page, command, work)
    s.check("the last one lists functions", "%" in said, line(said))
    check_look(s, work)
    stop(service)
    s.check("the service ends by itself, with exit code 0", service.returncode == 0, service.returncode)
    stop(receiver)


def check_look(s, work):
    page = "deploy/look.md"
    go = s.run([os.path.join(ROOT, "tests", "support", "install"), "--print-go"], check=False).stdout.strip()
    for command in commands_of(page, "On this machine"):
        if command.startswith("go ") and not go:
            s.skip(f"{page}: {command}", "no Go: tests/support/install test")
            continue
        path = f"PATH={os.path.dirname(go)}:$PATH HOME={work} GOCACHE={programs.go_cache()} "
        check_command(s, page, (path if go and command.startswith("go ") else "") + command, work)
    s.check("the page of a container is there", os.path.getsize(os.path.join(work, "pod.html")) > 1000)


def check_readme(s, work):
    """Its files go to /tmp, so the commands have one of their own."""
    wanted = [c for c in commands_of("README.md", "One machine") if not re.search(r"cmake|top$", c)]
    with open(os.path.join(work, "Makefile"), "w", encoding="utf-8") as f:
        f.write("all: a b\na b:\n\techo 'int main(void) { return 0; }' | gcc -O2 -g -x c -o $@ -\n")
    script = f"mount --bind {s.path('over')}/tmp /tmp && set -ex\n" + "\n".join(wanted)
    started = unhurried()
    done = s.run(["unshare", "-m", "sh", "-c", script], cwd=work, check=False, seconds=120)
    s.check(f"README.md: {len(wanted)} commands of One machine", len(wanted) == 5 and done.returncode == 0,
            f"{unhurried() - started:.0f} s; {line(done.stderr)}")


def body(s):
    s.need_root()
    s.need_proflet()
    s.need("systemd-analyze", "setpriv", "unshare", "curl", "ip", "ss")
    otelcol = collector.binaries()
    work = separate(s, otelcol)
    os.environ["PATH"] = "/usr/local/bin:" + os.environ["PATH"]
    check_file(s, work)
    check_machine(s, work)
    check_readme(s, work)
    shutil.rmtree("/var/lib/proflet", ignore_errors=True)


if __name__ == "__main__":
    Scenario("machine").execute(body)
