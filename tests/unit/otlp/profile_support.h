// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of the builder: a stack, attributes, and readers of what was encoded. */
#ifndef TEST_PROFILE_SUPPORT_H
#define TEST_PROFILE_SUPPORT_H

#include <string.h>

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "otlp/messages.h"
#include "otlp/profile.h"

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
	{&kernel, 0xffffffff81000010, "do_syscall_64", NULL, FRAME_KERNEL, NULL, NULL, 0, 0, NULL, 0, false},
	{&app, 0x1234, "step(int)", "_Z4stepi", FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
	{&app, 0x1fff, NULL, NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
	{NULL, 0x7f0000000010, NULL, NULL, FRAME_NATIVE, NULL, NULL, 0, 0, NULL, 0, false},
	{NULL, 0x7f0000000020, "work a.js:1:2", "JS:*work a.js:1:2", FRAME_NATIVE, "v8js", NULL, 0, 0, NULL,
	 0, false},
	{NULL, 0x42, "[truncated: no table]", NULL, FRAME_ENDING, NULL, NULL, 0, 0, NULL, 0, false},
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

static const struct otlp_profile_type cpu_type = {"samples", "count", "cpu", "nanoseconds", NS_PER_SEC / 19};

/* Frames to which tests have given numbers: a number is an index here, so none is used twice. */
static struct frame numbered[1 << 16];
static size_t n_numbered;

static inline void frame_of_number(void *data, uint64_t id, struct frame *ret)
{
	(void)data;
	cr_assert_lt(id, n_numbered);
	*ret = numbered[id];
}

/* As otlp_batch_sample, with frames instead of their numbers. */
static inline int batch_sample(struct otlp_batch *b, const struct frame *frames, size_t n,
			       const struct otlp_attr *attrs, size_t n_attrs, const uint64_t *unix_ns,
			       size_t n_ts, size_t *ret_added)
{
	uint64_t ids[3 * OTLP_FRAMES_MAX];

	cr_assert(n <= ARRAY_SIZE(ids) && n_numbered + n <= ARRAY_SIZE(numbered));
	for (size_t i = 0; i < n; i++) {
		ids[i] = n_numbered;
		numbered[n_numbered++] = frames[i];
	}
	return otlp_batch_sample(b,
				 &(struct otlp_sample_events){.type = &cpu_type,
							      .stack = {.frames = ids, .n = n},
							      .attrs = attrs,
							      .n_attrs = n_attrs,
							      .unix_ns = unix_ns,
							      .n = n_ts},
				 ret_added);
}

static inline struct otlp_batch *a_batch(const struct otlp_batch_options *more)
{
	struct otlp_batch_options opt = {.scope_version = "1.2.3",
					 .start_unix_ns = START,
					 .duration_ns = WINDOW,
					 .bare = more ? more->bare : false,
					 .aggregate = more ? more->aggregate : false,
					 .max_bytes = more ? more->max_bytes : 0,
					 .frame = frame_of_number,
					 .emit = more ? more->emit : NULL,
					 .spill = more ? more->spill : NULL,
					 .data = more ? more->data : NULL};
	struct otlp_batch *b;

	cr_assert_eq(otlp_batch_new(&b, &opt), 0);
	return b;
}

static inline message *unpack(const struct otlp_request *r)
{
	message *m =
		opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
			NULL, r->data.len, r->data.data);

	cr_assert_not_null(m);
	return m;
}

static inline void message_free(message *m)
{
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
		m, NULL);
}

static inline void add(struct otlp_batch *b, const struct frame *frames, size_t n, uint64_t unix_ns)
{
	cr_assert_eq(batch_sample(b, frames, n, attrs_a, ARRAY_SIZE(attrs_a), &unix_ns, 1, NULL), 0);
}

static inline const char *string_at(const dictionary *d, int32_t i)
{
	cr_assert_lt((size_t)i, d->n_string_table);
	return d->string_table[i];
}

static inline const char *attr_key(const dictionary *d, int32_t i)
{
	return string_at(d, d->attribute_table[i]->key_strindex);
}

static inline const otlp_location *location_of(const dictionary *d, const otlp_sample *s, size_t frame)
{
	return d->location_table[d->stack_table[s->stack_index]->location_indices[frame]];
}

static inline const char *line_of(const dictionary *d, const otlp_location *l)
{
	cr_assert_eq(l->n_lines, 1);
	return string_at(d, d->function_table[l->lines[0]->function_index]->name_strindex);
}

static inline const char *type_of(const dictionary *d, const otlp_location *l)
{
	cr_assert_eq(l->n_attribute_indices, 1);
	cr_assert_str_eq(attr_key(d, l->attribute_indices[0]), "profile.frame.type");
	return d->attribute_table[l->attribute_indices[0]]->value->string_value;
}

static inline void check_zero_entries(const dictionary *d)
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

#endif
