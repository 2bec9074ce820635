// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/probe/tasks.h"
#include "bpf/abi.h"

Test(tasks, events_as_the_sideband_gives_them)
{
	static const struct {
		uint32_t kind;
		enum sideband_kind sideband;
		bool exec;
	} rows[] = {
		{TASK_FORK, SIDEBAND_FORK, false},
		{TASK_EXEC, SIDEBAND_COMM, true},
		{TASK_NAME, SIDEBAND_COMM, false},
		{TASK_EXIT, SIDEBAND_EXIT, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct task_event e = {.time_ns = 77,
				       .kind = rows[i].kind,
				       .pid = 1,
				       .tid = 2,
				       .ppid = 3,
				       .ptid = 4,
				       .comm = "x"};
		struct sideband_event s;

		cr_assert_eq(tasks_decode(&e, sizeof e, &s), 0);
		cr_expect_eq(s.kind, rows[i].sideband);
		cr_expect_eq(s.exec, rows[i].exec);
		cr_expect(s.pid == 1 && s.tid == 2 && s.ppid == 3 && s.ptid == 4 && s.time_ns == 77);
		cr_expect_str_eq(s.name, "x");
	}
}

Test(tasks, bad_records)
{
	struct task_event e = {.kind = TASK_EXIT + 1};
	struct sideband_event s;

	cr_expect_eq(tasks_decode(&e, sizeof e, &s), -EBADMSG, "a kind that there is not");
	e.kind = TASK_NAME;
	cr_expect_eq(tasks_decode(&e, sizeof e - 1, &s), -EBADMSG, "too short");
	memset(e.comm, 'x', sizeof e.comm);
	cr_expect_eq(tasks_decode(&e, sizeof e, &s), -EBADMSG, "no end of the name");
}
