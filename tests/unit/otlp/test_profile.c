// SPDX-License-Identifier: Apache-2.0
/* What the builder encodes, read back by the generated unpackers. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "otlp/intern.h"
#include "otlp/messages.h"
#include "otlp/profile.h"
#include "otlp/utf8.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest message;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary dictionary;

#define START 1700000000000000000ull
#define WINDOW (10 * NS_PER_SEC)

static const struct frame_module app = {
	.id = 7,
	.path = "/srv/app",
	.name = "app",
	.build_id_gnu = "0123456789abcdef0123456789abcdef01234567",
	.htlhash = "00112233445566778899aabbccddeeff",
	.start = 0x1000,
	.limit = 0x9000,
	.file_offset = 0x400,
};
static const struct frame_module kernel = {
	.id = 1, .path = "[kernel]", .name = "[kernel]", .start = 9, .limit = 8};

static const struct frame stack_a[] = {
	{&kernel, 0xffffffff81000010, "do_syscall_64", NULL, FRAME_KERNEL},
	{&app, 0x1234, "step(int)", "_Z4stepi", FRAME_NATIVE},
	{&app, 0x1fff, NULL, NULL, FRAME_NATIVE},
	{NULL, 0x7f0000000010, NULL, NULL, FRAME_NATIVE},
	{NULL, 0x42, "[truncated: no table]", NULL, FRAME_ENDING},
};
static const struct otlp_attr attrs_a[] = {
	{"process.pid", OTLP_INT, NULL, 4711},
	{"thread.name", OTLP_STRING, "wor\xffker", 0},
	{"thread.name", OTLP_STRING, "a double key", 0},
	{"", OTLP_STRING, "no key", 0},
	{"no.value", OTLP_STRING, NULL, 0},
};
static const struct otlp_attr resource_a[] = {
	{"container.id", OTLP_STRING, "aa", 0},
	{"process.pid", OTLP_INT, NULL, -5},
	{"container.id", OTLP_STRING, "bb", 0},
};

static struct otlp_batch *a_batch(const struct otlp_batch_options *more)
{
	struct otlp_batch_options opt = {.frequency_hz = 19,
					 .scope_version = "1.2.3",
					 .start_unix_ns = START,
					 .duration_ns = WINDOW,
					 .bare = more ? more->bare : false,
					 .aggregate = more ? more->aggregate : false,
					 .max_bytes = more ? more->max_bytes : 0,
					 .emit = more ? more->emit : NULL,
					 .data = more ? more->data : NULL};
	struct otlp_batch *b;

	cr_assert_eq(otlp_batch_new(&b, &opt), 0);
	return b;
}

static message *unpack(const struct otlp_request *r)
{
	message *m =
		opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
			NULL, r->data.len, r->data.data);

	cr_assert_not_null(m);
	return m;
}

static void message_free(message *m)
{
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
		m, NULL);
}

static void add(struct otlp_batch *b, const struct frame *frames, size_t n, uint64_t unix_ns)
{
	cr_assert_eq(otlp_batch_sample(b, frames, n, attrs_a, ARRAY_SIZE(attrs_a), &unix_ns, 1, NULL), 0);
}

static const char *string_at(const dictionary *d, int32_t i)
{
	cr_assert_lt((size_t)i, d->n_string_table);
	return d->string_table[i];
}

static const char *attr_key(const dictionary *d, int32_t i)
{
	return string_at(d, d->attribute_table[i]->key_strindex);
}

static const otlp_location *location_of(const dictionary *d, const otlp_sample *s, size_t frame)
{
	return d->location_table[d->stack_table[s->stack_index]->location_indices[frame]];
}

static const char *line_of(const dictionary *d, const otlp_location *l)
{
	cr_assert_eq(l->n_lines, 1);
	return string_at(d, d->function_table[l->lines[0]->function_index]->name_strindex);
}

static const char *type_of(const dictionary *d, const otlp_location *l)
{
	cr_assert_eq(l->n_attribute_indices, 1);
	cr_assert_str_eq(attr_key(d, l->attribute_indices[0]), "profile.frame.type");
	return d->attribute_table[l->attribute_indices[0]]->value->string_value;
}

static void check_zero_entries(const dictionary *d)
{
	cr_assert(d->n_mapping_table && d->n_location_table && d->n_function_table && d->n_link_table &&
		  d->n_string_table && d->n_attribute_table && d->n_stack_table);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->mapping_table[0]->base), 0);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->location_table[0]->base), 0);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->function_table[0]->base), 0);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->link_table[0]->base), 0);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->attribute_table[0]->base), 0);
	cr_expect_eq(protobuf_c_message_get_packed_size(&d->stack_table[0]->base), 0);
	cr_expect_str_eq(d->string_table[0], "");
}

Test(profile, one_sample_in_full)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;

	cr_assert_eq(otlp_batch_resource(b, resource_a, ARRAY_SIZE(resource_a)), 0);
	add(b, stack_a, ARRAY_SIZE(stack_a), START + 5);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_assert_not_null(r);
	cr_expect_eq(r->n_samples, 1);
	cr_expect_eq(r->n_profiles, 1);
	cr_expect_eq(r->raw_bytes, r->data.len);
	cr_expect_eq(r->start_unix_ns, START);
	cr_expect_eq(r->end_unix_ns, START + WINDOW);

	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	check_zero_entries(d);
	cr_assert_eq(m->n_resource_profiles, 1);
	cr_assert_eq(m->resource_profiles[0]->resource->n_attributes, 2);
	cr_expect_str_eq(m->resource_profiles[0]->resource->attributes[0]->key, "container.id");
	cr_expect_str_eq(m->resource_profiles[0]->resource->attributes[0]->value->string_value, "aa");
	cr_expect_eq(m->resource_profiles[0]->resource->attributes[1]->value->int_value, -5);
	cr_assert_eq(m->resource_profiles[0]->n_scope_profiles, 1);
	cr_expect_str_eq(m->resource_profiles[0]->scope_profiles[0]->scope->name, "proflet");
	cr_expect_str_eq(m->resource_profiles[0]->scope_profiles[0]->scope->version, "1.2.3");
	cr_assert_eq(m->resource_profiles[0]->scope_profiles[0]->n_profiles, 1);

	const otlp_profile *p = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	cr_expect_str_eq(string_at(d, p->sample_type->type_strindex), "samples");
	cr_expect_str_eq(string_at(d, p->sample_type->unit_strindex), "count");
	cr_expect_str_eq(string_at(d, p->period_type->type_strindex), "cpu");
	cr_expect_str_eq(string_at(d, p->period_type->unit_strindex), "nanoseconds");
	cr_expect_eq(p->period, 1000000000 / 19);
	cr_expect_eq(p->time_unix_nano, START);
	cr_expect_eq(p->duration_nano, WINDOW);
	cr_expect_eq(p->profile_id.len, 16);
	cr_assert_eq(p->n_samples, 1);

	const otlp_sample *s = p->samples[0];
	cr_expect_eq(s->n_values, 0);
	cr_assert_eq(s->n_timestamps_unix_nano, 1);
	cr_expect_eq(s->timestamps_unix_nano[0], START + 5);
	cr_assert_eq(s->n_attribute_indices, 2, "doubles and empty ones are left out");
	cr_expect_str_eq(attr_key(d, s->attribute_indices[0]), "process.pid");
	cr_expect_eq(d->attribute_table[s->attribute_indices[0]]->value->int_value, 4711);
	cr_expect_str_eq(attr_key(d, s->attribute_indices[1]), "thread.name");
	cr_expect_str_eq(d->attribute_table[s->attribute_indices[1]]->value->string_value,
			 "wor\xef\xbf\xbdker");
	message_free(m);
}

static void check_frames(bool bare)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.bare = bare});
	_cleanup_request_ struct otlp_request *r = NULL;
	static const struct {
		const char *type, *line, *system_name, *mapping;
	} wanted[] = {
		{"kernel", "do_syscall_64", "", "[kernel]"},
		{"native", "step(int)", "_Z4stepi", "/srv/app"},
		{"native", "app+0x1fff", "", "/srv/app"},
		{"native", "[anonymous]", "", NULL},
		{"native", "[truncated: no table]", "", NULL},
	};

	cr_assert_eq(otlp_batch_resource(b, NULL, 0), 0);
	add(b, stack_a, ARRAY_SIZE(stack_a), START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];

	cr_assert_eq(d->stack_table[s->stack_index]->n_location_indices, ARRAY_SIZE(wanted));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		const otlp_location *l = location_of(d, s, i);

		cr_expect_str_eq(type_of(d, l), wanted[i].type, "frame %zu", i);
		cr_expect_eq(l->address, stack_a[i].address);
		if (bare && !stack_a[i].function) {
			cr_expect_eq(l->n_lines, 0);
		} else {
			cr_expect_str_eq(line_of(d, l), wanted[i].line);
			cr_expect_str_eq(string_at(d, d->function_table[l->lines[0]->function_index]
							      ->system_name_strindex),
					 wanted[i].system_name);
		}
		if (wanted[i].mapping)
			cr_expect_str_eq(string_at(d, d->mapping_table[l->mapping_index]->filename_strindex),
					 wanted[i].mapping);
		else
			cr_expect_eq(l->mapping_index, 0);
	}
	const otlp_mapping *app_mapping = d->mapping_table[location_of(d, s, 1)->mapping_index];
	cr_expect_eq(app_mapping->memory_start, 0x1000);
	cr_expect_eq(app_mapping->memory_limit, 0x9000);
	cr_expect_eq(app_mapping->file_offset, 0x400);
	cr_assert_eq(app_mapping->n_attribute_indices, 2);
	cr_expect_str_eq(attr_key(d, app_mapping->attribute_indices[0]), "process.executable.build_id.gnu");
	cr_expect_str_eq(attr_key(d, app_mapping->attribute_indices[1]),
			 "process.executable.build_id.htlhash");
	const otlp_mapping *kernel_mapping = d->mapping_table[location_of(d, s, 0)->mapping_index];
	cr_expect_eq(kernel_mapping->memory_start, 0, "a range the wrong way round is left out");
	cr_expect_eq(kernel_mapping->memory_limit, 0);
	message_free(m);
}

Test(profile, frames_with_fallback_lines)
{
	check_frames(false);
}

Test(profile, bare_frames)
{
	check_frames(true);
}

Test(profile, equal_samples_merge)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	const struct otlp_attr one[] = {{"a", OTLP_STRING, "1", 0}, {"b", OTLP_STRING, "2", 0}};
	const struct otlp_attr swapped[] = {one[1], one[0]};
	const uint64_t ts[] = {START + 1, START + 2, START + 3};

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, one, 2, ts, 2, NULL), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, swapped, 2, ts + 2, 1, NULL), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, one, 1, ts, 1, NULL), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 2, one, 2, ts, 1, NULL), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 2, one, 2, ts, 0, NULL), 0);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_eq(r->n_samples, 5);
	message *m = unpack(r);
	const otlp_profile *p = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	cr_assert_eq(p->n_samples, 3);
	cr_expect_eq(p->samples[0]->n_timestamps_unix_nano, 3);
	message_free(m);
}

Test(profile, aggregate)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.aggregate = true});
	_cleanup_request_ struct otlp_request *r = NULL;
	const uint64_t ts[] = {START + 1, START + 2, START + 3};

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, NULL, 0, ts, 3, NULL), 0);
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, NULL, 0, ts, 2, NULL), 0);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_eq(r->n_samples, 5);
	message *m = unpack(r);
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	cr_assert_eq(s->n_values, 1);
	cr_expect_eq(s->values[0], 5);
	cr_expect_eq(s->n_timestamps_unix_nano, 0);
	message_free(m);
}

Test(profile, window_covers_every_timestamp)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add(b, stack_a, 1, START - 77);
	add(b, stack_a, 1, START + WINDOW);
	cr_assert_eq(otlp_batch_resource(b, resource_a + 1, 1), 0);
	add(b, stack_a, 1, START + 1);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	cr_assert_eq(m->n_resource_profiles, 2);
	const otlp_profile *p = m->resource_profiles[0]->scope_profiles[0]->profiles[0];
	cr_expect_eq(p->time_unix_nano, START - 77);
	cr_expect_eq(p->duration_nano, WINDOW + 78);
	p = m->resource_profiles[1]->scope_profiles[0]->profiles[0];
	cr_expect_eq(p->time_unix_nano, START);
	cr_expect_eq(p->duration_nano, WINDOW);
	cr_expect_eq(r->start_unix_ns, START - 77);
	cr_expect_eq(r->end_unix_ns, START + WINDOW + 1);
	message_free(m);
}

Test(profile, nothing_to_say)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	struct otlp_request *r = (void *)1;
	const uint64_t ts = START;

	cr_expect_eq(otlp_batch_sample(b, stack_a, 1, NULL, 0, &ts, 1, NULL), -EINVAL,
		     "there is no resource yet");
	cr_assert_eq(otlp_batch_resource(b, resource_a, 3), 0);
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_null(r);
}

Test(profile, no_frames)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add(b, NULL, 0, START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	cr_expect_eq(m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0]->stack_index, 0);
	message_free(m);
}

struct collected {
	unsigned n_requests, n_resources;
	uint64_t n_samples, n_timestamps;
	size_t largest, max_bytes;
};

/* Checks that a request stands alone: every index is inside its own dictionary, every string is used. */
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
			struct frame f[] = {{&app, 0x1000 + i, name, NULL, FRAME_NATIVE}, stack_a[1]};
			size_t n_ts = i % 40 + 1, before = otlp_batch_size(b);

			snprintf(name, sizeof name, "a_function_of_its_own_%u", i);
			for (size_t k = 0; k < n_ts; k++)
				ts[k] = START + i * 1000 + k;
			cr_assert_eq(otlp_batch_sample(b, f, 2, attrs_a, 2, ts, n_ts, NULL), 0);
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

/* More timestamps than one request can hold, in one call. */
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
	cr_assert_eq(otlp_batch_sample(b, stack_a, 3, attrs_a, 2, ts, 10000, &added), 0);
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

		r = otlp_batch_sample(b, stack_a, 3, NULL, 0, ts + done, 1000 - done, &added);
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
	struct frame f = {&app, 1, name, NULL, FRAME_NATIVE};
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_expect_eq(otlp_batch_sample(b, &f, 1, NULL, 0, &ts, 1, &added), -E2BIG);
	cr_expect_eq(added, 0);
	add(b, stack_a, 2, START);
}

Test(profile, very_deep_stack_keeps_its_outermost_frame)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	_cleanup_free_ struct frame *f = calloc(5000, sizeof *f);

	for (size_t i = 0; i < 5000; i++)
		f[i] = stack_a[1];
	f[4999] = stack_a[4];
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add(b, f, 5000, START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	size_t n = m->dictionary->stack_table[s->stack_index]->n_location_indices;
	cr_expect_eq(n, 2048);
	cr_expect_str_eq(line_of(m->dictionary, location_of(m->dictionary, s, n - 1)),
			 "[truncated: no table]");
	message_free(m);
}

Test(intern, equal_values_have_one_index)
{
	_cleanup_dict_ struct otlp_dict *d = NULL;
	_cleanup_buf_ struct buf b = {0};
	struct otlp_dict_mapping mapping = {.start = 1, .limit = 2}, no_mapping = {0};
	struct otlp_dict_location location = {.address = 5, .attr = 1};
	int32_t i, j, locations[] = {1, 2};

	cr_assert_eq(otlp_dict_new(&d), 0);
	cr_assert_eq(otlp_dict_string(d, "x", &i), 0);
	cr_assert_eq(otlp_dict_string(d, "x", &j), 0);
	cr_expect_eq(i, 1);
	cr_expect_eq(j, 1);
	cr_assert_eq(otlp_dict_string(d, "", &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_string(d, NULL, &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_attr_int(d, 1, 5, &i), 0);
	cr_assert_eq(otlp_dict_attr_int(d, 1, 5, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_attr_string(d, 1, "\5\0\0\0\0\0\0", &j), 0);
	cr_expect_neq(i, j, "a text is no number");
	cr_assert_eq(otlp_dict_mapping(d, &mapping, &i), 0);
	cr_assert_eq(otlp_dict_mapping(d, &mapping, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_mapping(d, &no_mapping, &i), 0);
	cr_expect_eq(i, 0, "the zero value is entry 0");
	cr_assert_eq(otlp_dict_location(d, &location, &i), 0);
	cr_assert_eq(otlp_dict_location(d, &location, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_function(d, 0, 0, &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_stack(d, locations, 2, &i), 0);
	cr_assert_eq(otlp_dict_stack(d, locations, 1, &j), 0);
	cr_expect_neq(i, j);
	cr_assert_eq(otlp_dict_encode(d, &b), 0);
	cr_expect_eq(b.len, otlp_dict_size(d));
	cr_assert_eq(otlp_dict_reset(d), 0);
	cr_expect_eq(otlp_dict_size(d), 14, "seven empty entries");
}

Test(intern, long_and_broken_strings)
{
	_cleanup_dict_ struct otlp_dict *d = NULL;
	_cleanup_buf_ struct buf b = {0};
	_cleanup_free_ char *text = malloc(40000);
	int32_t i, j;

	memset(text, 0xe2, 39999); /* each byte becomes three */
	text[39999] = '\0';
	cr_assert_eq(otlp_dict_new(&d), 0);
	cr_assert_eq(otlp_dict_string(d, text, &i), 0);
	text[39998] = 'x'; /* behind the cut */
	cr_assert_eq(otlp_dict_string(d, text, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_encode(d, &b), 0);
	dictionary *m = opentelemetry__proto__profiles__v1development__profiles_dictionary__unpack(
		NULL, b.len, b.data);
	cr_assert_not_null(m);
	cr_expect_leq(strlen(m->string_table[1]), OTLP_STRING_MAX);
	cr_expect(utf8_valid(m->string_table[1], strlen(m->string_table[1])));
	opentelemetry__proto__profiles__v1development__profiles_dictionary__free_unpacked(m, NULL);
}
