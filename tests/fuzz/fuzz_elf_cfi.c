// SPDX-License-Identifier: Apache-2.0
/* The first byte is options, the others are a call-frame section: the table must be well formed. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/cfi/fde_reader.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/cfi/rule_format.h"

enum { OPTION_ARM64 = 1, OPTION_DEBUG = 2, OPTION_UNTIL_ZERO = 4, OPTION_BASES = 8, OPTION_SEGMENT = 16 };

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_table(const struct elf_rows *t, uint16_t machine)
{
	char text[RULE_FORMAT_MAX];

	require(t->n_rows >= 2 && t->n_rules >= 1 && t->rules[0].cfa_kind == CFA_NONE);
	require(t->rows[t->n_rows - 1].rule == 0);
	for (size_t i = 0; i < t->n_rows; i++) {
		require(t->rows[i].rule < t->n_rules);
		require(i == 0 ||
			(t->rows[i - 1].va < t->rows[i].va && t->rows[i - 1].rule != t->rows[i].rule));
		require(elf_rows_find(t, t->rows[i].va) == &t->rows[i]);
	}
	for (size_t i = 0; i < t->n_rules; i++) {
		const struct elf_rule *r = &t->rules[i];

		require(r->cfa_kind <= CFA_SWITCH && r->fp.kind <= REG_UNSUPPORTED &&
			r->ra.kind <= REG_UNSUPPORTED && r->zero == 0);
		require((r->ra.kind == REG_UNDEFINED) == (r->cfa_kind == CFA_UNDEFINED));
		rule_format_cfa(text, machine, r);
		rule_format_fp(text, machine, r);
		rule_format_ra(text, machine, r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct elf_segment segment = {.va = 0x1000, .mem_bytes = 0x10000, .executable = true};
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	if (size < 1)
		return 0;
	uint8_t options = data[0];
	struct cfi_section s = {
		.bytes = data + 1,
		.len = size - 1,
		.arch = options & OPTION_ARM64 ? &elf_arch_aarch64 : &elf_arch_x86_64,
		.debug = options & OPTION_DEBUG,
		.until_zero = options & OPTION_UNTIL_ZERO,
		.bases = {.bytes = data + 1, .section = 0x2000, .text = 0x1000, .data = 0x3000},
	};
	s.bases.has_text = s.bases.has_data = options & OPTION_BASES;
	int r = row_spans_init(&spans, &segment, options & OPTION_SEGMENT ? 1 : 0);
	if (r == 0)
		r = fdes_read(&spans, &s);
	if (r == 0)
		r = row_spans_lay_out(&spans, &t);
	require(r == 0 || r == -ENODATA || r == -ENOMEM || r == -EFBIG);
	if (r == 0)
		check_table(t, s.arch->machine);
	elf_rows_free(t);
	row_spans_fini(&spans);
	return 0;
}
