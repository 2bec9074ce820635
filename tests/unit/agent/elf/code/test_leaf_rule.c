// SPDX-License-Identifier: Apache-2.0
/*
 * Rules of leaf functions in assembly that no FDE covers. If their start cannot be found, there is no rule.
 */
#include "agent/elf/code/leaf_rule.h"

#include "tests/unit/agent/elf/elf_file.h"

#include "agent/elf/rule_lookup.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define NOPS "\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x0f\x1f\x44\x00\x00" /* sixteen bytes */
#define CALL(disp) "\xe8" disp "\x00\x00\x00"
#define NO_LEAF UINT64_MAX

struct leaf_case {
	const char *name;
	struct bytes code;
	uint32_t at;	     /* the address to look up */
	uint64_t start, end; /* range of the function; NO_LEAF: none */
};

static const struct leaf_case cases[] = {
	{"its first instruction",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\xc3"),
	 16, 16, 17},
	{"behind others",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x48\xff\xc1\x90\xc3"),
	 19, 16, 21},
	{"nobody calls it",
	 BYTES(CALL("\x0c") "\xc3"
			    "0123456789"
			    "\x48\xff\xc1\x90\xc3"),
	 19, NO_LEAF, 0},
	{"not aligned",
	 BYTES(CALL("\x0c") "\xc3"
			    "0123456789"
			    "\x90\x48\xff\xc1\xc3"),
	 20, NO_LEAF, 0},
	{"inside an instruction",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x48\xff\xc1\xc3"),
	 17, NO_LEAF, 0},
	{"it pushes",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x53\x90\x5b\xc3"),
	 17, NO_LEAF, 0},
	{"it makes room",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x48\x83\xec\x08\x90\xc3"),
	 20, NO_LEAF, 0},
	{"it calls",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x90" CALL("\x00") "\xc3"),
	 16, NO_LEAF, 0},
	{"it jumps out",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x90\xeb\x80\xc3"),
	 16, NO_LEAF, 0},
	{"another function's way back lies between",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x90\xc3\x90\xc3"),
	 18, NO_LEAF, 0},
	{"a branch over one",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789"
			    "\x74\x01\xc3\x90\xc3"),
	 19, 16, 21},
	{"the head of a loop is no entry",
	 BYTES(CALL("\x0b") "\xc3"
			    "0123456789" NOPS "\x48\xff\xc9\x75\xfb\xc3"),
	 35, 16, 38},
	{"the nearest that is called", BYTES(CALL("\x0b") CALL("\x16") "012345" NOPS "\x48\xff\xc9\xc3"), 35,
	 32, 36},
};

Test(leaf_rule, function)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct leaf_case *c = &cases[i];
		char code[0x80] = {0};
		const struct file_section text = {
			".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
		struct elf_image *img;
		struct frame_query q = {.va = TEXT_VA + c->at, .error = -ENOENT};
		int r;

		memcpy(code, c->code.data, c->code.len);
		img = file_image(EM_X86_64, &text, 1, 0);
		r = leaf_rule_find(img, &q);
		cr_expect_eq(r, c->start == NO_LEAF ? -ENOENT : 0, "%s: %d", c->name, r);
		if (r == 0)
			cr_expect(q.fde_start == TEXT_VA + c->start && q.fde_end == TEXT_VA + c->end,
				  "%s: %#" PRIx64 " to %#" PRIx64, c->name, q.fde_start, q.fde_end);
		else
			cr_expect_eq(q.error, -ENOENT, "%s", c->name);
		elf_image_free(img);
	}
}

/*
 * Calls frame_rules_find, which adds the registers that the code does not write: so the CFA of a caller that
 * has it in rcx is known.
 */
Test(leaf_rule, registers_that_it_does_not_write)
{
	char code[0x80] = CALL("\x0b") "\xc3"
				       "0123456789"
				       "\x48\xff\xc0\x90\xc3"; /* inc %rax */
	const struct file_section text = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
	struct elf_image *img = file_image(EM_X86_64, &text, 1, 0);
	struct frame_query q = {.va = TEXT_VA + 19};

	cr_assert_eq(frame_rules_find(img, &q, 1), 0);
	cr_assert_eq(q.error, 0);
	cr_expect(q.rule.preserved >> 2 & 1, "rcx");
	cr_expect_not(q.rule.preserved >> 0 & 1, "rax");
	cr_expect_eq(q.rule.cfa.kind, LOCATION_REGISTER);
	cr_expect_eq(q.rule.cfa.reg, 7);
	cr_expect_eq(q.rule.cfa.off, 8);
	elf_image_free(img);
}
