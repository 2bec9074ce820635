// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/preserved.h"

#include <elf.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/x86.h"

/* The registers that are written, by their number in the encoding; all if that is unknown. */
static uint16_t written(const uint8_t *code, size_t n)
{
	uint16_t writes = 1u << X86_SP;

	for (size_t at = 0; at < n;) {
		struct x86_insn insn = x86_decode(code + at, n - at);

		if (!insn.len || insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY ||
		    insn.op == X86_JUMP_FAR_AWAY)
			return UINT16_MAX;
		writes |= insn.writes;
		if (insn.op == X86_LEAVE)
			writes |= 1u << X86_BP;
		at += insn.len;
	}
	return writes;
}

/* True when no jump leaves the function. */
static bool stays_inside(const uint8_t *code, size_t n)
{
	for (size_t at = 0; at < n;) {
		struct x86_insn insn = x86_decode(code + at, n - at);

		if (!insn.len)
			return false;
		at += insn.len;
		if ((insn.op == X86_JUMP || insn.op == X86_BRANCH) &&
		    (uint64_t)((int64_t)at + insn.disp) >= n)
			return false;
	}
	return true;
}

uint32_t preserved_registers(const struct elf_image *img, uint64_t start, uint64_t end)
{
	size_t n = end - start;
	_cleanup_free_ uint8_t *code = NULL;
	uint32_t preserved = 0;
	uint16_t writes;

	if (elf_image_machine(img) != EM_X86_64 || end <= start || end - start > PRESERVED_BYTES_MAX)
		return 0;
	code = malloc(n);
	if (!code || elf_image_read_code(img, start, code, n) < 0 || !stays_inside(code, n))
		return 0;
	writes = written(code, n);
	for (unsigned i = 0; i < X86_REGS; i++)
		if (!(writes >> i & 1))
			preserved |= 1u << x86_dwarf_number((uint8_t)i);
	return preserved;
}
