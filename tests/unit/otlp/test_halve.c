// SPDX-License-Identifier: Apache-2.0
/*
 * Divides a request: the two halves together have the same events as the request, and their dictionaries have
 * no unused entry.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "exporter_support.h"
#include "mock_collector.h"
#include "otlp/compress.h"
#include "otlp/halve.h"
#include "profile_support.h"

/* Appends one line for each event of the message, with all its values and without any index. */
static void tell(const message *m, struct buf *b)
{
	const dictionary *d = m->dictionary;

	for (size_t i = 0; i < m->n_resource_profiles; i++) {
		const otlp_resource_profiles *rp = m->resource_profiles[i];
		const otlp_profile *p = rp->scope_profiles[0]->profiles[0];

		for (size_t k = 0; k < p->n_samples; k++) {
			const otlp_sample *s = p->samples[k];
			const otlp_stack *stack = d->stack_table[s->stack_index];
			_cleanup_buf_ struct buf line = {0};

			buf_printf(&line, "%s %s %s %" PRIu64 " %s |",
				   rp->resource->attributes[0]->value->string_value,
				   rp->scope_profiles[0]->scope->name,
				   string_at(d, p->sample_type->type_strindex), p->time_unix_nano,
				   string_at(d, p->period_type->unit_strindex));
			for (size_t a = 0; a < s->n_attribute_indices; a++)
				buf_printf(&line, " %s", attr_key(d, s->attribute_indices[a]));
			for (size_t f = 0; f < stack->n_location_indices; f++) {
				const otlp_location *l = location_of(d, s, f);
				const otlp_mapping *map = d->mapping_table[l->mapping_index];

				buf_printf(&line, " %s(%s)@%" PRIx64 " in %s", line_of(d, l), type_of(d, l),
					   l->address, string_at(d, map->filename_strindex));
				for (size_t a = 0; a < map->n_attribute_indices; a++)
					buf_printf(&line, " %s", attr_key(d, map->attribute_indices[a]));
			}
			for (size_t t = 0; t < s->n_timestamps_unix_nano; t++)
				buf_printf(b, "%s %" PRIu64 "\n", buf_str(&line), s->timestamps_unix_nano[t]);
			for (size_t v = 0; v < s->n_values; v++)
				buf_printf(b, "%s value %" PRId64 "\n", buf_str(&line), s->values[v]);
		}
	}
}

/* Samples of many stacks in several resources; the one at `big` has many events. */
static struct otlp_request *a_whole(unsigned n, unsigned big, bool aggregate)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.aggregate = aggregate});
	struct otlp_request *r;
	uint64_t ts[500];

	for (unsigned i = 0; i < n; i++) {
		const struct otlp_attr resource = {"container.id", OTLP_STRING, i % 3 ? "one" : "two", 0};
		size_t n_ts = i == big ? 500 : 1 + i % 3;
		char name[32];

		snprintf(name, sizeof name, "function_%u", i);
		const struct frame f[] = {
			{&app, 0x1000 + i, name, NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
			stack_a[i % 2],
			stack_a[1]};
		for (size_t k = 0; k < n_ts; k++)
			ts[k] = START + i * 1000 + k;
		cr_assert_eq(otlp_batch_resource(b, &resource, 1), 0);
		cr_assert_eq(batch_sample(b, f, 3, attrs_a, 2, ts, n_ts, NULL), 0);
	}
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	return r;
}

/* Reducing the dictionary once more removes nothing. */
static void expect_no_orphans(const struct otlp_request *half)
{
	message *m = unpack(half);
	const dictionary *d = m->dictionary;
	_cleanup_free_ bool *used = calloc(d->n_string_table, 1), *stacks = calloc(d->n_stack_table, 1);

	check_zero_entries(d);
	used[0] = stacks[0] = true;
	for (size_t i = 0; i < m->n_resource_profiles; i++) {
		const otlp_profile *p = m->resource_profiles[i]->scope_profiles[0]->profiles[0];

		cr_assert_gt(p->n_samples, 0);
		used[p->sample_type->type_strindex] = used[p->sample_type->unit_strindex] = true;
		used[p->period_type->type_strindex] = used[p->period_type->unit_strindex] = true;
		for (size_t k = 0; k < p->n_samples; k++)
			stacks[p->samples[k]->stack_index] = true;
	}
	for (size_t i = 0; i < d->n_mapping_table; i++)
		used[d->mapping_table[i]->filename_strindex] = true;
	for (size_t i = 0; i < d->n_function_table; i++)
		used[d->function_table[i]->name_strindex] = used[d->function_table[i]->system_name_strindex] =
			true;
	for (size_t i = 0; i < d->n_attribute_table; i++)
		used[d->attribute_table[i]->key_strindex] = true;
	for (size_t i = 0; i < d->n_string_table; i++)
		cr_expect(used[i], "nobody uses \"%s\"", d->string_table[i]);
	for (size_t i = 0; i < d->n_stack_table; i++)
		cr_expect(stacks[i], "nobody uses stack %zu", i);
	message_free(m);
}

/* A backend that recognises repetitions by the id would lose a half if both had the same. */
static void expect_ids_apart(const struct otlp_request *a, const struct otlp_request *b)
{
	message *x = unpack(a), *y = unpack(b);

	for (size_t i = 0; i < x->n_resource_profiles; i++)
		for (size_t k = 0; k < y->n_resource_profiles; k++) {
			const otlp_profile *p = x->resource_profiles[i]->scope_profiles[0]->profiles[0];
			const otlp_profile *q = y->resource_profiles[k]->scope_profiles[0]->profiles[0];

			cr_assert(p->profile_id.len == 16 && q->profile_id.len == 16);
			cr_expect_arr_neq(p->profile_id.data, q->profile_id.data, 16);
		}
	message_free(x);
	message_free(y);
}

static void expect_halves(struct otlp_request *whole)
{
	_cleanup_buf_ struct buf all = {0}, both = {0};
	struct otlp_request *halves[2];
	message *m = unpack(whole);
	uint64_t n = 0;

	tell(m, &all);
	message_free(m);
	cr_assert_eq(otlp_request_halve(whole, halves), 0);
	expect_ids_apart(halves[0], halves[1]);
	for (int i = 0; i < 2; i++) {
		n += halves[i]->n_samples;
		cr_expect_eq(halves[i]->start_unix_ns, whole->start_unix_ns);
		cr_expect_lt(halves[i]->data.len, whole->data.len);
		expect_no_orphans(halves[i]);
		m = unpack(halves[i]);
		tell(m, &both);
		message_free(m);
		otlp_request_free(halves[i]);
	}
	cr_expect_eq(n, whole->n_samples);
	cr_expect_str_eq(buf_str(&both), buf_str(&all));
	otlp_request_free(whole);
}

Test(halve, says_the_same)
{
	expect_halves(a_whole(2, 9, false));
	expect_halves(a_whole(300, 9, false));
	expect_halves(a_whole(3, 1, false)); /* the sample with 500 timestamps is cut */
	expect_halves(a_whole(300, 9, true));
}

Test(halve, keeps_the_coding)
{
	struct otlp_request *whole = a_whole(50, 99, false), *halves[2];
	struct buf coded = {0};

	cr_assert_eq(otlp_compress(OTLP_ZSTD, whole->data.data, whole->data.len, &coded), 0);
	buf_fini(&whole->data);
	whole->data = coded;
	whole->coding = OTLP_ZSTD;
	cr_assert_eq(otlp_request_halve(whole, halves), 0);
	for (int i = 0; i < 2; i++) {
		_cleanup_buf_ struct buf raw = {0};

		cr_expect_eq(halves[i]->coding, OTLP_ZSTD);
		cr_assert_eq(otlp_decompress(OTLP_ZSTD, halves[i]->data.data, halves[i]->data.len, &raw), 0);
		cr_expect_eq(raw.len, halves[i]->raw_bytes);
		otlp_request_free(halves[i]);
	}
	otlp_request_free(whole);
}

Test(halve, what_cannot_be_divided)
{
	struct otlp_request *one = a_whole(1, 9, false), *sum = a_whole(1, 0, true),
			    *no = a_request('x', 100, 5), *halves[2];

	cr_expect_eq(otlp_request_halve(one, halves), -ENODATA);
	cr_expect_eq(sum->n_samples, 500);
	cr_expect_eq(otlp_request_halve(sum, halves), -ENODATA, "one value");
	cr_expect_eq(otlp_request_halve(no, halves), -EBADMSG);
	sum->n_samples = 600;
	cr_expect_eq(otlp_request_halve(sum, halves), -EBADMSG, "the count is another");
	otlp_request_free(one);
	otlp_request_free(sum);
	otlp_request_free(no);
}

static struct h2_reply too_large_at_first(void *data, unsigned request)
{
	return request < *(unsigned *)data
		       ? (struct h2_reply){.grpc_status = "8",
					   .grpc_message = "grpc: received message larger than max (9 vs. 4)"}
		       : (struct h2_reply){0};
}

/* A server with a smaller limit receives everything, in several requests. */
Test(halve, exporter_sends_the_pieces)
{
	unsigned refusals = 3; /* the whole, its first half, and the first quarter */
	struct mock_collector m = {.decide = too_large_at_first, .data = &refusals};
	struct otlp_request *whole = a_whole(100, 200, false);
	uint64_t n = whole->n_samples;

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, whole);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).samples.submitted, n);
	cr_expect_eq(stats_of(e).samples.exported, n);
	cr_expect_eq(stats_of(e).splits, 3);
	cr_expect_eq(stats_of(e).requests.exported, 4);
	cr_expect_eq(m.n_requests, 7);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/* A server that accepts nothing at all does not cause endless halving. */
Test(halve, exporter_gives_up)
{
	unsigned refusals = 1000000;
	struct mock_collector m = {.decide = too_large_at_first, .data = &refusals};
	struct otlp_request *whole = a_whole(1000, 2000, false);
	uint64_t n = whole->n_samples;

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, whole);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).samples.dropped[OTLP_DROP_TOO_LARGE], n);
	cr_expect_eq(stats_of(e).requests.dropped[OTLP_DROP_TOO_LARGE], 64);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/* Sums in a unit other than events: the halves account for all events, and have each sum once. */
Test(halve, sums_of_nanoseconds)
{
	static const struct otlp_profile_type off_cpu = {.type = "off_cpu", .unit = "nanoseconds"};
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.aggregate = true});
	_cleanup_request_ struct otlp_request *whole = NULL;
	struct otlp_request *halves[2];
	uint64_t n = 0;
	int64_t sum = 0;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	n_numbered = 20;
	for (uint64_t i = 0; i < 20; i++) {
		const uint64_t ts[] = {START + i, START + i + 100}, values[] = {1000000, 1};
		const struct otlp_sample_events events = {.type = &off_cpu,
							  .stack = {.frames = &i, .n = 1},
							  .unix_ns = ts,
							  .values = values,
							  .n = 2};

		numbered[i] = (struct frame){&app, 0x1000 + i, NULL, NULL, FRAME_NATIVE, NULL, NULL,
					     0,	   0,	       NULL, 0,	   false};
		cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
	}
	cr_assert_eq(otlp_batch_finish(b, &whole), 0);
	cr_assert_eq(whole->n_samples, 40);
	cr_assert_eq(otlp_request_halve(whole, halves), 0);
	for (int i = 0; i < 2; i++) {
		message *m = unpack(halves[i]);
		const otlp_profile *p = m->resource_profiles[0]->scope_profiles[0]->profiles[0];

		cr_expect_eq(p->n_samples, 10);
		for (size_t k = 0; k < p->n_samples; k++)
			sum += p->samples[k]->values[0];
		n += halves[i]->n_samples;
		message_free(m);
		otlp_request_free(halves[i]);
	}
	cr_expect_eq(n, 40);
	cr_expect_eq(sum, 20 * 1000001);
}
