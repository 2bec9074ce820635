// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/parse.h"

int perf_open(struct perf_event_attr *attr, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

size_t perf_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* "0-3,8" → the CPUs' numbers. */
int perf_online_cpus(int **ret)
{
	_cleanup_buf_ struct buf text = {0};
	_cleanup_free_ int *cpus = NULL;
	char *save = NULL, *list;
	int n = 0, r = fs_read_file("/sys/devices/system/cpu/online", 65536, &text);

	if (r < 0)
		return r;
	buf_str(&text);
	list = (char *)text.data;
	list[strcspn(list, "\n")] = '\0';
	for (char *range = strtok_r(list, ",", &save); range; range = strtok_r(NULL, ",", &save)) {
		char *dash = strchr(range, '-');
		uint32_t first, last;
		int *more;

		if (dash)
			*dash = '\0';
		if (parse_u32(range, &first) < 0 || parse_u32(dash ? dash + 1 : range, &last) < 0 ||
		    last < first || last > 65535)
			return -EBADMSG;
		more = realloc(cpus, ((size_t)n + last - first + 1) * sizeof *cpus);
		if (!more)
			return -ENOMEM;
		cpus = more;
		for (uint32_t c = first; c <= last; c++)
			cpus[n++] = (int)c;
	}
	*ret = TAKE_PTR(cpus);
	return n;
}
