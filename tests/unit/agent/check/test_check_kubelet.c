// SPDX-License-Identifier: Apache-2.0
/* What `check` says of the kubelet. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "tests/unit/agent/check/fake_system.h"

Test(check_kubelet, lines)
{
	static const struct {
		int answer;
		const char *line;
	} rows[] = {
		{0, "ok        kubelet                 it lists 7 pods\n"},
		{-EACCES,
		 "degraded  kubelet                 https://n:10250: HTTP 403; pods have no names → bind a "
		 "cluster "
		 "role that may get nodes/pods (the chart's rbac.create) to the pod's service account\n"},
		{-ECONNREFUSED,
		 "degraded  kubelet                 https://n:10250: HTTP 403; pods have no names → correct "
		 "kubernetes.kubelet, kubernetes.token_file, kubernetes.ca or kubernetes.insecure, or turn "
		 "kubernetes.metadata off\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *config = config_with("--kubernetes.metadata", "on");
		_cleanup_buf_ struct buf text = {0};
		struct fake fake = {.kubelet = rows[i].answer};
		struct check_view view = view_of(&fake);
		struct check_report report;

		check_run(&view, config, &report);
		cr_assert_eq(check_format_text(&report, &text), 0);
		cr_expect(strstr(buf_str(&text), rows[i].line), "no line\n%sin\n%s", rows[i].line,
			  buf_str(&text));
		cr_expect_eq(check_exit_code(&report), 0, "names of pods are not needed to run");
	}
}

Test(check_kubelet, nothing_where_it_is_off)
{
	_cleanup_config_ struct config *config = config_of("auto");
	_cleanup_buf_ struct buf text = {0};
	struct fake fake = {0};
	struct check_view view = view_of(&fake);
	struct check_report report;

	check_run(&view, config, &report);
	cr_assert_eq(check_format_text(&report, &text), 0);
	cr_expect_null(strstr(buf_str(&text), "kubelet"));
}
