// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/symbol/jittable_private.h"

DEFINE_CLEANUP(struct jit_table *, jit_table_free)

void jit_builder_init(struct jit_builder *b)
{
	*b = (struct jit_builder){0};
	buf_init(&b->names, 2 * JIT_PENDING_NAMES_MAX); /* moved code brings its name again */
	;
}

void jit_builder_fini(struct jit_builder *b)
{
	free(b->v);
	buf_fini(&b->names);
	jit_builder_init(b);
}

static int entry_push(struct jit_builder *b, struct jit_entry e)
{
	if (array_reserve(&b->v, &b->cap, b->n + 1, sizeof *b->v) < 0)
		return -ENOMEM;
	e.order = (uint32_t)b->n;
	b->v[b->n++] = e;
	return 0;
}

static bool range_valid(uint64_t start, uint64_t size)
{
	return start && size && size <= JIT_CODE_MAX && start < JIT_ADDRESS_MAX &&
	       size <= JIT_ADDRESS_MAX - start;
}

int jit_builder_add(struct jit_builder *b, uint64_t start, uint64_t size, const char *name, size_t len)
{
	struct jit_entry e = {.start = start, .end = start + size, .name = (uint32_t)b->names.len};
	int r;

	len = strnlen(name, len < JIT_NAME_MAX ? len : JIT_NAME_MAX);
	if (!len || !range_valid(start, size))
		return -EINVAL;
	if (b->n == JIT_PENDING_MAX || b->names.len + len + 1 > JIT_PENDING_NAMES_MAX)
		return -ENOSPC;
	r = buf_reserve(&b->names, len + 1);
	if (r == 0)
		r = entry_push(b, e);
	if (r < 0)
		return r;
	(void)buf_append(&b->names, name, len); /* there is room */
	return buf_putc(&b->names, '\0');
}

/* The range that it left has no name, unless the new one covers it. */
int jit_builder_move(struct jit_builder *b, uint64_t from, uint64_t to, uint64_t size)
{
	int r;

	if (!range_valid(from, size) || !range_valid(to, size))
		return -EINVAL;
	if (b->n + 2 > JIT_PENDING_MAX)
		return -ENOSPC;
	r = entry_push(b, (struct jit_entry){.start = from, .end = from + size, .name = JIT_NAME_NONE});
	if (r < 0)
		return r;
	r = entry_push(
		b, (struct jit_entry){.start = to, .end = to + size, .from = from, .name = JIT_NAME_NONE});
	if (r < 0)
		b->n--;
	return r;
}

const struct jit_range *jit_table_range(const struct jit_table *t, uint64_t address)
{
	size_t low = 0, high = t ? t->n : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->v[middle].start + t->v[middle].bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return t && low < t->n && t->v[low].start <= address ? &t->v[low] : NULL;
}

/* Appends an entry with its name; there is room for both. */
static void table_push(struct jit_table *t, uint64_t start, uint64_t end, const char *name)
{
	size_t len = strlen(name) + 1;

	t->v[t->n++] = (struct jit_range){start, (uint32_t)(end - start), (uint32_t)t->names_bytes};
	memcpy(t->names + t->names_bytes, name, len);
	t->names_bytes += len;
}

/* Which entries of the old table stay. */
struct kept {
	bool *keep; /* owned; by index */
	size_t n, names_bytes;
};

static void kept_fini(struct kept *k)
{
	free(k->keep);
}

static int kept_find(struct kept *k, const struct jit_table *old, const struct jit_covered *covered)
{
	size_t at = 0;

	k->keep = calloc(old ? old->n + 1 : 1, sizeof *k->keep);
	if (!k->keep)
		return -ENOMEM;
	for (size_t i = 0; old && i < old->n; i++) {
		const struct jit_range *x = &old->v[i];

		while (at < covered->n && covered->v[at].end <= x->start)
			at++;
		if (at < covered->n && covered->v[at].start < x->start + x->bytes)
			continue;
		k->keep[i] = true;
		k->n++;
		k->names_bytes += strlen(old->names + x->name) + 1;
	}
	return 0;
}

/* Gives up entries until the others and the new ones are within the maximum. */
static void kept_cut(struct kept *k, const struct jit_table *old, size_t n, size_t names_bytes,
		     uint64_t *n_cut)
{
	for (size_t i = 0; old && i < old->n; i++) {
		if (k->n + n <= JIT_SYMBOLS_MAX && k->names_bytes + names_bytes <= JIT_NAMES_MAX)
			return;
		if (!k->keep[i])
			continue;
		k->keep[i] = false;
		k->n--;
		k->names_bytes -= strlen(old->names + old->v[i].name) + 1;
		(*n_cut)++;
	}
}

static int table_alloc(struct jit_table **ret, size_t n, size_t names_bytes)
{
	_cleanup_(jit_table_free_p) struct jit_table *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->v = malloc((n + 1) * sizeof *t->v);
	t->names = malloc(names_bytes + 1);
	if (!t->v || !t->names)
		return -ENOMEM;
	*ret = TAKE_PTR(t);
	return 0;
}

static void merge(struct jit_table *t, const struct jit_table *old, const bool *keep,
		  const struct jit_builder *b)
{
	size_t i = 0, j = 0, n_old = old ? old->n : 0;

	while (i < n_old || j < b->n) {
		if (i < n_old && !keep[i]) {
			i++;
		} else if (j == b->n || (i < n_old && old->v[i].start < b->v[j].start)) {
			const struct jit_range *x = &old->v[i++];

			table_push(t, x->start, x->start + x->bytes, old->names + x->name);
		} else {
			const struct jit_entry *e = &b->v[j++];

			table_push(t, e->start, e->end, (const char *)b->names.data + e->name);
		}
	}
}

static void covered_fini(struct jit_covered *c)
{
	free(c->v);
}

int jit_table_new(struct jit_table **ret, const struct jit_table *old, struct jit_builder *b, uint64_t *n_cut)
{
	_cleanup_(covered_fini) struct jit_covered covered = {0};
	_cleanup_(kept_fini) struct kept kept = {0};
	size_t names_bytes = 0;
	int r = jit_builder_sort(b, old, &covered);

	for (size_t j = 0; j < b->n && r == 0; j++)
		names_bytes += strlen((const char *)b->names.data + b->v[j].name) + 1;
	if (r == 0)
		r = kept_find(&kept, old, &covered);
	if (r < 0)
		return r;
	kept_cut(&kept, old, b->n, names_bytes, n_cut);
	r = table_alloc(ret, kept.n + b->n, kept.names_bytes + names_bytes);
	if (r < 0)
		return r;
	merge(*ret, old, kept.keep, b);
	jit_builder_fini(b);
	return 0;
}

void jit_table_free(struct jit_table *t)
{
	if (!t)
		return;
	free(t->v);
	free(t->names);
	free(t);
}

bool jit_table_find(const struct jit_table *t, uint64_t address, struct jit_symbol *ret)
{
	const struct jit_range *x = jit_table_range(t, address);

	if (!x)
		return false;
	*ret = (struct jit_symbol){t->names + x->name, x->start, x->start + x->bytes};
	return true;
}

size_t jit_table_len(const struct jit_table *t)
{
	return t ? t->n : 0;
}

size_t jit_table_bytes(const struct jit_table *t)
{
	return t ? sizeof *t + t->n * sizeof *t->v + t->names_bytes : 0;
}
