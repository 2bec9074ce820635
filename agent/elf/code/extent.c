// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/extent.h"

#include <stdbool.h>
#include <string.h>

#include "agent/elf/code/x86.h"

#define TABLE_WORD 8u	  /* bytes of an address in a table of jumps */
#define LOOP_JUMP_MAX 256 /* bytes that a jump to the condition of a loop skips, at most */

/*
 * The offset that a jump leads to, if it is one inside of a function: a conditional jump, or one over the
 * padding that aligns the head of a loop. 0: it is none, or leads backwards.
 */
static uint32_t inner_target(uint32_t n, uint32_t at, const struct x86_insn *insn)
{
	const int64_t target = (int64_t)at + insn->len + insn->disp;
	const int64_t most = insn->op == X86_BRANCH ? n : (int64_t)at + insn->len + LOOP_JUMP_MAX;

	if (insn->op != X86_BRANCH && insn->op != X86_JUMP)
		return 0;
	return target > (int64_t)at && target <= most && target <= n ? (uint32_t)target : 0;
}

uint32_t code_behind_table(uint64_t va, const uint8_t *code, uint32_t n, uint32_t at, uint32_t *reached)
{
	uint32_t word = at + (uint32_t)(-(va + at) % TABLE_WORD);
	uint64_t target;

	for (; word < n && n - word >= TABLE_WORD; word += TABLE_WORD) {
		memcpy(&target, code + word, sizeof target);
		target -= va;
		if (target >= n)
			break;
		*reached = (uint32_t)target > *reached ? (uint32_t)target : *reached;
		at = word + TABLE_WORD;
	}
	return at;
}

uint32_t code_extent(uint64_t va, const uint8_t *code, uint32_t n, uint32_t from, uint32_t limit)
{
	uint32_t reached = 0; /* the farthest that a jump inside of the function leads to */
	bool ended = false;

	while (from < limit) {
		const struct x86_insn insn = x86_decode(code + from, n - from);
		const uint32_t padded = ended ? x86_padding(code, n, from) : from;
		const uint32_t target = inner_target(n, from, &insn);

		if (!insn.len || (padded > from && reached < padded))
			return from;
		ended = insn.op == X86_RETURN || insn.op == X86_TRAP || insn.op == X86_JUMP;
		reached = target > reached ? target : reached;
		from += insn.len;
		if (insn.op == X86_JUMP_FAR_AWAY)
			from = code_behind_table(va, code, n, from, &reached);
	}
	return from;
}
