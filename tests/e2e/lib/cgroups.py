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


def hierarchy_of(controller):
    """Where groups have this controller: its own hierarchy of version 1, or the unified one, where it is enabled."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split() for line in f]
    for _, point, found, options, *_ in mounts:
        if found == "cgroup" and controller in options.split(",") and os.access(point, os.W_OK):
            return point
    for _, point, found, *_ in mounts:
        if found == "cgroup2" and controller in open(os.path.join(point, "cgroup.controllers")).read().split():
            enable(point, controller)
            return point
    raise Skip(f"no hierarchy with the controller {controller} can be written")


def enable(group, controller):
    """Version 2: groups below this one have the controller."""
    with open(os.path.join(group, "cgroup.subtree_control"), "w") as f:
        f.write("+" + controller)


def is_unified(group):
    return os.path.exists(os.path.join(group, "cgroup.controllers"))


def set_weight(group, shares):
    """Sets the weight by cpu.shares; version 2 has its own unit, 100 for 1024 shares."""
    old = os.path.join(group, "cpu.shares")
    with open(old if os.path.exists(old) else os.path.join(group, "cpu.weight"), "w") as f:
        f.write(str(shares if os.path.exists(old) else max(1, round(shares * 100 / 1024))))


def limit_cpu(group, ratio, period_us=100000):
    """What is in the group gets at most so much of one CPU."""
    quota = int(ratio * period_us)
    old = os.path.join(group, "cpu.cfs_quota_us")
    with open(old if os.path.exists(old) else os.path.join(group, "cpu.max"), "w") as f:
        f.write(str(quota) if os.path.exists(old) else f"{quota} {period_us}")


def allow_realtime(group, microseconds):
    """Lets real-time threads of the group run for so long in each second; version 1 with CONFIG_RT_GROUP_SCHED allows none at first."""
    path = os.path.join(group, "cpu.rt_runtime_us")
    if os.path.exists(path):
        with open(path, "w") as f:
            f.write(str(microseconds))


def disk_of(path):
    """MAJOR:MINOR of the whole disk that has the file; None where a file system has none, as tmpfs or overlay."""
    device = os.stat(path).st_dev
    folder = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if os.path.exists(os.path.join(folder, "partition")):
        folder = os.path.dirname(folder)
    try:
        with open(os.path.join(folder, "dev")) as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


def limit_reads(group, disk, bytes_per_second):
    """Limits what the group reads of the disk; Skip where the kernel cannot."""
    name, key = ("io.max", "rbps=") if is_unified(group) else ("blkio.throttle.read_bps_device", "")
    try:
        with open(os.path.join(group, name), "r+") as f:
            f.write(f"{disk} {key}{bytes_per_second}")
    except OSError as e:
        raise Skip(f"this kernel does not limit reads: {name}: {e.strerror}") from e


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


def start(s, group, argv, name, also=()):
    """A program that is in the group, and in those of other hierarchies, before it begins."""
    enter = " && ".join(f"echo $$ > {g}/cgroup.procs" for g in (group, *also))
    return s.start(["sh", "-c", enter + ' && exec "$@"', "sh", *argv], name)
