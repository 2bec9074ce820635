// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte is options, the others are a call-frame section, in which complete rules are looked up and
 * applied. Memory has an address as the content of each address below 64 KiB.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/cfi/frame_section.h"

enum { OPTION_ARM64 = 1, OPTION_DEBUG = 2, OPTION_UNTIL_ZERO = 4, OPTION_BASES = 8 };

#define QUERIES 8

static void require(int condition)
{
	if (!condition)
		abort();
}

static int read_memory(void *data, void *to, uint32_t bytes, uint64_t address)
{
	(void)data;
	require(bytes > 0 && bytes <= 8);
	if (address >= 0x10000)
		return -1;
	memcpy(to, &address, bytes);
	return 0;
}

static void step(const struct frame_query *q)
{
	const struct frame_memory memory = {read_memory, NULL, NULL};
	struct frame_registers regs = {.known = 0x1ffff}, before;
	int r;

	require(q->rule.start <= q->va && q->va < q->rule.end);
	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		regs.value[i] = 0x1000 * i;
	for (int i = 0; i < 3; i++) {
		before = regs;
		r = frame_rule_step(&q->rule, &memory, &regs);
		require(r == 0 || r == 1 || r == -ENODATA || r == -EFAULT || r == -ENOTSUP || r == -EINVAL ||
			r == -ELOOP);
		if (r != 0) {
			require(before.known == regs.known);
			require(memcmp(before.value, regs.value, sizeof regs.value) == 0);
			return;
		}
		require(regs.known >> q->rule.sp_reg & regs.known >> q->rule.ra_reg & 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t addresses[QUERIES] = {0,	    0x1000, 0x1001,   0x1010,
						    0x1fff, 0x2010, 0x400000, ~0ull};
	struct frame_query *q;

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
	q = calloc(QUERIES, sizeof *q);
	require(q != NULL);
	for (int i = 0; i < QUERIES; i++)
		q[i] = (struct frame_query){.va = addresses[i], .error = -ENOENT};
	require(frame_rules_in_section(&s, q, QUERIES) == 0);
	for (int i = 0; i < QUERIES; i++) {
		require(q[i].error == 0 || q[i].error == -ENOENT || q[i].error == -EINVAL ||
			q[i].error == -ENOTSUP);
		if (q[i].error == 0)
			step(&q[i]);
	}
	free(q);
	return 0;
}
