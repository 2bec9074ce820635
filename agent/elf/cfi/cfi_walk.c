// SPDX-License-Identifier: Apache-2.0
/*
 * Either side may be the damaged one. The table's word about where an FDE begins counts if an FDE can be read
 * there whose start is the one that the table has for it: that does not happen by chance.
 *
 * Where no table helps, a length that leaves the section is overcome by a search for the next place where two
 * entries in a row make sense.
 */
#include "agent/elf/cfi/cfi_walk.h"

#include "agent/elf/cfi/ehindex.h"

#define ENTRY_ALIGN 4		 /* bytes */
#define SEARCH_BYTES (64u << 10) /* further than the longest entry of real files reaches */

/* Reads the FDE at `offset`; false when there is none whose start is the table's. */
static bool read_known(const struct cfi_section *s, uint64_t offset, struct cfi_fde *ret)
{
	struct cfi_section here = *s;
	struct cfi_entry entry;
	struct cfi_cie cie;
	uint64_t at = offset;

	here.until_zero = true; /* the entry is at `offset` or not at all */
	if (offset >= s->len || entry_next(&here, &at, &entry) != 1 || entry.is_cie || entry.body.bad)
		return false;
	entry_cie(s, entry.cie, &cie);
	if (cie.error || entry_fde(s, &cie, &entry, ret))
		return false;
	size_t i = eh_index_find(s->index, ret->start);
	return i != EH_INDEX_NONE && eh_index_offset(s->index, i) == offset;
}

/* Where in [from, until) the next FDE begins that both know; UINT64_MAX if there is none. */
static uint64_t next_known(const struct cfi_section *s, uint64_t from, uint64_t until)
{
	uint64_t offset = eh_index_next(s->index, from);
	struct cfi_fde ignored;

	while (offset < until && !read_known(s, offset, &ignored))
		offset = eh_index_next(s->index, offset + 1);
	return offset < until ? offset : UINT64_MAX;
}

/* Moves *offset behind the entry there when it is a CIE, or an FDE of executable addresses, that can be
 * read; 0 at the end of the entries, -1 when it is neither. */
static int step_over(struct fdes *f, const struct cfi_section *s, uint64_t *offset)
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
	if (entry_fde(s, &cie, &entry, &fde) || fde.end == fde.start || !fdes_clip(f, fde.start, &fde.end))
		return -1;
	return 1;
}

/* Where behind `from` two entries in a row can be read. */
static uint64_t search(struct fdes *f, const struct cfi_section *s, uint64_t from)
{
	uint64_t until = s->len - from < SEARCH_BYTES ? s->len : from + SEARCH_BYTES;

	for (; from < until; from += ENTRY_ALIGN) {
		uint64_t at = from;

		if (step_over(f, s, &at) > 0 && step_over(f, s, &at) >= 0)
			return from;
	}
	return UINT64_MAX;
}

/* Where the walk has to go on instead of behind the entry at `at`; UINT64_MAX when that was in order. */
static uint64_t detour(struct fdes *f, const struct cfi_section *s, int more, uint64_t at, uint64_t behind)
{
	uint64_t next = UINT64_MAX;

	if (s->index)
		next = next_known(s, more ? at + 1 : at, more > 0 ? behind : s->len);
	if (next == UINT64_MAX && more < 0)
		next = search(f, s, at + ENTRY_ALIGN);
	return next;
}

bool entries_next(struct fdes *f, const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret)
{
	for (;;) {
		uint64_t at = *offset;
		int more = entry_next(s, offset, ret);

		if (more != 0)
			at = more > 0 ? ret->offset : *offset;
		uint64_t next = detour(f, s, more, at, *offset);
		if (next == UINT64_MAX) {
			if (more > 0 && ret->is_cie && s->index && eh_index_next(s->index, at) == at)
				fdes_skip(f, fdes_source(s), at, "FDE of .eh_frame_hdr has the id of a CIE");
			if (more < 0)
				fdes_skip(f, fdes_source(s), at,
					  "length leaves the section; what follows is lost");
			return more > 0;
		}
		f->n_fdes++;
		fdes_skip(f, fdes_source(s), at,
			  more > 0    ? "length reaches over the next FDE of .eh_frame_hdr"
			  : more == 0 ? "terminator before the last FDE of .eh_frame_hdr"
				      : "length leaves the section");
		*offset = next;
	}
}

/*
 * Entry `i` of the table is that of the FDE. Where its start is another one, the FDE's may stand if it lies
 * between the functions before and behind.
 */
static bool may_start(const struct cfi_section *s, size_t i, uint64_t start)
{
	const struct eh_index *ix = s->index;
	struct cfi_fde before;

	if (eh_index_start(ix, i) == start)
		return true; /* a damaged start beside it hid it from the binary search */
	if (i + 1 < ix->n && eh_index_start(ix, i + 1) <= start)
		return false;
	if (i == 0)
		return true;
	return eh_index_start(ix, i - 1) < start &&
	       (!read_known(s, eh_index_offset(ix, i - 1), &before) || before.end <= start);
}

const char *entries_check_range(const struct cfi_section *s, const struct cfi_entry *entry,
				struct cfi_fde *fde)
{
	struct eh_index *ix = s->index;
	struct cfi_fde ignored;

	if (!ix || ix->n == 0)
		return NULL;
	size_t i = eh_index_find(ix, fde->start);
	if (i == EH_INDEX_NONE || eh_index_offset(ix, i) != entry->offset) {
		size_t own = eh_index_of(ix, entry->offset);

		/* linkers leave out FDEs of functions that they folded into others */
		if (own != EH_INDEX_NONE && !may_start(s, own, fde->start))
			return "start of the FDE is another one in .eh_frame_hdr";
		i = own != EH_INDEX_NONE ? own : i;
	}
	if (i == EH_INDEX_NONE || ++i >= ix->n)
		return NULL;
	uint64_t next = eh_index_start(ix, i);
	/* GCC's unwinder, which goes by the table, finds the next function there */
	if (next > fde->start && next < fde->end && read_known(s, eh_index_offset(ix, i), &ignored))
		fde->end = next;
	return NULL;
}
