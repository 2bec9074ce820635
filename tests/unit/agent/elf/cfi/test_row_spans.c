// SPDX-License-Identifier: Apache-2.0
/* Order, gaps and overlaps of FDEs, and the row that covers an address. */
#include <stdlib.h>

#include "tests/unit/agent/elf/cfi_bytes.h"

struct range {
	uint64_t va, len;
	uint8_t cfa_off; /* of the only rule of the FDE, rsp + cfa_off */
};

static void put_range(struct buf *b, size_t cie, const struct range *r)
{
	const char program[] = {DW_CFA_def_cfa_offset, (char)r->cfa_off};

	put_fde(b, cie, false, r->va, r->len, (struct bytes){program, sizeof(program)});
}

Test(layout, tables)
{
	static const struct {
		const char *name;
		struct range ranges[5];
		const char *expected;
	} cases[] = {
		{"neighbours", {{0x1000, 0x40, 8}, {0x1040, 0x40, 16}}, "1000 rsp+8; 1040 rsp+16; 1080 none"},
		{"neighbours with one rule", {{0x1000, 0x40, 8}, {0x1040, 0x40, 8}}, "1000 rsp+8; 1080 none"},
		{"not in order",
		 {{0x1040, 0x40, 16}, {0x1000, 0x40, 8}},
		 "1000 rsp+8; 1040 rsp+16; 1080 none"},
		{"gap of 15 bytes",
		 {{0x1000, 0x31, 8}, {0x1040, 0x40, 16}},
		 "1000 rsp+8; 1040 rsp+16; 1080 none"},
		{"gap of 15 bytes, one rule",
		 {{0x1000, 0x31, 8}, {0x1040, 0x40, 8}},
		 "1000 rsp+8; 1080 none"},
		{"gap of 16 bytes",
		 {{0x1000, 0x30, 8}, {0x1040, 0x40, 16}},
		 "1000 rsp+8; 1030 none; 1040 rsp+16; 1080 none"},
		{"gap of 16 bytes, one rule",
		 {{0x1000, 0x30, 8}, {0x1040, 0x40, 8}},
		 "1000 rsp+8; 1030 none; 1040 rsp+8; 1080 none"},
		{"the later start wins",
		 {{0x1000, 0x50, 8}, {0x1040, 0x40, 16}},
		 "1000 rsp+8; 1040 rsp+16; 1080 none"},
		{"nested: the outer one goes on",
		 {{0x1000, 0x80, 8}, {0x1020, 0x20, 16}},
		 "1000 rsp+8; 1020 rsp+16; 1040 rsp+8; 1080 none"},
		{"three deep",
		 {{0x1000, 0x80, 8}, {0x1010, 0x60, 16}, {0x1020, 0x20, 24}},
		 "1000 rsp+8; 1010 rsp+16; 1020 rsp+24; 1040 rsp+16; 1070 rsp+8; 1080 none"},
		{"same start: the first one wins, the longer one goes on",
		 {{0x1000, 0x20, 8}, {0x1000, 0x40, 16}},
		 "1000 rsp+8; 1020 rsp+16; 1040 none"},
		{"same start, the other order",
		 {{0x1000, 0x40, 16}, {0x1000, 0x20, 8}},
		 "1000 rsp+16; 1040 none"},
		{"twice the same", {{0x1000, 0x40, 8}, {0x1000, 0x40, 8}}, "1000 rsp+8; 1040 none"},
		{"crossed over an end",
		 {{0x1000, 0x30, 8}, {0x1010, 0x10, 16}, {0x1018, 0x40, 24}},
		 "1000 rsp+8; 1010 rsp+16; 1018 rsp+24; 1058 none"},
		{"far apart",
		 {{0x7fffffff0000, 0x10, 8}, {0x10, 0x10, 16}},
		 "10 rsp+16; 20 none; 7fffffff0000 rsp+8; "
		 "7fffffff0010 none"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0}, out = {0}, expected = {0};
		size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

		for (size_t k = 0; k < ARRAY_SIZE(cases[i].ranges) && cases[i].ranges[k].len; k++)
			put_range(&b, cie, &cases[i].ranges[k]);
		/* all rules of these tables have the same registers */
		for (const char *s = cases[i].expected; *s; s++) {
			const char *end = strstr(s, "; ");

			end = end ? end : s + strlen(s);
			buf_printf(&expected, "%.*s%s", (int)(end - s), s,
				   strncmp(end - 4, "none", 4) ? " same cfa-8" : "");
			buf_puts(&expected, *end ? "; " : "");
			s = *end ? end + 1 : end - 1;
		}
		struct cfi_section s = section_of(&b, EM_X86_64);
		check_table(cases[i].name, &s, buf_str(&expected));
	}
}

Test(layout, eh_frame_goes_before_debug_frame)
{
	_cleanup_buf_ struct buf eh = {0}, debug = {0};
	const struct range outer = {0x1000, 0x40, 8}, inner = {0x1010, 0x60, 16};
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	put_range(&eh, put_cie(&eh, EM_X86_64, "", X86_START), &outer);
	put_range(&debug, put_cie(&debug, EM_X86_64, "", X86_START), &inner);
	/*
	 * the same bytes as .debug_frame: all bits of the id set, CIE pointer relative to the start of the
	 * section
	 */
	memset(debug.data + 4, 0xff, 4);
	memset(debug.data + 24 + 4, 0, 4);
	struct cfi_section a = section_of(&eh, EM_X86_64), b = section_of(&debug, EM_X86_64);
	b.debug = true;
	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(fdes_read(&spans, &a), 0);
	cr_assert_eq(fdes_read(&spans, &b), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
	cr_assert_eq(t->n_rows, 3);
	cr_expect_eq(t->rows[0].va, 0x1000);
	cr_expect_eq(t->rules[t->rows[0].rule].cfa_off, 8);
	cr_expect_eq(t->rows[1].va, 0x1040);
	cr_expect_eq(t->rules[t->rows[1].rule].cfa_off, 16);
	cr_expect_eq(t->rows[2].va, 0x1070);
	cr_expect_eq(t->n_fdes, 2);
	elf_rows_free(t);
	row_spans_fini(&spans);
}

Test(layout, fdes_outside_the_executable_segments_are_skipped)
{
	static const struct elf_segment segments[] = {
		{.va = 0, .mem_bytes = 0x1000},
		{.va = 0x1000, .mem_bytes = 0x30, .executable = true},
	};
	_cleanup_buf_ struct buf b = {0};
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};
	size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

	put_range(&b, cie, &(struct range){0x800, 0x40, 8});
	put_range(&b, cie, &(struct range){0x1000, 0x40, 8}); /* cut at 0x1030 */
	put_range(&b, cie, &(struct range){0x1030, 0x40, 8});
	struct cfi_section s = section_of(&b, EM_X86_64);
	cr_assert_eq(row_spans_init(&spans, segments, ARRAY_SIZE(segments)), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
	cr_expect_eq(t->n_skipped, 2);
	cr_expect_str_eq(t->skipped[0].reason, "range of the FDE is not in an executable segment");
	cr_assert_eq(t->n_rows, 2);
	cr_expect_eq(t->rows[1].va, 0x1030);
	elf_rows_free(t);
	row_spans_fini(&spans);
}

/*
 * Compares with the definition: for each address, of the FDEs that cover it, the one that starts last
 * applies, and of those the first in the section.
 */
Test(layout, random_overlaps)
{
	enum { SPAN = 256, FDES = 24, ROUNDS = 300 };
	unsigned seed = 1;

	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_buf_ struct buf b = {0};
		size_t cie = put_cie(&b, EM_X86_64, "", X86_START);
		struct range ranges[FDES];
		struct elf_rows *t = NULL;
		struct row_spans spans = {0};

		for (int i = 0; i < FDES; i++) {
			seed = seed * 1103515245 + 12345;
			ranges[i] = (struct range){.va = 0x1000 + (seed >> 16) % SPAN,
						   .len = 1 + (seed >> 8) % (round % 2 ? 60 : 8),
						   .cfa_off = (uint8_t)(i + 1)};
			put_range(&b, cie, &ranges[i]);
		}
		struct cfi_section s = section_of(&b, EM_X86_64);
		cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
		cr_assert_eq(fdes_read(&spans, &s), 0);
		cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
		for (uint64_t va = 0xff0; va < 0x1000 + SPAN + 80; va++) {
			const struct elf_row *row = elf_rows_find(t, va);
			const struct range *best = NULL;

			for (int i = 0; i < FDES; i++) {
				if (va >= ranges[i].va && va - ranges[i].va < ranges[i].len &&
				    (!best || ranges[i].va > best->va))
					best = &ranges[i];
			}
			if (best)
				cr_assert(row && t->rules[row->rule].cfa_off == best->cfa_off,
					  "round %d, %" PRIx64, round, va);
		}
		for (size_t i = 1; i < t->n_rows; i++) {
			cr_assert_lt(t->rows[i - 1].va, t->rows[i].va);
			cr_assert_neq(t->rows[i - 1].rule, t->rows[i].rule);
		}
		cr_assert_eq(t->rows[t->n_rows - 1].rule, 0);
		elf_rows_free(t);
		row_spans_fini(&spans);
	}
}

/* Whatever was added since the last time, in an order that is stable. */
Test(layout, sorted_again_and_again)
{
	enum { SPANS = 400, STARTS = 300 };
	struct row_spans spans = {0};
	unsigned seed = 7;

	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	for (uint32_t i = 0; i < SPANS; i++) {
		const uint32_t run = i / 50 % 2; /* of ascending ones */

		seed = seed * 1103515245 + 12345;
		cr_assert_eq(row_spans_add(&spans, run ? i : (seed >> 16) % STARTS, i, 0, ELF_CODE), 0);
		if (i % 37 && i + 1 < SPANS)
			continue;
		cr_assert_eq(row_spans_sort(&spans), 0);
		cr_assert_eq(spans.n, i + 1);
		for (size_t k = 1; k < spans.n; k++) {
			const struct row_span *a = &spans.v[k - 1], *b = &spans.v[k];

			/* `end` is the number of the span */
			cr_assert(a->start < b->start || (a->start == b->start && a->end < b->end),
				  "after %u: %zu", i, k);
		}
	}
	row_spans_fini(&spans);
}

Test(layout, find)
{
	struct elf_row rows[] = {{0x10, 1}, {0x20, 2}, {0x30, 0}};
	struct elf_rows t = {.rows = rows, .n_rows = ARRAY_SIZE(rows)};

	cr_expect_null(elf_rows_find(&t, 0));
	cr_expect_null(elf_rows_find(&t, 0xf));
	cr_expect_eq(elf_rows_find(&t, 0x10), &rows[0]);
	cr_expect_eq(elf_rows_find(&t, 0x1f), &rows[0]);
	cr_expect_eq(elf_rows_find(&t, 0x20), &rows[1]);
	cr_expect_eq(elf_rows_find(&t, UINT64_MAX), &rows[2]);
}

Test(layout, many_rules_stay_distinct)
{
	enum { RULES = 3000 };
	_cleanup_buf_ struct buf b = {0}, program = {0};
	size_t cie = put_cie(&b, EM_X86_64, "", X86_START);
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	for (unsigned i = 0; i < RULES; i++) {
		put_u8(&program, DW_CFA_advance_loc + 1);
		put_u8(&program, DW_CFA_def_cfa_offset);
		put_u8(&program, 0x80 | (i * 16 & 0x7f));
		put_u8(&program, 0x80 | (i * 16 >> 7 & 0x7f));
		put_u8(&program, (uint8_t)(i * 16 >> 14));
	}
	put_fde(&b, cie, false, TEXT_VA, 2 * RULES, (struct bytes){buf_str(&program), program.len});
	struct cfi_section s = section_of(&b, EM_X86_64);
	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
	cr_expect_eq(t->n_rules, RULES + 2); /* and two more: none, rsp+8 */
	for (uint64_t i = 1; i < RULES; i++)
		cr_assert_eq(t->rules[elf_rows_find(t, TEXT_VA + i + 1)->rule].cfa_off, (int32_t)(16 * i));
	elf_rows_free(t);
	row_spans_fini(&spans);
}
