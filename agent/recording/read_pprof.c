// SPDX-License-Identifier: Apache-2.0
/*
 * pprof: messages refer to each other by ids, which may be any numbers, and to strings by index. All of them
 * are checked when they are used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/recording/reader.h"
#include "pprof.pb-c.h"

#define PERIOD_MAX_NS (3600ull * 1000000000)

/* Messages in the order of their ids. */
struct by_id {
	void **v; /* owned; the messages are the pool's */
	size_t n;
};

struct pprof {
	struct reader *r;
	const Pprof__Profile *p;
	struct by_id functions, locations, mappings;
	struct frame_module *modules; /* of the mappings, in their order; owned */
	size_t value;		      /* index of the values that are wanted */
	const char *program;	      /* process of samples without a label */
};

static void pprof_fini(struct pprof *o)
{
	free(o->functions.v);
	free(o->locations.v);
	free(o->mappings.v);
	free(o->modules);
}

/* The id, which is the first field of each of these messages. */
static uint64_t id_of(const void *message)
{
	uint64_t id;

	memcpy(&id, (const char *)message + offsetof(Pprof__Function, id), sizeof id);
	return id;
}

_Static_assert(offsetof(Pprof__Location, id) == offsetof(Pprof__Function, id), "id_of");
_Static_assert(offsetof(Pprof__Mapping, id) == offsetof(Pprof__Function, id), "id_of");

static int compare_ids(const void *a, const void *b)
{
	const uint64_t x = id_of(*(void *const *)a), y = id_of(*(void *const *)b);

	return (x > y) - (x < y);
}

static int sort_ids(struct by_id *t, void *messages, size_t n)
{
	t->v = calloc(n + 1, sizeof(void *));
	if (!t->v)
		return -ENOMEM;
	if (n)
		memcpy(t->v, messages, n * sizeof(void *));
	t->n = n;
	qsort(t->v, n, sizeof(void *), compare_ids);
	return 0;
}

/* Index in the table; t->n: there is none. */
static size_t find(const struct by_id *t, uint64_t id)
{
	const size_t i = array_first(t->n, k, id_of(t->v[k]) >= id);

	return i < t->n && id_of(t->v[i]) == id ? i : t->n;
}

/* A string by its index; NULL: there is none. */
static const char *text_of(const struct pprof *o, int64_t index)
{
	return index >= 0 && (uint64_t)index < o->p->n_string_table ? o->p->string_table[index] : NULL;
}

static const char *text(const struct pprof *o, int64_t index)
{
	return text_of(o, index) ?: "";
}

/* --- what the recording was */

static int choose(struct pprof *o)
{
	const size_t n = o->p->n_sample_type;
	_cleanup_free_ struct value_type *types = calloc(n + 1, sizeof *types);
	int e;

	if (!types)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		types[i] = (struct value_type){text(o, o->p->sample_type[i]->type),
					       text(o, o->p->sample_type[i]->unit)};
	e = reader_choose(o->r, types, n);
	if (e >= 0)
		o->value = (size_t)e;
	return e < 0 ? e : 0;
}

/* Comments of this project's files. */
static int note_comment(struct recording_info *info, const char *comment)
{
	if (strncmp(comment, "host: ", 6) == 0)
		return reader_note(&info->hostname, comment + 6);
	if (strncmp(comment, "command: ", 9) == 0)
		return reader_note(&info->command, comment + 9);
	if (strncmp(comment, "proflet ", 8) == 0)
		return reader_note(&info->version, comment + 8);
	return 0;
}

static int note_info(struct pprof *o)
{
	struct recording_info *info = o->r->info;
	const Pprof__ValueType *type = o->p->period_type;
	int e = 0;

	info->start_unix_ns = o->p->time_nanos > 0 ? (uint64_t)o->p->time_nanos : 0;
	info->duration_ns = o->p->duration_nanos > 0 ? (uint64_t)o->p->duration_nanos : 0;
	if (type && strcmp(text(o, type->type), "cpu") == 0 &&
	    strcmp(text(o, type->unit), "nanoseconds") == 0 && o->p->period > 0 &&
	    (uint64_t)o->p->period < PERIOD_MAX_NS)
		info->period_ns = (uint64_t)o->p->period;
	for (size_t i = 0; i < o->p->n_comment && e == 0; i++)
		e = note_comment(info, text(o, o->p->comment[i]));
	return e;
}

static int make_modules(struct pprof *o)
{
	o->modules = calloc(o->mappings.n + 1, sizeof *o->modules);
	if (!o->modules)
		return -ENOMEM;
	for (size_t i = 0; i < o->mappings.n; i++) {
		const Pprof__Mapping *m = o->mappings.v[i];
		const char *path = text(o, m->filename), *build_id = text(o, m->build_id);

		o->modules[i] = (struct frame_module){.id = (uint32_t)i + 1,
						      .path = path,
						      .name = last_component(path),
						      .build_id_gnu = *build_id ? build_id : NULL,
						      .start = m->memory_start,
						      .limit = m->memory_limit,
						      .file_offset = m->file_offset};
	}
	/* the first mapping is the program */
	if (o->p->n_mapping && *text(o, o->p->mapping[0]->filename))
		o->program = last_component(text(o, o->p->mapping[0]->filename));
	return 0;
}

/* --- stacks */

/* A line as other writers encode it; 0: unknown, or not a line. */
static uint32_t line_number(int64_t value)
{
	return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0;
}

/* Adds the lines of a location, innermost first, to the reader's. */
static int add_lines(struct pprof *o, const Pprof__Location *l, const Pprof__Function **ret_outer)
{
	*ret_outer = NULL;
	if (l->n_line > READER_LINES_MAX)
		return reader_bad(o->r, "has a location of more than %u inlined calls", READER_LINES_MAX);
	for (size_t i = 0; i < l->n_line; i++) {
		const size_t at = find(&o->functions, l->line[i]->function_id);
		const Pprof__Function *f;
		struct frame_line line;

		if (at == o->functions.n)
			return reader_bad(o->r, "has a line of a function that it does not have");
		f = o->functions.v[at];
		line = (struct frame_line){.function = text(o, f->name),
					   .file = text(o, f->filename),
					   .line = line_number(l->line[i]->line),
					   .start_line = line_number(f->start_line)};
		*ret_outer = f;
		if (buf_append(&o->r->lines, &line, sizeof line) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The frame without its lines, which have no place yet. */
static void set_frame(struct pprof *o, struct frame *f, const Pprof__Location *l,
		      const Pprof__Function *outer)
{
	const size_t at = find(&o->mappings, l->mapping_id);
	const char *file = outer ? text(o, outer->filename) : "";

	*f = (struct frame){.address = l->address};
	if (at < o->mappings.n && *o->modules[at].path)
		f->module = &o->modules[at];
	if (outer) {
		f->function = text(o, outer->name);
		f->start_line = line_number(outer->start_line);
		if (*text(o, outer->system_name) && strcmp(text(o, outer->system_name), f->function) != 0)
			f->system_name = text(o, outer->system_name);
	}
	if (f->module && is_kernel_module(f->module->path))
		f->kind = FRAME_KERNEL;
	else if (f->function && !f->module && is_ending_name(f->function))
		f->kind = FRAME_ENDING;
	else if (!f->module && !f->address)
		f->runtime = runtime_of_file(file);
}

/* Fills in the frames of the sample. */
static int make_frames(struct pprof *o, const Pprof__Sample *s)
{
	int e = 0;

	buf_clear(&o->r->lines);
	if (s->n_location_id > OUTPUT_MAX_DEPTH)
		return reader_bad(o->r, "has a stack of more than %d frames", OUTPUT_MAX_DEPTH);
	for (size_t i = 0; i < s->n_location_id && e == 0; i++) {
		const size_t at = find(&o->locations, s->location_id[i]);
		const Pprof__Function *outer;

		if (at == o->locations.n)
			return reader_bad(o->r, "has a stack with a location that it does not have");
		e = add_lines(o, o->locations.v[at], &outer);
		if (e == 0)
			set_frame(o, &o->r->frames[i], o->locations.v[at], outer);
		if (e == 0)
			o->r->frames[i].n_lines = ((const Pprof__Location *)o->locations.v[at])->n_line;
	}
	reader_place_lines(o->r, e == 0 ? s->n_location_id : 0);
	return e;
}

static bool is_one_of(const char *key, const char *a, const char *b, const char *c)
{
	return strcmp(key, a) == 0 || strcmp(key, b) == 0 || strcmp(key, c) == 0;
}

/* Labels that this project or others use for what a sample is of. */
static void set_label(const struct pprof *o, struct output_stack *s, const Pprof__Label *l)
{
	const char *key = text(o, l->key), *value = text(o, l->str);

	if (is_one_of(key, "process", "process_name", "comm") && *value)
		s->process = value;
	else if (is_one_of(key, "pid", "process_id", "process.pid") && l->num > 0 && l->num <= UINT32_MAX)
		s->pid = (uint32_t)l->num;
	else if (is_one_of(key, "thread", "thread_name", "thread.name") && *value)
		s->thread = value;
	else if (is_one_of(key, "container.id", "container_id", "containerid") && *value)
		s->container = value;
	else if (is_one_of(key, "container.name", "container_name", "container") && *value)
		s->container_name = value;
}

static int read_sample(struct pprof *o, const Pprof__Sample *s)
{
	struct recording_stack stack = {
		.stack = {.process = o->program, .frames = o->r->frames, .n_frames = s->n_location_id}};
	int e;

	if (o->value >= s->n_value)
		return reader_bad(o->r, "has a sample with fewer values than types");
	if (s->value[o->value] <=
	    0) /* a difference of two recordings may have them; there is no such stack here */
		return 0;
	e = make_frames(o, s);
	if (e < 0)
		return e;
	for (size_t i = 0; i < s->n_label; i++)
		set_label(o, &stack.stack, s->label[i]);
	stack.stack.count = (uint64_t)s->value[o->value];
	stack.stack.complete = !s->n_location_id || o->r->frames[s->n_location_id - 1].kind != FRAME_ENDING;
	return reader_stack(o->r, &stack);
}

static int read_profile(struct pprof *o)
{
	int e = choose(o);

	if (e == 0)
		e = sort_ids(&o->functions, o->p->function, o->p->n_function);
	if (e == 0)
		e = sort_ids(&o->locations, o->p->location, o->p->n_location);
	if (e == 0)
		e = sort_ids(&o->mappings, o->p->mapping, o->p->n_mapping);
	if (e == 0)
		e = make_modules(o);
	if (e == 0)
		e = note_info(o);
	for (size_t i = 0; i < o->p->n_sample && e == 0; i++)
		e = read_sample(o, o->p->sample[i]);
	return e;
}

int read_pprof(struct reader *r)
{
	ProtobufCAllocator allocator = reader_allocator(r);
	_cleanup_(pprof_fini) struct pprof o = {.r = r, .program = "program"};

	o.p = pprof__profile__unpack(&allocator, r->n, r->bytes);
	if (!o.p)
		return reader_out_of_room(r) ?: -ENODATA;
	if (!o.p->n_string_table || *o.p->string_table[0] || !o.p->n_sample_type)
		return -ENODATA;
	r->info->format = "pprof";
	return read_profile(&o);
}
