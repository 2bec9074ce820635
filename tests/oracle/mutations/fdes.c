// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/mutations/fdes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/cfi/cfi_entry.h"

static int compare_places(const void *a, const void *b)
{
	const struct fde_place *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int add_place(struct fde_places *f, size_t *cap, struct fde_place place)
{
	if (f->n == *cap) {
		size_t n = *cap ? *cap * 2 : 256;
		struct fde_place *v = realloc(f->v, n * sizeof(*v));

		if (!v)
			return -ENOMEM;
		f->v = v;
		*cap = n;
	}
	f->v[f->n++] = place;
	return 0;
}

int fde_places_read(struct fde_places *ret, const struct target *t, uint16_t machine)
{
	struct range range;
	uint64_t va, offset = 0;
	size_t cap = 0;

	*ret = (struct fde_places){0};
	if (!target_section(t, ".eh_frame", &range, &va))
		return 0;
	const uint8_t *bytes = t->bytes + range.offset;
	const struct cfi_section s = {.bytes = bytes,
				      .len = range.len,
				      .arch = elf_arch(machine),
				      .bases = {.bytes = bytes, .section = va}};
	struct cfi_entry entry;
	while (entry_next(&s, &offset, &entry) > 0) {
		struct cfi_cie cie;
		struct cfi_fde fde;

		if (entry.is_cie)
			continue;
		entry_cie(&s, entry.cie, &cie);
		if (cie.error || entry_fde(&s, &cie, &entry, &fde) || fde.start == fde.end)
			continue;
		int r = add_place(ret, &cap,
				  (struct fde_place){.at = range.offset + entry.offset,
						     .len = offset - entry.offset,
						     .start = fde.start,
						     .end = fde.end});
		if (r < 0)
			return r;
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), compare_places);
	for (size_t i = 1; i < ret->n; i++) {
		if (ret->v[i - 1].end > ret->v[i].start)
			ret->n = 0;
	}
	return 0;
}

static bool same_rule(const struct elf_rows *a, const struct elf_rows *b, uint64_t va)
{
	const struct elf_row *x = elf_rows_find(a, va), *y = elf_rows_find(b, va);
	const struct elf_rule none = {.cfa_kind = CFA_NONE};
	const struct elf_rule *p = x ? &a->rules[x->rule] : &none, *q = y ? &b->rules[y->rule] : &none;

	return memcmp(p, q, sizeof(*p)) == 0;
}

bool fde_places_differ(const struct fde_places *f, size_t i, const struct elf_rows *a,
		       const struct elf_rows *b, uint64_t *ret_va)
{
	const struct elf_rows *tables[] = {a, b};
	/* padding around a function belongs to a neighbour or to none */
	uint64_t low = i < f->n ? (i ? f->v[i - 1].end : 0) : 1;
	uint64_t high = i < f->n ? (i + 1 < f->n ? f->v[i + 1].start : UINT64_MAX) : 1;

	for (size_t k = 0; k < 2; k++) {
		for (size_t n = 0; n < tables[k]->n_rows; n++) {
			*ret_va = tables[k]->rows[n].va;
			if ((*ret_va < low || *ret_va >= high) && !same_rule(a, b, *ret_va))
				return true;
		}
	}
	return i < f->n && high != UINT64_MAX && !same_rule(a, b, *ret_va = high);
}
