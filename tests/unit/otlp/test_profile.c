// SPDX-License-Identifier: Apache-2.0
/* Decodes what the builder encodes, with the generated unpackers. */
#include <errno.h>
#include <stdlib.h>

#include "profile_support.h"

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
		{"kernel", "do_syscall_64", "", ""},
		{"native", "step(int)", "_Z4stepi", "/srv/app"},
		{"native", "app+0x1fff", "", "/srv/app"},
		{"native", "[anonymous]", "", NULL},
		{"v8js", "work a.js:1:2", "JS:*work a.js:1:2", NULL},
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
	cr_expect_eq(location_of(d, s, 0)->mapping_index, 0, "whose address is not known has no mapping");
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

/* Code of one function that two compilers made: two locations, with the compiler's name, of one function. */
Test(profile, tiers_of_one_function)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	const struct frame frames[] = {
		{.address = 0x1100, .function = "work a.js:1:2", .runtime = "v8js", .tier = "turbofan"},
		{.address = 0x2200, .function = "work a.js:1:2", .runtime = "v8js", .tier = "sparkplug"},
		{.address = 0x3300, .function = "stub", .runtime = "v8js"},
	};

	cr_assert_eq(otlp_batch_resource(b, NULL, 0), 0);
	add(b, frames, ARRAY_SIZE(frames), START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	int32_t function = location_of(d, s, 0)->lines[0]->function_index;

	cr_expect_eq(location_of(d, s, 1)->lines[0]->function_index, function);
	cr_expect_neq(location_of(d, s, 2)->lines[0]->function_index, function);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		const otlp_location *l = location_of(d, s, i);

		cr_assert_eq(l->n_attribute_indices, frames[i].tier ? 2 : 1);
		cr_expect_str_eq(attr_key(d, l->attribute_indices[0]), "profile.frame.type");
		if (!frames[i].tier)
			continue;
		cr_expect_str_eq(attr_key(d, l->attribute_indices[1]), "proflet.frame.tier");
		cr_expect_str_eq(d->attribute_table[l->attribute_indices[1]]->value->string_value,
				 frames[i].tier);
	}
	message_free(m);
}

static void expect_type(const char *function, enum frame_kind kind, bool go, const char *type)
{
	const struct frame_module module = {
		.id = 9, .path = "/srv/x", .name = "x", .start = 9, .limit = 8, .go = go};
	const struct frame frame = {.module = &module, .address = 0x1100, .function = function, .kind = kind};
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;

	cr_assert_eq(otlp_batch_resource(b, NULL, 0), 0);
	add(b, &frame, 1, START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	const otlp_location *l =
		location_of(d, m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0], 0);

	cr_assert_eq(l->n_attribute_indices, 1);
	cr_expect_str_eq(attr_key(d, l->attribute_indices[0]), "profile.frame.type");
	cr_expect_str_eq(d->attribute_table[l->attribute_indices[0]]->value->string_value, type, "%s",
			 function ? function : "no name");
	if (kind == FRAME_NATIVE) {
		const otlp_mapping *mapping = d->mapping_table[l->mapping_index];

		cr_expect_str_eq(d->string_table[mapping->filename_strindex], "/srv/x");
		cr_expect_eq(mapping->memory_start, 0, "a range the wrong way round is left out");
		cr_expect_eq(mapping->memory_limit, 0);
	} else {
		cr_expect_eq(l->mapping_index, 0);
		cr_expect_eq(d->n_mapping_table, 1, "nobody refers to a mapping without addresses");
	}
	message_free(m);
}

Test(profile, functions_of_go_have_its_type)
{
	static const char *const go[] = {"main.main",	      "runtime.mallocgc",
					 "main.(*T).Method",  "main.F[go.shape.int]",
					 "a.b/c/d.F.func1.2", "runtime.asmcgocall.abi0"};
	static const char *const others[] = {"memeqbody",
					     "crosscall2",
					     "work.part.0",
					     "work.constprop.0",
					     "work.isra.0.cold",
					     "counter.1234",
					     "ns::f(float) [clone .cold]",
					     ".hidden"};

	for (size_t i = 0; i < ARRAY_SIZE(go); i++) {
		expect_type(go[i], FRAME_NATIVE, true, "go");
		expect_type(go[i], FRAME_NATIVE, false, "native");
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect_type(others[i], FRAME_NATIVE, true, "native");
	expect_type(NULL, FRAME_NATIVE, true, "native");
	expect_type("do_syscall.x", FRAME_KERNEL, true, "kernel");
	expect_type(NULL, FRAME_KERNEL, false, "kernel");
}

/* Two addresses of one function: with an inlined call, and without. */
Test(profile, inlined_calls_are_lines_of_one_location)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	static const struct frame_line inlined[] = {{"main.g", "b.go", 55, 54}, {"main.f", "a.go", 10, 9}},
				       plain[] = {{"main.f", "a.go", 12, 9}};
	const struct frame frames[] = {
		{.module = &app,
		 .address = 0x1100,
		 .function = "main.f",
		 .lines = inlined,
		 .n_lines = 2,
		 .start_line = 9},
		{.module = &app,
		 .address = 0x1200,
		 .function = "main.f",
		 .lines = plain,
		 .n_lines = 1,
		 .start_line = 9},
	};

	cr_assert_eq(otlp_batch_resource(b, NULL, 0), 0);
	add(b, frames, 2, START);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	const otlp_location *first = location_of(d, s, 0), *second = location_of(d, s, 1);

	cr_assert_eq(first->n_lines, 2);
	cr_assert_eq(second->n_lines, 1);
	const struct {
		const otlp_line *line;
		const struct frame_line *expected;
	} lines[] = {
		{first->lines[0], &inlined[0]}, {first->lines[1], &inlined[1]}, {second->lines[0], plain}};
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const otlp_function *f = d->function_table[lines[i].line->function_index];

		cr_expect_eq(lines[i].line->line, lines[i].expected->line);
		cr_expect_str_eq(d->string_table[f->name_strindex], lines[i].expected->function);
		cr_expect_str_eq(d->string_table[f->filename_strindex], lines[i].expected->file);
		cr_expect_eq(f->start_line, lines[i].expected->start_line);
	}
	cr_expect_eq(first->lines[1]->function_index, second->lines[0]->function_index);
	message_free(m);
}

/* They have no address: a location is the function and the line. */
Test(profile, functions_of_language_runtimes)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	static const struct frame_line run = {"A.run", "/srv/a.py", 12, 10},
				       later = {"A.run", "/srv/a.py", 13, 10},
				       other = {"A.run", "/srv/b.py", 12, 10}, lua = {"f", "a.lua", 2, 1};
	const struct frame frames[] = {
		{.function = "A.run", .runtime = "cpython", .lines = &run, .n_lines = 1, .start_line = 10},
		{.function = "A.run", .runtime = "cpython", .lines = &later, .n_lines = 1, .start_line = 10},
		{.function = "A.run", .runtime = "cpython", .lines = &run, .n_lines = 1, .start_line = 11},
		{.function = "A.run", .runtime = "cpython", .lines = &other, .n_lines = 1, .start_line = 10},
		{.function = "A.run", .runtime = "cpython", .lines = &run, .n_lines = 1, .start_line = 10},
		{.function = "f", .runtime = "lua", .lines = &lua, .n_lines = 1, .start_line = 1},
		{.function = "[unknown function]", .runtime = "ruby"},
	};
	static const char *const types[] = {"cpython", "cpython", "cpython", "cpython",
					    "cpython", "native",  "ruby"};

	cr_assert_eq(otlp_batch_resource(b, NULL, 0), 0);
	add(b, frames, ARRAY_SIZE(frames), START);
	cr_expect_leq(otlp_batch_size(b), OTLP_BATCH_MAX_BYTES);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	message *m = unpack(r);
	const dictionary *d = m->dictionary;
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	const int32_t *locations = d->stack_table[s->stack_index]->location_indices;

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		const otlp_location *l = location_of(d, s, i);
		const otlp_function *f = d->function_table[l->lines[0]->function_index];
		const struct frame_line *line = frames[i].lines;

		cr_expect_str_eq(type_of(d, l), types[i]);
		cr_expect_eq(l->mapping_index, 0);
		cr_expect_eq(l->address, 0);
		cr_expect_str_eq(line_of(d, l), frames[i].function);
		cr_expect_eq(l->lines[0]->line, line ? line->line : 0);
		cr_expect_str_eq(string_at(d, f->filename_strindex), line ? line->file : "");
		cr_expect_str_eq(string_at(d, f->system_name_strindex), "");
		cr_expect_eq(f->start_line, frames[i].start_line);
	}
	cr_expect_eq(locations[4], locations[0], "equal function and line");
	cr_expect_neq(locations[1], locations[0], "another line");
	cr_expect_eq(location_of(d, s, 1)->lines[0]->function_index,
		     location_of(d, s, 0)->lines[0]->function_index);
	cr_expect_neq(locations[2], locations[0], "another function of that name in the file");
	cr_expect_neq(locations[3], locations[0], "another file");
	message_free(m);
}

Test(profile, equal_samples_merge)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	const struct otlp_attr one[] = {{"a", OTLP_STRING, "1", 0}, {"b", OTLP_STRING, "2", 0}};
	const struct otlp_attr swapped[] = {one[1], one[0]};
	const uint64_t ts[] = {START + 1, START + 2, START + 3};

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(batch_sample(b, stack_a, 3, one, 2, ts, 2, NULL), 0);
	cr_assert_eq(batch_sample(b, stack_a, 3, swapped, 2, ts + 2, 1, NULL), 0);
	cr_assert_eq(batch_sample(b, stack_a, 3, one, 1, ts, 1, NULL), 0);
	cr_assert_eq(batch_sample(b, stack_a, 2, one, 2, ts, 1, NULL), 0);
	cr_assert_eq(batch_sample(b, stack_a, 2, one, 2, ts, 0, NULL), 0);
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
	cr_assert_eq(batch_sample(b, stack_a, 3, NULL, 0, ts, 3, NULL), 0);
	cr_assert_eq(batch_sample(b, stack_a, 3, NULL, 0, ts, 2, NULL), 0);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_eq(r->n_samples, 5);
	message *m = unpack(r);
	const otlp_sample *s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	cr_assert_eq(s->n_values, 1);
	cr_expect_eq(s->values[0], 5);
	cr_expect_eq(s->n_timestamps_unix_nano, 0);
	message_free(m);
}

/* Events of all kinds on one stack. */
static void add_events(struct otlp_batch *b, const struct otlp_profile_type *type, const uint64_t *values,
		       uint64_t at)
{
	const uint64_t ts[] = {START + at, START + at + 1};
	const struct otlp_sample_events events = {.type = type,
						  .stack = {.frames = (uint64_t[]){0, 1}, .n = 2},
						  .attrs = attrs_a,
						  .n_attrs = 2,
						  .unix_ns = ts,
						  .values = values,
						  .n = 2};

	n_numbered = 2;
	numbered[0] = stack_a[0];
	numbered[1] = stack_a[1];
	cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
}

static const struct otlp_profile_type off_cpu = {.type = "off_cpu", .unit = "nanoseconds"};

Test(profile, one_for_each_type_and_period)
{
	const struct otlp_profile_type faster = otlp_cpu_profile(97);
	const uint64_t values[] = {700, 1ull << 40};
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	const otlp_scope_profiles *scope;
	const otlp_profile *p;
	message *m;

	cr_expect_eq(faster.period, 1000000000 / 97);
	for (int resource = 0; resource < 2; resource++) {
		cr_assert_eq(otlp_batch_resource(b, &resource_a[resource], 1), 0);
		add_events(b, &cpu_type, NULL, 0);
		add_events(b, &off_cpu, values, 10);
		add_events(b, &faster, NULL, 20);
		add_events(b, &cpu_type, NULL, 30);
	}
	add_events(b, &off_cpu, values, 40);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_eq(r->n_samples, 18);
	cr_expect_eq(r->n_profiles, 6);
	m = unpack(r);
	cr_assert_eq(m->n_resource_profiles, 2);
	cr_assert_eq(m->resource_profiles[1]->n_scope_profiles, 1);
	scope = m->resource_profiles[1]->scope_profiles[0];
	cr_assert_eq(scope->n_profiles, 3, "in the order in which the types came");
	p = scope->profiles[0];
	cr_expect_str_eq(string_at(m->dictionary, p->sample_type->type_strindex), "samples");
	cr_expect_eq(p->period, 1000000000 / 19);
	cr_assert_eq(p->n_samples, 1);
	cr_expect_eq(p->samples[0]->n_timestamps_unix_nano, 4);
	cr_expect_eq(p->samples[0]->n_values, 0, "timestamps alone");
	cr_expect_eq(scope->profiles[2]->period, 1000000000 / 97);
	p = scope->profiles[1];
	cr_expect_str_eq(string_at(m->dictionary, p->sample_type->type_strindex), "off_cpu");
	cr_expect_str_eq(string_at(m->dictionary, p->sample_type->unit_strindex), "nanoseconds");
	cr_expect_null(p->period_type);
	cr_expect_eq(p->period, 0);
	cr_assert_eq(p->samples[0]->n_timestamps_unix_nano, 4);
	cr_assert_eq(p->samples[0]->n_values, 4, "one for each timestamp");
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(p->samples[0]->values[i], (int64_t)values[i % 2]);
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < i; k++)
			cr_expect_arr_neq(scope->profiles[i]->profile_id.data,
					  scope->profiles[k]->profile_id.data, 16);
	cr_expect_eq(p->samples[0]->stack_index, scope->profiles[0]->samples[0]->stack_index);
	message_free(m);
}

Test(profile, sums_of_values)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(&(struct otlp_batch_options){.aggregate = true});
	_cleanup_request_ struct otlp_request *r = NULL;
	const uint64_t values[] = {700, 1000};
	const otlp_sample *s;
	message *m;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add_events(b, &off_cpu, values, 0);
	add_events(b, &off_cpu, values, 10);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	cr_expect_eq(r->n_samples, 4, "events");
	m = unpack(r);
	s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	cr_assert_eq(s->n_values, 1);
	cr_expect_eq(s->values[0], 3400);
	cr_expect_eq(s->n_timestamps_unix_nano, 0);
	message_free(m);
}

/* A sample without values may get some later: its previous events had the value 1. */
Test(profile, values_from_some_time_on)
{
	const struct otlp_profile_type events = {.type = "events", .unit = "count"};
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	const int64_t want[] = {1, 1, 5, INT64_MAX, 1, 1};
	const uint64_t values[] = {5, ~0ull};
	const otlp_sample *s;
	message *m;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add_events(b, &events, NULL, 0);
	add_events(b, &events, values, 10);
	add_events(b, &events, NULL, 20);
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	m = unpack(r);
	s = m->resource_profiles[0]->scope_profiles[0]->profiles[0]->samples[0];
	cr_assert_eq(s->n_timestamps_unix_nano, 6);
	cr_assert_eq(s->n_values, 6);
	cr_expect_arr_eq(s->values, want, sizeof want);
	message_free(m);
}

Test(profile, events_need_a_type)
{
	static const struct otlp_profile_type no_unit = {.type = "samples"};
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	const uint64_t ts = START;
	struct otlp_sample_events events = {.unix_ns = &ts, .n = 1};

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_expect_eq(otlp_batch_sample(b, &events, NULL), -EINVAL);
	events.type = &no_unit;
	cr_expect_eq(otlp_batch_sample(b, &events, NULL), -EINVAL);
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

	cr_expect_eq(batch_sample(b, stack_a, 1, NULL, 0, &ts, 1, NULL), -EINVAL, "there is no resource yet");
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

Test(profile, very_deep_stack_keeps_its_outermost_frame)
{
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	_cleanup_request_ struct otlp_request *r = NULL;
	_cleanup_free_ struct frame *f = calloc(5000, sizeof *f);

	for (size_t i = 0; i < 5000; i++)
		f[i] = stack_a[1];
	f[4999] = stack_a[ARRAY_SIZE(stack_a) - 1];
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

Test(profile, numbers_of_stacks_and_frames_save_no_content)
{
	/* The same samples with numbers that say which stacks and frames are equal, and without. */
	const uint64_t ts[] = {START + 1, START + 2};
	_cleanup_request_ struct otlp_request *plain = NULL, *known = NULL;
	_cleanup_batch_ struct otlp_batch *a = a_batch(NULL), *b = a_batch(NULL);
	uint64_t ids[5];

	cr_assert_eq(otlp_batch_resource(a, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(batch_sample(a, stack_a + i % 2, 3, attrs_a, 2, ts, 2, NULL), 0);
	for (uint64_t i = 0; i < 5; i++) {
		ids[i] = n_numbered;
		numbered[n_numbered++] = stack_a[i];
	}
	for (uint64_t i = 0; i < 4; i++) {
		const struct otlp_sample_events events = {
			.type = &cpu_type,
			.stack = {.id = 1 + i % 2, .frames = ids + i % 2, .n = 3},
			.attrs = attrs_a,
			.n_attrs = 2,
			.unix_ns = ts,
			.n = 2};

		cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
	}
	cr_assert_eq(otlp_batch_finish(a, &plain), 0);
	cr_assert_eq(otlp_batch_finish(b, &known), 0);
	cr_expect_eq(plain->n_samples, 8);
	cr_assert_eq(plain->data.len, known->data.len);
	cr_expect_arr_eq(plain->data.data, known->data.data, plain->data.len);
}

Test(profile, samples_of_one_identity_keep_all_their_times)
{
	/* Several additions to each of many samples, interleaved, over resources that reuse the memory. */
	_cleanup_request_ struct otlp_request *r = NULL;
	_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
	message *m;

	for (int resource = 0; resource < 2; resource++) {
		const struct otlp_attr name = {"host.name", OTLP_STRING, resource ? "b" : "a", 0};

		cr_assert_eq(otlp_batch_resource(b, &name, 1), 0);
		for (uint64_t i = 0; i < 1000; i++) {
			const struct otlp_attr pid = {"process.pid", OTLP_INT, NULL, (int64_t)(i % 250)};
			const uint64_t ts = START + i;

			cr_assert_eq(batch_sample(b, stack_a, 2, &pid, 1, &ts, 1, NULL), 0);
		}
	}
	cr_assert_eq(otlp_batch_finish(b, &r), 0);
	m = unpack(r);
	cr_assert_eq(m->n_resource_profiles, 2);
	for (size_t k = 0; k < 2; k++) {
		const otlp_profile *p = m->resource_profiles[k]->scope_profiles[0]->profiles[0];

		cr_assert_eq(p->n_samples, 250);
		for (size_t i = 0; i < 250; i++) {
			cr_assert_eq(p->samples[i]->n_timestamps_unix_nano, 4);
			for (size_t n = 0; n < 4; n++)
				cr_expect_eq(p->samples[i]->timestamps_unix_nano[n], START + i + 250 * n);
		}
	}
	message_free(m);
}

static int spill_into(void *data, const void *bytes, size_t len)
{
	return buf_append(data, bytes, len);
}

/* Two windows with one stack; in the second one the numbers stand for other frames. */
static void two_windows(struct otlp_batch *b, bool same)
{
	const struct otlp_profile_type faster = otlp_cpu_profile(97);
	const uint64_t ts[] = {START + 1, START + WINDOW + 1};
	struct otlp_sample_events events = {.type = &cpu_type,
					    .stack = {.id = 1, .frames = (uint64_t[]){0, 1}, .n = 2},
					    .attrs = attrs_a,
					    .n_attrs = 2,
					    .unix_ns = ts,
					    .n = 1};

	n_numbered = 2;
	numbered[0] = stack_a[0];
	numbered[1] = stack_a[1];
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
	cr_assert_eq(otlp_batch_window(b, START + WINDOW, 2 * WINDOW), 0);
	events.type = &faster;
	events.unix_ns = ts + 1;
	cr_assert_eq(otlp_batch_sample(b, &events, NULL), -EINVAL, "of no resource yet");
	if (!same)
		numbered[1] = stack_a[2];
	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	cr_assert_eq(otlp_batch_sample(b, &events, NULL), 0);
}

Test(profile, windows_share_a_dictionary)
{
	for (int same = 0; same < 2; same++) {
		_cleanup_request_ struct otlp_request *r = NULL;
		_cleanup_batch_ struct otlp_batch *b = a_batch(NULL);
		const otlp_profile *p[2];
		message *m;

		two_windows(b, same);
		cr_assert_eq(otlp_batch_finish(b, &r), 0);
		cr_expect_eq(r->n_samples, 2);
		cr_expect_eq(r->n_profiles, 2);
		cr_expect_eq(r->end_unix_ns, START + 3 * WINDOW);
		m = unpack(r);
		cr_assert_eq(m->n_resource_profiles, 2, "each window has its own profiles");
		for (size_t i = 0; i < 2; i++)
			p[i] = m->resource_profiles[i]->scope_profiles[0]->profiles[0];
		cr_expect_eq(p[0]->period, 1000000000 / 19);
		cr_expect_eq(p[1]->period, 1000000000 / 97);
		cr_expect_eq(p[1]->time_unix_nano, START + WINDOW);
		cr_expect_eq(p[1]->duration_nano, 2 * WINDOW);
		cr_expect_eq(p[0]->samples[0]->stack_index == p[1]->samples[0]->stack_index, same,
			     "a stack is one entry, but its number is good for one window");
		cr_expect_str_eq(line_of(m->dictionary, location_of(m->dictionary, p[1]->samples[0], 1)),
				 same ? "step(int)" : "app+0x1fff");
		message_free(m);
	}
}

Test(profile, spilled_profiles_and_the_remaining_ones_are_one_message)
{
	_cleanup_buf_ struct buf spilled = {.max = 1u << 20};
	const struct otlp_batch_options to_buf = {.spill = spill_into, .data = &spilled};
	_cleanup_request_ struct otlp_request *whole = NULL, *rest = NULL;
	_cleanup_batch_ struct otlp_batch *a = a_batch(NULL), *b = a_batch(&to_buf);

	two_windows(a, true);
	two_windows(b, true);
	cr_expect_gt(spilled.len, 0, "the first window's are out before the second one ends");
	cr_assert_eq(otlp_batch_finish(a, &whole), 0);
	cr_assert_eq(otlp_batch_finish(b, &rest), 0);
	cr_expect_eq(rest->n_samples, 2);
	cr_assert_eq(buf_append(&spilled, rest->data.data, rest->data.len), 0);
	cr_assert_eq(spilled.len, whole->data.len);
	cr_expect_arr_eq(spilled.data, whole->data.data, whole->data.len);
}

static int spill_fails(void *data, const void *bytes, size_t len)
{
	(void)data;
	(void)bytes;
	(void)len;
	return -EIO;
}

Test(profile, a_spill_that_fails_is_reported)
{
	const struct otlp_batch_options to_nowhere = {.spill = spill_fails};
	_cleanup_batch_ struct otlp_batch *b = a_batch(&to_nowhere);
	struct otlp_request *r = NULL;

	cr_assert_eq(otlp_batch_resource(b, resource_a, 1), 0);
	add(b, stack_a, 2, START + 1);
	cr_expect_eq(otlp_batch_window(b, START + WINDOW, WINDOW), -EIO);
	cr_expect_eq(otlp_batch_finish(b, &r), -EIO);
	cr_expect_null(r);
}
