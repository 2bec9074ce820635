// SPDX-License-Identifier: Apache-2.0
/* Where the beginning of a function saves a register. */
#include "agent/elf/code/prologue.h"

#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define R13 13

static const struct {
	const char *name;
	struct bytes code;
	int32_t expected;
} cases[] = {
	{"the first push", BYTES("\x41\x55"), -16},
	{"behind others and endbr64", BYTES("\xf3\x0f\x1e\xfa\x41\x57\x41\x56\x41\x55\x41\x54"), -32},
	{"with work between them", BYTES("\x41\x57\x48\x89\xf8\x48\x8b\x57\x58\x41\x56\x41\x55"), -32},
	{"a number is pushed before", BYTES("\x6a\x00\x41\x55"), -24},
	{"another register is r5 without its prefix", BYTES("\x55\x53\xc3"), 0},
	{"room is made before", BYTES("\x48\x83\xec\x08\x41\x55"), 0},
	{"a branch, behind which it may not be pushed", BYTES("\x48\x85\xff\x74\x10\x41\x55"), 0},
	{"a call", BYTES("\xe8\x00\x00\x00\x00\x41\x55"), 0},
	{"it has another value", BYTES("\x49\x89\xfd\x41\x55"), 0},
	{"it is set by another instruction", BYTES("\x45\x31\xed\x41\x55"), 0},
	{"a return", BYTES("\xc3\x41\x55"), 0},
	{"what is no instruction", BYTES("\x06\x41\x55"), 0},
	{"cut", BYTES("\x41\x57\x41"), 0},
	{"nothing", BYTES(""), 0},
};

Test(prologue, saves)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const int32_t off =
			prologue_saves((const uint8_t *)cases[i].code.data, cases[i].code.len, R13);

		cr_expect_eq(off, cases[i].expected, "%s: %d", cases[i].name, off);
	}
}
