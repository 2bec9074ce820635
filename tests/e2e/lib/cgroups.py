# SPDX-License-Identifier: Apache-2.0
"""Control groups as runtimes make them, by hand: no runtime is needed to have a process in one."""
import os

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


def make(s, name):
    """A group; it goes with the scenario. Returns its folder."""
    top = hierarchy()
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
