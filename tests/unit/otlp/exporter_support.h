// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of queue and exporter. */
#ifndef TEST_EXPORTER_SUPPORT_H
#define TEST_EXPORTER_SUPPORT_H

#include <inttypes.h>
#include <stdlib.h>

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "otlp/exporter.h"

#define LONG (120 * NS_PER_SEC) /* longer than any test waits unless it fails */
/* What a call may take: much longer than a server that is late, because it waits for a CPU. */
#define CALL_TIMEOUT (5 * NS_PER_SEC)

static inline struct otlp_request *a_request(char content, size_t len, uint64_t n_samples)
{
	struct otlp_request *r = calloc(1, sizeof *r);

	cr_assert_not_null(r);
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(buf_putc(&r->data, content), 0);
	r->raw_bytes = len;
	r->n_samples = n_samples;
	r->n_profiles = 2;
	return r;
}

static inline uint64_t sum(const uint64_t *counts)
{
	uint64_t all = 0;

	for (size_t i = 0; i < OTLP_N_DROP_REASONS; i++)
		all += counts[i];
	return all;
}

static inline void check_identity(const struct otlp_count *c)
{
	cr_assert_eq(c->submitted + c->recovered, c->exported + c->queued + c->spooled + sum(c->dropped),
		     "%" PRIu64 " + %" PRIu64 " != %" PRIu64 " + %" PRIu64 " + %" PRIu64 " + %" PRIu64,
		     c->submitted, c->recovered, c->exported, c->queued, c->spooled, sum(c->dropped));
}

/* An exporter with these options to a Collector on that port. */
static inline struct otlp_exporter *exporter_to(uint16_t port, struct otlp_exporter_options opt)
{
	struct otlp_exporter *e;
	char url[64];

	snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
	opt.client.endpoint = url;
	opt.client.version = "test";
	opt.client.timeout_ns = CALL_TIMEOUT;
	cr_assert_eq(otlp_exporter_new(&e, &opt, NULL), 0);
	return e;
}

static inline struct otlp_exporter *an_exporter(uint16_t port, size_t queue_max_bytes)
{
	return exporter_to(port, (struct otlp_exporter_options){.coding = OTLP_GZIP,
								.queue_max_bytes = queue_max_bytes});
}

static inline struct otlp_exporter_stats stats_of(struct otlp_exporter *e)
{
	struct otlp_exporter_stats s;

	otlp_exporter_stats(e, &s);
	check_identity(&s.samples);
	check_identity(&s.requests);
	return s;
}

#endif
