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

#include "agent/elf/code/piece.h"
#include "agent/elf/file/elf_image.h"

#define BELOW 2 /* conditions of jumps behind the comparison, for numbers without sign */
#define NOT_BELOW 3
#define NOT_ABOVE 6
#define ABOVE 7

static uint32_t context_length(const struct jump_context *c)
{
	return c->n < JUMP_TABLE_INSNS ? c->n : JUMP_TABLE_INSNS;
}

/* The offset of the instruction that is this many before the jump. */
static uint32_t offset_before(const struct jump_context *c, uint32_t before)
{
	return c->off[(c->n - 1 - before) % JUMP_TABLE_INSNS];
}

/* The instruction there. It is decoded again: such jumps are few. */
static struct x86_insn insn_before(const struct code_piece *piece, const struct jump_context *c,
				   uint32_t before)
{
	const uint32_t off = offset_before(c, before);

	return x86_decode(piece->code + off, piece->n - off);
}

/*
 * The condition of a conditional jump of this length, the low four bits of its opcode; X86_NO_REG: it has
 * none, as loop.
 */
static uint8_t condition(const uint8_t *code, uint8_t len)
{
	if (len >= 6 && code[len - 6] == 0x0f)
		return code[len - 5] & 15;
	return (code[len - 2] & 0xf0) == 0x70 ? code[len - 2] & 15 : X86_NO_REG;
}

/* The number of entries that the code admits; JUMP_TABLE_MAX when it is not seen. */
static uint32_t bound(const struct code_piece *piece, const struct jump_context *c)
{
	struct x86_insn branch = insn_before(piece, c, 0);

	for (uint32_t i = 1; i < context_length(c); i++) {
		const struct x86_insn compare = insn_before(piece, c, i), next = branch;
		uint8_t when;

		branch = compare;
		if (compare.op != X86_COMPARE || next.op != X86_BRANCH)
			continue;
		when = condition(piece->code + offset_before(c, i - 1), next.len);
		if (when != ABOVE && when != NOT_ABOVE && when != BELOW && when != NOT_BELOW)
			continue;
		if (compare.disp < 0 || compare.disp >= (int32_t)JUMP_TABLE_MAX)
			return JUMP_TABLE_MAX;
		return (uint32_t)compare.disp + (when == ABOVE || when == NOT_ABOVE);
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

uint32_t jump_table_read(const struct code_piece *piece, const struct jump_context *c,
			 uint64_t ret[JUMP_TABLE_MAX], bool *ret_bounded)
{
	const uint64_t low = piece->va, high = piece->va + piece->n;
	const struct x86_insn jump = insn_before(piece, c, 0);
	const uint32_t most = bound(piece, c);

	*ret_bounded = most < JUMP_TABLE_MAX;
	if (jump.reg != X86_NO_REG && jump.disp > 0)
		return read_addresses(piece->img, (uint64_t)jump.disp, most, low, high, ret);
	for (uint32_t i = 0; i < context_length(c); i++) {
		const struct x86_insn entry = insn_before(piece, c, i);

		if (entry.op == X86_TABLE_ENTRY)
			return c->loaded[entry.base] ? read_distances(piece->img, c->loaded[entry.base], most,
								      low, high, ret)
						     : 0;
	}
	return 0;
}
