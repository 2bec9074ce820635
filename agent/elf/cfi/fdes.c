// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/fdes.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/cie_cache.h"
#include "agent/elf/cfi/cfi_walk.h"

#define SPANS_MIN 1024

#define _cleanup_cie_cache_ _cleanup_(cie_cache_fini)

int fdes_init(struct fdes *f, const struct elf_segment *segments, size_t n_segments)
{
	f->segments = segments;
	f->n_segments = n_segments;
	f->skipped = calloc(ELF_SKIPPED_MAX, sizeof(*f->skipped));
	if (!f->skipped)
		return -ENOMEM;
	return cfi_output_init(&f->out);
}

void fdes_fini(struct fdes *f)
{
	cfi_output_fini(&f->out);
	free(f->spans);
	free(f->skipped);
	free(f->overridden);
	*f = (struct fdes){0};
}

void fdes_skip(struct fdes *f, enum elf_source source, uint64_t offset, const char *reason)
{
	if (f->n_skipped < ELF_SKIPPED_MAX)
		f->skipped[f->n_skipped] =
			(struct elf_skipped){.offset = offset, .reason = reason, .source = (uint8_t)source};
	f->n_skipped++;
}

enum elf_source fdes_source(const struct cfi_section *s)
{
	if (s->separate)
		return ELF_DEBUG_FILE;
	return s->debug ? ELF_DEBUG_FRAME : ELF_EH_FRAME;
}

static bool find_segment(struct fdes *f, uint64_t start)
{
	for (size_t i = 0; i < f->n_segments; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (!s->executable || start < s->va || start - s->va >= s->mem_bytes)
			continue;
		f->segment = s;
		return true;
	}
	return false;
}

bool fdes_clip(struct fdes *f, uint64_t start, uint64_t *end)
{
	const struct elf_segment *s = f->segment; /* nearly always that of the one before */

	if (f->n_segments == 0)
		return true;
	if ((!s || start < s->va || start - s->va >= s->mem_bytes) && !find_segment(f, start))
		return false;
	s = f->segment;
	if (*end > s->va + s->mem_bytes)
		*end = s->va + s->mem_bytes;
	return true;
}

static int grow_spans(struct fdes *f)
{
	size_t cap = f->spans_cap ? f->spans_cap * 2 : SPANS_MIN;
	struct fde_span *spans = realloc(f->spans, cap * sizeof(*spans));

	if (!spans)
		return -ENOMEM;
	f->spans = spans;
	f->spans_cap = cap;
	return 0;
}

int fdes_add_span(struct fdes *f, uint64_t start, uint64_t end, size_t first, enum elf_source source)
{
	if (f->n_spans == f->spans_cap) {
		int r = grow_spans(f);
		if (r < 0)
			return r;
	}
	if (f->n_spans && start < f->spans[f->n_spans - 1].start)
		f->unsorted = true;
	f->spans[f->n_spans++] = (struct fde_span){
		.start = start,
		.end = end,
		.first = (uint32_t)first,
		.n = (uint32_t)(f->out.n_rows - first) & FDE_SPAN_ROWS_MAX,
		.source = source,
	};
	return 0;
}

/* NULL when the FDE's rows were added, or it has no addresses; else what is wrong with it. */
static const char *read_fde(struct fdes *f, const struct cfi_section *s, const struct cie_slot *cie,
			    const struct cfi_entry *entry, int *ret_fatal)
{
	size_t first = f->out.n_rows;
	struct cfi_fde fde;

	if (cie->cie.error)
		return cie->cie.error;
	const char *error = entry_fde(s, &cie->cie, entry, &fde);
	if (error)
		return error;
	/* functions that the linker discarded: empty in .eh_frame, at address 0 in .debug_frame */
	if (fde.end == fde.start || (s->debug && fde.start == 0))
		return NULL;
	error = entries_check_range(s, entry, &fde);
	if (error)
		return error;
	fde.start += s->delta;
	fde.end += s->delta;
	if (fde.end < fde.start)
		return "range of the FDE wraps around";
	if (!fdes_clip(f, fde.start, &fde.end))
		return "range of the FDE is not in an executable segment";
	if (fde.end - fde.start > UINT32_MAX)
		return "range of the FDE is larger than 4 GiB";
	error = cfi_run_fde(&f->out, s, &cie->cie, &cie->initial, &fde, ret_fatal);
	if (!error && *ret_fatal == 0)
		*ret_fatal = fdes_add_span(f, fde.start, fde.end, first, fdes_source(s));
	return error;
}

int fdes_read(struct fdes *f, const struct cfi_section *s)
{
	_cleanup_cie_cache_ struct cie_cache cache = {0};
	struct cfi_entry entry;
	uint64_t offset = 0;
	int fatal;

	cie_cache_init(&cache, s);
	fatal = cfi_output_reserve(&f->out, s->len);
	if (fatal < 0)
		return fatal;
	while (entries_next(f, s, &offset, &entry)) {
		if (entry.is_cie)
			continue;
		f->n_fdes++;
		if (entry.body.bad) {
			fdes_skip(f, fdes_source(s), entry.offset, "FDE is truncated");
			continue;
		}
		const struct cie_slot *cie = cie_cache_get(&cache, &f->out, s, entry.cie, &fatal);
		if (!cie)
			return fatal;
		const char *error = read_fde(f, s, cie, &entry, &fatal);
		if (fatal < 0)
			return fatal;
		if (error)
			fdes_skip(f, fdes_source(s), entry.offset, error);
	}
	return 0;
}
