// SPDX-License-Identifier: Apache-2.0
/*
 * Runs every call-frame instruction in a small FDE of its own: [0x1000, 0x1040), x86-64 unless the name says
 * aarch64.
 */
#include <errno.h>

#include "agent/elf/cfi/interpreter.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define TAIL "; 1040 none"

struct program_case {
	const char *name;
	struct bytes program;
	const char *expected;
};

#define COPIES 3

/*
 * The interpreter has a fast path for usual instructions with known rules, which it leaves near the end of
 * the section. Of COPIES FDEs with the same program, the first uses new rules, and the last is at the end of
 * the section. All must have the same rows.
 */
static void check_copies(const struct program_case *c, uint16_t machine, const char *augmentation,
			 struct bytes start)
{
	_cleanup_buf_ struct buf b = {0};
	size_t cie = put_cie(&b, machine, augmentation, start);
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	for (unsigned i = 0; i < COPIES; i++)
		put_fde(&b, cie, augmentation[0] == 'z', TEXT_VA + i * 0x1000, 0x40, c->program);
	struct cfi_section s = section_of(&b, machine);
	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	cr_expect_eq(spans.n_skipped % COPIES, 0, "%s: %zu skipped", c->name, spans.n_skipped);
	if (row_spans_lay_out(&spans, &t) == 0) {
		size_t n = t->n_rows / COPIES;

		cr_assert_eq(t->n_rows % COPIES, 0, "%s: %zu rows", c->name, t->n_rows);
		for (size_t i = n; i < t->n_rows; i++) {
			cr_expect_eq(t->rows[i].va, t->rows[i - n].va + 0x1000, "%s", c->name);
			cr_expect_eq(t->rows[i].rule, t->rows[i - n].rule, "%s", c->name);
		}
	}
	elf_rows_free(t);
	row_spans_fini(&spans);
}

static void run_cases(const struct program_case *cases, size_t n, uint16_t machine, const char *augmentation,
		      struct bytes start)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf b = {0};
		size_t cie = put_cie(&b, machine, augmentation, start);

		put_fde(&b, cie, augmentation[0] == 'z', TEXT_VA, 0x40, cases[i].program);
		struct cfi_section s = section_of(&b, machine);
		check_table(cases[i].name, &s, cases[i].expected);
		if (strncmp(cases[i].name, "set_loc", strlen("set_loc")) !=
		    0) /* contains an absolute address */
			check_copies(&cases[i], machine, augmentation, start);
	}
}

Test(cfi, every_instruction)
{
	static const struct program_case cases[] = {
		{"nothing but nops", BYTES(""), "1000 rsp+8 same cfa-8" TAIL},
		{"advance_loc, def_cfa_offset, offset", BYTES("\x41\x0e\x10\x86\x02"),
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8" TAIL},
		{"advance_loc1", BYTES("\x02\x20\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1020 rsp+16 same cfa-8" TAIL},
		{"advance_loc2", BYTES("\x03\x21\x00\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1021 rsp+16 same cfa-8" TAIL},
		{"advance_loc4", BYTES("\x04\x22\x00\x00\x00\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1022 rsp+16 same cfa-8" TAIL},
		{"MIPS_advance_loc8", BYTES("\x1d\x23\x00\x00\x00\x00\x00\x00\x00\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1023 rsp+16 same cfa-8" TAIL},
		{"set_loc", BYTES("\x01\x24\x10\x00\x00\x00\x00\x00\x00\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1024 rsp+16 same cfa-8" TAIL},
		{"advance to the end: the rest is ignored", BYTES("\x02\x40\x0e\x10\x3f"),
		 "1000 rsp+8 same cfa-8" TAIL},
		{"advance by 0", BYTES("\x0e\x10\x40\x0e\x18\x41"), "1000 rsp+24 same cfa-8" TAIL},
		{"a function with a frame, two ways out and padding",
		 BYTES("\x41\x0e\x10\x8f\x02\x42\x0e\x18\x86\x03\x41\x0e\x20\x83\x04\x8e\x05\x44\x0e\x30"
		       "\x0a\x02\x05\x0e\x10\x41\x0e\x08\x41\x0b\x48\x0a\x41\x0e\x08\x41\x0b\x00\x00"),
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rsp+24 cfa-24 cfa-8; "
		 "1004 rsp+32 cfa-24 cfa-8; 1008 rsp+48 cfa-24 cfa-8; 100d rsp+16 cfa-24 cfa-8; "
		 "100e rsp+8 cfa-24 cfa-8; 100f rsp+48 cfa-24 cfa-8; 1018 rsp+8 cfa-24 cfa-8; "
		 "1019 rsp+48 cfa-24 cfa-8" TAIL},
		{"the frame pointer saved in two places",
		 BYTES("\x41\x86\x02\x41\xc6\x41\x86\x0a\x41\xc6\x41\x86\x02"),
		 "1000 rsp+8 same cfa-8; 1001 rsp+8 cfa-16 cfa-8; 1002 rsp+8 same cfa-8; "
		 "1003 rsp+8 cfa-80 cfa-8; 1004 rsp+8 same cfa-8; 1005 rsp+8 cfa-16 cfa-8" TAIL},
		{"offset_extended", BYTES("\x05\x06\x03"), "1000 rsp+8 cfa-24 cfa-8" TAIL},
		{"offset_extended_sf", BYTES("\x11\x06\x7e"), "1000 rsp+8 cfa+16 cfa-8" TAIL},
		{"GNU_negative_offset_extended", BYTES("\x2f\x06\x02"), "1000 rsp+8 cfa+16 cfa-8" TAIL},
		{"restore", BYTES("\x86\x02\x41\xc6"), "1000 rsp+8 cfa-16 cfa-8; 1001 rsp+8 same cfa-8" TAIL},
		{"restore_extended", BYTES("\x86\x02\x41\x06\x06"),
		 "1000 rsp+8 cfa-16 cfa-8; 1001 rsp+8 same cfa-8" TAIL},
		{"restore gives the CIE's rule", BYTES("\x07\x10\x41\xd0"),
		 "1000 rsp+8 same undef; 1001 rsp+8 same cfa-8" TAIL},
		{"undefined", BYTES("\x07\x06"), "1000 rsp+8 undef cfa-8" TAIL},
		{"same_value", BYTES("\x86\x02\x41\x08\x06"),
		 "1000 rsp+8 cfa-16 cfa-8; 1001 rsp+8 same cfa-8" TAIL},
		{"register", BYTES("\x09\x06\x09\x09\x10\x01"), "1000 rsp+8 r9 rdx" TAIL},
		{"register in itself", BYTES("\x09\x06\x06"), "1000 rsp+8 same cfa-8" TAIL},
		{"remember_state, restore_state", BYTES("\x0e\x10\x0a\x41\x0e\x08\x86\x02\x41\x0b"),
		 "1000 rsp+16 same cfa-8; 1001 rsp+8 cfa-16 cfa-8; 1002 rsp+16 same cfa-8" TAIL},
		{"three states deep", BYTES("\x0a\x0e\x10\x0a\x0e\x18\x0a\x0e\x20\x41\x0b\x41\x0b\x41\x0b"),
		 "1000 rsp+32 same cfa-8; 1001 rsp+24 same cfa-8; 1002 rsp+16 same cfa-8; 1003 rsp+8 same "
		 "cfa-8" TAIL},
		{"def_cfa", BYTES("\x0c\x06\x10"), "1000 rbp+16 same cfa-8" TAIL},
		{"def_cfa_sf", BYTES("\x12\x06\x7e"), "1000 rbp+16 same cfa-8" TAIL},
		{"def_cfa_register", BYTES("\x0e\x10\x0d\x06"), "1000 rbp+16 same cfa-8" TAIL},
		{"def_cfa_offset_sf", BYTES("\x13\x7d"), "1000 rsp+24 same cfa-8" TAIL},
		{"def_cfa_expression", BYTES("\x0f\x03\x76\x78\x06"), "1000 *(rbp-8) same cfa-8" TAIL},
		{"def_cfa_register behind an expression keeps the older offset",
		 BYTES("\x0e\x18\x0f\x03\x76\x78\x06\x41\x0d\x0a"),
		 "1000 *(rbp-8) same cfa-8; 1001 r10+24 same cfa-8" TAIL},
		{"def_cfa_offset while an expression holds",
		 BYTES("\x0f\x03\x76\x78\x06\x0e\x20\x41\x0d\x07"),
		 "1000 *(rbp-8) same cfa-8; 1001 rsp+32 same cfa-8" TAIL},
		{"expression", BYTES("\x10\x06\x02\x76\x70"), "1000 rsp+8 *(rbp-16) cfa-8" TAIL},
		{"expression of another register", BYTES("\x10\x03\x02\x76\x70"),
		 "1000 rsp+8 same cfa-8" TAIL},
		{"val_expression", BYTES("\x16\x06\x02\x76\x70"), "1000 rsp+8 unsupported cfa-8" TAIL},
		{"val_expression of a register", BYTES("\x16\x06\x02\x7a\x00"), "1000 rsp+8 r10 cfa-8" TAIL},
		{"val_offset", BYTES("\x14\x06\x02"), "1000 rsp+8 unsupported cfa-8" TAIL},
		{"val_offset_sf of the stack pointer by 0", BYTES("\x15\x07\x00"),
		 "1000 rsp+8 same cfa-8" TAIL},
		{"val_offset of the stack pointer", BYTES("\x14\x07\x02"),
		 "1000 unsupported same cfa-8" TAIL},
		{"GNU_args_size", BYTES("\x2e\x90\x01\x41\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8" TAIL},
		{"padded ULEB128", BYTES("\x0e\x90\x80\x80\x80\x00"), "1000 rsp+16 same cfa-8" TAIL},
		{"untouched neighbours merge", BYTES("\x41\x83\x02\x41\x8c\x03\x41\x0e\x10\x41\x0e\x10"),
		 "1000 rsp+8 same cfa-8; 1003 rsp+16 same cfa-8" TAIL},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", X86_START);
	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "zR", X86_START);
}

Test(cfi, faulty_programs_without_a_good_row_skip_their_fde)
{
	static const struct program_case cases[] = {
		{"unknown instruction", BYTES("\x17"), "no rows | 18 unknown call-frame instruction"},
		{"window_save is no x86 instruction", BYTES("\x2d"),
		 "no rows | 18 unknown call-frame instruction"},
		{"restore_state first", BYTES("\x0b"), "no rows | 18 restore_state without remember_state"},
		{"one restore_state too many", BYTES("\x0a\x0b\x0b"),
		 "no rows | 18 restore_state without remember_state"},
		{"location wraps", BYTES("\x1d\xff\xff\xff\xff\xff\xff\xff\xff"),
		 "no rows | 18 the location wraps around"},
		{"offset too large", BYTES("\x0e\x80\x80\x80\x80\x10"),
		 "no rows | 18 an offset does not fit 32 bits"},
		{"register number too large", BYTES("\x0c\x80\x02\x08"),
		 "no rows | 18 the CFA is relative to an unknown register"},
		{"ULEB128 of 11 bytes", BYTES("\x0e\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		 "no rows | 18 call-frame instructions are truncated"},
		{"ULEB128 without end",
		 BYTES("\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
		       "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"),
		 "no rows | 18 call-frame instructions are truncated"},
		{"expression leaves the entry", BYTES("\x0f\x7f\x76"),
		 "no rows | 18 call-frame instructions are truncated"},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", X86_START);
}

#define START_ROW "1000 rsp+8 same cfa-8; "
#define LOST "unsupported unsupported unsupported"
#define NO_FIT TAIL " | 18 an offset does not fit 32 bits"

/* What cannot be expressed holds until an instruction replaces it. */
Test(cfi, faulty_programs_keep_their_good_rows)
{
	static const struct program_case cases[] = {
		{"CFA offset too large, then a good one",
		 BYTES("\x41\x0e\x10\x41\x0e\x80\x80\x80\x80\x10\x41\x0e\x18"),
		 START_ROW "1001 rsp+16 same cfa-8; 1002 unsupported same cfa-8; 1003 rsp+24 same "
			   "cfa-8" NO_FIT},
		{"CFA offset below zero: the sum was wrong before",
		 BYTES("\x41\x0e\x10\x0a\x41\x0e\x08\x41\x0e\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01\x41"
		       "\x0b"),
		 START_ROW "1001 rsp+16 same cfa-8; 1002 unsupported same cfa-8; 1004 rsp+16 same "
			   "cfa-8" NO_FIT},
		{"restore_state defines the CFA again", BYTES("\x0a\x41\x0e\x80\x80\x80\x80\x10\x41\x0b"),
		 START_ROW "1001 unsupported same cfa-8; 1002 rsp+8 same cfa-8" NO_FIT},
		{"def_cfa defines the CFA again", BYTES("\x41\x0e\x80\x80\x80\x80\x10\x41\x0c\x06\x10"),
		 START_ROW "1001 unsupported same cfa-8; 1002 rbp+16 same cfa-8" NO_FIT},
		{"def_cfa_register alone keeps the bad offset",
		 BYTES("\x41\x0e\x80\x80\x80\x80\x10\x41\x0d\x06\x41\x0e\x10"),
		 START_ROW "1001 unsupported same cfa-8; 1003 rbp+16 same cfa-8" NO_FIT},
		{"a bad offset waits behind an expression",
		 BYTES("\x41\x0f\x03\x76\x78\x06\x0e\x80\x80\x80\x80\x10\x41\x0d\x06\x41\x13\x7e"),
		 START_ROW "1001 *(rbp-8) same cfa-8; 1002 unsupported same cfa-8; "
			   "1003 rbp+16 same cfa-8" NO_FIT},
		{"def_cfa_offset alone keeps the bad register",
		 BYTES("\x41\x0d\x80\x02\x41\x0e\x10\x41\x0d\x07"),
		 START_ROW "1001 unsupported same cfa-8; 1003 rsp+16 same cfa-8" TAIL
			   " | 18 the CFA is relative to an unknown register"},
		{"factored CFA offset overflows",
		 BYTES("\x41\x13\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x41\x0e\x10"),
		 START_ROW "1001 unsupported same cfa-8; 1002 rsp+16 same cfa-8" NO_FIT},
		{"the frame pointer's offset", BYTES("\x41\x86\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x41\xc6"),
		 START_ROW "1001 rsp+8 unsupported cfa-8; 1002 rsp+8 same cfa-8" NO_FIT},
		{"the return address's offset", BYTES("\x41\x90\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x41\xd0"),
		 START_ROW "1001 rsp+8 same unsupported; 1002 rsp+8 same cfa-8" NO_FIT},
		{"offset of a register that is not followed",
		 BYTES("\x83\x80\x80\x80\x80\x80\x10\x41\x0e\x10"), START_ROW "1001 rsp+16 same cfa-8" TAIL},
		{"rows before an unknown instruction", BYTES("\x0e\x10\x41\x0e\x18\x41\x3f\x0e\x08"),
		 "1000 rsp+16 same cfa-8; 1001 rsp+24 same cfa-8; 1002 " LOST TAIL
		 " | 18 unknown call-frame instruction"},
		{"the state at an unknown instruction was not final", BYTES("\x41\x0e\x10\x3f"),
		 START_ROW "1001 " LOST TAIL " | 18 unknown call-frame instruction"},
		{"rows before truncated instructions", BYTES("\x41\x0e\x10\x41\x0f\x7f\x76"),
		 START_ROW "1001 rsp+16 same cfa-8; 1002 " LOST TAIL
			   " | 18 call-frame instructions are truncated"},
		{"set_loc backwards", BYTES("\x41\x01\x00\x10\x00\x00\x00\x00\x00\x00"),
		 START_ROW "1001 " LOST TAIL " | 18 set_loc goes backwards"},
		{"one restore_state too many; all is defined again",
		 BYTES("\x0a\x41\x0b\x41\x0b\x41\x0c\x07\x08\x41\x90\x01\x08\x06\x08\x07"),
		 START_ROW "1002 " LOST "; 1004 rsp+8 same cfa-8" TAIL
			   " | 18 restore_state without remember_state"},
		{"advance behind the end with a bad row", BYTES("\x41\x0e\x80\x80\x80\x80\x10\x02\x40"),
		 START_ROW "1001 unsupported same cfa-8" NO_FIT},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", X86_START);
}

/* The CFA of the CIE cannot be expressed: an FDE has rows where it defines another one. */
Test(cfi, faulty_cie)
{
	static const struct program_case cases[] = {
		{"def_cfa in the FDE", BYTES("\x42\x0c\x07\x10"),
		 "1000 unsupported same cfa-8; 1002 rsp+16 same cfa-8" TAIL
		 " | 18 an offset does not fit 32 bits"},
		{"no CFA in the FDE", BYTES("\x42\x86\x02"), "no rows | 18 an offset does not fit 32 bits"},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", BYTES("\x0c\x07\x80\x80\x80\x80\x10\x90\x01"));
}

Test(cfi, aarch64)
{
	static const struct program_case cases[] = {
		{"leaf", BYTES(""), "1000 sp+0 same x30" TAIL},
		{"frame record; code alignment 4", BYTES("\x41\x0e\x20\x9d\x04\x9e\x03\x41\x0d\x1d"),
		 "1000 sp+0 same x30; 1004 sp+32 cfa-32 cfa-24; 1008 x29+32 cfa-32 cfa-24" TAIL},
		{"negate_ra_state", BYTES("\x41\x2d\x41\x0e\x10"),
		 "1000 sp+0 same x30; 1008 sp+16 same x30" TAIL},
		{"negate_ra_state_with_pc", BYTES("\x2c\x41\x0e\x10"),
		 "1000 sp+0 same x30; 1004 sp+16 same x30" TAIL},
		{"undefined x30 is the root", BYTES("\x07\x1e"), "1000 sp+0 same undef" TAIL},
		{"return address in x5", BYTES("\x09\x1e\x05"), "1000 sp+0 same x5" TAIL},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_AARCH64, "", ARM64_START);
	run_cases(cases, ARRAY_SIZE(cases), EM_AARCH64, "zRB", ARM64_START);
	run_cases(cases, ARRAY_SIZE(cases), EM_AARCH64, "zRG", ARM64_START);
}

Test(cfi, signal_frames)
{
	/* glibc: CFA *(rsp+160), rbp at rsp+120, rip at rsp+168, rsp at rsp+160 */
	static const struct program_case restore_rt[] = {{
		"__restore_rt",
		BYTES("\x0f\x04\x77\xa0\x01\x06\x10\x06\x03\x77\xf8\x00\x10\x07\x03\x77\xa0\x01\x10\x10\x03"
		      "\x77\xa8\x01"),
		"1000 signal *(rsp+120) *(rsp+168)" TAIL,
	}};
	static const struct program_case plain[] = {{
		"the same expression without 'S'",
		BYTES("\x0f\x04\x77\xa0\x01\x06"),
		"1000 *(rsp+160) same cfa-8" TAIL,
	}};
	static const struct program_case vdso[] = {{
		"__kernel_rt_sigreturn",
		BYTES("\x0c\x1d\x00\x9d\x00\x11\x1e\x7f"),
		"1000 signal *(x29+0) *(x29+8)" TAIL,
	}};

	run_cases(restore_rt, 1, EM_X86_64, "zRS", X86_START);
	run_cases(plain, 1, EM_X86_64, "zR", X86_START);
	run_cases(vdso, 1, EM_AARCH64, "zRS", ARM64_START);
}

Test(cfi, stack_pointer_rules)
{
	static const struct program_case cases[] = {
		{"longjmp: rsp in r8, rbp in r9, rip in rdx",
		 BYTES("\x0c\x05\x00\x09\x07\x08\x09\x06\x09\x09\x10\x01"), "1000 r8+0 r9 rdx" TAIL},
		{"setcontext: all at rdx", BYTES("\x0c\x01\x00\x11\x06\x71\x11\x07\x6c\x11\x10\x6b"),
		 "1000 *(rdx+160) *(rdx+120) *(rdx+168)" TAIL},
		{"rsp by expression", BYTES("\x10\x07\x02\x71\x10\x10\x10\x02\x71\x18"),
		 "1000 *(rdx+16) same *(rdx+24)" TAIL},
		{"GHC's StgRun: all registers above a reserved area, rsp by val_expression",
		 BYTES("\x41\x0c\x07\x00\x05\x03\x80\x70\x11\x06\xff\x6f\x11\x10\xfa\x6f\x16\x07\x04\x77"
		       "\xb8\x80\x01"),
		 "1000 rsp+8 same cfa-8; 1001 rsp+16440 cfa-48 cfa-8" TAIL},
		{"rsp by val_expression of another register", BYTES("\x16\x07\x02\x73\x10"),
		 "1000 rbx+16 same *(rsp+0)" TAIL},
		{"rsp is CFA + n by val_expression", BYTES("\x16\x07\x02\x23\x10"),
		 "1000 unsupported same cfa-8" TAIL},
		{"rsp undefined", BYTES("\x07\x07"), "1000 unsupported same cfa-8" TAIL},
		{"the CFA is an expression, the RA refers to it", BYTES("\x0f\x03\x76\x78\x06\x09\x07\x08"),
		 "1000 unsupported same cfa-8" TAIL},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", X86_START);
}

Test(cfi, outermost_frames)
{
	static const struct program_case cases[] = {
		{"_start", BYTES("\x07\x10"), "1000 rsp+8 same undef" TAIL},
		{"an expression and no return address", BYTES("\x0f\x03\x76\x78\x06\x07\x10"),
		 "1000 undef same undef" TAIL},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", X86_START);
}

Test(cfi, no_rule_for_the_return_address)
{
	static const struct program_case cases[] = {
		{"x86-64 cannot go on", BYTES(""), "1000 rsp+8 same unsupported" TAIL},
	};

	run_cases(cases, ARRAY_SIZE(cases), EM_X86_64, "", BYTES("\x0c\x07\x08"));
}

Test(cfi, remember_state_has_a_maximum)
{
	for (size_t depth = CFI_STATES_MAX; depth <= CFI_STATES_MAX + 1; depth++) {
		_cleanup_buf_ struct buf b = {0}, program = {0};
		size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

		for (size_t i = 0; i < depth; i++)
			put_u8(&program, DW_CFA_remember_state);
		put_fde(&b, cie, false, TEXT_VA, 0x40, (struct bytes){buf_str(&program), program.len});
		struct cfi_section s = section_of(&b, EM_X86_64);
		check_table("depth", &s,
			    depth <= CFI_STATES_MAX ? "1000 rsp+8 same cfa-8" TAIL
						    : "no rows | 18 remember_state nests too deep");
	}
}

Test(cfi, a_faulty_cie_skips_its_fdes)
{
	static const struct {
		const char *name;
		struct bytes program;
		const char *reason;
	} cases[] = {
		{"advance_loc", BYTES("\x0c\x07\x08\x41"), "the CIE advances the location"},
		{"restore", BYTES("\xc6"), "the CIE restores a register"},
		{"truncated", BYTES("\x0c\x07\x08\x00\x00\x00\x0f\x7f\x77"),
		 "call-frame instructions are truncated"},
		{"unknown", BYTES("\x3f"), "unknown call-frame instruction"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0}, expected = {0};
		size_t bad = put_cie(&b, EM_X86_64, "", cases[i].program);
		size_t fde = put_fde(&b, bad, false, TEXT_VA + 0x40, 0x40, BYTES(""));
		size_t good = put_cie(&b, EM_X86_64, "", X86_START);

		put_fde(&b, good, false, TEXT_VA, 0x40, BYTES(""));
		buf_printf(&expected, "1000 rsp+8 same cfa-8; 1040 none | %zx %s", fde, cases[i].reason);
		struct cfi_section s = section_of(&b, EM_X86_64);
		check_table(cases[i].name, &s, buf_str(&expected));
	}
}

Test(ruleset, is_bounded)
{
	struct ruleset set;

	cr_assert_eq(ruleset_init(&set), 0); /* the set has one rule */
	for (uint32_t i = 1; i < RULES_MAX; i++) {
		const struct elf_rule rule = {.cfa_kind = CFA_REG_OFF, .cfa_off = (int32_t)i};

		cr_assert_eq(ruleset_intern(&set, &rule), i);
	}
	const struct elf_rule first = {.cfa_kind = CFA_REG_OFF, .cfa_off = 1},
			      other = {.cfa_kind = CFA_SIGNAL};
	cr_expect_eq(ruleset_intern(&set, &first), 1);
	cr_expect_eq(ruleset_intern(&set, &other), -EFBIG);
	cr_expect_eq(set.n, RULES_MAX);
	ruleset_fini(&set);
}
