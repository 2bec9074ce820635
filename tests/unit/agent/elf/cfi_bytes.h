// SPDX-License-Identifier: Apache-2.0
/* Builds call-frame sections byte by byte for the tests of agent/elf/, and prints tables as short text. */
#ifndef PROFLET_TESTS_CFI_BYTES_H
#define PROFLET_TESTS_CFI_BYTES_H

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/buf.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/fde_reader.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/cfi/rule_format.h"

#define SECTION_VA 0x400000ull
#define TEXT_VA 0x1000ull /* start of the FDEs in the tests */

struct bytes {
	const char *data;
	size_t len;
};
/* A string literal as bytes, NULs included. */
#define BYTES(s) ((struct bytes){(s), sizeof(s) - 1})

static inline void put(struct buf *b, const void *data, size_t len)
{
	cr_assert_eq(buf_append(b, data, len), 0);
}

static inline void put_u8(struct buf *b, uint8_t n)
{
	put(b, &n, sizeof(n));
}

static inline void put_u32(struct buf *b, uint32_t n)
{
	put(b, &n, sizeof(n));
}

static inline void put_u64(struct buf *b, uint64_t n)
{
	put(b, &n, sizeof(n));
}

/* Writes the 32-bit length of the entry that began at `start`, padded with DW_CFA_nop to 8 bytes. */
static inline void end_entry(struct buf *b, size_t start)
{
	while ((b->len - start) % 8)
		put_u8(b, DW_CFA_nop);
	uint32_t len = (uint32_t)(b->len - start - sizeof(len));
	memcpy(b->data + start, &len, sizeof(len));
}

/*
 * Writes a CIE like that of GCC for x86-64 or aarch64: version 1, the given augmentation, 8-byte absolute
 * pointers.
 */
static inline size_t put_cie(struct buf *b, uint16_t machine, const char *augmentation, struct bytes program)
{
	size_t start = b->len;

	put_u32(b, 0);
	put_u32(b, 0); /* id */
	put_u8(b, 1);
	put(b, augmentation, strlen(augmentation) + 1);
	put_u8(b, machine == EM_AARCH64 ? 4 : 1); /* code alignment */
	put_u8(b, 0x78);			  /* data alignment -8 */
	put_u8(b, machine == EM_AARCH64 ? 30 : 16);
	if (augmentation[0] == 'z') {
		put_u8(b, strchr(augmentation, 'R') ? 1 : 0);
		if (strchr(augmentation, 'R'))
			put_u8(b, DW_EH_PE_absptr);
	}
	put(b, program.data, program.len);
	end_entry(b, start);
	return start;
}

static inline size_t put_fde(struct buf *b, size_t cie, bool sized, uint64_t va, uint64_t len,
			     struct bytes program)
{
	size_t start = b->len;

	put_u32(b, 0);
	put_u32(b, (uint32_t)(b->len - cie));
	put_u64(b, va);
	put_u64(b, len);
	if (sized)
		put_u8(b, 0);
	put(b, program.data, program.len);
	end_entry(b, start);
	return start;
}

/* CFA = rsp + 8, RA at CFA - 8; on aarch64 CFA = sp + 0. */
#define X86_START BYTES("\x0c\x07\x08\x90\x01")
#define ARM64_START BYTES("\x0c\x1f\x00")

static inline struct cfi_section section_of(const struct buf *b, uint16_t machine)
{
	return (struct cfi_section){
		.bytes = b->data,
		.len = b->len,
		.arch = elf_arch(machine),
		.bases = {.bytes = b->data, .section = SECTION_VA},
	};
}

/* Prints a table: rows separated by "; ", then the replaced ranges. */
static inline void put_table(struct buf *out, const struct elf_rows *t, uint16_t machine)
{
	char cfa[RULE_FORMAT_MAX], fp[RULE_FORMAT_MAX], ra[RULE_FORMAT_MAX];

	for (size_t i = 0; i < t->n_rows; i++) {
		const struct elf_rule *rule = &t->rules[t->rows[i].rule];

		rule_format_cfa(cfa, machine, rule);
		rule_format_fp(fp, machine, rule);
		rule_format_ra(ra, machine, rule);
		buf_printf(out, "%s%" PRIx64 " %s", i ? "; " : "", t->rows[i].va, cfa);
		if (rule->cfa_kind != CFA_NONE)
			buf_printf(out, " %s %s", fp, ra);
	}
	for (size_t i = 0; i < t->n_overridden; i++)
		buf_printf(out, " | %" PRIx64 "..%" PRIx64 " %s", t->overridden[i].start,
			   t->overridden[i].end, t->overridden[i].name);
}

/*
 * Returns "1000 rsp+8 same cfa-8; 1004 …; 1010 none", or "no rows", then " | OFFSET reason" for each skipped
 * FDE.
 */
static inline const char *table_text(const struct cfi_section *s, struct buf *out)
{
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(fdes_read(&spans, s), 0);
	size_t n_skipped = spans.n_skipped;
	struct elf_skipped first = spans.skipped[0];
	int r = row_spans_lay_out(&spans, &t);
	row_spans_fini(&spans);
	cr_assert(r == 0 || r == -ENODATA, "%d", r);
	if (r < 0)
		buf_puts(out, "no rows");
	else
		put_table(out, t, s->arch->machine);
	elf_rows_free(t);
	if (n_skipped)
		buf_printf(out, " | %" PRIx64 " %s", first.offset, first.reason);
	return buf_str(out);
}

static inline void check_table(const char *name, const struct cfi_section *s, const char *expected)
{
	_cleanup_buf_ struct buf out = {0};
	const char *text = table_text(s, &out);

	cr_expect_str_eq(text, expected, "%s:\n  found    %s\n  expected %s", name, text, expected);
}

#endif
