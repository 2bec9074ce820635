// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's state as metrics in the text format of Prometheus 0.0.4, which OpenMetrics readers take, too.
 *The identity of loss, in every scrape:
 *
 *	samples_taken + samples_recovered = samples_exported + sum of samples_dropped + samples_in_flight
 *		+ samples_spooled
 *
 * Reads nothing but the clock. Rank 3.
 */
#ifndef PROFLET_METRICS_H
#define PROFLET_METRICS_H

#include <stdbool.h>

#include "agent/agent.h"
#include "agent/selfstat.h"
#include "otlp/exporter.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Everything at one moment. */
struct metrics_view {
	struct agent_stats agent;
	struct otlp_exporter_stats exporter;
	struct selfstat self;
	uint32_t frequency_hz;
	bool ready, stalled;
};

struct buf;
/* Appends all. 0 or -ENOMEM. */
int metrics_format(const struct metrics_view *v, struct buf *b);

#endif
