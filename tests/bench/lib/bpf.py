# SPDX-License-Identifier: Apache-2.0
"""The kernel's own figures on BPF: run time of programs, memory of maps. Needs CAP_SYS_ADMIN or CAP_BPF+PERFMON."""
import ctypes
import os
import platform
import re
import struct

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID, ENABLE_STATS = 12, 14, 32
PERF_EVENT = 7 # BPF_PROG_TYPE_PERF_EVENT
libc = ctypes.CDLL(None, use_errno=True)


def call(command, *words):
    """bpf(2) with an attribute of u32s, the rest of it zero; (result, attribute)."""
    attr = ctypes.create_string_buffer(struct.pack("%dI" % len(words), *words), 128)
    result = libc.syscall(SYS_BPF, command, attr, 128)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result, attr.raw


def enable_stats():
    """The kernel counts run time until the descriptor is closed; it is kept by the caller."""
    return call(ENABLE_STATS, 0)[0]


def fdinfo(pid, fd):
    try:
        with open("/proc/%s/fdinfo/%s" % (pid, fd)) as f:
            return dict(re.findall(r"^(\w+):\s*(\S+)", f.read(), re.M))
    except OSError:
        return {}


def run_time(pids):
    """(ns, runs) of the perf_event programs that the processes hold."""
    programs = {}
    for pid in pids:
        try:
            fds = os.listdir("/proc/%d/fdinfo" % pid)
        except OSError:
            continue
        for fd in fds:
            info = fdinfo(pid, fd)
            if info.get("prog_type") == str(PERF_EVENT):
                programs[info["prog_id"]] = (int(info.get("run_time_ns", 0)), int(info.get("run_cnt", 0)))
    return sum(p[0] for p in programs.values()), sum(p[1] for p in programs.values())


def map_ids():
    out, last = set(), 0
    while True:
        try:
            last = struct.unpack("2I", call(MAP_GET_NEXT_ID, last)[1][:8])[1]
        except FileNotFoundError:
            return out
        out.add(last)


def map_bytes(ids):
    """Memory of the maps as the kernel accounts it, inner maps among them."""
    total = 0
    for number in ids:
        try:
            fd, _ = call(MAP_GET_FD_BY_ID, number)
        except OSError:
            continue
        total += int(fdinfo("self", fd).get("memlock", 0))
        os.close(fd)
    return total
