// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

int perf_open(struct perf_event_attr *attr, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

size_t perf_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}
