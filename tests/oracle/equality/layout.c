// SPDX-License-Identifier: Apache-2.0
/*
 * A sweep over the FDEs in order of their starts. Those that reach over the present address are kept in a
 * list; the next part goes to the end of the one that holds or to the next start. Real sections overlap
 * almost never: the list is short, and is searched from end to end.
 */
#include "tests/oracle/equality/layout.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"

struct sweep {
	struct expected *e;
	const struct frames_entry **fdes; /* sorted by start */
	const struct frames_entry **open; /* FDEs that contain the current address */
	size_t n, n_open;
	const struct layout_skip *skips;
	size_t n_skips;
	layout_fn fn;
	void *data;
};

static enum section_kind kind_of(const struct expected *e, const struct frames_entry *fde)
{
	return e->frames->sections[fde->section].kind;
}

static const struct layout_skip *find_skip(const struct expected *e, const struct frames_entry *fde,
					   const struct layout_skip *skips, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (skips[i].kind == kind_of(e, fde) && skips[i].offset == fde->offset)
			return &skips[i];
	}
	return NULL;
}

static int by_start(const void *a, const void *b)
{
	const struct frames_entry *x = *(const struct frames_entry *const *)a,
				  *y = *(const struct frames_entry *const *)b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x < y ? -1 : x > y; /* the order in the section */
}

static bool is_inner(const struct expected *e, const struct frames_entry *a, const struct frames_entry *b)
{
	if (kind_of(e, a) != kind_of(e, b))
		return kind_of(e, a) < kind_of(e, b);
	return a->start != b->start ? a->start > b->start : a < b;
}

/* The FDE that applies at `at`, after removal of those that end there; NULL if there is none. */
static const struct frames_entry *holding(struct sweep *s, uint64_t at)
{
	const struct frames_entry *best = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < s->n_open; i++) {
		if (s->open[i]->end <= at)
			continue;
		s->open[kept++] = s->open[i];
		if (!best || is_inner(s->e, s->open[i], best))
			best = s->open[i];
	}
	s->n_open = kept;
	return best;
}

/* Visits the rows of the FDE between `from` and `to`. Rows behind its end are cut. */
static int walk_part(struct sweep *s, const struct frames_entry *fde, uint64_t from, uint64_t to)
{
	const struct frames_row *rows = s->e->frames->rows + fde->first;
	const struct layout_skip *skip = find_skip(s->e, fde, s->skips, s->n_skips);
	struct layout_part part = {.kind = kind_of(s->e, fde), .in_part = skip && skip->in_part};
	size_t n = fde->n;
	int r = 0;

	while (n > 0 && rows[n - 1].va >= fde->end)
		n--;
	for (size_t i = 0; r == 0 && i < (n ? n : 1); i++) {
		uint64_t start = n ? rows[i].va : fde->start, end = i + 1 < n ? rows[i + 1].va : fde->end;

		part.start = start > from ? start : from;
		part.end = end < to ? end : to;
		if (part.start >= part.end)
			continue;
		part.rule = expected_rule(s->e, fde, n ? fde->first + i : SIZE_MAX);
		r = part.rule < 0 ? (int)part.rule : s->fn(&part, s->data);
	}
	return r;
}

static int sweep(struct sweep *s)
{
	size_t next = 0;
	uint64_t at = 0;
	int r = 0;

	while (r == 0) {
		const struct frames_entry *fde = holding(s, at);

		if (!fde && next == s->n)
			break;
		if (!fde && s->fdes[next]->start > at)
			at = s->fdes[next]->start;
		if (next < s->n && s->fdes[next]->start <= at) {
			s->open[s->n_open++] = s->fdes[next++];
			continue;
		}
		uint64_t to =
			next < s->n && s->fdes[next]->start < fde->end ? s->fdes[next]->start : fde->end;
		r = walk_part(s, fde, at, to);
		at = to;
	}
	return r;
}

int layout_walk(struct expected *e, const struct layout_skip *skips, size_t n_skips, size_t *ret_skipped,
		layout_fn fn, void *data)
{
	const struct frames *f = e->frames;
	_cleanup_free_ const struct frames_entry **fdes = calloc(f->n_fdes + 1, sizeof *fdes);
	_cleanup_free_ const struct frames_entry **open = calloc(f->n_fdes + 1, sizeof *open);
	struct sweep s = {.e = e,
			  .fdes = fdes,
			  .open = open,
			  .skips = skips,
			  .n_skips = n_skips,
			  .fn = fn,
			  .data = data};

	*ret_skipped = 0;
	if (!fdes || !open)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_fdes; i++) {
		const struct frames_entry *fde = &f->fdes[i];

		if (fde->start >= fde->end || (kind_of(e, fde) == DEBUG_FRAME && fde->start == 0))
			continue;
		const struct layout_skip *skip = find_skip(e, fde, skips, n_skips);
		*ret_skipped += skip != NULL;
		if (!skip || skip->in_part)
			fdes[s.n++] = fde;
	}
	qsort(fdes, s.n, sizeof *fdes, by_start);
	return sweep(&s);
}
