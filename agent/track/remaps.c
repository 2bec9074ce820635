// SPDX-License-Identifier: Apache-2.0
#include "agent/track/remaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/page.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/track/map_lines.h"
#include "agent/track/openings.h"
#include "agent/track/publication.h"

#define PENDING_MAX 16u /* pieces of code without a file between two mappings of files */
#define PLACES_MAX 64u	/* of a process, where such pieces are; the others are left out */
#define READ_SHARE 50u	/* 1/50 of the time may go into checking one process again */

/* When a process is checked again: each time after the previous check. */
static const uint64_t retry_after_ns[] = {NS_PER_SEC / 20, NS_PER_SEC / 2, 5 * NS_PER_SEC};

/* A process that has mapped something over the code of a file. */
struct remap_retry {
	uint32_t pid; /* 0: the slot is free */
	unsigned n_tried;
	uint64_t due_ns;
	bool ended;		   /* it is not checked again; the slot says what that would cost */
	uint64_t read_ns, cost_ns; /* when its mappings were read last; the CPU time that this took */
};

struct remaps {
	struct remaps_options options;
	struct host_clock clock;
	struct remap_retry retries[REMAPS_MAX];
	struct remaps_stats stats;
};

int remaps_new(struct remaps **ret, const struct remaps_options *options)
{
	struct remaps *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->clock = options->host->clock;
	*ret = r;
	return 0;
}

void remaps_free(struct remaps *r)
{
	free(r);
}

/* --- is the memory a copy of the file? */

struct compare_request {
	struct request request;
	struct remaps *owner;
	struct process *process;  /* one reference */
	struct proc_image *image; /* that ran when the request was made; one reference */
	uint64_t start, len, offset;
	int fd;			     /* owned, names the file; -1 */
	struct proc_mapping mapping; /* to be entered if the memory is a copy; its file is held */
	bool both;		     /* the file is mapped on both sides of it */
	enum proc_text result;
};

static void compare_run(struct request *q)
{
	struct compare_request *c = container_of(q, struct compare_request, request);
	_cleanup_close_ int fd = fs_reopen(c->fd);

	c->result = fd < 0 ? PROC_TEXT_UNKNOWN
			   : q->proc.ops->compare(q->proc.data, q->pid, c->start, c->len, fd, c->offset);
}

static void compare_free(struct request *q)
{
	struct compare_request *c = container_of(q, struct compare_request, request);

	binary_registry_release(c->owner->options.binaries, c->mapping.file);
	process_unref(c->process);
	proc_image_unref(c->image);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

static bool is_binary(const struct remaps *r, uint32_t file)
{
	const struct binary *f = binary_registry_get(r->options.binaries, file);

	return f && f->n_segments;
}

static bool is_copy(enum proc_text text, bool both)
{
	return text == PROC_TEXT_SAME || (text == PROC_TEXT_UNKNOWN && both);
}

static bool copy_enter(struct remaps *r, struct process *p, struct proc_mapping m)
{
	int e = proc_maps_own(p);

	if (e == 0)
		e = proc_maps_insert(p->maps, m);
	if (e == -ENOMEM)
		gap_note(r->options.gaps, GAP_NO_MEMORY);
	return e == 0;
}

/* The memory may have been mapped anew since the request was made: then it has a file, or is not there. */
static bool is_still_memory(const struct compare_request *c)
{
	const struct proc_mapping *now = proc_maps_find(c->process->maps, c->mapping.start);

	return now && now->end >= c->mapping.end && !is_binary(c->owner, now->file);
}

/* Enters the copy, or takes back that it was taken for one. */
static void compare_late(struct request *q)
{
	struct compare_request *c = container_of(q, struct compare_request, request);
	struct proc_mapping memory = {c->mapping.start, c->mapping.end, 0, PROC_FILE_NONE};
	struct remaps *r = c->owner;
	struct process *p = c->process;
	bool copy = is_copy(c->result, c->both);

	if (p->end_ns || p->image->program != c->image->program)
		return;
	if (!(copy ? is_still_memory(c) : proc_maps_has(p->maps, &c->mapping)))
		return;
	if (!copy_enter(r, p, copy ? c->mapping : memory))
		return;
	r->stats.found += copy;
	publication_mark(r->options.publication, p->pid);
}

/* Reading the memory of a process may fault it in, from a file system that does not answer. */
static const struct request_kind compare_kind = {
	.what = "reading its memory", .run = compare_run, .late = compare_late, .free = compare_free};

/* Whether the code at `start` is that of the file, which would be mapped as `m`. */
static bool compare(struct remaps *r, struct process *p, uint64_t start, uint64_t len,
		    const struct proc_mapping *m, bool both)
{
	const struct binary *f = binary_registry_get(r->options.binaries, m->file);
	struct compare_request *c = calloc(1, sizeof *c);
	enum proc_text answer = PROC_TEXT_UNKNOWN;
	enum request_result result;

	if (!c)
		return is_copy(answer, both);
	c->owner = r;
	c->process = process_ref(p);
	c->image = proc_image_ref(p->image);
	c->start = start;
	c->len = len;
	c->offset = m->offset + (start - m->start);
	c->mapping = *m;
	c->both = both;
	c->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	(void)binary_registry_hold(r->options.binaries, m->file);
	result = requests_make(r->options.requests, &c->request, &compare_kind, p->pid);
	if (result == REQUEST_LATER)
		return is_copy(answer, both);
	if (result == REQUEST_DONE)
		answer = c->result;
	compare_free(&c->request);
	return is_copy(answer, both);
}

/* --- the mappings of a process */

/* A mapping of a file. It is opened only when code without a file is adjacent. */
struct neighbour {
	struct proc_maps_line line; /* its path is not valid any more */
	char *path;		    /* owned; NULL: there is no file */
};

struct range {
	uint64_t start, end;
};

struct remap_scan {
	struct remaps *remaps;
	struct process *p;
	struct neighbour before;
	struct range pending[PENDING_MAX]; /* adjacent, directly after `before` */
	unsigned n_pending;
	uint64_t end; /* of the mapping seen last */
	unsigned n_places;
	bool found;
};

/* Maps the part of `range` that segment `s` would cover, with that bias, if it holds the segment's code. */
static bool segment_restore(struct remap_scan *c, const struct binary *f, const struct elf_segment *s,
			    uint64_t bias, const struct range *range, bool both)
{
	uint64_t first = page_start(s->va) + bias, last = page_end(s->va + s->file_bytes) + bias;
	uint64_t from = first > range->start ? first : range->start,
		 to = last < range->end ? last : range->end;
	uint64_t code = s->va + bias > from ? s->va + bias : from,
		 code_end = s->va + s->file_bytes + bias < to ? s->va + s->file_bytes + bias : to;
	uint64_t shift = s->offset - s->va - bias; /* address → file offset */
	struct proc_mapping m = {from, to, from + shift, f->index};

	return first < last && code < code_end && compare(c->remaps, c->p, code, code_end - code, &m, both) &&
	       copy_enter(c->remaps, c->p, m);
}

/* The binary that it is a mapping of; NULL for other files. */
static const struct binary *neighbour_file(struct remap_scan *c, const struct neighbour *n)
{
	const struct proc_mapping *m = n->path ? proc_maps_find(c->p->maps, n->line.start) : NULL;
	uint32_t file = PROC_FILE_NONE;

	if (n->path && n->line.executable)
		file = m ? m->file : PROC_FILE_NONE;
	else if (n->path)
		file = openings_of_line(c->remaps->options.openings, c->p->pid, &n->line, n->path);
	return is_binary(c->remaps, file) ? binary_registry_get(c->remaps->options.binaries, file) : NULL;
}

/* The neighbour maps some segment whose pages hold its offset. `both`: the file is on both sides. */
static bool range_restore(struct remap_scan *c, const struct binary *f, const struct neighbour *n,
			  const struct range *range, bool both)
{
	bool found = false;

	for (size_t i = 0; f && i < f->n_segments && !found; i++) {
		const struct elf_segment *s = &f->segments[i];
		uint64_t bias = n->line.start - (s->va + (n->line.offset - s->offset));

		if (n->line.offset < page_start(s->offset) || n->line.offset >= s->offset + s->file_bytes)
			continue;
		for (size_t k = 0; k < f->n_segments; k++)
			if (f->segments[k].executable)
				found |= segment_restore(c, f, &f->segments[k], bias, range, both);
	}
	return found;
}

/* The mappings without a file end here: at another mapping of a file, or at unmapped memory. */
static void pending_resolve(struct remap_scan *c, const struct neighbour *after)
{
	struct binary_registry *binaries = c->remaps->options.binaries;
	const struct binary *a, *b;
	uint32_t held;

	if (!c->n_pending)
		return;
	if (c->n_places == PLACES_MAX) {
		c->n_pending = 0;
		return;
	}
	c->n_places++;
	b = neighbour_file(c, &c->before);
	held = b ? b->index : PROC_FILE_NONE;
	(void)binary_registry_hold(binaries, held); /* opening the other one must not evict it */
	a = neighbour_file(c, after);
	for (unsigned i = 0; i < c->n_pending; i++)
		if (range_restore(c, b, &c->before, &c->pending[i], a == b) ||
		    range_restore(c, a, after, &c->pending[i], a == b))
			c->found = true;
	binary_registry_release(binaries, held);
	c->n_pending = 0;
}

static void before_set(struct remap_scan *c, struct neighbour n)
{
	free(c->before.path);
	c->before = n;
}

static void scan_line(const struct proc_maps_line *line, struct remap_scan *c)
{
	const struct neighbour none = {.path = NULL};
	const struct proc_mapping *m = proc_maps_find(c->p->maps, line->start);
	struct neighbour here = {.line = *line};

	if (c->end != line->start) {
		pending_resolve(c, &none);
		before_set(c, none);
	}
	c->end = line->end;
	if (line->executable && m && !is_binary(c->remaps, m->file)) {
		if (c->n_pending < PENDING_MAX)
			c->pending[c->n_pending++] = (struct range){line->start, line->end};
		return;
	}
	if (line->inode)
		(void)proc_maps_path(line, &here.path);
	pending_resolve(c, &here);
	before_set(c, here);
}

static int scan_lines(struct process *p, const struct map_lines *l, void *data)
{
	const struct neighbour none = {.path = NULL};
	struct remaps *r = data;
	struct remap_scan c = {.remaps = r, .p = p};

	for (size_t i = 0; i < l->n; i++)
		scan_line(map_line(l, i), &c);
	pending_resolve(&c, &none);
	before_set(&c, none);
	if (l->incomplete)
		gap_note(r->options.gaps, GAP_NO_MEMORY);
	r->stats.cut += c.n_places == PLACES_MAX;
	if (c.found) {
		r->stats.found++;
		publication_mark(r->options.publication, p->pid);
	}
	return c.found;
}

bool remaps_read(struct remaps *r, struct process *p)
{
	int found = map_lines_read(r->options.requests, p, true, scan_lines, r);

	if (found == -ENOMEM)
		gap_note(r->options.gaps, GAP_NO_MEMORY);
	return found > 0;
}

bool remaps_possible(const struct remaps *r, uint32_t file, const char *path)
{
	bool special = path && path[0] == '[' && strncmp(path, "[anon", 5) != 0; /* [vsyscall] */

	return !special && file != openings_vdso(r->options.openings) && !is_binary(r, file);
}

/* --- checking again */

/* Whether code of a file is known to be mapped within [start, end). */
static bool replaces_code(const struct remaps *r, const struct process *p, uint64_t start, uint64_t end)
{
	struct proc_maps_cursor c = proc_maps_from(p->maps, start);
	const struct proc_mapping *m;

	while ((m = proc_maps_next(&c)) && m->start < end)
		if (is_binary(r, m->file))
			return true;
	return false;
}

static const struct remap_retry *slot_of(const struct remaps *r, uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->retries); i++)
		if (r->retries[i].pid == pid)
			return &r->retries[i];
	return NULL;
}

bool remaps_pending(const struct remaps *r, const struct process *p, const struct proc_mapping *m)
{
	const struct remap_retry *slot = slot_of(r, p->pid);

	return slot && !slot->ended && !is_binary(r, m->file);
}

void remaps_note(struct remaps *r, const struct process *p, const struct proc_mapping *m)
{
	struct remap_retry *slot = (struct remap_retry *)slot_of(r, p->pid);

	if (is_binary(r, m->file) || (!slot && !replaces_code(r, p, m->start, m->end)))
		return;
	if (!slot) {
		slot = (struct remap_retry *)slot_of(r, 0);
		if (!slot) {
			r->stats.full++;
			return;
		}
		*slot = (struct remap_retry){.pid = p->pid};
	}
	if (slot->ended)
		slot->n_tried = 0;
	slot->ended = false;
	slot->due_ns = r->clock.mono_ns(); /* its protection changes: the bytes may be there now */
}

/* Threads may add to the cost later. */
static bool read_again(struct remaps *r, struct remap_retry *slot, struct process *p)
{
	uint64_t before = r->clock.thread_cpu_ns();
	uint64_t *former = requests_charge(r->options.requests, &slot->cost_ns);
	bool found;

	slot->cost_ns = 0;
	slot->read_ns = r->clock.mono_ns();
	found = remaps_read(r, p);
	(void)requests_charge(r->options.requests, former);
	slot->cost_ns += r->clock.thread_cpu_ns() - before;
	return found;
}

static void retry(struct remaps *r, struct remap_retry *slot)
{
	struct process *p = proc_table_get(r->options.processes, slot->pid);
	uint64_t now = r->clock.mono_ns();

	if (p && (p->n_reading || now < slot->due_ns || now < slot->read_ns + slot->cost_ns * READ_SHARE))
		return;
	if (!p || slot->ended)
		slot->pid = 0;
	else if (read_again(r, slot, p) || slot->n_tried == ARRAY_SIZE(retry_after_ns))
		slot->ended = true;
	else
		slot->due_ns = now + retry_after_ns[slot->n_tried++];
}

void remaps_retry(struct remaps *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->retries); i++)
		if (r->retries[i].pid)
			retry(r, &r->retries[i]);
}

void remaps_stats(const struct remaps *r, struct remaps_stats *ret)
{
	*ret = r->stats;
}
