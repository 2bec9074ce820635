// SPDX-License-Identifier: Apache-2.0
/* Tests the kubelet's URL, the errors reported about it, and the names of the machine. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/metadata.h"
#include "tests/unit/agent/check/fake_system.h"

Test(metadata, address)
{
	static const struct {
		const char *ip, *node, *kubelet, *url;
	} rows[] = {
		{NULL, NULL, NULL, "https://127.0.0.1:10250"},
		{"10.0.0.5", NULL, NULL, "https://10.0.0.5:10250"},
		{"10.0.0.5", "node-1", NULL, "https://10.0.0.5:10250"},
		{"fd00::5", NULL, NULL, "https://[fd00::5]:10250"},
		{"", "node-1", NULL, "https://node-1:10250"},
		{"10.0.0.5", "node-1", "https://kubelet.example", "https://kubelet.example:10250"},
		{NULL, NULL, "https://kubelet.example/", "https://kubelet.example:10250"},
		{NULL, NULL, "https://kubelet.example:443", "https://kubelet.example:443"},
		{NULL, NULL, "http://127.0.0.1", "http://127.0.0.1:10255"},
		{NULL, NULL, "https://[fd00::5]", "https://[fd00::5]:10250"},
		{NULL, NULL, "https://[fd00::5]:99", "https://[fd00::5]:99"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *config = config_of("auto");
		_cleanup_buf_ struct buf url = {0};

		free(config->kubernetes.node);
		free(config->kubernetes.kubelet);
		config->kubernetes.node = rows[i].node ? strdup(rows[i].node) : NULL;
		config->kubernetes.kubelet = rows[i].kubelet ? strdup(rows[i].kubelet) : NULL;
		unsetenv("K8S_NODE_IP");
		if (rows[i].ip)
			setenv("K8S_NODE_IP", rows[i].ip, 1);
		cr_assert_eq(metadata_url(config, &url), 0);
		cr_expect_str_eq(buf_str(&url), rows[i].url);
	}
}

Test(metadata, check_lines)
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

Test(metadata, check_says_nothing_where_it_is_off)
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
