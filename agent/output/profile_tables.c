// SPDX-License-Identifier: Apache-2.0
/* The tables of a profile: strings, modules, functions and locations, each stored once. */
#include "agent/output/profile_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/display_text.h"

void output_table_init(struct output_table *t, size_t max_entries)
{
	*t = (struct output_table){0};
	map_init(&t->map, max_entries);
}

void output_table_fini(struct output_table *t)
{
	for (size_t i = 1; i <= t->map.len; i++)
		free(t->entries[i]);
	free(t->entries);
	t->entries = NULL;
	t->cap = 0;
	map_fini(&t->map);
}

struct output_entry *output_table_find(const struct output_table *t, uint64_t hash, map_eq_fn eq,
				       const void *key)
{
	struct map_node *n = map_find(&t->map, hash, eq, key);

	return n ? container_of(n, struct output_entry, node) : NULL;
}

int output_table_add(struct output_table *t, struct output_entry *e, uint64_t hash)
{
	size_t id = t->map.len + 1;
	int r;

	if (array_reserve(&t->entries, &t->cap, id + 1, sizeof(struct output_entry *)) < 0)
		return -ENOMEM;
	t->entries[0] = NULL;
	r = map_insert(&t->map, &e->node, hash);
	if (r < 0)
		return r;
	e->id = (uint32_t)id;
	t->entries[id] = e;
	return 0;
}

static const struct output_entry *entry_of(const struct output_table *t, uint32_t id)
{
	return id && id <= t->map.len ? t->entries[id] : NULL;
}

const char *output_string_text(const struct output_profile *p, uint32_t id)
{
	const struct output_entry *e = entry_of(&p->strings, id);

	return e ? ((const struct output_string *)e)->text : "";
}

const struct output_module *output_module_of(const struct output_profile *p, uint32_t id)
{
	return (const struct output_module *)entry_of(&p->modules, id);
}

const struct output_function *output_function_of(const struct output_profile *p, uint32_t id)
{
	return (const struct output_function *)entry_of(&p->functions, id);
}

const char *output_function_origin(const struct output_profile *p, const struct output_function *f)
{
	const struct output_module *m = output_module_of(p, f->module);

	if (m)
		return output_string_text(p, m->name);
	if (f->runtime && f->file)
		return output_text_file(output_string_text(p, f->file));
	return output_string_text(p, f->runtime);
}

const struct output_location *output_location_of(const struct output_profile *p, uint32_t id)
{
	return (const struct output_location *)entry_of(&p->locations, id);
}

const struct output_group *output_group_of(const struct output_profile *p, uint32_t id)
{
	return (const struct output_group *)entry_of(&p->groups, id);
}

static bool string_is(const struct map_node *node, const void *key)
{
	return !strcmp(container_of(node, struct output_string, entry.node)->text, key);
}

int output_intern_string(struct output_profile *p, const char *s, uint32_t *ret_id)
{
	_cleanup_free_ struct output_string *new = NULL;
	struct output_entry *e;
	const char *text;
	uint64_t hash;
	size_t len;
	int r;

	if (!s || !*s) {
		*ret_id = 0;
		return 0;
	}
	buf_clear(&p->scratch);
	r = output_text_clean(&p->scratch, s, OUTPUT_MAX_NAME);
	if (r < 0)
		return r;
	len = p->scratch.len;
	text = buf_str(&p->scratch);
	hash = hash_bytes(text, len);
	e = output_table_find(&p->strings, hash, string_is, text);
	if (!e) {
		if (p->string_bytes + len > p->info.max_string_bytes)
			return -ENOSPC;
		new = calloc(1, sizeof *new + len + 1);
		if (!new)
			return -ENOMEM;
		memcpy(new->text, text, len);
		r = output_table_add(&p->strings, &new->entry, hash);
		if (r < 0)
			return r;
		p->string_bytes += len;
		e = &TAKE_PTR(new)->entry;
	}
	*ret_id = e->id;
	return 0;
}

static bool module_is(const struct map_node *node, const void *key)
{
	const struct output_module *a = container_of(node, struct output_module, entry.node), *b = key;

	return a->path == b->path && a->build_id == b->build_id && a->start == b->start &&
	       a->file_offset == b->file_offset;
}

static int intern_module(struct output_profile *p, const struct frame_module *m, uint32_t *ret_id)
{
	const char *build_id = m->build_id_gnu	? m->build_id_gnu
			       : m->build_id_go ? m->build_id_go
						: m->htlhash;
	struct output_module key = {
		.start = m->start, .limit = m->limit, .file_offset = m->file_offset, .go = m->go};
	_cleanup_free_ struct output_module *new = NULL;
	struct output_entry *e;
	uint64_t hash;
	int r;

	r = output_intern_string(p, m->path, &key.path);
	if (r == 0)
		r = output_intern_string(p, m->name, &key.name);
	if (r == 0)
		r = output_intern_string(p, build_id, &key.build_id);
	if (r < 0)
		return r;
	hash = hash_u64(key.start ^ hash_u64((uint64_t)key.path << 32 | key.build_id));
	e = output_table_find(&p->modules, hash, module_is, &key);
	if (!e) {
		new = malloc(sizeof *new);
		if (!new)
			return -ENOMEM;
		*new = key;
		r = output_table_add(&p->modules, &new->entry, hash);
		if (r < 0)
			return r;
		e = &TAKE_PTR(new)->entry;
	}
	*ret_id = e->id;
	return 0;
}

static bool function_is(const struct map_node *node, const void *key)
{
	const struct output_function *a = container_of(node, struct output_function, entry.node), *b = key;

	if (a->name != b->name || a->module != b->module || a->kind != b->kind || a->runtime != b->runtime)
		return false;
	return !a->runtime || (a->file == b->file && a->start_line == b->start_line);
}

static int name_frame(struct output_profile *p, const struct frame *frame, struct output_function *f)
{
	char offset[32];
	_cleanup_buf_ struct buf name = {.max = OUTPUT_MAX_NAME + sizeof offset};
	int r = 0;

	f->named = frame->function && *frame->function;
	if (f->named)
		return output_intern_string(p, frame->function, &f->name);
	if (frame->kind == FRAME_ENDING)
		return output_intern_string(p, "[truncated]", &f->name);
	snprintf(offset, sizeof offset, "%s0x%" PRIx64, frame->module ? "+" : "",
		 frame_unnamed_offset(frame));
	/* a module's name can be very long; it is cut rather than the offset */
	if (frame->module)
		r = output_text_clean(&name, frame->module->name, OUTPUT_MAX_NAME - sizeof offset);
	if (r == 0)
		r = buf_puts(&name, offset);
	return r < 0 ? r : output_intern_string(p, buf_str(&name), &f->name);
}

/* The source of a function may be known of later frames only. */
static void complete_function(struct output_function *f, const struct output_function *later)
{
	if (f->start_line || !later->start_line)
		return;
	f->file = later->file;
	f->start_line = later->start_line;
}

static int intern_function(struct output_profile *p, const struct frame *frame, uint32_t *ret_id)
{
	struct output_function key = {.kind = frame->kind, .start_line = frame->start_line};
	_cleanup_free_ struct output_function *new = NULL;
	struct output_entry *e;
	uint64_t hash;
	int r = 0;

	if (frame->module)
		r = intern_module(p, frame->module, &key.module);
	if (r == 0)
		r = output_intern_string(p, frame->system_name, &key.system_name);
	if (r == 0)
		r = name_frame(p, frame, &key);
	if (r == 0 && frame->n_lines)
		r = output_intern_string(p, frame->lines->file, &key.file);
	if (r == 0)
		r = output_intern_string(p, frame->runtime, &key.runtime);
	if (r < 0)
		return r;
	hash = hash_u64(((uint64_t)key.name << 32 | key.module) + key.kind);
	if (key.runtime)
		hash = hash_u64(hash ^ ((uint64_t)key.file << 32 | key.start_line));
	e = output_table_find(&p->functions, hash, function_is, &key);
	if (!e) {
		new = malloc(sizeof *new);
		if (!new)
			return -ENOMEM;
		*new = key;
		r = output_table_add(&p->functions, &new->entry, hash);
		if (r < 0)
			return r;
		e = &TAKE_PTR(new)->entry;
	}
	complete_function((struct output_function *)e, &key);
	*ret_id = e->id;
	return 0;
}

static bool location_is(const struct map_node *node, const void *key)
{
	const struct output_location *a = container_of(node, struct output_location, entry.node), *b = key;

	return a->function == b->function && a->address == b->address && a->line == b->line;
}

int output_intern_frame(struct output_profile *p, const struct frame *frame, uint32_t *ret_location_id)
{
	struct output_location key = {.address = frame->address,
				      .line = frame->n_lines ? frame->lines->line : 0};
	_cleanup_free_ struct output_location *new = NULL;
	struct output_entry *e;
	uint64_t hash;
	int r;

	r = intern_function(p, frame, &key.function);
	if (r < 0)
		return r;
	hash = hash_u64(key.address ^ hash_u64((uint64_t)key.line << 32 | key.function));
	e = output_table_find(&p->locations, hash, location_is, &key);
	if (!e) {
		new = malloc(sizeof *new);
		if (!new)
			return -ENOMEM;
		*new = key;
		r = output_table_add(&p->locations, &new->entry, hash);
		if (r < 0)
			return r;
		e = &TAKE_PTR(new)->entry;
	}
	*ret_location_id = e->id;
	return 0;
}
