// SPDX-License-Identifier: Apache-2.0
#include "exporter_support.h"

Test(queue, drops_the_oldest_that_is_not_busy)
{
	struct otlp_queue q;

	otlp_queue_init(&q, 4 * (sizeof(struct otlp_request) + 1024));
	for (uint64_t i = 0; i < 4; i++)
		otlp_queue_put(&q, a_request('a', 1000, 10 + i));
	q.first->busy = true;
	cr_expect_eq(q.requests.queued, 4);
	otlp_queue_put(&q, a_request('b', 1000, 20));
	cr_expect_eq(q.first->n_samples, 10, "the busy one stays");
	cr_expect_eq(q.first->next->n_samples, 12);
	cr_expect_eq(q.samples.dropped[OTLP_DROP_QUEUE_FULL], 11);
	otlp_queue_put(&q, a_request('c', 100000, 30));
	cr_expect_eq(q.requests.queued, 1, "all made way, in vain");
	cr_expect_eq(q.samples.dropped[OTLP_DROP_QUEUE_FULL], 11 + 12 + 13 + 20 + 30);
	check_identity(&q.samples);
	check_identity(&q.requests);
	otlp_queue_exported(&q, q.first, 4);
	cr_expect_eq(q.samples.exported, 6);
	cr_expect_eq(q.samples.dropped[OTLP_DROP_PARTIAL_SUCCESS], 4);
	cr_expect_eq(q.bytes, 0);
	cr_expect_null(q.last);
	otlp_queue_refuse(&q, a_request('d', 10, 5), OTLP_DROP_SHUTDOWN);
	check_identity(&q.samples);
	check_identity(&q.requests);
	otlp_queue_fini(&q);
}

Test(queue, recode_follows_the_bytes)
{
	struct otlp_queue q;
	struct buf smaller = {0};

	otlp_queue_init(&q, 0);
	otlp_queue_put(&q, a_request('a', 1000, 1));
	buf_putc(&smaller, 'x');
	otlp_queue_recode(&q, q.first, &smaller, OTLP_GZIP);
	cr_expect_null(smaller.data);
	cr_expect_eq(q.bytes, sizeof(struct otlp_request) + 64);
	otlp_queue_drop(&q, q.first, OTLP_DROP_REJECTED);
	cr_expect_eq(q.bytes, 0);
	cr_expect_str_eq(otlp_drop_name(OTLP_DROP_REJECTED), "rejected");
}
