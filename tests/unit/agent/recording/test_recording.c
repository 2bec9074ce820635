// SPDX-License-Identifier: Apache-2.0
#include "../output/recording.h"

#include <inttypes.h>
#include <zlib.h>

#include "agent/base/buf.h"
#include "agent/output/folded.h"
#include "agent/output/pprof.h"
#include "agent/recording/recording.h"
#include "pprof.pb-c.h"
#include "profiles_service.pb-c.h"

/* What was read, as folded stacks of a profile. */
struct result {
	struct recording_info info;
	char *why, *folded;
	int r;
	struct output_profile *profile;
	size_t n_times;
};

static void result_fini(struct result *x)
{
	recording_info_fini(&x->info);
	free(x->why);
	free(x->folded);
	output_profile_free(x->profile);
}

#define _cleanup_result_ __attribute__((cleanup(result_fini)))

static int add(const struct recording_stack *s, void *data)
{
	struct result *x = data;

	x->n_times += s->n_times;
	return output_profile_add(x->profile, &s->stack);
}

static struct result read_value(const void *bytes, size_t n, const char *value)
{
	const struct recording_options options = {.value = value};
	const struct output_folded_options by_container = {.by_container = true};
	struct result x = {0};
	size_t len;

	x.profile = recording_new(0);
	x.r = recording_read_bytes(bytes, n, "file", &options, add, &x, &x.info, &x.why);
	x.folded = WRITTEN(&len, output_folded_write(x.profile, &by_container, f));
	return x;
}

static struct result read_bytes(const void *bytes, size_t n)
{
	return read_value(bytes, n, NULL);
}

static struct result read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static void expect_refused(const char *text, const char *why)
{
	_cleanup_result_ struct result x = read_text(text);

	cr_expect_eq(x.r, -EBADMSG, "%s: %d", text, x.r);
	cr_assert_not_null(x.why);
	cr_expect_str_eq(x.why, why, "got: %s", x.why);
}

/* --- pprof */

Test(recording, a_pprof_file_of_record_comes_back_as_it_was)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	const struct output_folded_options by_container = {.by_container = true};
	size_t n, len;
	_cleanup_free_ char *bytes = WRITTEN(&n, output_pprof_write(p, f));
	_cleanup_free_ char *folded = WRITTEN(&len, output_folded_write(p, &by_container, f));
	_cleanup_result_ struct result x = read_bytes(bytes, n);

	cr_assert_eq(x.r, 0, "%s", x.why);
	cr_expect_str_eq(x.info.format, "pprof");
	cr_expect_str_eq(x.info.type, "samples");
	cr_expect_str_eq(x.info.unit, "count");
	cr_expect_eq(x.info.start_unix_ns, 1700000000123456789);
	cr_expect_eq(x.info.n_samples, output_profile_samples(p));
	cr_expect_str_eq(x.folded, folded, "got:\n%s", x.folded);
}

Test(recording, values_are_chosen_by_their_type)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	size_t n;
	_cleanup_free_ char *bytes = WRITTEN(&n, output_pprof_write(p, f));
	_cleanup_result_ struct result cpu = read_value(bytes, n, "cpu"),
				       none = read_value(bytes, n, "alloc_space");

	cr_assert_eq(cpu.r, 0, "%s", cpu.why);
	cr_expect_str_eq(cpu.info.unit, "nanoseconds");
	cr_expect_gt(cpu.info.n_samples, output_profile_samples(p));
	cr_expect_eq(none.r, -ENOENT);
	cr_expect_str_eq(none.why, "file: has no values of the type \"alloc_space\", but of samples, cpu");
}

Test(recording, damaged_gzip_is_reported)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	size_t n;
	_cleanup_free_ char *bytes = WRITTEN(&n, output_pprof_write(p, f));
	_cleanup_result_ struct result x = read_bytes(bytes, n / 2);

	cr_expect_eq(x.r, -EBADMSG);
	cr_expect_str_eq(x.why, "file: is damaged: its gzip stream ends early or is not valid");
}

/* A profile of one stack of `locations`, whose ids are 7 and up. */
static struct result read_pprof_of(uint64_t *locations, size_t n_locations, int64_t value)
{
	char *strings[] = {"", "alloc_space", "bytes", "outer", "inner", "/src/a.c", "/usr/bin/app"};
	Pprof__ValueType type = PPROF__VALUE_TYPE__INIT, *types[] = {&type};
	Pprof__Function outer = PPROF__FUNCTION__INIT, inner = PPROF__FUNCTION__INIT,
			*functions[] = {&outer, &inner};
	Pprof__Line lines[] = {PPROF__LINE__INIT, PPROF__LINE__INIT}, *of_location[] = {&lines[0], &lines[1]};
	Pprof__Location location = PPROF__LOCATION__INIT, *all[] = {&location};
	Pprof__Mapping mapping = PPROF__MAPPING__INIT, *mappings[] = {&mapping};
	Pprof__Sample sample = PPROF__SAMPLE__INIT, *samples[] = {&sample};
	Pprof__Profile p = PPROF__PROFILE__INIT;
	uint8_t bytes[512];

	type.type = 1;
	type.unit = 2;
	outer.id = 1ull << 60; /* ids may be any numbers, in any order */
	outer.name = 3;
	inner.id = 5;
	inner.name = 4;
	inner.filename = outer.filename = 5;
	lines[0].function_id = 5;
	lines[0].line = 12;
	lines[1].function_id = 1ull << 60;
	lines[1].line = 30;
	location.id = 7;
	location.mapping_id = 3;
	location.n_line = 2;
	location.line = of_location;
	mapping.id = 3;
	mapping.filename = 6;
	sample.n_location_id = n_locations;
	sample.location_id = locations;
	sample.n_value = 1;
	sample.value = &value;
	p.n_sample_type = p.n_sample = p.n_mapping = p.n_location = 1;
	p.sample_type = types;
	p.sample = samples;
	p.mapping = mappings;
	p.location = all;
	p.n_function = 2;
	p.function = functions;
	p.n_string_table = ARRAY_SIZE(strings);
	p.string_table = strings;
	cr_assert_leq(pprof__profile__get_packed_size(&p), sizeof bytes);
	return read_bytes(bytes, pprof__profile__pack(&p, bytes));
}

Test(recording, pprof_of_others_is_read_by_its_ids)
{
	uint64_t known[] = {7}, unknown[] = {8};
	_cleanup_result_ struct result x = read_pprof_of(known, 1, 4096),
				       wrong = read_pprof_of(unknown, 1, 1),
				       negative = read_pprof_of(known, 1, -5);

	cr_assert_eq(x.r, 0, "%s", x.why);
	cr_expect_str_eq(x.info.type, "alloc_space"); /* there are no samples: the last type */
	cr_expect_str_eq(x.folded, "host;app;outer 4096\n", "got:\n%s", x.folded);
	cr_expect_eq(wrong.r, -EBADMSG);
	cr_expect_str_eq(wrong.why, "file: has a stack with a location that it does not have");
	cr_expect_eq(negative.r, 0);
	cr_expect_eq(negative.info.n_samples, 0);
}

/* --- folded stacks */

Test(recording, folded_stacks_have_kinds_of_frames)
{
	_cleanup_result_ struct result x = read_text("app;main;Shop.sell (shop.py);vfs_read_[k] 3\n"
						     "\n"
						     "app;[truncated: no table];f(int) 4\n"
						     "java;Main::run_[j] 5");

	cr_assert_eq(x.r, 0, "%s", x.why);
	cr_expect_str_eq(x.info.format, "folded stacks");
	cr_expect_eq(x.info.n_samples, 12);
	cr_expect_str_eq(x.folded, "host;app;[truncated: no table];f(int) 4\n"
				   "host;app;main;Shop.sell (shop.py);vfs_read_[k] 3\n"
				   "host;java;Main::run 5\n");
}

Test(recording, what_is_no_recording_is_refused)
{
	expect_refused("", "file: is empty");
	expect_refused(
		"hello\nworld\n",
		"file: is no recording: neither pprof, nor OTLP profiles (protobuf), nor folded stacks");
	expect_refused(
		"\177ELF\2\1\1",
		"file: is no recording: neither pprof, nor OTLP profiles (protobuf), nor folded stacks");
	expect_refused("app;main 1\napp;main\n",
		       "file: line 2 is no folded stack: it does not end in a number");
	expect_refused("a;b 9223372036854775807\na;c 1\n", "file: counts more samples than fit into 63 bits");
}

Test(recording, the_callback_can_end_the_reading)
{
	const struct recording_options options = {0};
	struct recording_info info;
	char *why = NULL;
	struct result x = {0};

	x.profile = recording_new(1); /* there is no room for a stack */
	cr_expect_eq(recording_read_bytes("a;b;c 1\n", 8, "file", &options, add, &x, &info, &why), -ENOSPC);
	cr_expect_null(why);
	recording_info_fini(&info);
	result_fini(&x);
}

Test(recording, a_file_that_is_not_there_is_reported)
{
	const struct recording_options options = {0};
	struct recording_info info;
	char *why = NULL;

	cr_expect_eq(recording_read("/nonexistent", &options, add, NULL, &info, &why), -ENOENT);
	cr_expect_str_eq(why, "/nonexistent: No such file or directory");
	free(why);
	recording_info_fini(&info);
}

/* --- OTLP */

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest request;
typedef Opentelemetry__Proto__Profiles__V1development__Sample sample;

#define INIT(type) OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__##type##__INIT

/* A request of one sample, of the stack main > work, in the process "app". */
static struct result read_otlp_of(const sample *s)
{
	char *strings[] = {"", "samples", "count", "main", "work", "process.executable.name", "app"};
	Opentelemetry__Proto__Common__V1__AnyValue value = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__INIT;
	Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit none = INIT(KEY_VALUE_AND_UNIT),
								       name = INIT(KEY_VALUE_AND_UNIT),
								       *attributes[] = {&none, &name};
	Opentelemetry__Proto__Profiles__V1development__Function f[] = {INIT(FUNCTION), INIT(FUNCTION),
								       INIT(FUNCTION)},
								*functions[] = {&f[0], &f[1], &f[2]};
	Opentelemetry__Proto__Profiles__V1development__Line l[] = {INIT(LINE), INIT(LINE)},
							    *main_line[] = {&l[0]}, *work_line[] = {&l[1]};
	Opentelemetry__Proto__Profiles__V1development__Location at[] = {INIT(LOCATION), INIT(LOCATION),
									INIT(LOCATION)},
								*locations[] = {&at[0], &at[1], &at[2]};
	Opentelemetry__Proto__Profiles__V1development__Stack st[] = {INIT(STACK), INIT(STACK)},
							     *stacks[] = {&st[0], &st[1]};
	Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary d = INIT(PROFILES_DICTIONARY);
	Opentelemetry__Proto__Profiles__V1development__ValueType type = INIT(VALUE_TYPE);
	Opentelemetry__Proto__Profiles__V1development__Profile p = INIT(PROFILE), *profiles[] = {&p};
	Opentelemetry__Proto__Profiles__V1development__ScopeProfiles scope = INIT(SCOPE_PROFILES),
								     *scopes[] = {&scope};
	Opentelemetry__Proto__Profiles__V1development__ResourceProfiles rp = INIT(RESOURCE_PROFILES),
									*resources[] = {&rp};
	request q =
		OPENTELEMETRY__PROTO__COLLECTOR__PROFILES__V1DEVELOPMENT__EXPORT_PROFILES_SERVICE_REQUEST__INIT;
	int32_t indices[] = {2, 1};
	sample copy = *s, *samples[] = {&copy};
	uint8_t bytes[1024];

	value.value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
	value.string_value = strings[6];
	name.key_strindex = 5;
	name.value = &value;
	f[1].name_strindex = 3;
	f[2].name_strindex = 4;
	l[0].function_index = 1;
	l[1].function_index = 2;
	at[1].n_lines = at[2].n_lines = 1;
	at[1].lines = main_line;
	at[2].lines = work_line;
	st[1].n_location_indices = 2;
	st[1].location_indices = indices;
	d.n_string_table = ARRAY_SIZE(strings);
	d.string_table = strings;
	d.n_attribute_table = d.n_stack_table = 2;
	d.attribute_table = attributes;
	d.stack_table = stacks;
	d.n_function_table = d.n_location_table = 3;
	d.function_table = functions;
	d.location_table = locations;
	type.type_strindex = 1;
	type.unit_strindex = 2;
	p.sample_type = &type;
	p.n_samples = 1;
	p.samples = samples;
	p.time_unix_nano = 1000;
	p.duration_nano = 500;
	scope.n_profiles = rp.n_scope_profiles = q.n_resource_profiles = 1;
	scope.profiles = profiles;
	rp.scope_profiles = scopes;
	q.resource_profiles = resources;
	q.dictionary = &d;
	cr_assert_leq(protobuf_c_message_get_packed_size(&q.base), sizeof bytes);
	return read_bytes(bytes, protobuf_c_message_pack(&q.base, bytes));
}

Test(recording, otlp_samples_are_counted_by_their_times_or_values)
{
	uint64_t times[] = {1100, 1200, 1300};
	int64_t values[] = {2, 5};
	int32_t attributes[] = {1};
	sample s = INIT(SAMPLE);

	s.stack_index = 1;
	s.n_attribute_indices = 1;
	s.attribute_indices = attributes;
	s.n_timestamps_unix_nano = ARRAY_SIZE(times);
	s.timestamps_unix_nano = times;
	_cleanup_result_ struct result timed = read_otlp_of(&s);

	s.n_timestamps_unix_nano = 0;
	s.n_values = ARRAY_SIZE(values);
	s.values = values;
	_cleanup_result_ struct result valued = read_otlp_of(&s);

	cr_assert_eq(timed.r, 0, "%s", timed.why);
	cr_expect_str_eq(timed.info.format, "OTLP");
	cr_expect_eq(timed.info.start_unix_ns, 1000);
	cr_expect_eq(timed.info.duration_ns, 500);
	cr_expect_eq(timed.n_times, 3);
	cr_expect_str_eq(timed.folded, "host;app;main;work 3\n", "got:\n%s", timed.folded);
	cr_expect_str_eq(valued.folded, "host;app;main;work 7\n", "got:\n%s", valued.folded);
	cr_expect_eq(valued.n_times, 0);
	s.n_timestamps_unix_nano = ARRAY_SIZE(times); /* of 7 samples */
	_cleanup_result_ struct result some = read_otlp_of(&s);
	cr_expect_eq(some.n_times, 0);
	cr_expect_str_eq(some.folded, "host;app;main;work 7\n", "got:\n%s", some.folded);
}

Test(recording, otlp_with_an_index_beyond_its_dictionary_is_refused)
{
	int32_t attributes[] = {77, -1};
	uint64_t time = 1;
	sample s = INIT(SAMPLE);

	s.n_timestamps_unix_nano = 1;
	s.timestamps_unix_nano = &time;
	s.stack_index = 9;
	_cleanup_result_ struct result wrong = read_otlp_of(&s);

	s.stack_index = 1;
	s.n_attribute_indices = ARRAY_SIZE(attributes); /* attributes that are not there say nothing */
	s.attribute_indices = attributes;
	_cleanup_result_ struct result unnamed = read_otlp_of(&s);

	cr_expect_eq(wrong.r, -EBADMSG);
	cr_expect_str_eq(wrong.why, "file: has a sample with a stack that it does not have");
	cr_expect_eq(unnamed.r, 0);
	cr_expect_str_eq(unnamed.folded, "host;program;main;work 1\n", "got:\n%s", unnamed.folded);
}
