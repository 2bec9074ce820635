// SPDX-License-Identifier: Apache-2.0
/*
 * A function that aligns its stack keeps its frame address in r10. GCC writes its epilogue so:
 *
 *	pop %r10; …; pop %rbp (or leave); …; lea -8(%r10),%rsp; ret
 *
 * For everything after `pop %r10`, GCC's call-frame information says that the CFA is r10 and that the
 * caller's rbp is at *(rbp). That is wrong from `pop %rbp` on: rbp is the caller's by then, and *(rbp) lies
 * in the caller's frame. Other instructions may stand in between, so we look for the last byte before the
 * `lea` that has the code of `pop %rbp` or `leave`. It may be part of another instruction, but it is never
 * before the true one: no row is corrected too early.
 */
#include "agent/unwind/row_repair.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/cfi/rows.h"

#define RBP 6
#define R10 10
#define EPILOGUE_MAX 64 /* bytes */
#define POP_RBP 0x5d
#define LEAVE 0xc9

static bool is_epilogue_rule(const struct elf_rule *r)
{
	return r->cfa_kind == CFA_REG_OFF && r->cfa_reg == R10 && r->cfa_off == 0 &&
	       r->fp.kind == REG_DEREF_REG && r->fp.reg == RBP && r->fp.off == 0;
}

/* The address in the row [va, end) from which rbp is the caller's; `end` when there is none. */
static uint64_t restored_from(const struct elf_image *img, uint64_t va, uint64_t end)
{
	static const uint8_t lea[] = {0x49, 0x8d, 0x62, 0xf8}; /* lea -8(%r10),%rsp */
	uint8_t code[EPILOGUE_MAX];
	size_t n = end - va;

	if (n <= sizeof lea || n > sizeof code || elf_image_read_code(img, va, code, n) < 0 ||
	    memcmp(code + n - sizeof lea, lea, sizeof lea) != 0)
		return end;
	for (size_t i = n - sizeof lea; i > 0; i--)
		if (code[i - 1] == POP_RBP || code[i - 1] == LEAVE)
			return va + i;
	return end;
}

/* Index of the same rule with rbp unchanged, which is added when there is none. -ENOMEM. */
static int64_t rule_with_rbp_unchanged(struct elf_rows *rows, uint32_t rule)
{
	struct elf_rule want = rows->rules[rule];

	want.fp = (struct elf_reg_rule){.kind = REG_SAME};
	for (size_t i = 0; i < rows->n_rules; i++)
		if (memcmp(&rows->rules[i], &want, sizeof want) == 0)
			return (int64_t)i;
	if (array_resize(&rows->rules, rows->n_rules + 1, sizeof *rows->rules) < 0)
		return -ENOMEM;
	rows->rules[rows->n_rules] = want;
	return (int64_t)rows->n_rules++;
}

/*
 * The addresses at which rows of the rule are to be split, ascending. Returns their number, and stores the
 * first `max` of them.
 */
static size_t find_splits(const struct elf_rows *rows, const struct elf_image *img, uint32_t rule,
			  uint64_t *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i + 1 < rows->n_rows; i++) {
		uint64_t end = rows->rows[i + 1].va, at;

		if (rows->rows[i].rule != rule)
			continue;
		at = restored_from(img, rows->rows[i].va, end);
		if (at == end)
			continue;
		if (n < max)
			ret[n] = at;
		n++;
	}
	return n;
}

/* Puts a row of `rule` at each of the addresses, which lie inside rows. */
static void insert(struct elf_rows *rows, const uint64_t *at, size_t n, uint32_t rule)
{
	size_t from = rows->n_rows, to = rows->n_rows + n;

	rows->n_rows = to;
	while (n > 0) {
		struct elf_row row = rows->rows[from - 1];

		if (at[n - 1] > row.va)
			row = (struct elf_row){at[--n], rule};
		else
			from--;
		rows->rows[--to] = row;
	}
}

static int repair_rule(struct elf_rows *rows, const struct elf_image *img, uint32_t rule)
{
	_cleanup_free_ uint64_t *at = NULL;
	size_t n = find_splits(rows, img, rule, NULL, 0);
	int64_t same;

	if (!n)
		return 0;
	at = calloc(n, sizeof *at);
	if (!at || array_resize(&rows->rows, rows->n_rows + n, sizeof *rows->rows) < 0)
		return -ENOMEM;
	same = rule_with_rbp_unchanged(rows, rule);
	if (same < 0)
		return (int)same;
	n = find_splits(rows, img, rule, at, n);
	insert(rows, at, n, (uint32_t)same);
	return 0;
}

int unwind_rows_repair(struct elf_rows *rows, struct elf_image *img)
{
	if (elf_image_machine(img) != EM_X86_64)
		return 0;
	for (uint32_t i = 0; i < rows->n_rules; i++)
		if (is_epilogue_rule(&rows->rules[i])) /* rules are distinct: there is one */
			return repair_rule(rows, img, i);
	return 0;
}
