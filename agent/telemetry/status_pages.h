// SPDX-License-Identifier: Apache-2.0
/*
 * The pages that a running agent serves at the address of the setting `listen`:
 *
 *	/metrics	counters and gauges, metrics.h
 *	/healthz	200 while samples arrive as expected; 503 and the reason when sampling has stalled
 *	/readyz		200 once sampling has begun
 *	/debug/state	the same information for people
 *
 * No page shows a header, a token or an environment.
 */
#ifndef PROFLET_STATUS_PAGES_H
#define PROFLET_STATUS_PAGES_H

struct agent;
struct config;
struct cpu_wait;
struct otlp_exporter;
struct status_pages;

/*
 * Listens at the configured address; *ret is NULL for `off`. Agent, exporter, cpu_wait and configuration are
 * borrowed until status_pages_free. 0, or -errno with *ret_why = a line for the operator (owned).
 */
int status_pages_new(struct status_pages **ret, struct agent *agent, struct otlp_exporter *exporter,
		     struct cpu_wait *cpu_wait, const struct config *config, char **ret_why);
/* NULL is fine. */
void status_pages_free(struct status_pages *s);

#endif
