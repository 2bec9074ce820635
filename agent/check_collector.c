// SPDX-License-Identifier: Apache-2.0
/* Whether those whom the agent talks to can be reached: the collector, and the kubelet. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check.h"
#include "agent/config.h"

void check_collector(const struct check_view *view, const struct config *config, struct check_report *report)
{
	_cleanup_free_ char *why = NULL;
	char detail[320];
	int r = view->collector(view->ctx, config, &why);

	if (r == 0) {
		snprintf(detail, sizeof detail, "%.200s takes profiles", config->endpoint);
		check_add(report, CHECK_OK, "collector", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%s", why ? why : strerror(-r));
	check_add(report, CHECK_FAILS, "collector", detail,
		  r == -EPROTO ? "start it with --feature-gates=+service.profilesSupport, version 0.148 or "
				 "later, and a "
				 "profiles pipeline with the otlp receiver"
			       : "start a collector there, or correct endpoint (--endpoint, "
				 "OTEL_EXPORTER_OTLP_ENDPOINT)");
}

/* Without it there are no names of pods, and all else is as it was. */
void check_kubelet(const struct check_view *view, const struct config *config, struct check_report *report)
{
	_cleanup_free_ char *why = NULL;
	char detail[320];
	size_t n = 0;
	int r;

	if (!config->kubernetes.metadata)
		return;
	r = view->kubelet(view->ctx, config, &n, &why);
	if (r == 0) {
		snprintf(detail, sizeof detail, "it lists %zu pods", n);
		check_add(report, CHECK_OK, "kubelet", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%s; pods have no names", why ? why : strerror(-r));
	check_add(report, CHECK_DEGRADED, "kubelet", detail,
		  r == -EACCES
			  ? "bind a cluster role that may get nodes/pods (the chart's rbac.create) to the "
			    "pod's service account"
			  : "correct kubernetes.kubelet, kubernetes.token_file, kubernetes.ca or "
			    "kubernetes.insecure, or turn kubernetes.metadata off");
}
