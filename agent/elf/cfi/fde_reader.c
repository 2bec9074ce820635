// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the entries one after the other, and recovers from damaged ones with the help of the search table
 * (ehindex.h), which can be damaged, too. The table is right about the place of an FDE if an FDE can be read
 * there whose start equals the one in the table: damaged data would hardly have the same start.
 *
 * Without a table, if a length exceeds the section, reading continues at the next place where two valid
 * entries follow each other.
 */
#include "agent/elf/cfi/fde_reader.h"

#include "agent/base/cleanup.h"
#include "agent/base/urgency.h"
#include "agent/elf/cfi/cie_cache.h"
#include "agent/elf/cfi/ehindex.h"

#define URGENCY_FDES 512u /* after so many, another thread may have made the job urgent */

#define _cleanup_cie_cache_ _cleanup_(cie_cache_fini)
#define ENTRY_ALIGN 4		 /* bytes */
#define SEARCH_BYTES (64u << 10) /* longer than any entry of a real file */

static enum elf_source source_of(const struct cfi_section *s)
{
	if (s->separate)
		return ELF_DEBUG_FILE;
	return s->debug ? ELF_DEBUG_FRAME : ELF_EH_FRAME;
}

/* Reads the FDE at `offset`. False if there is none with the start that the table has. */
static bool read_known(const struct cfi_section *s, uint64_t offset, struct cfi_fde *ret)
{
	struct cfi_section here = *s;
	struct cfi_entry entry;
	struct cfi_cie cie;
	uint64_t at = offset;

	here.until_zero = true; /* an entry at `offset` must be the FDE; do not skip zero lengths */
	if (offset >= s->len || entry_next(&here, &at, &entry) != 1 || entry.is_cie || entry.body.bad)
		return false;
	entry_cie(s, entry.cie, &cie);
	if (cie.error || entry_fde(s, &cie, &entry, ret))
		return false;
	size_t i = eh_index_find(s->index, ret->start);
	return i != EH_INDEX_NONE && eh_index_offset(s->index, i) == offset;
}

/* The offset in [from, until) of the next FDE on which section and table agree, or UINT64_MAX. */
static uint64_t next_known(const struct cfi_section *s, uint64_t from, uint64_t until)
{
	uint64_t offset = eh_index_next(s->index, from);
	struct cfi_fde ignored;

	while (offset < until && !read_known(s, offset, &ignored))
		offset = eh_index_next(s->index, offset + 1);
	return offset < until ? offset : UINT64_MAX;
}

/*
 * Moves *offset behind the entry there, which must be a readable CIE, or a readable FDE of executable
 * addresses. 0: end of the entries; -1: it is neither.
 */
static int step_over(struct row_spans *spans, const struct cfi_section *s, uint64_t *offset)
{
	struct cfi_section here = *s;
	uint64_t at = *offset;
	struct cfi_entry entry;
	struct cfi_cie cie;
	struct cfi_fde fde;

	here.until_zero = true;
	int more = entry_next(&here, offset, &entry);
	if (more <= 0)
		return more;
	entry_cie(s, entry.is_cie ? at : entry.cie, &cie);
	if (cie.error || entry.body.bad)
		return -1;
	if (entry.is_cie)
		return 1;
	if (entry_fde(s, &cie, &entry, &fde) || fde.end == fde.start ||
	    !row_spans_clip(spans, fde.start, &fde.end))
		return -1;
	return 1;
}

/* The first offset behind `from` at which two entries in a row can be read. */
static uint64_t search(struct row_spans *spans, const struct cfi_section *s, uint64_t from)
{
	uint64_t until = s->len - from < SEARCH_BYTES ? s->len : from + SEARCH_BYTES;

	for (; from < until; from += ENTRY_ALIGN) {
		uint64_t at = from;

		if (step_over(spans, s, &at) <= 0)
			continue;
		if (step_over(spans, s, &at) >= 0)
			return from;
	}
	return UINT64_MAX;
}

/*
 * The offset at which reading must continue because the entry at `at` is damaged; UINT64_MAX: continue behind
 * it.
 */
static uint64_t detour(struct row_spans *spans, const struct cfi_section *s, int more, uint64_t at,
		       uint64_t behind)
{
	uint64_t next = UINT64_MAX;

	if (s->index)
		next = next_known(s, more ? at + 1 : at, more > 0 ? behind : s->len);
	if (next == UINT64_MAX && more < 0)
		next = search(spans, s, at + ENTRY_ALIGN);
	return next;
}

static bool next_entry(struct row_spans *spans, const struct cfi_section *s, uint64_t *offset,
		       struct cfi_entry *ret)
{
	for (;;) {
		uint64_t at = *offset;
		int more = entry_next(s, offset, ret);

		if (more != 0)
			at = more > 0 ? ret->offset : *offset;
		uint64_t next = detour(spans, s, more, at, *offset);
		if (next == UINT64_MAX) {
			if (more > 0 && ret->is_cie && s->index && eh_index_next(s->index, at) == at)
				row_spans_skip(spans, source_of(s), at,
					       "FDE of .eh_frame_hdr has the id of a CIE");
			if (more < 0)
				row_spans_skip(spans, source_of(s), at,
					       "length leaves the section; what follows is lost");
			return more > 0;
		}
		spans->n_fdes++;
		row_spans_skip(spans, source_of(s), at,
			       more > 0	   ? "length reaches over the next FDE of .eh_frame_hdr"
			       : more == 0 ? "terminator before the last FDE of .eh_frame_hdr"
					   : "length leaves the section");
		*offset = next;
	}
}

/*
 * Entry `i` of the table belongs to the FDE. If their starts differ, that of the FDE is accepted only if it
 * lies between the functions of the neighbouring entries.
 */
static bool may_start(const struct cfi_section *s, size_t i, uint64_t start)
{
	const struct eh_index *ix = s->index;
	struct cfi_fde before;

	if (eh_index_start(ix, i) == start)
		return true; /* the binary search missed the entry because a neighbour has a damaged start */
	if (i + 1 < ix->n && eh_index_start(ix, i + 1) <= start)
		return false;
	if (i == 0)
		return true;
	return eh_index_start(ix, i - 1) < start &&
	       (!read_known(s, eh_index_offset(ix, i - 1), &before) || before.end <= start);
}

static const char *check_range(const struct cfi_section *s, const struct cfi_entry *entry,
			       struct cfi_fde *fde)
{
	struct eh_index *ix = s->index;
	struct cfi_fde ignored;

	if (!ix || ix->n == 0)
		return NULL;
	size_t i = eh_index_find(ix, fde->start);
	if (i == EH_INDEX_NONE || eh_index_offset(ix, i) != entry->offset) {
		size_t own = eh_index_of(ix, entry->offset);

		/* linkers leave out of the table FDEs of functions that they merged with identical ones */
		if (own != EH_INDEX_NONE && !may_start(s, own, fde->start))
			return "start of the FDE is another one in .eh_frame_hdr";
		i = own != EH_INDEX_NONE ? own : i;
	}
	if (i == EH_INDEX_NONE || ++i >= ix->n)
		return NULL;
	uint64_t next = eh_index_start(ix, i);
	/* according to the table, the next function begins there, and GCC's unwinder follows the table */
	if (next > fde->start && next < fde->end && read_known(s, eh_index_offset(ix, i), &ignored))
		fde->end = next;
	return NULL;
}

/*
 * Adds the rows of an FDE. NULL, also for an FDE without addresses; else what is wrong with it. *ret_part:
 * some of its rows were added all the same.
 */
static const char *read_fde(struct row_spans *spans, const struct cfi_section *s, const struct cie_slot *cie,
			    const struct cfi_entry *entry, bool *ret_part, int *ret_fatal)
{
	size_t first = spans->out.n_rows;
	struct cfi_fde fde;

	*ret_part = false;
	if (cie->cie.error)
		return cie->cie.error;
	const char *error = entry_fde(s, &cie->cie, entry, &fde);
	if (error)
		return error;
	/* the linker discarded the function: the FDE is empty in .eh_frame, at address 0 in .debug_frame */
	if (fde.end == fde.start || (s->debug && fde.start == 0))
		return NULL;
	error = check_range(s, entry, &fde);
	if (error)
		return error;
	fde.start += s->delta;
	fde.end += s->delta;
	if (fde.end < fde.start)
		return "range of the FDE wraps around";
	if (!row_spans_clip(spans, fde.start, &fde.end))
		return "range of the FDE is not in an executable segment";
	if (fde.end - fde.start > UINT32_MAX)
		return "range of the FDE is larger than 4 GiB";
	error = cfi_run_fde(&spans->out, s, &cie->cie, &cie->initial, &fde, ret_fatal);
	*ret_part = error && spans->out.n_rows > first;
	if ((!error || *ret_part) && *ret_fatal == 0)
		*ret_fatal = row_spans_add(spans, fde.start, fde.end, first, source_of(s));
	return error;
}

int fdes_read(struct row_spans *spans, const struct cfi_section *s)
{
	_cleanup_cie_cache_ struct cie_cache cache = {0};
	struct cfi_entry entry;
	uint64_t offset = 0;
	bool part;
	int fatal;

	cie_cache_init(&cache, s);
	fatal = cfi_output_reserve(&spans->out, s->len);
	if (fatal < 0)
		return fatal;
	while (next_entry(spans, s, &offset, &entry)) {
		if (entry.is_cie)
			continue;
		if (++spans->n_fdes % URGENCY_FDES == 0)
			urgency_point();
		if (entry.body.bad) {
			row_spans_skip(spans, source_of(s), entry.offset, "FDE is truncated");
			continue;
		}
		const struct cie_slot *cie = cie_cache_get(&cache, &spans->out, s, entry.cie, &fatal);
		if (!cie)
			return fatal;
		const char *error = read_fde(spans, s, cie, &entry, &part, &fatal);
		if (fatal < 0)
			return fatal;
		if (error && part)
			row_spans_skip_part(spans, source_of(s), entry.offset, error);
		else if (error)
			row_spans_skip(spans, source_of(s), entry.offset, error);
	}
	return 0;
}
