# SPDX-License-Identifier: Apache-2.0
"""Control groups as runtimes make them, by hand: no runtime is needed to have a process in one."""
import os
import signal

from .scenario import Skip, wait_for


def hierarchy():
    """Where the unified hierarchy is mounted; else a controller's or systemd's own of version 1."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split() for line in f]
    for kind, option in (("cgroup2", ""), ("cgroup", "name=systemd"), ("cgroup", "")):
        for _, point, found, options, *_ in mounts:
            if found == kind and option in options and os.access(point, os.W_OK):
                return point
    raise Skip("no hierarchy of control groups can be written")


def remove(path, top):
    """The group and the empty ones above it, up to `top`."""
    while path != top:
        try:
            os.rmdir(path)
        except OSError:
            return
        path = os.path.dirname(path)


def cpu_hierarchy():
    """Where groups have weights on the CPUs."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split() for line in f]
    for _, point, found, options, *_ in mounts:
        if found == "cgroup" and "cpu" in options.split(",") and os.access(point, os.W_OK):
            return point
    for _, point, found, *_ in mounts:
        if found == "cgroup2" and "cpu" in open(os.path.join(point, "cgroup.controllers")).read().split():
            with open(os.path.join(point, "cgroup.subtree_control"), "w") as f:
                f.write("+cpu")
            return point
    raise Skip("no hierarchy with the cpu controller can be written")


def set_weight(group, shares):
    """Sets the weight by cpu.shares; version 2 has its own unit, 100 for 1024 shares."""
    old = os.path.join(group, "cpu.shares")
    with open(old if os.path.exists(old) else os.path.join(group, "cpu.weight"), "w") as f:
        f.write(str(shares if os.path.exists(old) else max(1, round(shares * 100 / 1024))))


def kill(group):
    """Kills what is in the group, also what its programs have started."""
    with open(os.path.join(group, "cgroup.procs")) as f:
        for pid in map(int, f.read().split()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def make(s, name, top=None):
    """A group, in the hierarchy `top` or in any; it goes with the scenario. Returns its folder."""
    top = top or hierarchy()
    path = os.path.join(top, name.strip("/"))
    os.makedirs(path, exist_ok=True)

    def end():
        try:
            wait_for(lambda: not open(os.path.join(path, "cgroup.procs")).read(), 10, f"{name} is empty")
        finally:
            remove(path, top)
    s.defer(end)
    return path


def start(s, group, argv, name):
    """A program that is in the group before it begins."""
    return s.start(["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *argv], name)
