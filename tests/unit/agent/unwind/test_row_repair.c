// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/cfi/rows.h"
#include "agent/unwind/row_repair.h"
#include "tests/unit/agent/elf/elf_file.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

#define TEXT 0x1000u
#define LEA_RET 0x49, 0x8d, 0x62, 0xf8, 0xc3
#define POPS 0x5b, 0x41, 0x5a

/* An epilogue: where its row begins and ends, and from where rbp is the caller's; 0: as it was. */
struct epilogue {
	const char *name;
	uint8_t code[24];
	uint32_t row, end, restored;
};

static const struct epilogue epilogues[] = {
	{"pop %rbp right before", {POPS, 0x5d, LEA_RET}, 3, 8, 4},
	{"add between, and before",
	 {POPS, 0x48, 0x01, 0xc8, 0x41, 0x5c, 0x5d, 0x48, 0x01, 0xd0, LEA_RET},
	 3,
	 16,
	 9},
	{"leave", {POPS, 0xc9, LEA_RET}, 3, 8, 4},
	{"row ends elsewhere", {POPS, 0x5d, 0x90, 0x90, 0x90, 0x90, 0x90}, 3, 8, 0},
	{"prologue", {0x55, 0x48, 0x89, 0xe5, 0x41, 0x52}, 4, 6, 0},
	{"row of the lea alone", {POPS, 0x5d, LEA_RET}, 4, 8, 0},
};

static const struct elf_rule none = {.cfa_kind = CFA_NONE};
static const struct elf_rule before = {.cfa_reg = 6, .cfa_off = 16, .ra = {.kind = REG_CFA_OFF, .off = -8}};
static const struct elf_rule lying = {
	.cfa_reg = 10, .fp = {.kind = REG_DEREF_REG, .reg = 6}, .ra = {.kind = REG_CFA_OFF, .off = -8}};

static struct elf_rows *rows_new(uint32_t row, uint32_t end)
{
	struct elf_rows *r = calloc(1, sizeof *r);
	const struct elf_rule rules[] = {none, before, lying};
	const struct elf_row rows[] = {{TEXT, 1}, {TEXT + row, 2}, {TEXT + end, 1}, {TEXT + 24, 0}};

	r->rules = memcpy(malloc(sizeof rules), rules, sizeof rules);
	r->rows = memcpy(malloc(sizeof rows), rows, sizeof rows);
	r->n_rules = ARRAY_SIZE(rules);
	r->n_rows = ARRAY_SIZE(rows);
	return r;
}

static struct elf_image *image_of(const uint8_t code[24])
{
	const struct file_section text = {.name = ".text",
					  .type = SHT_PROGBITS,
					  .flags = SHF_ALLOC | SHF_EXECINSTR,
					  .va = TEXT,
					  .data = code,
					  .len = 24};

	return file_image(EM_X86_64, &text, 1, 0);
}

Test(row_repair, epilogues)
{
	for (size_t i = 0; i < ARRAY_SIZE(epilogues); i++) {
		const struct epilogue *e = &epilogues[i];
		_cleanup_(elf_image_free_p) struct elf_image *img = image_of(e->code);
		_cleanup_(elf_rows_free_p) struct elf_rows *rows = rows_new(e->row, e->end);
		const struct elf_rule *rule;

		cr_assert_eq(unwind_rows_repair(rows, img), 0);
		cr_expect_eq(rows->n_rows, e->restored ? 5u : 4u, "%s: %zu rows", e->name, rows->n_rows);
		if (!e->restored)
			continue;
		cr_expect_eq(rows->rows[2].va, TEXT + e->restored, "%s: from %lx", e->name,
			     (long)rows->rows[2].va);
		cr_expect_eq(rows->rows[1].va, TEXT + e->row);
		cr_expect_eq(rows->rows[1].rule, 2u);
		cr_expect_eq(rows->rows[3].va, TEXT + e->end);
		rule = &rows->rules[rows->rows[2].rule];
		cr_expect(rule->cfa_reg == 10 && rule->fp.kind == REG_SAME && rule->ra.kind == REG_CFA_OFF,
			  "%s", e->name);
	}
}

/* The code is not in the file: nothing is known, nothing changes. */
Test(row_repair, no_code)
{
	static const uint8_t code[24] = {POPS, 0x5d, LEA_RET};
	_cleanup_(elf_image_free_p) struct elf_image *img = image_of(code);
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = rows_new(3, 8);

	for (size_t i = 0; i < rows->n_rows; i++)
		rows->rows[i].va += 0x100000;
	cr_assert_eq(unwind_rows_repair(rows, img), 0);
	cr_expect_eq(rows->n_rows, 4u);
}
