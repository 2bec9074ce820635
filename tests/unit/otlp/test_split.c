// SPDX-License-Identifier: Apache-2.0
/*
 * Windows that do not fit one request: every request is complete in itself and below the limit, and no sample
 * is lost.
 */
#include <errno.h>
#include <stdlib.h>

#include "profile_support.h"

struct collected {
	unsigned n_requests, n_resources;
	uint64_t n_samples, n_timestamps;
	size_t largest, max_bytes;
};

/*
 * Checks that a request is complete in itself: every index is inside its own dictionary, every string
 * is used.
 */
static int collect(void *data, struct otlp_request *r)
{
	struct collected *c = data;
	message *m = unpack(r);

	check_zero_entries(m->dictionary);
	for (size_t i = 0; i < m->n_resource_profiles; i++) {
		const otlp_profile *p = m->resource_profiles[i]->scope_profiles[0]->profiles[0];

		cr_assert_eq(m->resource_profiles[i]->n_scope_profiles, 1);
		cr_assert_gt(p->n_samples, 0, "no empty profiles");
		for (size_t s = 0; s < p->n_samples; s++) {
			cr_assert_lt((size_t)p->samples[s]->stack_index, m->dictionary->n_stack_table);
			c->n_timestamps += p->samples[s]->n_timestamps_unix_nano;
			for (size_t f = 0;
			     f < m->dictionary->stack_table[p->samples[s]->stack_index]->n_location_indices;
			     f++)
				line_of(m->dictionary, location_of(m->dictionary, p->samples[s], f));
		}
	}
	c->n_requests++;
	c->n_resources += m->n_resource_profiles;
	c->n_samples += r->n_samples;
	if (r->data.len > c->largest)
		c->largest = r->data.len;
	message_free(m);
	otlp_request_free(r);
	return 0;
}

Test(profile, split_below_the_limit)
{
	struct collected c = {.max_bytes = 20000};
	struct otlp_batch_options opt = {.max_bytes = c.max_bytes, .emit = collect, .data = &c};
	_cleanup_batch_ struct otlp_batch *b = a_batch(&opt);
	struct otlp_request *last;
	uint64_t ts[40], n = 0;

	for (unsigned resource = 0; resource < 5; resource++) {
		cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
		for (unsigned i = 0; i < 300; i++) {
			char name[64];
			struct frame f[] = {{&app, 0x1000 + i, name, NULL, FRAME_NATIVE, NULL, NULL, 0, 0,
					     NULL, 0, false},
					    stack_a[1]};
			size_t n_ts = i % 40 + 1, before = otlp_batch_size(b);

			snprintf(name, sizeof name, "a_function_of_its_own_%u", i);
			for (size_t k = 0; k < n_ts; k++)
				ts[k] = START + i * 1000 + k;
			cr_assert_eq(batch_sample(b, f, 2, attrs_a, 2, ts, n_ts, NULL), 0);
			n += n_ts;
			cr_assert_leq(otlp_batch_size(b), c.max_bytes, "was %zu", before);
		}
	}
	cr_assert_eq(otlp_batch_finish(b, &last), 0);
	cr_assert_leq(last->data.len, c.max_bytes);
	collect(&c, last);
	cr_expect_eq(c.n_samples, n);
	cr_expect_eq(c.n_timestamps, n);
	cr_expect_leq(c.largest, c.max_bytes);
	cr_expect_gt(c.largest, c.max_bytes * 3 / 4, "requests are split too early: %zu", c.largest);
	cr_expect_gt(c.n_requests, 10);
	cr_expect_gt(c.n_resources, c.n_requests, "a resource goes on in the next request");
}

/* The bound includes values and profiles of several types. */
Test(profile, split_below_the_limit_with_values)
{
	static const struct otlp_profile_type types[] = {
		{"samples", "count", "cpu", "nanoseconds", 1000},
		{.type = "off_cpu", .unit = "nanoseconds"},
		{.type = "a type with a name that is long enough to be seen in the bound", .unit = "bytes"},
		{"samples", "count", "cpu", "nanoseconds", 2000},
	};
	for (size_t max = 3000; max < 6000; max += 37) {
		struct collected c = {.max_bytes = max};
		struct otlp_batch_options opt = {.max_bytes = max, .emit = collect, .data = &c};
		_cleanup_batch_ struct otlp_batch *b = a_batch(&opt);
		struct otlp_request *last;
		uint64_t ts[40], values[40], n = 0;

		n_numbered = 2;
		numbered[0] = stack_a[0];
		numbered[1] = stack_a[1];
		for (unsigned i = 0; i < 200; i++) {
			const struct otlp_sample_events events = {
				.type = &types[i % ARRAY_SIZE(types)],
				.stack = {.frames = (uint64_t[]){i % 2, 1}, .n = 2},
				.attrs = &(struct otlp_attr){"process.pid", OTLP_INT, NULL, i % 7},
				.n_attrs = 1,
				.unix_ns = ts,
				.values = i % 3 ? values : NULL,
				.n = i % 40 + 1};

			for (size_t k = 0; k < events.n; k++) {
				ts[k] = START + i * 1000 + k;
				values[k] = ~0ull - k;
			}
			if (i % 50 == 0)
				cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
			cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
			n += events.n;
		}
		cr_assert_eq(otlp_batch_finish(b, &last), 0);
		collect(&c, last);
		cr_expect_eq(c.n_samples, n);
		cr_assert_leq(c.largest, max);
	}
}

/* More timestamps in one call than one request can hold. */
Test(profile, one_sample_over_several_requests)
{
	struct collected c = {.max_bytes = 20000};
	struct otlp_batch_options opt = {.max_bytes = c.max_bytes, .emit = collect, .data = &c};
	_cleanup_batch_ struct otlp_batch *b = a_batch(&opt);
	_cleanup_free_ uint64_t *ts = malloc(10000 * sizeof *ts);
	struct otlp_request *last;
	size_t added;

	for (size_t i = 0; i < 10000; i++)
		ts[i] = START + i;
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(batch_sample(b, stack_a, 3, attrs_a, 2, ts, 10000, &added), 0);
	cr_expect_eq(added, 10000);
	cr_assert_eq(otlp_batch_finish(b, &last), 0);
	collect(&c, last);
	cr_expect_eq(c.n_samples, 10000);
	cr_expect_geq(c.n_requests, 4);
	cr_expect_leq(c.largest, c.max_bytes);
}

Test(profile, without_emit_the_caller_finishes)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.max_bytes = 4000});
	struct collected c = {0};
	uint64_t ts[1000];
	size_t added, done = 0;
	int r;

	for (size_t i = 0; i < 1000; i++)
		ts[i] = START + i;
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	do {
		struct otlp_request *request;

		r = batch_sample(b, stack_a, 3, NULL, 0, ts + done, 1000 - done, &added);
		done += added;
		cr_assert_eq(otlp_batch_finish(b, &request), 0);
		cr_assert_not_null(request);
		collect(&c, request);
	} while (r == -ENOBUFS);
	cr_expect_eq(r, 0);
	cr_expect_eq(c.n_samples, 1000);
	cr_expect_geq(c.n_requests, 2);
}

Test(profile, a_stack_that_no_request_can_hold)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.max_bytes = 2000});
	_cleanup_free_ char *name = malloc(5001);
	const uint64_t ts = START;
	size_t added;

	memset(name, 'n', 5000);
	name[5000] = '\0';
	struct frame f = {&app, 1, name, NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false};
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_expect_eq(batch_sample(b, &f, 1, NULL, 0, &ts, 1, &added), -E2BIG);
	cr_expect_eq(added, 0);
	add(b, stack_a, 2, START);
}
