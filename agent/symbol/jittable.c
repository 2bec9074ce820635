// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jittable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"

#define JIT_NAME_NONE UINT32_MAX

struct jit_entry {
	uint64_t start, end;
	uint64_t from; /* of moved code: its previous start, whose name it gets; 0: the code was not moved */
	uint32_t name; /* offset in the builder's names; JIT_NAME_NONE: the range has no name any more */
	uint32_t order;
};

struct jit_range {
	uint64_t start;
	uint32_t bytes, name;
};

struct jit_table {
	size_t n, names_bytes;
	struct jit_range *v; /* owned; ascending, none overlapping */
	char *names;	     /* owned; each with its NUL */
};

/* Ranges in ascending order that do not touch. */
struct jit_covered {
	struct jit_entry *v; /* owned */
	size_t n;
};

DEFINE_CLEANUP(struct jit_table *, jit_table_free)

void jit_builder_init(struct jit_builder *b)
{
	*b = (struct jit_builder){0};
	buf_init(&b->names, 2ul * JIT_PENDING_NAMES_MAX); /* moved code stores its name a second time */
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
	(void)buf_append(&b->names, name, len); /* cannot fail: there is room */
	return buf_putc(&b->names, '\0');
}

/* The range at `from` has no name afterwards, except where the new range covers it. */
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

/* The range of `t` (NULL: empty) that holds the address, or NULL. Borrowed. */
static const struct jit_range *table_range(const struct jit_table *t, uint64_t address)
{
	size_t n = t ? t->n : 0;
	size_t at = array_first(n, i, t->v[i].start + t->v[i].bytes > address);

	return at < n && t->v[at].start <= address ? &t->v[at] : NULL;
}

/* --- sorting: which entries of a builder go into the table */

/*
 * An entry is valid when no later entry overlaps it, whether or not that one is valid itself. So the entries
 * are visited from the last to the first. The sorted bounds of all ranges divide the addresses into cells,
 * each cell is covered once, and an entry that finds one of its cells covered is invalid. This costs no more
 * than the sorting, however the ranges overlap.
 */

static int by_start(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The last entry that starts at `start` and was added before `order`, or NULL. The entries are sorted. */
static const struct jit_entry *entry_before(const struct jit_builder *b, uint64_t start, uint32_t order)
{
	const struct jit_entry *v = b->v;
	size_t next =
		array_first(b->n, i, v[i].start > start || (v[i].start == start && v[i].order >= order));

	return next && v[next - 1].start == start ? &v[next - 1] : NULL;
}

/*
 * Gives moved code the name of the code at its previous address, if that is among the entries; else the table
 * may have it.
 */
static void name_move(struct jit_builder *b, struct jit_entry *e)
{
	const struct jit_entry *was =
		entry_before(b, e->from, e->order - 1); /* -1: not the entry that clears it */

	if (!was)
		return;
	e->name = was->name;
	e->from = was->name == JIT_NAME_NONE ? was->from : 0;
}

/* The cells, while one table is made. */
struct cover {
	uint64_t *ends; /* bounds of all ranges, ascending, without duplicates */
	uint32_t *next; /* by cell: itself, or a later cell on the way to the next one that is not covered */
	uint32_t *by_order; /* index of the entry */
	bool *out;	    /* by index */
	size_t n_ends;
};

static void cover_fini(struct cover *c)
{
	free(c->ends);
	free(c->next);
	free(c->by_order);
	free(c->out);
}

static int cover_init(struct cover *c, const struct jit_builder *b)
{
	size_t n = 0;

	c->ends = malloc((2 * b->n + 1) * sizeof *c->ends);
	c->next = malloc((2 * b->n + 1) * sizeof *c->next);
	c->by_order = malloc((b->n + 1) * sizeof *c->by_order);
	c->out = calloc(b->n + 1, sizeof *c->out);
	if (!c->ends || !c->next || !c->by_order || !c->out)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++) {
		c->ends[n++] = b->v[i].start;
		c->ends[n++] = b->v[i].end;
		c->by_order[b->v[i].order] = (uint32_t)i;
	}
	qsort(c->ends, n, sizeof *c->ends, by_value);
	for (size_t i = 0; i < n; i++)
		if (!i || c->ends[i] != c->ends[c->n_ends - 1])
			c->ends[c->n_ends++] = c->ends[i];
	for (size_t i = 0; i <= c->n_ends; i++)
		c->next[i] = (uint32_t)i;
	return 0;
}

/* The first cell at or after `i` that is not covered. */
static uint32_t cover_next(struct cover *c, uint32_t i)
{
	while (c->next[i] != i)
		i = c->next[i] = c->next[c->next[i]];
	return i;
}

static uint32_t cell_of(const struct cover *c, uint64_t end)
{
	const uint64_t *found = bsearch(&end, c->ends, c->n_ends, sizeof *c->ends, by_value);

	return (uint32_t)(found - c->ends);
}

/* Covers the cells of a range. True when none of them was covered before. */
static bool cover_take(struct cover *c, uint64_t start, uint64_t end)
{
	uint32_t from = cell_of(c, start), to = cell_of(c, end), free_cells = 0;

	for (uint32_t i = cover_next(c, from); i < to; i = cover_next(c, i)) {
		c->next[i] = i + 1;
		free_cells++;
	}
	return free_cells == to - from;
}

/*
 * Removes the entries that can have no name or that a later one overlaps, and sorts the others by start. *ret
 * receives the ranges of all entries. 0 or -ENOMEM; in both cases the order of the list is lost.
 */
static int builder_sort(struct jit_builder *b, struct jit_covered *ret)
{
	_cleanup_(cover_fini) struct cover c = {0};
	_cleanup_free_ struct jit_entry *covered = malloc((b->n + 1) * sizeof *covered);
	size_t n = 0, k = 0;
	int r;

	if (!covered)
		return -ENOMEM;
	if (b->n)
		qsort(b->v, b->n, sizeof *b->v, by_start);
	r = cover_init(&c, b);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n; i++)
		if (b->v[c.by_order[i]].from)
			name_move(b, &b->v[c.by_order[i]]);
	for (size_t i = b->n; i-- > 0;) {
		const struct jit_entry *e = &b->v[c.by_order[i]];

		c.out[c.by_order[i]] =
			!cover_take(&c, e->start, e->end) || (e->name == JIT_NAME_NONE && !e->from);
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct jit_entry e = b->v[i];

		if (k && e.start <= covered[k - 1].end)
			covered[k - 1].end = e.end > covered[k - 1].end ? e.end : covered[k - 1].end;
		else
			covered[k++] = e;
		if (!c.out[i])
			b->v[n++] = e;
	}
	b->n = n;
	*ret = (struct jit_covered){TAKE_PTR(covered), k};
	return 0;
}

/* --- what a builder's entries change, as flat bytes: a head, changes, covered ranges, names */

struct changes_head {
	uint64_t n, n_covered, names_bytes;
};

/* A range and its name, with a NUL; or none of its own: that of the code that began at `from`. */
struct change {
	uint64_t start, from;
	uint32_t bytes, name_bytes;
};

/* A range in which nothing of the old table remains. */
struct covered {
	uint64_t start, end;
};

_Static_assert(sizeof(struct change) + sizeof(struct covered) <= 40 && sizeof(struct changes_head) <= 32,
	       "JIT_CHANGES_MAX");

static void covered_fini(struct jit_covered *c)
{
	free(c->v);
}

static const char *name_of(const struct jit_builder *b, const struct jit_entry *e)
{
	return (const char *)b->names.data + e->name;
}

static uint32_t name_bytes_of(const struct jit_builder *b, const struct jit_entry *e)
{
	return e->name == JIT_NAME_NONE ? 0 : (uint32_t)strlen(name_of(b, e)) + 1;
}

/* Moved code has its name a second time. */
static void cut_names(struct jit_builder *b, struct changes_head *head, uint64_t *n_cut)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		uint32_t bytes = name_bytes_of(b, &b->v[i]);

		if (head->names_bytes + bytes > JIT_PENDING_NAMES_MAX) {
			(*n_cut)++;
			continue;
		}
		head->names_bytes += bytes;
		b->v[n++] = b->v[i];
	}
	b->n = head->n = n;
}

static int write_changes(const struct jit_builder *b, const struct jit_covered *covered, struct buf *to)
{
	int r = 0;

	for (size_t i = 0; i < b->n && r == 0; i++) {
		const struct jit_entry *e = &b->v[i];
		const struct change c = {.start = e->start,
					 .from = e->name == JIT_NAME_NONE ? e->from : 0,
					 .bytes = (uint32_t)(e->end - e->start),
					 .name_bytes = name_bytes_of(b, e)};

		r = buf_append(to, &c, sizeof c);
	}
	for (size_t i = 0; i < covered->n && r == 0; i++) {
		const struct covered c = {covered->v[i].start, covered->v[i].end};

		r = buf_append(to, &c, sizeof c);
	}
	for (size_t i = 0; i < b->n && r == 0; i++)
		if (b->v[i].name != JIT_NAME_NONE)
			r = buf_append(to, name_of(b, &b->v[i]), name_bytes_of(b, &b->v[i]));
	return r;
}

int jit_builder_write(struct jit_builder *b, struct buf *to, uint64_t *n_cut)
{
	_cleanup_(covered_fini) struct jit_covered covered = {0};
	struct changes_head head = {0};
	int r = builder_sort(b, &covered);

	if (r < 0)
		return r;
	head.n_covered = covered.n;
	cut_names(b, &head, n_cut);
	r = buf_append(to, &head, sizeof head);
	if (r == 0)
		r = write_changes(b, &covered, to);
	jit_builder_fini(b);
	return r;
}

/* The bytes, while they are read: all of it borrowed but the names. */
struct changes {
	struct changes_head head;
	struct change *v;	 /* owned */
	struct covered *covered; /* owned */
	const char *names;	 /* borrowed; one after the other */
};

static void changes_fini(struct changes *c)
{
	free(c->v);
	free(c->covered);
}

static bool covered_valid(const struct changes *c)
{
	uint64_t end = 0;

	for (size_t i = 0; i < c->head.n_covered; i++) {
		const struct covered *x = &c->covered[i];

		if (x->start <= end || x->end <= x->start || x->end > JIT_ADDRESS_MAX)
			return false;
		end = x->end;
	}
	return true;
}

/* Its name, or where to find it. */
static bool name_valid(const struct change *x, const char *name)
{
	if (!x->name_bytes)
		return x->from && x->from < JIT_ADDRESS_MAX;
	return !x->from && x->name_bytes > 1 && memchr(name, 0, x->name_bytes) == name + x->name_bytes - 1;
}

/* In ascending order, apart, within covered ranges, and with names that end. */
static bool changes_valid(const struct changes *c)
{
	uint64_t end = 0, names = 0;
	size_t at = 0;

	if (!covered_valid(c))
		return false;
	for (size_t i = 0; i < c->head.n; i++) {
		const struct change *x = &c->v[i];

		if (!range_valid(x->start, x->bytes) || x->start < end || x->name_bytes > JIT_NAME_MAX + 1 ||
		    x->name_bytes > c->head.names_bytes - names || !name_valid(x, c->names + names))
			return false;
		end = x->start + x->bytes;
		names += x->name_bytes;
		while (at < c->head.n_covered && c->covered[at].end <= x->start)
			at++;
		if (at == c->head.n_covered || x->start < c->covered[at].start || end > c->covered[at].end)
			return false;
	}
	return names == c->head.names_bytes;
}

static int changes_read(struct changes *c, const void *bytes, size_t len)
{
	struct flat_reader r = flat_read(bytes, len);

	flat_get(&r, &c->head, sizeof c->head);
	if (c->head.n > JIT_PENDING_MAX || c->head.n_covered > JIT_PENDING_MAX ||
	    c->head.names_bytes > JIT_PENDING_NAMES_MAX)
		return -EBADMSG;
	c->v = malloc((c->head.n + 1) * sizeof *c->v);
	c->covered = malloc((c->head.n_covered + 1) * sizeof *c->covered);
	if (!c->v || !c->covered)
		return -ENOMEM;
	flat_get(&r, c->v, c->head.n * sizeof *c->v);
	flat_get(&r, c->covered, c->head.n_covered * sizeof *c->covered);
	c->names = (const char *)flat_bytes(&r, c->head.names_bytes);
	return flat_done(&r) && changes_valid(c) ? 0 : -EBADMSG;
}

/* --- a table */

/* Appends an entry with its name; false: there is no room for it. The caller has made room for the entry. */
static bool table_push(struct jit_table *t, uint64_t start, uint64_t end, const char *name, size_t room)
{
	size_t len = strlen(name) + 1;

	if (len > room - t->names_bytes)
		return false;
	t->v[t->n++] = (struct jit_range){start, (uint32_t)(end - start), (uint32_t)t->names_bytes};
	memcpy(t->names + t->names_bytes, name, len);
	t->names_bytes += len;
	return true;
}

/* The name in the old table of code that was moved, or NULL. */
static const char *moved_name(const struct jit_table *old, const struct change *x)
{
	const struct jit_range *was = table_range(old, x->from);

	return was && was->start == x->from ? old->names + was->name : NULL;
}

/* Bytes of all names, with those of moved code: these may have one name many times. */
static size_t all_names_bytes(const struct changes *c, const struct jit_table *old)
{
	size_t bytes = c->head.names_bytes;

	for (size_t i = 0; i < c->head.n; i++) {
		const char *name = c->v[i].from ? moved_name(old, &c->v[i]) : NULL;

		bytes += name ? strlen(name) + 1 : 0;
	}
	return bytes < JIT_NAMES_MAX ? bytes : JIT_NAMES_MAX;
}

/* The entries of the old table that the new one takes over. */
struct kept {
	bool *keep; /* owned; by index */
	size_t n, names_bytes;
};

static void kept_fini(struct kept *k)
{
	free(k->keep);
}

static int kept_find(struct kept *k, const struct jit_table *old, const struct changes *c)
{
	size_t at = 0;

	k->keep = calloc(old ? old->n + 1 : 1, sizeof *k->keep);
	if (!k->keep)
		return -ENOMEM;
	for (size_t i = 0; old && i < old->n; i++) {
		const struct jit_range *x = &old->v[i];

		while (at < c->head.n_covered && c->covered[at].end <= x->start)
			at++;
		if (at < c->head.n_covered && c->covered[at].start < x->start + x->bytes)
			continue;
		k->keep[i] = true;
		k->n++;
		k->names_bytes += strlen(old->names + x->name) + 1;
	}
	return 0;
}

/* Discards entries of the old table until all fit into the maximum. */
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

static void merge(struct jit_table *t, const struct jit_table *old, const struct kept *kept,
		  const struct changes *c, size_t room, uint64_t *n_cut)
{
	const bool *keep = kept->keep;
	size_t i = 0, j = 0, n_old = old ? old->n : 0;
	const char *name = c->names;

	while (i < n_old || j < c->head.n) {
		if (i < n_old && !keep[i]) {
			i++;
		} else if (j == c->head.n || (i < n_old && old->v[i].start < c->v[j].start)) {
			const struct jit_range *x = &old->v[i++];

			*n_cut += !table_push(t, x->start, x->start + x->bytes, old->names + x->name, room);
		} else {
			const struct change *x = &c->v[j++];
			const char *its = x->from ? moved_name(old, x) : name;

			if (its)
				*n_cut += !table_push(t, x->start, x->start + x->bytes, its, room);
			name += x->name_bytes;
		}
	}
}

int jit_table_read(struct jit_table **ret, const struct jit_table *old, const void *bytes, size_t len,
		   uint64_t *n_cut)
{
	_cleanup_(changes_fini) struct changes c = {0};
	_cleanup_(kept_fini) struct kept kept = {0};
	size_t names_bytes;
	int r = changes_read(&c, bytes, len);

	if (r == 0)
		r = kept_find(&kept, old, &c);
	if (r < 0)
		return r;
	names_bytes = all_names_bytes(&c, old);
	kept_cut(&kept, old, c.head.n, names_bytes, n_cut);
	r = table_alloc(ret, kept.n + c.head.n, kept.names_bytes + names_bytes);
	if (r == 0)
		merge(*ret, old, &kept, &c, kept.names_bytes + names_bytes, n_cut);
	return r;
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
	const struct jit_range *x = table_range(t, address);

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
