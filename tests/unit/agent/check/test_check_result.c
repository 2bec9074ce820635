// SPDX-License-Identifier: Apache-2.0
/* The verdicts: permissions, exit codes, JSON; and the real system as far as it is the same everywhere. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/check.h"
#include "agent/base/exit_code.h"
#include "agent/config/config.h"
#include "otlp/utf8.h"
#include "tests/unit/agent/check/fake_system.h"

Test(check_result, healthy_system_is_all_ok)
{
	_cleanup_config_ struct config *config = config_of("auto");
	struct fake fake = {0};
	struct check_view view = view_of(&fake);
	struct check_report report;

	check_run(&view, config, &report);
	for (size_t i = 0; i < report.n; i++) {
		cr_expect_eq(report.results[i].status, CHECK_OK, "%s", report.results[i].name);
		cr_expect_str_empty(report.results[i].fix);
	}
	cr_expect_geq(report.n, 20u);
}

Test(check_result, missing_capabilities_are_named)
{
	static const struct {
		struct fake fake;
		const char *text; /* NULL: nothing required is missing */
	} table[] = {
		{{0}, NULL},
		{{.without = CAP(CAP_SYSLOG)}, NULL},
		{{.without = ~0ull, .with = CAP(CAP_SYS_ADMIN)}, NULL},
		{{.without = CAP(N_BPF)}, "missing capabilities: CAP_BPF; run as root or grant them"},
		{{.without = CAP(N_BPF) | CAP(N_PERFMON)},
		 "missing capabilities: CAP_BPF, CAP_PERFMON (or CAP_SYS_ADMIN); run as root or grant them"},
		{{.without = ~0ull},
		 "missing capabilities: CAP_BPF, CAP_PERFMON (or CAP_SYS_ADMIN); also missing, which reduces "
		 "what is seen: CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE, CAP_SYSLOG, "
		 "CAP_IPC_LOCK; run "
		 "as root or grant "
		 "them"},
		{{.path = "/proc/self/uid_map", .content = "0 100000 65536\n"},
		 "this user namespace is not the initial one: its capabilities do not count for BPF and perf "
		 "events; "
		 "set hostUsers: true in the pod, or run outside of rootless containers"},
		{{.release = "5.10.0", .memlock = 65536},
		 "missing capabilities: CAP_SYS_RESOURCE; run as root or grant them"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct fake fake = table[i].fake;
		struct check_view view = view_of(&fake);
		_cleanup_free_ char *missing = NULL;

		cr_expect_eq(check_permissions_of(&view, &missing), table[i].text ? -EPERM : 0, "row %zu", i);
		cr_expect_eq(!missing, !table[i].text, "row %zu: %s", i, missing);
		if (missing && table[i].text)
			cr_expect_str_eq(missing, table[i].text);
	}
}

Test(check_result, json_escapes)
{
	_cleanup_buf_ struct buf text = {0};
	struct check_report report = {0};

	check_add(&report, CHECK_DEGRADED, "a", "say \"x\"\n\\", "");
	check_add_denied(&report, "b", "", "do");
	cr_assert_eq(check_format_json(&report, &text), 0);
	cr_assert_str_eq(
		buf_str(&text),
		"[\n {\"name\": \"a\", \"status\": \"degraded\", \"detail\": \"say \\\"x\\\"?\\\\\", "
		"\"fix\": "
		"\"\"},\n {\"name\": \"b\", \"status\": \"fails\", \"detail\": \"\", \"fix\": \"do\"}\n]\n");
	cr_assert_eq(check_exit_code(&report), EXIT_NOT_PERMITTED);
}

/* What a server says may be cut anywhere. */
Test(check_result, text_stays_valid)
{
	struct check_report report = {0};
	char text[601];

	for (size_t skip = 0; skip < 3; skip++) {
		for (size_t i = 0; i < sizeof text - 1; i++)
			text[i] = "\xe2\x86\x92"[(i + skip) % 3];
		text[sizeof text - 1] = '\0';
		check_add(&report, CHECK_FAILS, "collector", text, "\x1b[31m\xff");
		cr_expect(utf8_valid(report.results[skip].detail, strlen(report.results[skip].detail)));
		cr_expect_gt(strlen(report.results[skip].detail), 300u);
		cr_expect_str_eq(report.results[skip].fix, "?[31m\xef\xbf\xbd");
	}
}

/* The real view on the machine that runs the tests: only what holds everywhere. */
Test(check_result, real_view_answers)
{
	char release[65], version[65], text[64];
	uint64_t mask, bytes;
	uint32_t v;

	cr_assert_eq(check_view_real.uname(NULL, release, version), 0);
	cr_assert_eq(check_kernel_version(&check_view_real, &v), 0);
	cr_assert_geq(v, CHECK_VERSION(3, 0, 0));
	cr_assert_eq(check_view_real.capabilities(NULL, &mask), 0);
	cr_assert_eq(check_view_real.memlock(NULL, &bytes), 0);
	cr_assert_eq(check_view_real.read_file(NULL, "/nonexistent", text, sizeof text), -ENOENT);
	cr_assert_eq(check_view_real.read_file(NULL, "/proc/self/maps", text, sizeof text), 63);
	cr_assert_eq(check_view_real.open_file(NULL, "/proc/self/maps"), 0);
	cr_assert_gt(check_view_real.read_link(NULL, "/proc/self/exe", text, sizeof text), 0);
	cr_assert_eq(check_view_real.getpid(NULL), getpid());
}
