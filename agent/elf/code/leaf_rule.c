// SPDX-License-Identifier: Apache-2.0
/*
 * No table says where the function begins. Its entry is aligned; from there, the instructions lead to the
 * address and on to a `ret` over which no branch jumps; and there is a call to it. Code that merely looks
 * like an entry, such as the head of a loop, is not called.
 */
#include "agent/elf/code/leaf_rule.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"

#define LEAF_BYTES_MAX 4096u /* bytes of a function before and behind the address */
#define ENTRY_ALIGN 16u
#define ENTRIES_MAX (LEAF_BYTES_MAX / ENTRY_ALIGN + 1)
#define TEXT_CHUNK (64u << 10)
#define TEXT_MAX (32u << 20) /* bytes in which calls are searched */
#define CALL_BYTES 5u	     /* e8 and a displacement */

struct leaf {
	uint64_t start, end;
};

static bool moves_stack(const struct x86_insn *insn)
{
	switch (insn->op) {
	case X86_PUSH:
	case X86_POP:
	case X86_LEAVE:
	case X86_CALL:
	case X86_CALL_FAR_AWAY:
	case X86_JUMP_FAR_AWAY:
	case X86_TRAP:
		return true;
	case X86_ADD:
	case X86_AND:
	case X86_MOVE:
	case X86_LEA:
	case X86_LOAD:
		return insn->reg == X86_SP;
	default:
		return insn->writes >> X86_SP & 1;
	}
}

/*
 * The end of the leaf function that begins at `at` and has an instruction at `wanted`; 0: there is no such
 * function.
 */
static size_t leaf_end(const uint8_t *code, size_t n, size_t at, size_t wanted)
{
	size_t start = at, furthest = at; /* the last target of a branch */
	bool met = false;

	while (at < n) {
		struct x86_insn insn = x86_decode(code + at, n - at);

		if (!insn.len || moves_stack(&insn))
			return 0;
		met |= at == wanted;
		at += insn.len;
		if (insn.op == X86_JUMP || insn.op == X86_BRANCH) {
			int64_t target = (int64_t)at + insn.disp;

			if (target < (int64_t)start || target >= (int64_t)n)
				return 0;
			furthest = (size_t)target > furthest ? (size_t)target : furthest;
		}
		if ((insn.op == X86_RETURN || insn.op == X86_JUMP) && furthest < at)
			return met ? at : 0;
	}
	return 0;
}

/*
 * Finds the leaf functions that may contain the address, lowest first, at most ENTRIES_MAX. `first` is the
 * address of `code`.
 */
static size_t leaves_in(const uint8_t *code, size_t n, uint64_t first, uint64_t va, struct leaf *ret)
{
	uint64_t at = (first + ENTRY_ALIGN - 1) & -(uint64_t)ENTRY_ALIGN;
	size_t found = 0;

	if (at < first || va - first >= n)
		return 0;
	if (va - first > LEAF_BYTES_MAX && at < va - LEAF_BYTES_MAX)
		at = (va - LEAF_BYTES_MAX + ENTRY_ALIGN - 1) & -(uint64_t)ENTRY_ALIGN;
	for (; at <= va; at += ENTRY_ALIGN) {
		size_t end = leaf_end(code, n, at - first, va - first);

		if (end)
			ret[found++] = (struct leaf){at, first + end};
	}
	return found;
}

static size_t leaves_around(const struct elf_image *img, const struct elf_segment *segment, uint64_t va,
			    struct leaf *ret)
{
	uint64_t first = segment->va, last = segment->va + segment->file_bytes;
	_cleanup_free_ uint8_t *code = NULL;

	if (va - first > LEAF_BYTES_MAX)
		first = va - LEAF_BYTES_MAX;
	if (last - va > LEAF_BYTES_MAX)
		last = va + LEAF_BYTES_MAX;
	code = malloc(last - first);
	if (!code || elf_image_pread(img, segment->offset + (first - segment->va), code, last - first) < 0)
		return 0;
	return leaves_in(code, last - first, first, va, ret);
}

/* Marks the functions to which calls in `n` bytes at `va` go. */
static void note_calls(const uint8_t *code, size_t n, uint64_t va, const struct leaf *leaves, size_t n_leaves,
		       bool *called)
{
	const uint8_t *at = code, *end = code + n;

	while (end - at >= CALL_BYTES && (at = memchr(at, 0xe8, (size_t)(end - at) - CALL_BYTES + 1))) {
		int32_t disp;
		uint64_t target;

		memcpy(&disp, at + 1, sizeof disp);
		target = va + (uint64_t)(at - code) + CALL_BYTES + (uint64_t)(int64_t)disp;
		for (size_t i = 0; i < n_leaves; i++)
			called[i] |= leaves[i].start == target;
		at++;
	}
}

static int note_all_calls(const struct elf_image *img, const struct elf_segment *segment,
			  const struct leaf *leaves, size_t n_leaves, bool *called)
{
	uint64_t bytes = segment->file_bytes < TEXT_MAX ? segment->file_bytes : TEXT_MAX;
	_cleanup_free_ uint8_t *code = malloc(TEXT_CHUNK);

	if (!code)
		return -ENOMEM;
	for (uint64_t at = 0; at < bytes; at += TEXT_CHUNK - CALL_BYTES + 1) {
		size_t n = bytes - at < TEXT_CHUNK ? bytes - at : TEXT_CHUNK;

		if (elf_image_pread(img, segment->offset + at, code, n) < 0)
			return 0;
		note_calls(code, n, segment->va + at, leaves, n_leaves, called);
	}
	return 0;
}

/* Selects the nearest leaf function that is called. 0 or -ENOENT. */
static int rule_set(struct frame_query *query, const struct leaf *leaves, size_t n, const bool *called)
{
	struct frame_rule *r = &query->rule;

	while (n && !called[n - 1])
		n--;
	if (!n)
		return -ENOENT;
	memset(r, 0, sizeof *r);
	r->start = query->fde_start = leaves[n - 1].start;
	r->end = query->fde_end = leaves[n - 1].end;
	r->sp_reg = X86_RSP;
	r->ra_reg = X86_RIP;
	r->cfa = (struct frame_location){.kind = LOCATION_REGISTER, .reg = X86_RSP, .off = 8};
	r->regs[X86_RSP] = (struct frame_location){.kind = LOCATION_CFA};
	r->regs[X86_RIP] = (struct frame_location){.kind = LOCATION_AT_CFA, .off = -8};
	query->error = 0;
	return 0;
}

int leaf_rule_in_code(const uint8_t *code, size_t n, uint64_t va, struct frame_query *query)
{
	struct leaf leaves[ENTRIES_MAX];
	bool called[ENTRIES_MAX] = {0};
	size_t found = leaves_in(code, n, va, query->va, leaves);

	note_calls(code, n, va, leaves, found, called);
	return rule_set(query, leaves, found, called);
}

int leaf_rule_find(const struct elf_image *img, struct frame_query *query)
{
	const struct elf_segment *segment = elf_image_segment_at(img, query->va);
	struct leaf leaves[ENTRIES_MAX];
	bool called[ENTRIES_MAX] = {0};
	size_t n;
	int r;

	if (elf_image_machine(img) != EM_X86_64 || !segment)
		return -ENOENT;
	n = leaves_around(img, segment, query->va, leaves);
	if (!n)
		return -ENOENT;
	r = note_all_calls(img, segment, leaves, n, called);
	return r < 0 ? r : rule_set(query, leaves, n, called);
}
