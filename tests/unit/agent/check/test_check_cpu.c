// SPDX-License-Identifier: Apache-2.0
/* The weight of the agent's control group, as a CPU request, and who waits for CPUs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cgroup/limit.h"
#include "tests/unit/agent/check/fake_system.h"

#define FIX                                                                                                  \
	"raise the CPU request (resources.requests.cpu of the chart, CPUWeight= of a systemd unit): tables " \
	"and names come late"
#define PRESSURE(percent)                                          \
	"some avg10=90.00 avg60=" percent " avg300=0.00 total=1\n" \
	"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
#define MACHINE "/proc/pressure/cpu"
#define GROUP "/sys/fs/cgroup/cpu.pressure"
#define OWN "/proc/self/schedstat"

static struct check_report check(struct fake fake)
{
	struct check_view view = view_of(&fake);
	struct check_report report = {0};

	check_cpu(&view, &report);
	cr_assert_eq(report.n, 1u);
	cr_expect_str_eq(report.results[0].name, "cpu weight");
	return report;
}

Test(check_cpu, weight_as_a_request)
{
	static const struct {
		struct cgroup_cpu group;
		const char *detail;
	} rows[] = {
		{{.version = 1, .weight = 2}, "cpu.shares is 2: no CPU request; "},
		{{.version = 1, .weight = 10}, "cpu.shares is 10, a CPU request of 10m; "},
		{{.version = 1, .weight = 51}, "cpu.shares is 51, a CPU request of 50m; "},
		{{.version = 1, .weight = 256}, "cpu.shares is 256, a CPU request of 250m; "},
		{{.version = 1, .weight = 1024}, "cpu.shares is 1024, the default of control groups; "},
		{{.version = 1, .weight = 262144}, "cpu.shares is 262144, a CPU request of 256000m; "},
		{{.version = 2, .weight = 1},
		 "cpu.weight is 1, a CPU request of 0m to 2m (runc 1.3.2, crun 1.23, or newer) or of 0m to "
		 "28m "
		 "(older); "},
		{{.version = 2, .weight = 2},
		 "cpu.weight is 2, a CPU request of 3m to 5m (runc 1.3.2, crun 1.23, or newer) or of 29m to "
		 "53m "
		 "(older); "},
		{{.version = 2, .weight = 11},
		 "cpu.weight is 11, a CPU request of 50m to 56m (runc 1.3.2, crun 1.23, or newer) or of 259m "
		 "to 284m (older); "},
		{{.version = 2, .weight = 100}, "cpu.weight is 100, the default of control groups; "},
		{{.version = 2, .weight = 10000},
		 "cpu.weight is 10000, a CPU request of 255972m to 256000m (runc 1.3.2, crun 1.23, or newer) "
		 "or of 256000m to 256000m (older); "},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct check_report report = check((struct fake){.cpu_group = &rows[i].group});

		cr_expect_eq(strncmp(report.results[0].detail, rows[i].detail, strlen(rows[i].detail)), 0,
			     "%s\nnot\n%s", report.results[0].detail, rows[i].detail);
		cr_expect_eq(report.results[0].status, CHECK_OK);
	}
}

static const struct cgroup_cpu v1_50m = {.version = 1, .weight = 51}, v1_100m = {.version = 1, .weight = 102},
			       v2_29m = {.version = 2, .weight = 2, .folder = "/sys/fs/cgroup"},
			       v2_50m = {.version = 2, .weight = 11, .folder = "/sys/fs/cgroup"};

Test(check_cpu, who_waits)
{
	static const struct {
		const char *why;
		struct fake fake;
		enum check_status status;
		const char *detail; /* its end */
	} rows[] = {
		{"a quiet machine",
		 {.cpu_group = &v1_50m},
		 CHECK_OK,
		 "; programs of this machine waited for a CPU in 2 % of the last minute"},
		{"a busy machine, a small weight",
		 {.cpu_group = &v1_50m, .path = MACHINE, .content = PRESSURE("75.20")},
		 CHECK_DEGRADED,
		 "; programs of this machine waited for a CPU in 75 % of the last minute"},
		{"small by either conversion",
		 {.cpu_group = &v2_29m, .path = MACHINE, .content = PRESSURE("75.20")},
		 CHECK_DEGRADED,
		 "75 % of the last minute"},
		{"50m, or 259m: it is unknown whether that is small",
		 {.cpu_group = &v2_50m, .path = MACHINE, .content = PRESSURE("75.20")},
		 CHECK_OK,
		 "75 % of the last minute"},
		{"a busy machine, weight enough",
		 {.cpu_group = &v1_100m, .path = MACHINE, .content = PRESSURE("75.20")},
		 CHECK_OK,
		 "75 % of the last minute"},
		{"the group's own pressure says more than the machine's",
		 {.cpu_group = &v2_50m, .path = GROUP, .content = PRESSURE("31.00")},
		 CHECK_DEGRADED,
		 "; the group waited for a CPU in 31 % of the last minute"},
		{"the group waits little",
		 {.cpu_group = &v2_50m, .path = GROUP, .content = PRESSURE("3.00")},
		 CHECK_OK,
		 "; the group waited for a CPU in 3 % of the last minute"},
		{"this process waits",
		 {.cpu_group = &v1_100m, .path = OWN, .content = "40000000 510000000 9\n"},
		 CHECK_DEGRADED,
		 "; this check ran for 0.04 s and waited 0.51 s for a CPU"},
		{"it waits long, but runs longer",
		 {.cpu_group = &v1_100m, .path = OWN, .content = "400000000 510000000 9\n"},
		 CHECK_OK,
		 "2 % of the last minute"},
		{"it waits more than it runs, but both are nothing",
		 {.cpu_group = &v1_100m, .path = OWN, .content = "1000000 51000000 9\n"},
		 CHECK_OK,
		 "2 % of the last minute"},
		{"a kernel that does not count",
		 {.cpu_group = &v1_100m, .path = OWN, .content = "0 0 0\n"},
		 CHECK_OK,
		 "2 % of the last minute"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct check_report report = check(rows[i].fake);
		const struct check_result *found = &report.results[0];
		size_t len = strlen(found->detail), end = strlen(rows[i].detail);

		cr_expect_eq(found->status, rows[i].status, "%s: %s", rows[i].why, found->detail);
		cr_expect(len >= end && strcmp(found->detail + len - end, rows[i].detail) == 0, "%s: %s",
			  rows[i].why, found->detail);
		cr_expect_str_eq(found->fix, rows[i].status == CHECK_OK ? "" : FIX, "%s", rows[i].why);
	}
}

Test(check_cpu, unknown)
{
	static const struct {
		struct fake fake;
		const char *detail;
	} rows[] = {
		{{.cpu_error = -ENOENT, .path = MACHINE},
		 "the CPU weight of the control group is unknown; it is unknown whether programs wait for a "
		 "CPU (no /proc/pressure/cpu)"},
		{{.cpu_error = -ENODATA, .path = MACHINE, .content = PRESSURE("99.00")},
		 "the control group has no CPU weight of its own; programs of this machine waited for a CPU "
		 "in "
		 "99 % of the last minute"},
		{{.cpu_group = &v1_50m, .path = MACHINE, .content = "some\n"},
		 "cpu.shares is 51, a CPU request of 50m; it is unknown whether programs wait for a CPU (no "
		 "/proc/pressure/cpu)"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct check_report report = check(rows[i].fake);

		cr_expect_str_eq(report.results[0].detail, rows[i].detail);
		cr_expect_eq(report.results[0].status, CHECK_OK);
	}
}
