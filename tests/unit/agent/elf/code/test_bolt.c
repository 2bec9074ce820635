// SPDX-License-Identifier: Apache-2.0
/* Corrects rows of files with the note of BOLT that the last instruction of a block contradicts. */
#include "agent/elf/code/bolt.h"

#include "agent/elf/file/elf_image.h"

#include "tests/unit/agent/elf/elf_file.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

struct bolt_case {
	const char *name;
	struct bytes code; /* at TEXT_VA; one function */
	struct bytes program;
	const char *expected;
};

static const struct bolt_case cases[] = {
	{"nothing to repair: push rbx; pop rbx; ret", BYTES("\x53\x5b\xc3"),
	 BYTES("\x41\x0e\x10\x41\x0e\x08"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1002 rsp+8 same cfa-8; 1003 none"},
	{"a pop is forgotten: push rbx; pop rbx; ret", BYTES("\x53\x5b\xc3"), BYTES("\x41\x0e\x10"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1002 rsp+8 same cfa-8; 1003 none | 1002..1003 BOLT"},
	{"the state of a neighbour: test; jne; mov 7, eax; ret; over: ret",
	 BYTES("\x85\xff\x75\x06\xb8\x07\x00\x00\x00\xc3\xc3"), BYTES("\x44\x0e\x20\x46\x0e\x08"),
	 "1000 rsp+8 same cfa-8; 100b none | 1004..100a BOLT"},
	{"a jump as if nothing had been pushed: push rbx; jmp over; ret; over: pop rbx; ret",
	 BYTES("\x53\xeb\x01\xc3\x5b\xc3"), BYTES("\x43\x0e\x08\x41\x0e\x10\x41\x0e\x08"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rsp+8 same cfa-8; 1004 rsp+16 same cfa-8; "
	 "1005 rsp+8 same cfa-8; 1006 none | 1001..1003 BOLT"},
	{"a jump is right, its target is not: jmp over; nop; over: ret", BYTES("\xeb\x01\x90\xc3"),
	 BYTES("\x43\x0e\x20"), "1000 rsp+8 same cfa-8; 1004 none | 1003..1004 BOLT"},
	{"a frame pointer: push rbp; jmp over; over: pop rbp; ret", BYTES("\x55\xeb\x00\x5d\xc3"),
	 BYTES("\x41\x0e\x10\x86\x02\x42\x0e\x20"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1004 rsp+8 same cfa-8; 1005 none | 1003..1005 "
	 "BOLT"},
	{"sums: sub 24, rsp; jmp over; over: add 8, rsp; lea 16(rsp), rsp; ret",
	 BYTES("\x48\x83\xec\x18\xeb\x00\x48\x83\xc4\x08\x48\x8d\x64\x24\x10\xc3"),
	 BYTES("\x44\x0e\x20\x42\x0e\x40"),
	 "1000 rsp+8 same cfa-8; 1004 rsp+32 same cfa-8; 100a rsp+24 same cfa-8; 100f rsp+8 same cfa-8; 1010 "
	 "none "
	 "| 1006..1010 BOLT"},
	{"where the stack pointer comes from cannot be told: mov r11, rsp; ret", BYTES("\x4c\x89\xdc\xc3"),
	 BYTES("\x0e\x40"), "1000 rsp+64 same cfa-8; 1003 rsp+8 same cfa-8; 1004 none | 1003..1004 BOLT"},
	{"a call to another function that jumps: jmp away", BYTES("\xe9\x00\x10\x00\x00"), BYTES(""),
	 "1000 rsp+8 same cfa-8; 1005 none"},
	{"not an instruction ends it: mov 7, eax; (bad); ret", BYTES("\xb8\x07\x00\x00\x00\x06\xc3"),
	 BYTES("\x0e\x40"), "1000 rsp+64 same cfa-8; 1007 none"},
};

static void check(const struct bolt_case *c, uint16_t machine, bool note, const char *expected)
{
	const struct file_section sections[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, c->code.data, c->code.len, 0, 0},
		{note ? ".note.bolt_info" : ".note.other", SHT_PROGBITS, 0, 0, "", 1, 0, 0},
	};
	_cleanup_buf_ struct buf eh = {0}, out = {0};
	size_t cie = put_cie(&eh, EM_X86_64, "", X86_START);
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};
	size_t n_segments;

	put_fde(&eh, cie, false, TEXT_VA, c->code.len, c->program);
	const struct cfi_section s = section_of(&eh, EM_X86_64);
	struct elf_image *img = file_image(machine, sections, 2, 0);
	const struct elf_segment *segments = elf_image_segments(img, &n_segments);

	cr_assert_eq(row_spans_init(&spans, segments, n_segments), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	cr_assert_eq(bolt_repair(&spans, img), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
	row_spans_fini(&spans);
	put_table(&out, t, EM_X86_64);
	cr_expect_str_eq(buf_str(&out), expected, "%s:\n  found    %s\n  expected %s", c->name, buf_str(&out),
			 expected);
	elf_rows_free(t);
	elf_image_free(img);
}

Test(bolt, blocks_that_contradict_their_rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(&cases[i], EM_X86_64, true, cases[i].expected);
}

Test(bolt, other_files_do_not_change)
{
	const char *lie = "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 none";

	check(&cases[1], EM_X86_64, false, lie);
	check(&cases[1], EM_AARCH64, true, lie);
}
