// SPDX-License-Identifier: Apache-2.0
/*
 * The pages that a running agent serves, by its delivery process, at the address of the setting `listen`:
 *
 *	/metrics	counters and gauges, metrics.h
 *	/healthz	200 while samples arrive as expected; 503 and the reason when sampling has stalled
 *	/readyz		200 once sampling has begun
 *	/debug/state	the same information for people
 *	/debug/state/PID	what is known of a process, and which functions of it are not shown, and why
 *
 * pull_pages.h has the profiles. / lists all of them.
 *
 * No page shows a header, a token or an environment.
 */
#ifndef PROFLET_STATUS_PAGES_H
#define PROFLET_STATUS_PAGES_H

struct agent;
struct buf;
struct config;
struct cpu_wait;
struct delivery;
struct status_pages;

/*
 * Agent, delivery, cpu_wait and configuration are borrowed until status_pages_free. Also answers
 * `proflet check --alive`. 0 or -errno.
 */
int status_pages_new(struct status_pages **ret, struct agent *agent, struct delivery *delivery,
		     struct cpu_wait *cpu_wait, const struct config *config);
/* Answers a request (delivery_page_fn); `data`: the struct status_pages. */
unsigned status_pages_answer(const char *path, const char *accept, struct buf *body,
			     const char **content_type, void *data);
/* NULL is fine. */
void status_pages_free(struct status_pages *s);

#endif
