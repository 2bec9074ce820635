// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes x86-64 code with Zydis and lists what changes or forms the flow of control. run_callers compiles
 * it as a shared library and calls it by ctypes; decoder.py has the same layout of struct flow_item.
 */
#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow_kind {
	FLOW_CALL = 1,	    /* target is the address that is called */
	FLOW_CALL_SLOT,	    /* call through a word at a fixed address, which is the target */
	FLOW_CALL_INDIRECT, /* call of what a register or a computed word holds */
	FLOW_JUMP,
	FLOW_JUMP_SLOT,
	FLOW_JUMP_INDIRECT,
	FLOW_JUMP_SWITCH, /* indirect, with the prefix of jump tables (notrack) */
	FLOW_BRANCH,	  /* conditional */
	FLOW_RETURN,
	FLOW_STOP, /* ud2, hlt, int3: nothing runs behind it */
	FLOW_SYSCALL,
	FLOW_ADDRESS, /* target is a constant of the code: of lea, or an immediate operand */
	FLOW_INVALID, /* a byte that begins no instruction */
};

struct flow_item {
	uint64_t address, target;
	uint8_t length, kind;
};

static ZydisDecoder decoder;

int flow_init(void)
{
	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))
		       ? 0
		       : -1;
}

static bool rip_relative(const ZydisDecodedInstruction *in)
{
	return (in->attributes & ZYDIS_ATTRIB_HAS_MODRM) && in->raw.modrm.mod == 0 && in->raw.modrm.rm == 5;
}

/* A memory operand at a fixed address: rip-relative, or a displacement without registers. */
static bool fixed_word(const ZydisDecodedInstruction *in, uint64_t next, uint64_t *ret)
{
	if (rip_relative(in)) {
		*ret = next + (uint64_t)in->raw.disp.value;
		return true;
	}
	if (in->raw.modrm.mod == 0 && in->raw.modrm.rm == 4 && in->raw.sib.base == 5 &&
	    in->raw.sib.index == 4 &&
	    !(in->attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS))) {
		*ret = (uint64_t)in->raw.disp.value;
		return true;
	}
	return false;
}

static uint8_t transfer(const ZydisDecodedInstruction *in, uint64_t next, uint64_t *target, bool call)
{
	if (in->raw.imm[0].is_relative) {
		*target = next + (uint64_t)in->raw.imm[0].value.s;
		return call ? FLOW_CALL : FLOW_JUMP;
	}
	if (fixed_word(in, next, target))
		return call ? FLOW_CALL_SLOT : FLOW_JUMP_SLOT;
	if (call)
		return FLOW_CALL_INDIRECT;
	return in->attributes & ZYDIS_ATTRIB_HAS_NOTRACK ? FLOW_JUMP_SWITCH : FLOW_JUMP_INDIRECT;
}

/* The kind of an instruction; 0: of no interest. */
static uint8_t kind_of(const ZydisDecodedInstruction *in, uint64_t next, uint64_t *target)
{
	*target = 0;
	switch (in->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return transfer(in, next, target, true);
	case ZYDIS_CATEGORY_UNCOND_BR:
		return transfer(in, next, target, false);
	case ZYDIS_CATEGORY_COND_BR:
		*target = next + (uint64_t)in->raw.imm[0].value.s;
		return FLOW_BRANCH;
	case ZYDIS_CATEGORY_RET:
		return FLOW_RETURN;
	default:
		break;
	}
	if (in->mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		return FLOW_SYSCALL;
	if (in->mnemonic == ZYDIS_MNEMONIC_UD2 || in->mnemonic == ZYDIS_MNEMONIC_HLT ||
	    in->mnemonic == ZYDIS_MNEMONIC_INT3)
		return FLOW_STOP;
	if (in->mnemonic == ZYDIS_MNEMONIC_LEA && fixed_word(in, next, target))
		return FLOW_ADDRESS;
	if (in->raw.imm[0].size >= 32 && !in->raw.imm[0].is_relative) {
		*target = in->raw.imm[0].value.u;
		return FLOW_ADDRESS;
	}
	return 0;
}

/*
 * Decodes `length` bytes from their begin on. Returns the number of items, of which at most `max` are
 * written. Constants below `least` are left out. *ret_end: the address behind the last instruction.
 */
size_t flow_scan(const uint8_t *code, size_t length, uint64_t address, uint64_t least,
		 struct flow_item *items, size_t max, uint64_t *ret_end)
{
	ZydisDecodedInstruction in;
	size_t n = 0;

	for (size_t at = 0; at < length;) {
		struct flow_item item = {.address = address + at, .length = 1, .kind = FLOW_INVALID};

		if (ZYAN_SUCCESS(
			    ZydisDecoderDecodeInstruction(&decoder, NULL, code + at, length - at, &in))) {
			item.length = in.length;
			item.kind = kind_of(&in, address + at + in.length, &item.target);
		}
		at += item.length;
		*ret_end = address + at;
		if (!item.kind || (item.kind == FLOW_ADDRESS && item.target < least))
			continue;
		if (n < max)
			items[n] = item;
		n++;
	}
	return n;
}

/* Whether an instruction begins at code[offset] when the decoding begins at code[0]. */
int flow_is_boundary(const uint8_t *code, size_t length, size_t offset)
{
	ZydisDecodedInstruction in;
	size_t at = 0;

	while (at < length && at < offset)
		at += ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + at, length - at, &in))
			      ? in.length
			      : 1;
	return at == offset;
}

/* The last of n sorted addresses that is not above an address; n: none. */
static size_t last_not_above(const uint64_t *sorted, size_t n, uint64_t address)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (sorted[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : n;
}

/*
 * Looks through the code for what names or reaches functions. Sets marks[i] where a constant is starts[i]
 * (address taken; the n starts are sorted), and writes at most `max` pairs of jumps out of a function into
 * another: the starts' indices. Without marks it writes, as pairs of 32-bit halves, the targets of calls and
 * the constants between `low` and `high` that are no starts. Returns the number of pairs.
 *
 * Data between functions makes instructions that are none; decoding begins anew where a function starts.
 */
size_t flow_survey(const uint8_t *code, size_t length, uint64_t address, uint64_t low, uint64_t high,
		   const uint64_t *starts, size_t n, uint8_t *marks, uint32_t *pairs, size_t max)
{
	ZydisDecodedInstruction in;
	size_t n_pairs = 0, next = 0; /* next: the first start behind `here` */

	for (size_t at = 0; at < length;) {
		uint64_t target, here = address + at;
		uint32_t pair[2];
		size_t to, from;
		uint8_t kind;

		while (next < n && starts[next] <= here)
			next++;

		if (!ZYAN_SUCCESS(
			    ZydisDecoderDecodeInstruction(&decoder, NULL, code + at, length - at, &in))) {
			at++;
			continue;
		}
		at += in.length;
		kind = kind_of(&in, address + at, &target);
		if (next < n && starts[next] - address < at)
			at = (size_t)(starts[next] - address);
		if (kind != FLOW_ADDRESS && kind != FLOW_JUMP && kind != FLOW_BRANCH && kind != FLOW_CALL)
			continue;
		to = last_not_above(starts, n, target);
		if (!marks) {
			if ((kind != FLOW_ADDRESS && kind != FLOW_CALL) || target < low || target >= high ||
			    (to < n && starts[to] == target))
				continue;
			pair[0] = (uint32_t)target;
			pair[1] = (uint32_t)(target >> 32);
		} else {
			if (kind == FLOW_ADDRESS && to < n && starts[to] == target)
				marks[to] = 1;
			from = last_not_above(starts, n, here);
			if (kind == FLOW_ADDRESS || kind == FLOW_CALL || to == n || from == n || from == to)
				continue;
			pair[0] = (uint32_t)from;
			pair[1] = (uint32_t)to;
		}
		if (n_pairs < max) {
			pairs[2 * n_pairs] = pair[0];
			pairs[2 * n_pairs + 1] = pair[1];
		}
		n_pairs++;
	}
	return n_pairs;
}
