// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel reports new executable mappings, but no removals: a new mapping removes those that it overlaps.
 *
 * A process may have tens of thousands of mappings of which thousands change every second, and most changes
 * begin with a copy of the list, for the history. So a list is an array of chunks, and a chunk is shared by
 * reference count: a copy takes a reference to each chunk, and a change copies only the chunks that it
 * touches.
 */
#include "agent/proc/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

#define CHUNK_MIN 8u /* entries that a chunk has room for */
#define CHUNK_MAX 256u
#define CHUNKS_NEW 3u /* that one change can make: the rest of two chunks, and up to three new entries */

struct proc_maps_chunk {
	unsigned refs;
	uint32_t n, cap;    /* n > 0 in every chunk of a list */
	uint32_t n_opening; /* entries whose file is being opened */
	uint32_t
		replaced; /* the number of PROC_FILE_OPENING that was replaced last; 0: none since a change */
	struct proc_mapping entries[];
};

static void hold(const struct proc_maps *m, const struct proc_mapping *e, uint32_t n)
{
	for (uint32_t i = 0; m->files && i < n; i++)
		m->files->hold(e[i].file, m->files->data);
}

static void release(const struct proc_maps *m, const struct proc_mapping *e, uint32_t n)
{
	for (uint32_t i = 0; m->files && i < n; i++)
		m->files->release(e[i].file, m->files->data);
}

/* --- chunks */

/* An empty chunk with room for n entries or more. NULL: no memory. */
static struct proc_maps_chunk *chunk_new(uint32_t n)
{
	struct proc_maps_chunk *k;
	uint32_t cap = CHUNK_MIN;

	while (cap < n)
		cap *= 2;
	k = malloc(sizeof *k + cap * sizeof k->entries[0]);
	if (!k)
		return NULL;
	k->refs = 1;
	k->n = k->n_opening = k->replaced = 0;
	k->cap = cap;
	return k;
}

static void chunk_unref(const struct proc_maps *m, struct proc_maps_chunk *k)
{
	if (--k->refs)
		return;
	release(m, k->entries, k->n);
	free(k);
}

/* --- lists */

int proc_maps_new(struct proc_maps **ret, const struct proc_files *files)
{
	static uint64_t last_id;
	struct proc_maps *m = calloc(1, sizeof *m);

	if (!m)
		return -ENOMEM;
	m->refs = 1;
	m->id = ++last_id;
	m->files = files;
	*ret = m;
	return 0;
}

int proc_maps_copy(struct proc_maps **ret, const struct proc_maps *m)
{
	struct proc_maps *copy;
	int r = proc_maps_new(&copy, m->files);

	if (r < 0)
		return r;
	r = array_reserve(&copy->chunks, &copy->cap, m->n_chunks, sizeof(struct proc_maps_chunk *));
	if (r < 0) {
		proc_maps_unref(copy);
		return r;
	}
	for (uint32_t i = 0; i < m->n_chunks; i++) {
		copy->chunks[i] = m->chunks[i];
		copy->chunks[i]->refs++;
	}
	copy->n_chunks = m->n_chunks;
	copy->n = m->n;
	if (m->code)
		proc_maps_set_code(copy, m->code);
	*ret = copy;
	return 0;
}

struct proc_maps *proc_maps_ref(struct proc_maps *m)
{
	m->refs++;
	return m;
}

void proc_maps_unref(struct proc_maps *m)
{
	if (!m || --m->refs)
		return;
	for (uint32_t i = 0; i < m->n_chunks; i++)
		chunk_unref(m, m->chunks[i]);
	proc_maps_set_code(m, 0);
	free(m->chunks);
	free(m);
}

void proc_maps_set_code(struct proc_maps *m, uint32_t code)
{
	if (m->files && code)
		m->files->hold(code, m->files->data);
	if (m->files && m->code)
		m->files->release(m->code, m->files->data);
	m->code = code;
	m->version++;
}

uint32_t proc_maps_private(const struct proc_maps *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_chunks; i++)
		if (m->chunks[i]->refs == 1)
			n += m->chunks[i]->n;
	return n;
}

/* --- finding and reading entries */

static const struct proc_mapping *chunk_last(const struct proc_maps_chunk *k)
{
	return &k->entries[k->n - 1];
}

struct proc_maps_cursor proc_maps_from(const struct proc_maps *m, uint64_t address)
{
	struct proc_maps_cursor c = {.maps = m};

	c.chunk = (uint32_t)array_first(m->n_chunks, i, chunk_last(m->chunks[i])->end > address);
	if (c.chunk < m->n_chunks) {
		const struct proc_maps_chunk *k = m->chunks[c.chunk];

		c.at = (uint32_t)array_first(k->n, i, k->entries[i].end > address);
	}
	return c;
}

static const struct proc_mapping *entry_at(const struct proc_maps_cursor *c)
{
	return c->chunk < c->maps->n_chunks ? &c->maps->chunks[c->chunk]->entries[c->at] : NULL;
}

static const struct proc_mapping *entry_before(const struct proc_maps_cursor *c)
{
	if (c->at)
		return &c->maps->chunks[c->chunk]->entries[c->at - 1];
	return c->chunk ? chunk_last(c->maps->chunks[c->chunk - 1]) : NULL;
}

const struct proc_mapping *proc_maps_next(struct proc_maps_cursor *c)
{
	const struct proc_mapping *e = entry_at(c);

	if (e && ++c->at == c->maps->chunks[c->chunk]->n) {
		c->chunk++;
		c->at = 0;
	}
	return e;
}

const struct proc_mapping *proc_maps_at(const struct proc_maps *m, uint32_t index)
{
	uint32_t chunk = 0;

	while (index >= m->chunks[chunk]->n)
		index -= m->chunks[chunk++]->n;
	return &m->chunks[chunk]->entries[index];
}

const struct proc_mapping *proc_maps_find(const struct proc_maps *m, uint64_t address)
{
	struct proc_maps_cursor c = proc_maps_from(m, address);
	const struct proc_mapping *e = entry_at(&c);

	return e && e->start <= address ? e : NULL;
}

bool proc_maps_replaces(const struct proc_maps *m, const struct proc_mapping *mapping)
{
	struct proc_maps_cursor c = proc_maps_from(m, mapping->start);
	const struct proc_mapping *e;

	while ((e = proc_maps_next(&c)) && e->start < mapping->end)
		if (e->file != mapping->file ||
		    (e->file != PROC_FILE_NONE && e->start - e->offset != mapping->start - mapping->offset))
			return true;
	return false;
}

bool proc_maps_has(const struct proc_maps *m, const struct proc_mapping *mapping)
{
	const struct proc_mapping *e = proc_maps_find(m, mapping->start);

	return e && mapping->end <= e->end && e->file == mapping->file &&
	       (e->file == PROC_FILE_NONE || e->start - e->offset == mapping->start - mapping->offset);
}

/* --- changing a list */

static uint32_t count_opening(const struct proc_mapping *e, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += e[i].file >> 31; /* PROC_FILE_OPENING */
	return count;
}

/* Several lists may have the chunk: for each of them, its entries have changed. */
static bool chunk_replace_file(const struct proc_maps *m, struct proc_maps_chunk *k, uint32_t from,
			       uint32_t to)
{
	bool found = false;

	if (k->replaced == from)
		return true;
	for (uint32_t i = 0; k->n_opening && i < k->n; i++) {
		if (k->entries[i].file != from)
			continue;
		hold(m, &(struct proc_mapping){.file = to}, 1);
		release(m, &k->entries[i], 1);
		k->entries[i].file = to;
		found = true;
	}
	if (!found)
		return false;
	k->replaced = from;
	k->n_opening = count_opening(k->entries, k->n);
	return true;
}

bool proc_maps_opened(struct proc_maps *m, uint32_t from, uint32_t to)
{
	bool found = false;

	if (m->replaced == from)
		return true;
	for (uint32_t i = 0; i < m->n_chunks; i++)
		found |= chunk_replace_file(m, m->chunks[i], from, to);
	if (found)
		m->replaced = from;
	m->version += found;
	return found;
}

/* The part of an entry above `from`. */
static struct proc_mapping tail_of(struct proc_mapping e, uint64_t from)
{
	e.offset += from - e.start;
	e.start = from;
	return e;
}

static bool is_file(const struct proc_mapping *e)
{
	return e->file != PROC_FILE_NONE;
}

/*
 * Memory without a file that touches or overlaps `mapping`, which has no file either, is joined with it,
 * because they need not be told apart. In a long list, `mapping` is also joined with the nearer of its
 * neighbours, including the memory between: runtimes map code in tens of thousands of pieces, unmap them
 * unreported, and map others there.
 */
static void absorb_neighbours(const struct proc_maps *m, struct proc_mapping *mapping)
{
	struct proc_maps_cursor c = proc_maps_from(m, mapping->start ? mapping->start - 1 : 0);
	const struct proc_mapping *left = entry_before(&c), *right;
	uint64_t end = mapping->end, before = UINT64_MAX, after = UINT64_MAX;

	while ((right = entry_at(&c)) && right->start <= end) {
		if (!is_file(right)) {
			mapping->start = right->start < mapping->start ? right->start : mapping->start;
			mapping->end = right->end > mapping->end ? right->end : mapping->end;
		}
		(void)proc_maps_next(&c);
	}
	if (m->n < PROC_MAPS_APART)
		return;
	if (left && !is_file(left))
		before = mapping->start - left->end;
	if (right && !is_file(right))
		after = right->start - mapping->end;
	if (before <= after && before != UINT64_MAX)
		mapping->start = left->start;
	else if (after != UINT64_MAX)
		mapping->end = right->end;
}

/*
 * A change of a list: of the chunks [first, last), the entries below `prefix` in the first one and those from
 * `suffix` on in the last one stay; `with` comes between them.
 */
struct change {
	uint32_t first, last, prefix, suffix;
	uint32_t n_suffix; /* entries from `suffix` on */
	uint32_t n_with;
	struct proc_mapping with[3];
};

/* Sets which entries the change replaces: from `from` up to, and without, `to`. */
static void change_set_range(struct change *c, struct proc_maps_cursor from, struct proc_maps_cursor to)
{
	const struct proc_maps *m = from.maps;

	if (from.chunk == m->n_chunks && from.chunk && m->chunks[from.chunk - 1]->n < CHUNK_MAX) {
		from.chunk--; /* append to the last chunk */
		from.at = m->chunks[from.chunk]->n;
		to = from;
	}
	c->first = from.chunk;
	c->prefix = from.at;
	c->last = to.chunk;
	if (to.chunk < m->n_chunks && (to.at || to.chunk == from.chunk)) {
		c->suffix = to.at;
		c->n_suffix = m->chunks[to.chunk]->n - to.at;
		c->last++;
	} else if (to.chunk > from.chunk) {
		c->suffix = m->chunks[to.chunk - 1]->n;
	}
}

/* Applies a change within one chunk that has room and is not shared. */
static void change_in_place(struct proc_maps *m, const struct change *c)
{
	struct proc_maps_chunk *k = m->chunks[c->first];
	struct proc_mapping *at = &k->entries[c->prefix];

	hold(m, c->with, c->n_with);
	release(m, at, c->suffix - c->prefix);
	k->n_opening += count_opening(c->with, c->n_with) - count_opening(at, c->suffix - c->prefix);
	k->replaced = 0;
	memmove(at + c->n_with, &k->entries[c->suffix], c->n_suffix * sizeof *at);
	memcpy(at, c->with, c->n_with * sizeof *at);
	k->n = c->prefix + c->n_with + c->n_suffix;
}

/* New chunks that are filled one after the other, each with `each` entries. */
struct filling {
	struct proc_maps_chunk *chunks[CHUNKS_NEW];
	uint32_t n, at, each;
};

static int filling_begin(struct filling *f, uint32_t n)
{
	f->n = (n + CHUNK_MAX - 1) / CHUNK_MAX;
	f->each = (n + f->n - 1) / f->n;
	for (uint32_t i = 0; i < f->n; i++) {
		f->chunks[i] = chunk_new(f->each);
		if (f->chunks[i])
			continue;
		while (i)
			free(f->chunks[--i]);
		return -ENOMEM;
	}
	return 0;
}

static void filling_add(struct filling *f, const struct proc_mapping *e, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct proc_maps_chunk *k = f->chunks[f->at];

		k->entries[k->n++] = e[i];
		k->n_opening += count_opening(&e[i], 1);
		f->at += k->n == f->each;
	}
}

/* Puts new chunks in place of those that the change touches. -ENOMEM: nothing has changed. */
static int change_by_new_chunks(struct proc_maps *m, const struct change *c, uint32_t n)
{
	uint32_t n_old = c->last - c->first;
	struct filling f = {.n = 0};
	int r = array_reserve(&m->chunks, &m->cap, m->n_chunks + CHUNKS_NEW,
			      sizeof(struct proc_maps_chunk *));

	if (r == 0)
		r = filling_begin(&f, n);
	if (r < 0)
		return r;
	if (c->prefix)
		filling_add(&f, m->chunks[c->first]->entries, c->prefix);
	filling_add(&f, c->with, c->n_with);
	if (c->n_suffix)
		filling_add(&f, &m->chunks[c->last - 1]->entries[c->suffix], c->n_suffix);
	for (uint32_t i = 0; i < f.n; i++)
		hold(m, f.chunks[i]->entries, f.chunks[i]->n);
	for (uint32_t i = c->first; i < c->last; i++)
		chunk_unref(m, m->chunks[i]);
	memmove(&m->chunks[c->first + f.n], &m->chunks[c->last],
		(m->n_chunks - c->last) * sizeof(struct proc_maps_chunk *));
	memcpy(&m->chunks[c->first], f.chunks, f.n * sizeof(struct proc_maps_chunk *));
	m->n_chunks += f.n - n_old;
	return 0;
}

static int change_apply(struct proc_maps *m, const struct change *c)
{
	uint32_t n = c->prefix + c->n_with + c->n_suffix, n_old = 0;
	int r = 0;

	for (uint32_t i = c->first; i < c->last; i++)
		n_old += m->chunks[i]->n;
	if (c->last - c->first == 1 && m->chunks[c->first]->refs == 1 && n <= m->chunks[c->first]->cap)
		change_in_place(m, c);
	else
		r = change_by_new_chunks(m, c, n);
	if (r < 0)
		return r;
	m->n += n - n_old;
	m->replaced = 0;
	m->version++;
	return 0;
}

int proc_maps_insert(struct proc_maps *m, struct proc_mapping mapping)
{
	struct change c = {.n_with = 0};
	struct proc_maps_cursor first, last;
	const struct proc_mapping *e, *end = NULL; /* the last entry that it overlaps */

	if (mapping.end <= mapping.start)
		return -EINVAL;
	if (!is_file(&mapping))
		absorb_neighbours(m, &mapping);
	if (m->n + 2 > PROC_MAPS_MAX)
		return -ENOSPC;
	first = last = proc_maps_from(m, mapping.start);
	e = entry_at(&first);
	if (e && e->start < mapping.start) {
		c.with[c.n_with] = *e;
		c.with[c.n_with++].end = mapping.start;
	}
	c.with[c.n_with++] = mapping;
	while ((e = entry_at(&last)) && e->start < mapping.end)
		end = proc_maps_next(&last);
	if (end && end->end > mapping.end)
		c.with[c.n_with++] = tail_of(*end, mapping.end);
	change_set_range(&c, first, last);
	return change_apply(m, &c);
}
