// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <sys/stat.h>

#include "agent/probe/perf.h"
#include "agent/probe/probe_private.h"

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

	cr_assert_eq(probe_pid_namespace(&inode), 0);
	cr_assert_eq(stat("/proc/self/ns/pid", &st), 0);
	cr_expect(inode == 0 || inode == st.st_ino);
}
