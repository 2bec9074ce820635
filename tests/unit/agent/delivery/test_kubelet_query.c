// SPDX-License-Identifier: Apache-2.0
/* The kubelet's URL. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/delivery/kubelet_query.h"
#include "tests/unit/agent/check/fake_system.h"

Test(kubelet_query, address)
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
		cr_assert_eq(kubelet_query_url(config, &url), 0);
		cr_expect_str_eq(buf_str(&url), rows[i].url);
	}
}
