// SPDX-License-Identifier: Apache-2.0
/*
 * GCC and clang write, with an index below a bound in a register:
 *
 *	cmp $bound, index; ja default; jmp *table(,index,8)                     addresses
 *	cmp …; ja …; lea table(%rip), base; movslq (base,index,4), reg; add base, reg; jmp *reg
 *	                                                                        distances from the table
 *
 * The `lea` may be anywhere before, outside of a loop for example.
 */
#include "agent/elf/code/jump_table.h"

#include "agent/elf/file/elf_image.h"

#define BELOW 2 /* conditions of jumps behind the comparison, for numbers without sign */
#define NOT_BELOW 3
#define NOT_ABOVE 6
#define ABOVE 7

/* The number of entries that the code admits; JUMP_TABLE_MAX when it is not seen. */
static uint32_t bound(const struct jump_context *c)
{
	for (unsigned i = c->n; i-- > 0;) {
		const struct x86_insn *compare = &c->insns[i], *branch = &c->insns[i + 1];
		uint32_t most;

		if (compare->op != X86_COMPARE || i + 1 == c->n || branch->op != X86_BRANCH)
			continue;
		if (branch->reg != ABOVE && branch->reg != NOT_ABOVE && branch->reg != BELOW &&
		    branch->reg != NOT_BELOW)
			continue;
		if (compare->disp < 0 || compare->disp >= (int32_t)JUMP_TABLE_MAX)
			return JUMP_TABLE_MAX;
		most = (uint32_t)compare->disp;
		return branch->reg == ABOVE || branch->reg == NOT_ABOVE ? most + 1 : most;
	}
	return JUMP_TABLE_MAX;
}

/* Reads at most `most` entries of `bytes` bytes. Returns how many there are. */
static uint32_t read_table(const struct elf_image *img, uint64_t table, uint32_t most, size_t bytes,
			   void *ret)
{
	const struct elf_segment *s = elf_image_segment_at(img, table);
	uint64_t n = s ? (s->file_bytes - (table - s->va)) / bytes : 0;

	n = n < most ? n : most;
	return n && elf_image_pread(img, s->offset + (table - s->va), ret, n * bytes) == 0 ? (uint32_t)n : 0;
}

static uint32_t read_addresses(const struct elf_image *img, uint64_t table, uint32_t most, uint64_t low,
			       uint64_t high, uint64_t *ret)
{
	const uint32_t n = read_table(img, table, most, sizeof *ret, ret);
	uint32_t i = 0;

	while (i < n && ret[i] >= low && ret[i] < high)
		i++;
	return i;
}

static uint32_t read_distances(const struct elf_image *img, uint64_t table, uint32_t most, uint64_t low,
			       uint64_t high, uint64_t *ret)
{
	int32_t distances[JUMP_TABLE_MAX];
	const uint32_t n = read_table(img, table, most, sizeof *distances, distances);
	uint32_t i = 0;

	for (; i < n; i++) {
		ret[i] = table + (uint64_t)(int64_t)distances[i];
		if (ret[i] < low || ret[i] >= high)
			break;
	}
	return i;
}

uint32_t jump_table_read(const struct elf_image *img, const struct jump_context *c, uint64_t low,
			 uint64_t high, uint64_t ret[JUMP_TABLE_MAX], bool *ret_bounded)
{
	const struct x86_insn *jump = &c->insns[c->n - 1];
	const uint32_t most = bound(c);
	uint8_t base = X86_NO_REG;

	*ret_bounded = most < JUMP_TABLE_MAX;
	if (jump->reg != X86_NO_REG && jump->disp > 0)
		return read_addresses(img, (uint64_t)jump->disp, most, low, high, ret);
	for (unsigned i = c->n; i-- > 0 && base == X86_NO_REG;)
		if (c->insns[i].op == X86_TABLE_ENTRY)
			base = c->insns[i].base;
	return base < X86_REGS && c->loaded[base] ? read_distances(img, c->loaded[base], most, low, high, ret)
						  : 0;
}
