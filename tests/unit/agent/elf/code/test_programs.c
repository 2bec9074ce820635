// SPDX-License-Identifier: Apache-2.0
/* Rows of programs without call-frame information. */
#include "agent/elf/unwind_table.h"

#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#define DATA_VA 0x9000u

struct program_case {
	const char *name;
	struct bytes code; /* at TEXT_VA, which is the entry point */
	uint64_t words[4]; /* at DATA_VA */
	const char *expected;
};

/* xor ebp, ebp; mov edi, main (0x1010); call +1; hlt; ret */
#define ENTRY "\x31\xed\xbf\x10\x10\x00\x00\xe8\x01\x00\x00\x00\xf4\xc3\x90\x90"

static const struct program_case cases[] = {
	{"main is loaded, and never returns: push rbx; call +2; jmp -7; ret",
	 BYTES(ENTRY "\x53\xe8\x02\x00\x00\x00\xeb\xf9\xc3"),
	 {0},
	 "0 undef; d rsp+8; 11 rsp+16; 18 rsp+8; 19 none"},
	/* sub rsp, 24; cmp edi, 1; ja +12; jmp [0x9000 + rdi * 8]; add; ret; add; ret */
	{"cases of a switch by their addresses",
	 BYTES(ENTRY "\x48\x83\xec\x18\x83\xff\x01\x77\x0c\xff\x24\xfd\x00\x90\x00\x00\x48\x83\xc4\x18\xc3"
		     "\x48\x83\xc4\x18"
		     "\xc3"),
	 {TEXT_VA + 0x20, TEXT_VA + 0x25, 77},
	 "0 undef; d rsp+8; 14 rsp+32; 24 rsp+8; 25 rsp+32; 29 rsp+8; 2a none"},
	/* push rbp; mov rbp, rsp; sub rsp, rax; lea rsp, [rbp]; pop rbp; ret */
	{"alloca",
	 BYTES(ENTRY "\x55\x48\x89\xe5\x48\x29\xc4\x48\x8d\x65\x00\x5d\xc3"),
	 {0},
	 "0 undef; d rsp+8; 11 rsp+16; 14 rbp+16; 1c rsp+8; 1d none"},
	/*
	 * lea r10, [rsp + 8]; and rsp, -64; push [r10 - 8]; push rbp; mov rbp, rsp; push r10; nop; pop r10;
	 * pop rbp; lea rsp, [r10 - 8]; ret
	 */
	{"an aligned stack",
	 BYTES(ENTRY "\x4c\x8d\x54\x24\x08\x48\x83\xe4\xc0\x41\xff\x72\xf8\x55\x48\x89\xe5\x41\x52\x90\x41"
		     "\x5a\x5d\x49\x8d"
		     "\x62\xf8\xc3"),
	 {0},
	 "0 undef; d rsp+8; 19 r10+0; 1e r10+0; 21 r10+0; 23 *(rbp-8); 26 r10+0; 27 r10+0; 2b rsp+8; 2c "
	 "none"},
	/* push rbx; call f; pop rbx; ret; f: ud2 … behind the call, nothing is followed */
	{"behind a call of one that does not return: push rbx; call +2; nonsense; ud2",
	 BYTES(ENTRY "\x53\xe8\x02\x00\x00\x00\x06\x06\x0f\x0b"),
	 {0},
	 "0 undef; d rsp+8; 11 rsp+16; 16 none; 18 rsp+8; 1a none"},
	/* call +1; ret; test edi, edi; je ret; push rbp; mov rbp, rsp; call f; ret; f: ret */
	{"a call that does not come back, of one that does return: as of V8, to raise an error",
	 BYTES(ENTRY "\xe8\x01\x00\x00\x00\xc3\x85\xff\x74\x09\x55\x48\x89\xe5\xe8\x01\x00\x00\x00\xc3\xc3"),
	 {0},
	 "0 undef; d rsp+8; 1b rsp+16; 1e rbp+16; 23 rsp+8; 25 none"},
	/* sub rsp, 24; cmp edi, 1; jae +7; jmp [0x9000 + rdi * 8]; add; ret; int3; jmp self */
	{"the second word belongs to another table: the index is below 1",
	 BYTES(ENTRY "\x48\x83\xec\x18\x83\xff\x01\x73\x07\xff\x24\xfd\x00\x90\x00\x00\x48\x83\xc4\x18\xc3"
		     "\xcc\xeb\xfe"),
	 {TEXT_VA + 0x20, TEXT_VA + 0x26, 77},
	 "0 undef; d rsp+8; 14 rsp+32; 24 rsp+8; 26 none"},
	/* sub rsp, 24; jmp [0x9000 + rdi * 8]; add; ret; int3; jmp self */
	{"a table of unknown length: only what returns is certain",
	 BYTES(ENTRY "\x48\x83\xec\x18\xff\x24\xfd\x00\x90\x00\x00\x48\x83\xc4\x18\xc3\xcc\xeb\xfe"),
	 {TEXT_VA + 0x1b, TEXT_VA + 0x21, 77},
	 "0 undef; d rsp+8; 14 rsp+32; 1f rsp+8; 21 none"},
	/* ret; and at 0x20: call +2; jmp self; ret */
	{"a word in data may be a label: what never returns is no function by that alone",
	 BYTES(ENTRY
	       "\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xe8\x02\x00\x00\x00\xeb\xfe"
	       "\xc3"),
	 {TEXT_VA + 0x20, 77},
	 "0 undef; d rsp+8; 20 none"},
	/*
	 * ret; and at 0x20: push rbp; mov rbp, rsp; pop rbp; test eax, eax; je +1; ret; pop r10;
	 * lea rsp, [rsp + rcx * 8]; push r10; ret
	 */
	{"arguments are dropped whose number the caller knows: as of V8",
	 BYTES(ENTRY "\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x55\x48\x89\xe5\x5d"
		     "\x85\xc0\x74\x01\xc3"
		     "\x41\x5a\x48\x8d\x24\xcc\x41\x52\xc3"),
	 {TEXT_VA + 0x20, 77},
	 "0 undef; d rsp+8; 21 rsp+16; 24 rbp+16; 25 rsp+8; 2c rsp+0; 32 rsp+8; 33 none"},
	/* call f; ret; f: mov r8, [rbp - 16]; mov rsp, rbp; pop rbp; ret */
	{"the frame of a function that jumps here to end, as of V8",
	 BYTES(ENTRY "\xe8\x01\x00\x00\x00\xc3\x4c\x8b\x45\xf0\x48\x89\xec\x5d\xc3"),
	 {0},
	 "0 undef; d rsp+8; 16 rbp+16; 1e rsp+8; 1f none"},
	/* test edi, edi; je +8; push rbx; call f; jmp self; ret; f: mov rsp, rdi; ret */
	{"it is not known whether the call returns, and nothing behind it shows the frame",
	 BYTES(ENTRY "\x85\xff\x74\x08\x53\xe8\x06\x00\x00\x00\xeb\xfe\xc3\xcc\xcc\xcc\x48\x89\xfc\xc3"),
	 {0},
	 "0 undef; d rsp+8; 15 rsp+16; 1a none; 1c rsp+8; 24 none"},
	/* the same with pop rbx; ret instead of the jump */
	{"it is not known whether the call returns, but what is behind it does",
	 BYTES(ENTRY "\x85\xff\x74\x08\x53\xe8\x06\x00\x00\x00\x5b\xc3\xc3\xcc\xcc\xcc\x48\x89\xfc\xc3"),
	 {0},
	 "0 undef; d rsp+8; 15 rsp+16; 1b rsp+8; 24 none"},
};

static void rows_of(const struct program_case *c, struct buf *out)
{
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, c->code.data, c->code.len, 0, 0},
		{".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, DATA_VA, c->words, sizeof c->words, 0, 0},
	};
	_cleanup_buf_ struct buf file = {0};
	struct elf_rows *t = NULL;
	struct elf_image *img;

	file_write(&file, EM_X86_64, s, ARRAY_SIZE(s), 0);
	file_set_entry(&file, ET_EXEC, TEXT_VA);
	img = file_open(&file);
	cr_assert_eq(elf_rows_build(&t, img), 0, "%s", c->name);
	for (size_t i = 0; i < t->n_rows; i++) {
		char cfa[RULE_FORMAT_MAX];

		rule_format_cfa(cfa, EM_X86_64, &t->rules[t->rows[i].rule]);
		buf_printf(out, "%s%x %s", i ? "; " : "", (unsigned)(t->rows[i].va - TEXT_VA), cfa);
	}
	elf_rows_free(t);
	elf_image_free(img);
}

Test(programs, without_call_frame_information)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = {0};

		rows_of(&cases[i], &out);
		cr_expect_str_eq(buf_str(&out), cases[i].expected, "%s: %s", cases[i].name, buf_str(&out));
	}
}
