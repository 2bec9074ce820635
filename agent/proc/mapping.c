// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel reports new executable mappings, but no removals: a new mapping removes those that it overlaps.
 */
#include "agent/proc/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

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
	r = array_reserve(&copy->entries, &copy->cap, m->n, sizeof *copy->entries);
	if (r < 0) {
		proc_maps_unref(copy);
		return r;
	}
	if (m->n)
		memcpy(copy->entries, m->entries, m->n * sizeof *copy->entries);
	copy->n = m->n;
	hold(copy, copy->entries, copy->n);
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
	release(m, m->entries, m->n);
	free(m->entries);
	free(m);
}

/* Index of the first entry that ends after `address`. */
static uint32_t first_ending_after(const struct proc_maps *m, uint64_t address)
{
	uint32_t lo = 0, hi = m->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (m->entries[mid].end > address)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

bool proc_maps_replace_file(struct proc_maps *m, uint32_t from, uint32_t to)
{
	bool found = false;

	for (uint32_t i = 0; i < m->n; i++) {
		if (m->entries[i].file != from)
			continue;
		hold(m, &(struct proc_mapping){.file = to}, 1);
		release(m, &m->entries[i], 1);
		m->entries[i].file = to;
		found = true;
	}
	m->version += found;
	return found;
}

bool proc_maps_replaces(const struct proc_maps *m, const struct proc_mapping *mapping)
{
	for (uint32_t i = first_ending_after(m, mapping->start);
	     i < m->n && m->entries[i].start < mapping->end; i++) {
		const struct proc_mapping *e = &m->entries[i];

		if (e->file != mapping->file ||
		    (e->file != PROC_FILE_NONE && e->start - e->offset != mapping->start - mapping->offset))
			return true;
	}
	return false;
}

bool proc_maps_has(const struct proc_maps *m, const struct proc_mapping *mapping)
{
	const struct proc_mapping *e = proc_maps_find(m, mapping->start);

	return e && mapping->end <= e->end && e->file == mapping->file &&
	       (e->file == PROC_FILE_NONE || e->start - e->offset == mapping->start - mapping->offset);
}

const struct proc_mapping *proc_maps_find(const struct proc_maps *m, uint64_t address)
{
	uint32_t i = first_ending_after(m, address);

	return i < m->n && m->entries[i].start <= address ? &m->entries[i] : NULL;
}

static int make_room(struct proc_maps *m, uint32_t extra)
{
	if (m->n + extra > PROC_MAPS_MAX)
		return -ENOSPC;
	return array_reserve(&m->entries, &m->cap, m->n + extra, sizeof *m->entries);
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
	uint32_t first = first_ending_after(m, mapping->start ? mapping->start - 1 : 0), last = first;
	uint64_t before = UINT64_MAX, after = UINT64_MAX;

	while (last < m->n && m->entries[last].start <= mapping->end)
		last++;
	for (uint32_t i = first; i < last; i++) {
		const struct proc_mapping *e = &m->entries[i];

		if (is_file(e))
			continue;
		mapping->start = e->start < mapping->start ? e->start : mapping->start;
		mapping->end = e->end > mapping->end ? e->end : mapping->end;
	}
	if (m->n < PROC_MAPS_APART)
		return;
	if (first && !is_file(&m->entries[first - 1]))
		before = mapping->start - m->entries[first - 1].end;
	if (last < m->n && !is_file(&m->entries[last]))
		after = m->entries[last].start - mapping->end;
	if (before <= after && before != UINT64_MAX)
		mapping->start = m->entries[first - 1].start;
	else if (after != UINT64_MAX)
		mapping->end = m->entries[last].end;
}

int proc_maps_insert(struct proc_maps *m, struct proc_mapping mapping)
{
	uint32_t first, last, n_new = 0;
	struct proc_mapping with[3];
	int r;

	if (mapping.end <= mapping.start)
		return -EINVAL;
	if (!is_file(&mapping))
		absorb_neighbours(m, &mapping);
	r = make_room(m, 2);
	if (r < 0)
		return r;
	first = last = first_ending_after(m, mapping.start);
	while (last < m->n && m->entries[last].start < mapping.end)
		last++;
	if (first < last && m->entries[first].start < mapping.start) {
		with[n_new] = m->entries[first];
		with[n_new++].end = mapping.start;
	}
	with[n_new++] = mapping;
	if (first < last && m->entries[last - 1].end > mapping.end)
		with[n_new++] = tail_of(m->entries[last - 1], mapping.end);
	hold(m, with, n_new);
	release(m, &m->entries[first], last - first);
	memmove(&m->entries[first + n_new], &m->entries[last], (m->n - last) * sizeof *m->entries);
	memcpy(&m->entries[first], with, n_new * sizeof *with);
	m->n = m->n - (last - first) + n_new;
	m->version++;
	return 0;
}
