// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/proc/status.h"

Test(status, parsed)
{
	static const struct {
		const char *text;
		int result;
		uint32_t ns_pid, uid;
	} rows[] = {
		{"Name:\tx\nPid:\t10\nUid:\t1\t2\t3\t4\nNStgid:\t10\t7\nNSpid:\t10\t7\t1\n", 0, 1, 1},
		{"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t4194304\n", 0, 4194304, 0},
		{"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t5", 0, 5, 0},
		{"Name:\tNSpid:\\nNSpid:\nUid:\t9\t0\t0\t0\nNSpid:\t5\n", 0, 5, 9},
		{"Name:\tx\nUid:\t0\t0\t0\nNSpid:\t5\n", -EINVAL, 0, 0},
		{"Name:\tx\nUid:\t0\t0\t0\t4294967296\nNSpid:\t5\n", -EINVAL, 0, 0},
		{"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t\n", -EINVAL, 0, 0},
		{"Name:\tx\nUid:\t0\t0\t0\t0\n", -EINVAL, 0, 0},
		{"", -EINVAL, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proc_status s = {0};

		cr_expect_eq(proc_status_parse(rows[i].text, strlen(rows[i].text), &s), rows[i].result,
			     "row %zu", i);
		cr_expect_eq(s.ns_pid, rows[i].ns_pid, "row %zu", i);
		cr_expect_eq(s.uids[0], rows[i].uid, "row %zu", i);
	}
}

Test(status, our_own)
{
	_cleanup_close_ int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct proc_status s;

	cr_assert_eq(proc_status_read(proc_fd, (uint32_t)getpid(), &s), 0);
	cr_expect_eq(s.ns_pid, (uint32_t)getpid());
	cr_expect_eq(s.uids[0], getuid());
	cr_expect_eq(s.uids[1], geteuid());
	cr_expect_eq(proc_status_read(proc_fd, 4194305, &s), -ESRCH);
}
