# SPDX-License-Identifier: Apache-2.0
"""What /proc says of processes and of the machine."""
import os
import platform
import re
import time

TICK = os.sysconf("SC_CLK_TCK")
CPUS = sorted(os.sched_getaffinity(0))


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def busy():
    """CPU seconds that were not idle since boot, of all CPUs, stolen ones included."""
    v = [int(x) for x in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICK


def cpu(pid):
    """CPU seconds of a process, to the nanosecond and with its ended threads (its CPU clock, see clock_getcpuclockid)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def family(pid):
    """The process and its descendants."""
    children = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        stat = read("/proc/%s/stat" % p).rpartition(")")[2].split()
        if stat:
            children.setdefault(int(stat[1]), []).append(int(p))
    out, more = [], [pid]
    while more:
        p = more.pop()
        out.append(p)
        more += children.get(p, [])
    return out


def resident(pids):
    """Bytes of RSS now, and at most so far."""
    rss = peak = 0
    for pid in pids:
        status = read("/proc/%d/status" % pid)
        kib = dict(re.findall(r"^(VmRSS|VmHWM):\s*(\d+)", status, re.M))
        rss += int(kib.get("VmRSS", 0)) * 1024
        peak += int(kib.get("VmHWM", 0)) * 1024
    return rss, peak


def proportional(pids):
    """Bytes of memory that the processes take together: a page that several have counts once."""
    pss = 0
    for pid in pids:
        kib = re.search(r"^Pss:\s*(\d+)", read("/proc/%d/smaps_rollup" % pid), re.M)
        pss += int(kib.group(1)) * 1024 if kib else 0
    return pss


def conditions():
    model = re.search(r"^model name\s*:\s*(.*)", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", read("/proc/meminfo"), re.M)
    return {
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": model[1] if model else "unknown",
        "cpus": len(CPUS),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
        "load": list(os.getloadavg()),
        "processes": sum(p.isdigit() for p in os.listdir("/proc")),
    }
