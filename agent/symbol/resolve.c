// SPDX-License-Identifier: Apache-2.0
/*
 * Every file is in `by_use`, the one asked for last at the end, and in `queue` while it has collected
 * addresses and no job. The byte budget is kept by sweeps from the least recently used file on: a sweep
 * gives up the ranges that were not asked for since the sweep before (second chance), so that the hot
 * functions of a big file survive its cold ones.
 */
#include "agent/symbol/resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/symbol/resolve_private.h"

static void link_init(struct symbol_link *head)
{
	head->prev = head->next = head;
}

void symbol_link_remove(struct symbol_link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

void symbol_link_append(struct symbol_link *head, struct symbol_link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static bool file_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct symbol_file, node)->id == *(const uint32_t *)key;
}

struct symbol_file *symbol_cache_file(const struct symbol_cache *c, uint32_t id)
{
	struct map_node *node = map_find(&c->files, hash_u64(id), file_is, &id);

	return node ? container_of(node, struct symbol_file, node) : NULL;
}

static int add_file(struct symbol_cache *c, uint32_t id, struct symbol_file **ret)
{
	_cleanup_free_ struct symbol_file *f = calloc(1, sizeof *f);
	int r;

	if (!f)
		return -ENOMEM;
	f->id = id;
	r = map_insert(&c->files, &f->node, hash_u64(id));
	if (r < 0)
		return r;
	symbol_link_append(&c->by_use, &f->by_use);
	*ret = TAKE_PTR(f);
	return 0;
}

/* What changes with the ranges of a file; called with both signs around every change. */
void symbol_cache_account(struct symbol_cache *c, const struct symbol_file *f, bool add)
{
	size_t bytes = 0;

	for (size_t i = 0; i < f->ranges.n; i++)
		bytes += symbol_range_bytes(&f->ranges.v[i]);
	c->stats.bytes += add ? bytes : -bytes;
	c->stats.n_ranges += add ? f->ranges.n : -f->ranges.n;
}

static void forget(struct symbol_cache *c, struct symbol_file *f)
{
	symbol_cache_account(c, f, false);
	c->stats.n_wanted -= f->n_wanted;
	map_remove(&c->files, &f->node);
	symbol_link_remove(&f->by_use);
	symbol_link_remove(&f->queue);
	symbol_ranges_fini(&f->ranges);
	free(f->wanted);
	free(f);
}

int symbol_cache_new(struct symbol_cache **ret, size_t max_bytes)
{
	struct symbol_cache *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	map_init(&c->files, SYMBOL_FILES_MAX);
	link_init(&c->by_use);
	link_init(&c->queue);
	c->max_bytes = max_bytes;
	*ret = c;
	return 0;
}

void symbol_cache_free(struct symbol_cache *c)
{
	if (!c)
		return;
	while (c->by_use.next != &c->by_use)
		forget(c, container_of(c->by_use.next, struct symbol_file, by_use));
	map_fini(&c->files);
	free(c);
}

void symbol_cache_touch(struct symbol_cache *c, struct symbol_file *f)
{
	symbol_link_remove(&f->by_use);
	symbol_link_append(&c->by_use, &f->by_use);
}

bool symbol_cache_find(struct symbol_cache *c, uint32_t file_id, uint64_t va, struct symbol_name *ret)
{
	struct symbol_file *f = symbol_cache_file(c, file_id);
	struct symbol_range *x = f ? symbol_ranges_find(&f->ranges, va) : NULL;

	if (!x)
		return false;
	x->used = true;
	symbol_cache_touch(c, f);
	ret->function = x->names;
	ret->system_name = x->system_name_at ? x->names + x->system_name_at : NULL;
	ret->lines = x->lines;
	ret->n_lines = x->n_lines;
	ret->unnamed = x->unnamed;
	ret->start = x->start;
	ret->end = x->end;
	return true;
}

static int wanted_insert(struct symbol_cache *c, struct symbol_file *f, uint64_t va)
{
	size_t at = array_first_from(f->wanted, f->n_wanted, va);

	if (at < f->n_wanted && f->wanted[at] == va)
		return 0;
	if (f->n_wanted >= SYMBOL_WANTED_PER_FILE || c->stats.n_wanted >= SYMBOL_WANTED_MAX)
		return -ENOSPC;
	if (array_reserve(&f->wanted, &f->cap_wanted, f->n_wanted + 1, sizeof *f->wanted) < 0)
		return -ENOMEM;
	memmove(f->wanted + at + 1, f->wanted + at, (f->n_wanted - at) * sizeof *f->wanted);
	f->wanted[at] = va;
	f->n_wanted++;
	c->stats.n_wanted++;
	if (!f->queue.next && !f->job_serial)
		symbol_link_append(&c->queue, &f->queue);
	return 0;
}

int symbol_cache_want(struct symbol_cache *c, uint32_t file_id, uint64_t va)
{
	struct symbol_file *f = symbol_cache_file(c, file_id);
	int r = va == UINT64_MAX ? -ENOSPC : 0; /* a range that holds it has no end */

	if (r >= 0 && !f)
		r = add_file(c, file_id, &f);
	if (r >= 0)
		r = wanted_insert(c, f, va);
	if (r < 0)
		c->stats.n_dropped++;
	return r;
}

bool symbol_cache_next_wanted(const struct symbol_cache *c, uint32_t *ret_file_id)
{
	if (c->queue.next == &c->queue)
		return false;
	*ret_file_id = container_of(c->queue.next, struct symbol_file, queue)->id;
	return true;
}

/* Frees the ranges of `f` that were not asked for since the last sweep. */
static void sweep(struct symbol_cache *c, struct symbol_file *f)
{
	size_t n = 0;

	symbol_cache_account(c, f, false);
	for (size_t i = 0; i < f->ranges.n; i++) {
		struct symbol_range *x = &f->ranges.v[i];

		if (x->used) {
			x->used = false;
			f->ranges.v[n++] = *x;
		} else {
			symbol_range_fini(x);
			c->stats.n_evicted++;
		}
	}
	symbol_ranges_truncate(&f->ranges, n);
	symbol_cache_account(c, f, true);
	if (!n && !f->n_wanted && !f->job_serial)
		forget(c, f);
}

/* Twice around: the first time takes the second chance away from ranges in use. */
void symbol_cache_keep_budget(struct symbol_cache *c)
{
	for (int round = 0; round < 2; round++)
		for (struct symbol_link *l = c->by_use.next, *next; l != &c->by_use; l = next) {
			next = l->next;
			if (c->stats.bytes <= c->max_bytes)
				return;
			sweep(c, container_of(l, struct symbol_file, by_use));
		}
}

void symbol_cache_forget(struct symbol_cache *c, uint32_t file_id)
{
	struct symbol_file *f = symbol_cache_file(c, file_id);

	if (f)
		forget(c, f);
}

void symbol_cache_get_stats(const struct symbol_cache *c, struct symbol_cache_stats *ret)
{
	*ret = c->stats;
	ret->n_files = c->files.len;
}
