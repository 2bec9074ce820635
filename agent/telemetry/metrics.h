// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's state as metrics: in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 for clients that
 * accept it, which also names units. In every scrape, all samples are accounted for:
 *
 *	samples_taken + samples_recovered = samples_exported + sum of samples_dropped + samples_in_flight
 *		+ samples_spooled
 *
 * Reads nothing but the clock.
 */
#ifndef PROFLET_METRICS_H
#define PROFLET_METRICS_H

#include <stdbool.h>

#include "agent/agent.h"
#include "agent/parser/parser.h"
#include "agent/telemetry/cpu_wait.h"
#include "agent/delivery/http_server.h"
#include "agent/delivery/pull_stats.h"
#include "agent/telemetry/selfstat.h"
#include "otlp/exporter.h"

enum metrics_form { METRICS_TEXT, METRICS_OPEN };

/* All numbers at one point in time. */
struct metrics_view {
	struct agent_stats agent;
	struct runtimes_processes languages;
	struct otlp_exporter_stats exporter;
	struct selfstat self;
	struct parser_stats parser;
	struct cpu_wait_times cpu;
	struct http_server_stats http;
	struct pull_stats pulls;
	uint64_t delivery_restarts;
	uint32_t frequency_max_hz; /* as configured */
	double cpu_max;		   /* as a ratio of one CPU */
	uint64_t memory_max_bytes, queue_max_bytes, spool_max_bytes;
	bool ready, stalled;
};

struct buf;
/* The form that a request's Accept header prefers. */
enum metrics_form metrics_form_of(const char *accept);
/* Static string. */
const char *metrics_content_type(enum metrics_form form);
/* Appends the whole page. 0, -ENOMEM, or -EOVERFLOW at the maximum of `b`. */
int metrics_format(const struct metrics_view *v, enum metrics_form form, struct buf *b);

#endif
