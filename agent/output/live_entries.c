// SPDX-License-Identifier: Apache-2.0
/* Functions, processes and cells: found by their texts, created when missing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/display_text.h"
#include "agent/output/live_private.h"

/* Appends a text and its NUL to the key. */
static int key_add(struct output_live *l, const char *s)
{
	int r = s ? output_text_clean(&l->key, s, OUTPUT_LIVE_MAX_NAME) : 0;

	return r < 0 ? r : buf_putc(&l->key, '\0');
}

static bool function_is(const struct map_node *node, const void *key)
{
	const struct live_function *f = container_of(node, struct live_function, entry.node);
	const struct buf *b = key;

	return f->len == b->len && !memcmp(f->name, b->data, b->len);
}

static struct live_function *function_new(const struct buf *key, enum frame_kind kind)
{
	struct live_function *f = calloc(1, sizeof *f + key->len);

	if (!f)
		return NULL;
	memcpy(f->name, key->data, key->len);
	f->len = key->len;
	f->module = f->name + strlen(f->name) + 1;
	f->kind = kind;
	return f;
}

/* Frames without a name share one row per module: single addresses are too many and mean little. */
static void describe(const struct frame *f, char ret[static OUTPUT_LIVE_MAX_NAME])
{
	if (f->kind == FRAME_ENDING)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[truncated]");
	else if (f->module && f->unnamed_start)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "%.*s+0x%" PRIx64, OUTPUT_LIVE_MAX_NAME - 24,
			 f->module->name, f->unnamed_start);
	else if (f->module)
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[no name in %s]", f->module->name);
	else
		snprintf(ret, OUTPUT_LIVE_MAX_NAME, "[code of no file]");
}

/* Functions of a language runtime are in a source file; other code made at run time belongs to no file. */
static const char *module_of(const struct frame *f)
{
	if (f->module)
		return f->module->name;
	return f->runtime && f->n_lines && *f->lines->file ? output_text_file(f->lines->file) : f->runtime;
}

static int function_key(struct output_live *l, const char *name, const char *module)
{
	int r;

	buf_clear(&l->key);
	r = key_add(l, name);
	return r < 0 ? r : key_add(l, module);
}

struct live_function *live_function_of(struct output_live *l, const struct frame *frame)
{
	bool named = frame->function && *frame->function;
	char unnamed[OUTPUT_LIVE_MAX_NAME];
	struct live_function *f;
	struct map_node *n;
	uint64_t hash;

	if (!named)
		describe(frame, unnamed);
	if (function_key(l, named ? frame->function : unnamed, module_of(frame)) < 0)
		return l->other_function;
	hash = hash_bytes(l->key.data, l->key.len);
	n = map_find(&l->functions, hash, function_is, &l->key);
	if (n)
		return container_of(n, struct live_function, entry.node);
	f = function_new(&l->key, frame->kind);
	if (!f || map_insert(&l->functions, &f->entry.node, hash) < 0) {
		free(f);
		return l->other_function;
	}
	return f;
}

struct live_function *live_function_find(struct output_live *l, const char *name, const char *module)
{
	struct map_node *n;

	buf_clear(&l->key);
	if (buf_append(&l->key, name, strlen(name) + 1) < 0 ||
	    buf_append(&l->key, module, strlen(module) + 1) < 0)
		return NULL;
	if (function_is(&l->other_function->entry.node, &l->key))
		return l->other_function;
	n = map_find(&l->functions, hash_bytes(l->key.data, l->key.len), function_is, &l->key);
	return n ? container_of(n, struct live_function, entry.node) : NULL;
}

struct process_key {
	uint32_t pid;
	const struct buf *texts;
};

static bool process_is(const struct map_node *node, const void *key)
{
	const struct live_process *p = container_of(node, struct live_process, entry.node);
	const struct process_key *k = key;

	return p->pid == k->pid && p->len == k->texts->len && !memcmp(p->comm, k->texts->data, p->len);
}

static struct live_process *process_new(const struct process_key *k)
{
	struct live_process *p = calloc(1, sizeof *p + k->texts->len);

	if (!p)
		return NULL;
	memcpy(p->comm, k->texts->data, k->texts->len);
	p->len = k->texts->len;
	p->pid = k->pid;
	p->container = p->comm + strlen(p->comm) + 1;
	p->container_name = p->container + strlen(p->container) + 1;
	return p;
}

static int process_key(struct output_live *l, const char *comm, const struct output_stack *s)
{
	int r;

	buf_clear(&l->key);
	r = key_add(l, comm && *comm ? comm : "[unknown]");
	if (r == 0)
		r = key_add(l, s->container);
	return r < 0 ? r : key_add(l, s->container_name);
}

struct live_process *live_process_of(struct output_live *l, const struct output_stack *s)
{
	const struct process_key key = {s->pid, &l->key};
	struct live_process *p;
	struct map_node *n;
	uint64_t hash;

	if (process_key(l, s->process, s) < 0)
		return l->other_process;
	hash = hash_u64(hash_bytes(l->key.data, l->key.len) ^ s->pid);
	n = map_find(&l->processes, hash, process_is, &key);
	if (n)
		return container_of(n, struct live_process, entry.node);
	p = process_new(&key);
	if (!p || map_insert(&l->processes, &p->entry.node, hash) < 0) {
		free(p);
		return l->other_process;
	}
	return p;
}

static bool cell_is(const struct map_node *node, const void *key)
{
	const struct live_cell *c = container_of(node, struct live_cell, entry.node), *k = key;

	return c->function == k->function && c->process == k->process;
}

struct live_cell *live_cell_of(struct output_live *l, struct live_process *p, struct live_function *f)
{
	const struct live_cell key = {.function = f, .process = p};
	uint64_t hash = hash_u64((uintptr_t)p ^ hash_u64((uintptr_t)f));
	struct map_node *n = map_find(&l->cells, hash, cell_is, &key);
	struct live_cell *c;

	if (n)
		return container_of(n, struct live_cell, entry.node);
	c = malloc(sizeof *c);
	if (!c)
		return NULL;
	*c = key;
	if (map_insert(&l->cells, &c->entry.node, hash) < 0) {
		free(c);
		return NULL;
	}
	p->entry.n_cells++;
	f->entry.n_cells++;
	return c;
}

static int make_other(struct output_live *l)
{
	const struct process_key key = {0, &l->key};
	int r = function_key(l, "[other]", NULL);

	if (r == 0)
		l->other_function = function_new(&l->key, FRAME_ENDING);
	if (r == 0)
		r = process_key(l, "[other]", &(struct output_stack){0});
	if (r == 0)
		l->other_process = process_new(&key);
	return r < 0 || !l->other_function || !l->other_process ? -ENOMEM : 0;
}

int live_store_init(struct output_live *l, const struct output_live_options *o)
{
	map_init(&l->functions, o->max_functions ? o->max_functions : OUTPUT_LIVE_MAX_FUNCTIONS);
	map_init(&l->processes, o->max_processes ? o->max_processes : OUTPUT_LIVE_MAX_PROCESSES);
	map_init(&l->cells, o->max_cells ? o->max_cells : OUTPUT_LIVE_MAX_CELLS);
	map_init(&l->frames, SIZE_MAX); /* their bytes have a maximum */
	l->max_kept_bytes = o->max_kept_bytes ? o->max_kept_bytes : OUTPUT_LIVE_MAX_KEPT_BYTES;
	return make_other(l);
}

void live_store_fini(struct output_live *l)
{
	struct map_node *n;

	map_for_each (&l->cells, n, i)
		free(container_of(n, struct live_cell, entry.node));
	map_for_each (&l->functions, n, i)
		free(container_of(n, struct live_function, entry.node));
	map_for_each (&l->processes, n, i)
		free(container_of(n, struct live_process, entry.node));
	map_fini(&l->frames);
	map_fini(&l->cells);
	map_fini(&l->functions);
	map_fini(&l->processes);
	free(l->other_function);
	free(l->other_process);
	buf_fini(&l->key);
}
