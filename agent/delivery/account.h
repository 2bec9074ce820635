// SPDX-License-Identifier: Apache-2.0
/*
 * The numbers of the delivery process, in memory that it shares with the agent: the agent reads them without
 * waiting for it. A value is written to the one of two places that is not current, which then becomes
 * current, so a process that is killed meanwhile leaves the last whole value. Whoever reads does not rely on
 * what it finds: the delivery process may have been taken over by a server. Private to delivery/.
 */
#ifndef PROFLET_DELIVERY_ACCOUNT_H
#define PROFLET_DELIVERY_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/delivery/http_server.h"
#include "agent/delivery/pull_stats.h"
#include "otlp/exporter.h"

struct account_page {
	uint64_t n_exports; /* values written so far; atomic, as the next */
	uint64_t n_http;
	uint64_t n_pulls;
	uint64_t restarts; /* of the delivery process; atomic */
	struct otlp_exporter_stats exports[2];
	struct http_server_stats http[2];
	struct pull_stats pulls[2];
};

/* 0 or -errno. */
int account_page_new(struct account_page **ret);
void account_page_free(struct account_page *p); /* NULL is fine */

/* One writer at a time, of each kind. */
void account_put_exports(struct account_page *p, const struct otlp_exporter_stats *now);
void account_put_http(struct account_page *p, const struct http_server_stats *now);
void account_put_pulls(struct account_page *p, const struct pull_stats *now);
/*
 * False: none was written yet, or none could be read whole, and *ret stays as it was. `last` has the text
 * only.
 */
bool account_get_exports(const struct account_page *p, struct otlp_exporter_stats *ret);
bool account_get_http(const struct account_page *p, struct http_server_stats *ret);
bool account_get_pulls(const struct account_page *p, struct pull_stats *ret);

/*
 * The sum over a delivery process and those before it. What the ones before left in the spool, the next one
 * recovers: that counts once, as spooled, and what is missing of it as dropped (spool_damaged). Pure.
 */
void account_sum(const struct otlp_exporter_stats *before, const struct otlp_exporter_stats *now,
		 struct otlp_exporter_stats *ret);
/* The process has ended: what was queued in its memory is dropped (no_sender). Pure. */
void account_lose_queue(struct otlp_exporter_stats *s);

#endif
