// SPDX-License-Identifier: Apache-2.0
/* Whether the collector can be reached. Whether it takes profiles is for the exporter to ask. */
#include <stdio.h>
#include <string.h>

#include "agent/check.h"
#include "agent/config.h"

void check_collector(const struct check_view *view, const struct config *config, struct check_report *report)
{
	char why[200] = "", detail[320];
	int r = view->connect(view->ctx, config, why, sizeof why);

	if (r == 0) {
		snprintf(detail, sizeof detail, "%.200s accepts connections", config->endpoint);
		check_add(report, CHECK_OK, "collector", detail, "");
		return;
	}
	snprintf(detail, sizeof detail, "%.100s cannot be reached: %s", config->endpoint,
		 *why ? why : strerror(-r));
	check_add(report, CHECK_FAILS, "collector", detail,
		  "start a collector there, or correct endpoint (--endpoint, OTEL_EXPORTER_OTLP_ENDPOINT)");
}
