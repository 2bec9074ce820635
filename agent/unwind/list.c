// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/page.h"
#include "agent/proc/table.h"
#include "agent/unwind/tables.h"

static int add(struct list_entries *l, struct mapping_entry e)
{
	if (array_reserve(&l->entries, &l->cap, l->n + 1, sizeof *l->entries) < 0)
		return -ENOMEM;
	l->entries[l->n++] = e;
	return 0;
}

/* Adds an entry for the ELF addresses [from, to) of a mapping. */
static int add_stretch(struct list_entries *l, const struct binary_table *f, uint64_t bias, uint64_t from,
		       uint64_t to, struct arena_block table)
{
	if (from >= to)
		return 0;
	return add(l, (struct mapping_entry){.start = from + bias,
					     .end = to + bias,
					     .bias = bias,
					     .file = (uint16_t)f->binary->index,
					     .generation = (uint16_t)table.generation,
					     .table = table.ref});
}

/* Adds entries for [va, end): one for each table block in it, and one for each gap between them. */
static int add_blocks(struct list_entries *l, const struct binary_table *f, uint64_t bias, uint64_t va,
		      uint64_t end)
{
	/*
	 * A table that is ready has no call-frame information in its gaps; one that is not may still come,
	 * and so may more of generated code.
	 */
	const struct arena_block none = {.ref = binary_table_may_grow(f) ? TABLE_PENDING
						: f->generated		 ? TABLE_REFUSED
									 : TABLE_NEVER};
	int r = 0;

	for (size_t i = 0; i < f->n_placed && r == 0; i++) {
		const struct unwind_placed *p = &f->placed[i];
		uint64_t from = p->va > va ? p->va : va, to = p->end < end ? p->end : end;

		if (from >= to)
			continue;
		r = add_stretch(l, f, bias, va, from, none);
		if (r == 0)
			r = add_stretch(l, f, bias, from, to, p->block);
		va = to;
	}
	return r < 0 ? r : add_stretch(l, f, bias, va, end, none);
}

/*
 * Only what the file's executable segments cover: the dynamic linker first maps a library's whole length with
 * the rights of its first segment, and what it puts over the rest later is not executable and not reported.
 */
static int add_file_mapping(struct list_entries *l, const struct proc_mapping *m,
			    const struct binary_table *f)
{
	uint64_t offset_end = m->offset + (m->end - m->start);
	int r = 0;

	for (size_t i = 0; i < f->binary->n_segments && r == 0; i++) {
		const struct elf_segment *s = &f->binary->segments[i];
		uint64_t first = page_start(s->offset), last = page_end(s->offset + s->file_bytes);
		uint64_t from = first > m->offset ? first : m->offset,
			 to = last < offset_end ? last : offset_end;
		uint64_t delta = s->va - s->offset;

		if (s->executable && from < to)
			r = add_blocks(l, f, m->start - m->offset - delta, from + delta, to + delta);
	}
	return r;
}

/*
 * Code in no ELF file: entries with the table of the process's generated code, once there is one. A file
 * that is not ELF has its offsets as addresses until then.
 */
static int add_generated(struct list_entries *l, const struct proc_mapping *m,
			 const struct binary_table *file, uint32_t code, const struct unwind_tables *tables)
{
	const struct binary_table *f = unwind_tables_get(tables, code);
	uint32_t table = unwind_tables_follows_generated(tables) ? TABLE_PENDING : TABLE_NEVER;

	if (f)
		return add_blocks(l, f, 0, m->start, m->end);
	if (file)
		return add_stretch(l, file, m->start - m->offset, m->offset, m->offset + (m->end - m->start),
				   (struct arena_block){.ref = table});
	return add(l, (struct mapping_entry){
			      .start = m->start, .end = m->end, .file = FILE_ANONYMOUS, .table = table});
}

static int add_mapping(struct list_entries *l, const struct proc_mapping *m, uint32_t code,
		       const struct unwind_tables *tables)
{
	const struct binary_table *f = unwind_tables_get(tables, m->file);
	bool opening = (m->file & PROC_FILE_OPENING) && !(m->file & PROC_FILE_STUCK);

	if (f && f->binary->n_segments)
		return add_file_mapping(l, m, f);
	if (f || m->file == PROC_FILE_NONE)
		return add_generated(l, m, f, code, tables);
	/* the file may have a table: a sample there waits until it is open */
	return add(l, (struct mapping_entry){.start = m->start,
					     .end = m->end,
					     .file = FILE_ANONYMOUS,
					     .table = opening ? TABLE_PENDING : TABLE_NEVER});
}

/* Moves what was made to *ret, unless making it has failed. */
static int made(struct list_entries *ret, struct list_entries *l, int r)
{
	if (r < 0)
		list_entries_fini(l);
	else
		*ret = *l;
	return r;
}

int list_entries_make_some(struct list_entries *ret, const struct proc_mapping *const *mappings, size_t n,
			   uint32_t code, const struct unwind_tables *tables)
{
	struct list_entries l = {0};
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_mapping(&l, mappings[i], code, tables);
	return made(ret, &l, r);
}

int list_entries_make(struct list_entries *ret, const struct proc_maps *maps,
		      const struct unwind_tables *tables)
{
	struct proc_maps_cursor c = {.maps = maps};
	struct list_entries l = {0};
	const struct proc_mapping *m;
	int r = array_reserve(&l.entries, &l.cap, maps->n, sizeof *l.entries); /* mostly one for each */

	while (r == 0 && (m = proc_maps_next(&c)))
		r = add_mapping(&l, m, maps->code, tables);
	return made(ret, &l, r);
}

void list_entries_fini(struct list_entries *l)
{
	free(l->entries);
	*l = (struct list_entries){0};
}

/* The highest power of two <= n. */
static size_t top_of(size_t n)
{
	size_t top = 1;

	while (top * 2 <= n)
		top *= 2;
	return top;
}

static size_t entries_offset(size_t n)
{
	size_t starts = sizeof(struct mapping_list) + 2 * top_of(n) * sizeof(__u64);

	return (starts + sizeof(struct mapping_entry) - 1) / sizeof(struct mapping_entry) *
	       sizeof(struct mapping_entry);
}

size_t list_bytes(size_t n)
{
	return entries_offset(n) + n * sizeof(struct mapping_entry);
}

size_t list_capacity(size_t max)
{
	size_t n = (size_t)1 << LIST_SEARCH_STEPS;

	while (n > 1 && list_bytes(n) > max)
		n -= n / 16 + 1;
	return n;
}

void list_write(void *mem, const struct mapping_entry *entries, size_t n, uint32_t generation, uint32_t flags)
{
	struct mapping_list *list = mem;
	__u64 *starts = (__u64 *)(list + 1);
	size_t top = top_of(n);

	*list = (struct mapping_list){
		.n = (uint32_t)n,
		.top = (uint32_t)top,
		.entries = (uint32_t)entries_offset(n),
		.generation = generation,
		.flags = flags,
	};
	for (size_t i = 0; i < 2 * top; i++)
		starts[i] = i < n ? entries[i].start : ~0ull;
	memcpy((uint8_t *)mem + list->entries, entries, n * sizeof *entries);
}

size_t list_bytes_with_walk(size_t n)
{
	return list_bytes(n) + sizeof(struct runtime_walk);
}

void list_write_walk(void *mem, const struct runtime_walk *walk)
{
	struct mapping_list *list = mem;

	list->runtime = (uint32_t)list_bytes(list->n);
	memcpy((uint8_t *)mem + list->runtime, walk, sizeof *walk);
}

void list_write_heaps(void *mem, const struct code_heaps *heaps)
{
	struct mapping_list *list = mem;

	list->heaps = (uint32_t)(list->runtime ? list_bytes_with_walk(list->n) : list_bytes(list->n));
	memcpy((uint8_t *)mem + list->heaps, heaps, sizeof *heaps);
}
