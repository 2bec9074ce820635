// SPDX-License-Identifier: Apache-2.0
/*
 * What `listen` offers of a running agent:
 *
 *	/metrics	counters and gauges, metrics.h
 *	/healthz	200 while samples come as they should; 503 and why when sampling stalls
 *	/readyz		200 once sampling has begun
 *	/debug/state	the same as text for people
 *
 * No page shows a header, a token or an environment. Rank 3.
 */
#ifndef PROFLET_STATUS_H
#define PROFLET_STATUS_H

struct agent;
struct config;
struct otlp_exporter;
struct status;

/*
 * Listens as the configuration says; *ret is NULL for `off`. All is borrowed. 0, or -errno with *ret_why = a
 * line for the operator (owned).
 */
int status_new(struct status **ret, struct agent *agent, struct otlp_exporter *exporter,
	       const struct config *config, char **ret_why);
/* NULL is fine. */
void status_free(struct status *s);

#endif
