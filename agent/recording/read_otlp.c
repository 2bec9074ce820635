// SPDX-License-Identifier: Apache-2.0
/*
 * OTLP profiles, v1development: a request or ProfilesData, which have the same fields, or several of them
 * behind each other, which is one with all their resources if they share a dictionary. Indices into the
 * dictionary are checked when they are used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/recording/reader.h"
#include "profiles_service.pb-c.h"

typedef Opentelemetry__Proto__Common__V1__AnyValue any_value;
typedef Opentelemetry__Proto__Common__V1__KeyValue key_value;
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest request;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary dictionary;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles resource_profiles;
typedef Opentelemetry__Proto__Profiles__V1development__Profile profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample sample;
typedef Opentelemetry__Proto__Profiles__V1development__ValueType profile_type;
typedef Opentelemetry__Proto__Profiles__V1development__Mapping mapping;
typedef Opentelemetry__Proto__Profiles__V1development__Location location;
typedef Opentelemetry__Proto__Profiles__V1development__Function function;
typedef Opentelemetry__Proto__Profiles__V1development__Stack stack;
typedef Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit attribute;

#define unpack \
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack

struct otlp {
	struct reader *r;
	const dictionary *d;
	struct frame_module *modules; /* of the mapping table, in its order; owned */
	struct output_stack resource; /* what the resource says of its samples */
};

static const char *text_at(const struct otlp *o, int64_t index)
{
	return index > 0 && (uint64_t)index < o->d->n_string_table ? o->d->string_table[index] : "";
}

/* The text of a value; "": it is none. */
static const char *text_of(const struct otlp *o, const any_value *v)
{
	if (v && v->value_case == OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE &&
	    v->string_value)
		return v->string_value;
	if (v && v->value_case == OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX)
		return text_at(o, v->string_value_strindex);
	return "";
}

static uint64_t number_of(const any_value *v)
{
	return v && v->value_case == OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE &&
			       v->int_value > 0
		       ? (uint64_t)v->int_value
		       : 0;
}

/* --- what samples are of */

static bool is_one_of(const char *key, const char *a, const char *b)
{
	return strcmp(key, a) == 0 || strcmp(key, b) == 0;
}

/* Takes an attribute of a resource or of a sample, if it says what the samples are of. */
static void set_attribute(const struct otlp *o, struct output_stack *s, const char *key, const any_value *v)
{
	const char *text = text_of(o, v);
	const uint64_t number = number_of(v);

	if (strcmp(key, "process.executable.name") == 0 && *text)
		s->process = text;
	else if (strcmp(key, "process.pid") == 0 && number <= UINT32_MAX)
		s->pid = (uint32_t)number;
	else if (strcmp(key, "thread.name") == 0 && *text)
		s->thread = text;
	else if (strcmp(key, "container.id") == 0 && *text)
		s->container = text;
	else if (is_one_of(key, "k8s.container.name", "container.name") && *text)
		s->container_name = text;
	else if (strcmp(key, "service.name") == 0 && *text && !s->process)
		s->process = text;
}

static int set_resource(struct otlp *o, const resource_profiles *rp)
{
	struct recording_info *info = o->r->info;
	int e = 0;

	o->resource = (struct output_stack){0};
	for (size_t i = 0; rp->resource && i < rp->resource->n_attributes && e == 0; i++) {
		const key_value *a = rp->resource->attributes[i];
		const char *key = a->key_strindex ? text_at(o, a->key_strindex) : a->key;

		set_attribute(o, &o->resource, key, a->value);
		if (strcmp(key, "host.name") == 0 && !*info->hostname)
			e = reader_note(&info->hostname, text_of(o, a->value));
	}
	return e;
}

/* --- frames */

static int make_modules(struct otlp *o)
{
	o->modules = calloc(o->d->n_mapping_table + 1, sizeof *o->modules);
	if (!o->modules)
		return -ENOMEM;
	for (size_t i = 0; i < o->d->n_mapping_table; i++) {
		const mapping *m = o->d->mapping_table[i];
		const char *path = text_at(o, m->filename_strindex);

		o->modules[i] = (struct frame_module){.id = (uint32_t)i + 1,
						      .path = path,
						      .name = last_component(path),
						      .start = m->memory_start,
						      .limit = m->memory_limit,
						      .file_offset = m->file_offset};
	}
	return 0;
}

/* The value of the location's profile.frame.type; "": it has none. */
static const char *frame_type(const struct otlp *o, const location *l)
{
	for (size_t i = 0; i < l->n_attribute_indices; i++) {
		const int32_t at = l->attribute_indices[i];
		const attribute *a =
			at > 0 && (size_t)at < o->d->n_attribute_table ? o->d->attribute_table[at] : NULL;

		if (a && strcmp(text_at(o, a->key_strindex), "profile.frame.type") == 0)
			return text_of(o, a->value);
	}
	return "";
}

static const char *known_runtime(const char *type)
{
	static const char *const known[] = {"cpython", "ruby",	 "php",	 "perl",  "jvm",
					    "v8js",    "dotnet", "beam", "luajit"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(type, known[i]) == 0)
			return known[i];
	return NULL;
}

/* A line as other writers encode it; 0: unknown, or not a line. */
static uint32_t line_number(int64_t value)
{
	return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0;
}

static int add_lines(struct otlp *o, const location *l, const function **ret_outer)
{
	*ret_outer = NULL;
	if (l->n_lines > READER_LINES_MAX)
		return reader_bad(o->r, "has a location of more than %u inlined calls", READER_LINES_MAX);
	for (size_t i = 0; i < l->n_lines; i++) {
		const int32_t at = l->lines[i]->function_index;
		struct frame_line line;

		if (at < 0 || (size_t)at >= o->d->n_function_table)
			return reader_bad(o->r, "has a line of a function that it does not have");
		*ret_outer = o->d->function_table[at];
		line = (struct frame_line){.function = text_at(o, (*ret_outer)->name_strindex),
					   .file = text_at(o, (*ret_outer)->filename_strindex),
					   .line = line_number(l->lines[i]->line),
					   .start_line = line_number((*ret_outer)->start_line)};
		if (buf_append(&o->r->lines, &line, sizeof line) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void set_frame(struct otlp *o, struct frame *f, const location *l, const function *outer)
{
	const char *type = frame_type(o, l);

	*f = (struct frame){.address = l->address, .n_lines = l->n_lines};
	if (l->mapping_index > 0 && (size_t)l->mapping_index < o->d->n_mapping_table &&
	    *o->modules[l->mapping_index].path)
		f->module = &o->modules[l->mapping_index];
	if (outer) {
		const char *system = text_at(o, outer->system_name_strindex);

		f->function = text_at(o, outer->name_strindex);
		f->system_name = *system && strcmp(system, f->function) != 0 ? system : NULL;
		f->start_line = line_number(outer->start_line);
	}
	if (f->function && !f->module && is_ending_name(f->function))
		f->kind = FRAME_ENDING;
	else if (strcmp(type, "kernel") == 0 || (f->module && is_kernel_module(f->module->path)))
		f->kind = FRAME_KERNEL;
	else
		f->runtime = known_runtime(type);
	if (f->kind == FRAME_NATIVE && !f->runtime && !f->module && !f->address && outer)
		f->runtime = runtime_of_file(text_at(o, outer->filename_strindex));
}

static int make_frames(struct otlp *o, const stack *s)
{
	int e = 0;

	buf_clear(&o->r->lines);
	if (s->n_location_indices > OUTPUT_MAX_DEPTH)
		return reader_bad(o->r, "has a stack of more than %d frames", OUTPUT_MAX_DEPTH);
	for (size_t i = 0; i < s->n_location_indices && e == 0; i++) {
		const int32_t at = s->location_indices[i];
		const function *outer;

		if (at < 0 || (size_t)at >= o->d->n_location_table)
			return reader_bad(o->r, "has a stack with a location that it does not have");
		e = add_lines(o, o->d->location_table[at], &outer);
		if (e == 0)
			set_frame(o, &o->r->frames[i], o->d->location_table[at], outer);
	}
	reader_place_lines(o->r, e == 0 ? s->n_location_indices : 0);
	return e;
}

/* --- samples */

static int read_sample(struct otlp *o, const sample *s)
{
	struct recording_stack out = {
		.stack = o->resource, .times = s->timestamps_unix_nano, .n_times = s->n_timestamps_unix_nano};
	int e;

	if (s->stack_index < 0 || (size_t)s->stack_index >= o->d->n_stack_table)
		return reader_bad(o->r, "has a sample with a stack that it does not have");
	e = make_frames(o, o->d->stack_table[s->stack_index]);
	if (e < 0)
		return e;
	out.stack.frames = o->r->frames;
	out.stack.n_frames = o->d->stack_table[s->stack_index]->n_location_indices;
	out.stack.complete = !out.stack.n_frames || o->r->frames[out.stack.n_frames - 1].kind != FRAME_ENDING;
	out.stack.count = s->n_values ? 0 : s->n_timestamps_unix_nano; /* without values, each time is one */
	for (size_t i = 0; i < s->n_values; i++)
		if (s->values[i] > 0 &&
		    __builtin_add_overflow(out.stack.count, (uint64_t)s->values[i], &out.stack.count))
			return reader_bad(o->r, "has a sample whose values do not fit into 64 bits");
	if (s->n_values && out.n_times != out.stack.count)
		out.n_times = 0; /* which sample each belongs to is not known */
	for (size_t i = 0; i < s->n_attribute_indices; i++) {
		const int32_t at = s->attribute_indices[i];

		if (at > 0 && (size_t)at < o->d->n_attribute_table)
			set_attribute(o, &out.stack, text_at(o, o->d->attribute_table[at]->key_strindex),
				      o->d->attribute_table[at]->value);
	}
	out.stack.process = out.stack.process ?: "program";
	return reader_stack(o->r, &out);
}

static const char *type_name(const struct otlp *o, const profile_type *t)
{
	return t ? text_at(o, t->type_strindex) : "";
}

/* Whether its values are those that are wanted. Profiles of other types are left out. */
static bool is_wanted(struct otlp *o, const profile *p, const char *type)
{
	return strcmp(type_name(o, p->sample_type), type) == 0;
}

/* The longest time that a profile is of; recordings of the same time are one after the other elsewhere. */
static void note_times(struct recording_info *info, const profile *p)
{
	const uint64_t end = p->time_unix_nano + p->duration_nano,
		       known = info->start_unix_ns + info->duration_ns;

	if (end < p->time_unix_nano || !p->time_unix_nano)
		return;
	if (!info->start_unix_ns || p->time_unix_nano < info->start_unix_ns) {
		const uint64_t to = known > end ? known : end;

		info->start_unix_ns = p->time_unix_nano;
		info->duration_ns = to - info->start_unix_ns;
	} else if (end > known) {
		info->duration_ns = end - info->start_unix_ns;
	}
	if (p->period > 0)
		info->period_ns = (uint64_t)p->period;
}

static int read_profile(struct otlp *o, const profile *p, const char *type)
{
	int e = 0;

	if (!is_wanted(o, p, type))
		return 0;
	note_times(o->r->info, p);
	for (size_t i = 0; i < p->n_samples && e == 0; i++)
		e = read_sample(o, p->samples[i]);
	return e;
}

/* Collects the types that profiles have, at most n. Returns their number. */
static size_t find_types(const struct otlp *o, const request *q, struct value_type *types, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < q->n_resource_profiles; i++)
		for (size_t k = 0; k < q->resource_profiles[i]->n_scope_profiles; k++)
			for (size_t m = 0; m < q->resource_profiles[i]->scope_profiles[k]->n_profiles; m++) {
				const profile_type *t =
					q->resource_profiles[i]->scope_profiles[k]->profiles[m]->sample_type;
				size_t at = 0;

				while (at < n && strcmp(types[at].type, type_name(o, t)) != 0)
					at++;
				if (at == n && n < max)
					types[n++] = (struct value_type){
						type_name(o, t), t ? text_at(o, t->unit_strindex) : ""};
			}
	return n;
}

static int read_request(struct otlp *o, const request *q)
{
	struct value_type types[16];
	const size_t n = find_types(o, q, types, ARRAY_SIZE(types));
	int e = n ? reader_choose(o->r, types, n) : 0;
	const char *type;

	if (e < 0)
		return e;
	type = n ? types[e].type : "";
	e = make_modules(o);
	for (size_t i = 0; i < q->n_resource_profiles && e == 0; i++) {
		e = set_resource(o, q->resource_profiles[i]);
		for (size_t k = 0; k < q->resource_profiles[i]->n_scope_profiles && e == 0; k++)
			for (size_t m = 0;
			     m < q->resource_profiles[i]->scope_profiles[k]->n_profiles && e == 0; m++)
				e = read_profile(o, q->resource_profiles[i]->scope_profiles[k]->profiles[m],
						 type);
	}
	return e;
}

int read_otlp(struct reader *r)
{
	ProtobufCAllocator allocator = reader_allocator(r);
	struct otlp o = {.r = r};
	const request *q = unpack(&allocator, r->n, r->bytes);
	int e;

	if (!q)
		return reader_out_of_room(r) ?: -ENODATA;
	if (!q->dictionary || !q->dictionary->n_string_table || *q->dictionary->string_table[0])
		return -ENODATA;
	o.d = q->dictionary;
	r->info->format = "OTLP";
	e = read_request(&o, q);
	free(o.modules);
	return e;
}
