// SPDX-License-Identifier: Apache-2.0
/*
 * Code that a program has moved to memory of its own, at the same addresses, to have it on huge pages: there
 * is no file behind that memory any more, but what is left of the file's mappings stands beside it, and says
 * where the file's segments would be. Where the bytes are those of the file, its table and names hold.
 *
 * Programs do it by mremap(2), of which the kernel tells nobody: whoever was known before keeps its table
 * anyhow, and a scan of /proc finds the others. Or they map anew over their text and fill it then: the event
 * comes before the bytes do, so they are looked at again a little later.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/maps.h"
#include "agent/track/track_private.h"

#define PAGE 4096ull
#define PENDING_MAX 16u /* code without a file in one row of mappings */

static const uint64_t retry_after_ns[] = {NS_PER_SEC / 20, NS_PER_SEC / 2, 5 * NS_PER_SEC};

/* A mapping of a file; opened only when code without a file stands beside it. */
struct neighbour {
	struct proc_maps_line line; /* its path is not valid any more */
	char *path;		    /* owned; NULL: there is no file */
};

struct range {
	uint64_t start, end;
};

struct remap_scan {
	struct track *t;
	struct process *p;
	struct neighbour before;
	struct range pending[PENDING_MAX]; /* adjacent, behind `before` */
	unsigned n_pending;
	uint64_t end; /* of the mapping seen last */
	bool found;
};

static bool has_table(const struct track *t, uint32_t file)
{
	const struct binary *f = binary_registry_get(t->binaries, file);

	return f && f->n_segments;
}

/* Is the part of `range` in which segment `s` would be, if the file is mapped with that bias, the file's
 * code? */
static bool segment_restore(struct remap_scan *c, const struct binary *f, const struct elf_segment *s,
			    uint64_t bias, const struct range *range, bool both)
{
	uint64_t first = (s->va & ~(PAGE - 1)) + bias,
		 last = ((s->va + s->file_bytes + PAGE - 1) & ~(PAGE - 1)) + bias;
	uint64_t from = first > range->start ? first : range->start,
		 to = last < range->end ? last : range->end;
	uint64_t code = s->va + bias > from ? s->va + bias : from,
		 code_end = s->va + s->file_bytes + bias < to ? s->va + s->file_bytes + bias : to;
	uint64_t shift = s->offset - s->va - bias; /* address → file offset */
	enum proc_text text;

	if (first >= last || code >= code_end)
		return false;
	text = track_text_compare(c->t, c->p->pid, code, code_end - code, f->fd, code + shift);
	if (text == PROC_TEXT_OTHER || (text == PROC_TEXT_UNKNOWN && !both))
		return false;
	return proc_maps_own(c->p) == 0 &&
	       proc_maps_insert(c->p->maps, (struct proc_mapping){from, to, from + shift, f->index}) == 0;
}

/* Which ELF file it is a mapping of; NULL for others. */
static const struct binary *neighbour_file(struct remap_scan *c, const struct neighbour *n)
{
	const struct proc_mapping *m = n->path ? proc_maps_find(c->p->maps, n->line.start) : NULL;
	uint32_t file = PROC_FILE_NONE;

	if (n->path && n->line.executable)
		file = m ? m->file : PROC_FILE_NONE;
	else if (n->path)
		file = track_file_of_line(c->t, c->p->pid, &n->line, n->path);
	return has_table(c->t, file) ? binary_registry_get(c->t->binaries, file) : NULL;
}

/* The neighbour may be of any segment whose pages hold its offset. `both`: the file is on both sides. */
static bool range_restore(struct remap_scan *c, const struct binary *f, const struct neighbour *n,
			  const struct range *range, bool both)
{
	bool found = false;

	for (size_t i = 0; f && i < f->n_segments && !found; i++) {
		const struct elf_segment *s = &f->segments[i];
		uint64_t bias = n->line.start - (s->va + (n->line.offset - s->offset));

		if (n->line.offset < (s->offset & ~(PAGE - 1)) || n->line.offset >= s->offset + s->file_bytes)
			continue;
		for (size_t k = 0; k < f->n_segments; k++)
			if (f->segments[k].executable)
				found |= segment_restore(c, f, &f->segments[k], bias, range, both);
	}
	return found;
}

/* The row of mappings without a file has ended: at another one of a file, or at nothing. */
static void pending_resolve(struct remap_scan *c, const struct neighbour *after)
{
	const struct binary *a, *b;

	if (!c->n_pending)
		return;
	b = neighbour_file(c, &c->before);
	a = neighbour_file(c, after);
	for (unsigned i = 0; i < c->n_pending; i++)
		if (range_restore(c, b, &c->before, &c->pending[i], a == b) ||
		    range_restore(c, a, after, &c->pending[i], a == b))
			c->found = true;
	c->n_pending = 0;
}

static void before_set(struct remap_scan *c, struct neighbour n)
{
	free(c->before.path);
	c->before = n;
}

static int scan_line(const struct proc_maps_line *line, void *data)
{
	const struct neighbour none = {.path = NULL};
	struct remap_scan *c = data;
	const struct proc_mapping *m = proc_maps_find(c->p->maps, line->start);
	struct neighbour here = {.line = *line};

	if (c->end != line->start) {
		pending_resolve(c, &none);
		before_set(c, none);
	}
	c->end = line->end;
	if (line->executable && m && !has_table(c->t, m->file)) {
		if (c->n_pending < PENDING_MAX)
			c->pending[c->n_pending++] = (struct range){line->start, line->end};
		return 0;
	}
	if (line->inode)
		(void)proc_maps_path(line, &here.path);
	pending_resolve(c, &here);
	before_set(c, here);
	return 0;
}

/* 1: there was one. */
static int scan_lines(struct track *t, struct process *p, const struct track_lines *l)
{
	struct remap_scan c = {.t = t, .p = p};

	for (size_t i = 0; i < l->n; i++)
		if (scan_line(track_line(l, i), &c) < 0)
			break;
	pending_resolve(&c, &(struct neighbour){.path = NULL});
	before_set(&c, (struct neighbour){.path = NULL});
	if (c.found) {
		t->stats.remapped++;
		track_mark_dirty(t, p->pid);
	}
	return c.found;
}

bool track_remap_read(struct track *t, struct process *p)
{
	return track_lines_read(t, p, true, scan_lines) > 0;
}

bool track_remap_possible(const struct track *t, uint32_t file, const char *path)
{
	bool special = path && path[0] == '[' && strncmp(path, "[anon", 5) != 0; /* [vsyscall] */

	return !special && file != t->vdso && !has_table(t, file);
}

/* Does [start, end) lie over code of a file that is known to be mapped there? */
static bool replaces_code(const struct track *t, const struct process *p, uint64_t start, uint64_t end)
{
	const struct proc_maps *maps = p->maps;

	for (uint32_t i = 0; i < maps->n && maps->entries[i].start < end; i++)
		if (maps->entries[i].end > start && has_table(t, maps->entries[i].file))
			return true;
	return false;
}

static struct track_remap *slot_of(struct track *t, uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->remaps); i++)
		if (t->remaps[i].pid == pid)
			return &t->remaps[i];
	return NULL;
}

bool track_remap_pending(struct track *t, const struct process *p, const struct proc_mapping *m)
{
	return !has_table(t, m->file) && slot_of(t, p->pid);
}

void track_remap_note(struct track *t, const struct process *p, const struct proc_mapping *m)
{
	struct track_remap *slot = slot_of(t, p->pid);

	if (has_table(t, m->file) || (!slot && !replaces_code(t, p, m->start, m->end)))
		return;
	if (!slot) {
		slot = slot_of(t, 0);
		if (!slot) {
			t->stats.remaps_full++;
			return;
		}
		slot->pid = p->pid;
		slot->n_tried = 0;
	}
	slot->due_ns = clock_mono_ns(); /* its rights change: the bytes may be there now */
}

void track_remap_retry(struct track *t)
{
	uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < ARRAY_SIZE(t->remaps); i++) {
		struct track_remap *r = &t->remaps[i];
		struct process *p = r->pid && now >= r->due_ns ? proc_table_get(t->table, r->pid) : NULL;

		if (!r->pid || now < r->due_ns)
			continue;
		if (!p || track_remap_read(t, p) || r->n_tried == ARRAY_SIZE(retry_after_ns))
			r->pid = 0;
		else
			r->due_ns = now + retry_after_ns[r->n_tried++];
	}
}
