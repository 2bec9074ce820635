// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/probe/perf.h"
#include "agent/probe/pidns.h"

Test(perf, online_cpus)
{
	_cleanup_free_ int *cpus = NULL;
	int n = perf_online_cpus(&cpus);

	cr_assert_geq(n, 1);
	cr_expect_eq(n, sysconf(_SC_NPROCESSORS_ONLN));
	for (int i = 0; i < n; i++) {
		char path[64];

		cr_expect(i == 0 ? cpus[i] >= 0 : cpus[i] > cpus[i - 1], "ascending");
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpus[i]);
		cr_expect_eq(access(path, F_OK), 0, "%s", path);
	}
}

Test(perf, page_bytes)
{
	size_t bytes = perf_page_bytes();

	cr_expect(bytes >= 4096 && (bytes & (bytes - 1)) == 0);
}

/* 0 in the initial PID namespace, else what /proc says. */
Test(perf, pid_namespace)
{
	uint32_t inode = 1;
	struct stat st;

	cr_assert_eq(pidns_inode(&inode), 0);
	cr_assert_eq(stat("/proc/self/ns/pid", &st), 0);
	cr_expect(inode == 0 || inode == st.st_ino);
}
