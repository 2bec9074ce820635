# SPDX-License-Identifier: Apache-2.0
"""How many samples a machine gives at all: the agent's event once more, opened here, with nothing behind it.

A virtual machine's CPUs stand still now and then, and whatever fires by their clock misses that time.
"""
import ctypes
import mmap
import os
import struct

PERF_EVENT_OPEN, TYPE_SOFTWARE, CPU_CLOCK = 298, 1, 0
EXCLUDE_IDLE, BY_FREQUENCY = 1 << 7, 1 << 10
ATTRIBUTE_BYTES = 112
DATA_HEAD, RECORD_BYTES = 1024, 8  # in struct perf_event_mmap_page; a record without any field
PAGES = 64  # 32,768 records a CPU


class Control:
    def __init__(self, frequency, cpus):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fds, self.rings = [], []
        attribute = struct.pack("<IIQQQQQ", TYPE_SOFTWARE, ATTRIBUTE_BYTES, CPU_CLOCK, frequency, 0, 0, EXCLUDE_IDLE | BY_FREQUENCY)
        for cpu in cpus:
            fd = libc.syscall(PERF_EVENT_OPEN, attribute.ljust(ATTRIBUTE_BYTES, b"\0"), -1, cpu, -1, 0)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "perf_event_open")
            self.fds.append(fd)
            self.rings.append(mmap.mmap(fd, (1 + PAGES) * mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))

    def count(self):
        """Since it began, as long as the rings have room: they are not read."""
        return sum(struct.unpack_from("<Q", ring, DATA_HEAD)[0] // RECORD_BYTES for ring in self.rings)

    def close(self):
        for ring, fd in zip(self.rings, self.fds):
            ring.close()
            os.close(fd)
