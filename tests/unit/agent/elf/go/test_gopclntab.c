// SPDX-License-Identifier: Apache-2.0
/*
 * Reads function tables of Go that are written byte by byte: layouts, where they are found, special functions
 * of the runtime.
 */
#include "tests/unit/agent/elf/go_table.h"

#include <errno.h>

#include "agent/elf/unwind_table.h"
#include "agent/elf/names/symtab.h"

#define PUSH_CODE BYTES("\x55\x48\x89\xe5\x48\x83\xec\x10\x90\x48\x83\xc4\x10\x5d\xc3")
#define PUSH_DEPTHS {{1, 0}, {7, 8}, {5, 24}, {1, 8}, {1, 0}}
#define PUSH_FN(name) {name, 0, PUSH_CODE, PUSH_DEPTHS}
#define SUB_CODE                                                                 \
	BYTES("\x48\x83\xec\x18\x48\x89\x6c\x24\x10\x48\x8d\x6c\x24\x10\x90\x48" \
	      "\x8b\x6c\x24\x10\x48\x83\xc4\x18\xc3")
#define SUB_DEPTHS {{4, 0}, {20, 24}, {1, 0}}
#define SUB_FN(name) {name, 0, SUB_CODE, SUB_DEPTHS}

/* Returns "1000 rsp+8 same cfa-8; ...; 1010 none | INDEX reason", or "-ENODATA". */
static const char *rows_text(struct elf_image *img, struct buf *out)
{
	char cfa[RULE_FORMAT_MAX], fp[RULE_FORMAT_MAX], ra[RULE_FORMAT_MAX];
	struct elf_rows *t = NULL;
	int r = elf_rows_build(&t, img);

	cr_assert(r == 0 || r == -ENODATA, "%d", r);
	if (r < 0) {
		buf_puts(out, "-ENODATA");
		return buf_str(out);
	}
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct elf_rule *rule = &t->rules[t->rows[i].rule];

		rule_format_cfa(cfa, elf_image_machine(img), rule);
		rule_format_fp(fp, elf_image_machine(img), rule);
		rule_format_ra(ra, elf_image_machine(img), rule);
		buf_printf(out, "%s%" PRIx64 " %s", i ? "; " : "", t->rows[i].va, cfa);
		if (rule->cfa_kind != CFA_NONE)
			buf_printf(out, " %s %s", fp, ra);
	}
	if (t->n_skipped)
		buf_printf(out, " | %" PRIx64 " %s", t->skipped[0].offset, t->skipped[0].reason);
	elf_rows_free(t);
	return buf_str(out);
}

static void check_rows(const char *what, struct elf_image *img, const char *expected)
{
	_cleanup_buf_ struct buf out = {0};
	const char *text = rows_text(img, &out);

	cr_expect_str_eq(text, expected, "%s:\n  found    %s\n  expected %s", what, text, expected);
	elf_image_free(img);
}

Test(gopclntab, layouts)
{
	static const struct go_fn push[] = {PUSH_FN("main.a")}, sub[] = {SUB_FN("main.a")};
	static const char push_rows[] = "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1008 rsp+32 cfa-16 "
					"cfa-8; 100d rsp+16 cfa-16 cfa-8; 100e rsp+8 same cfa-8; 100f none";
	static const char sub_rows[] = "1000 rsp+8 same cfa-8; 1004 rsp+32 same cfa-8; 1009 rsp+32 cfa-16 "
				       "cfa-8; 1018 rsp+8 same cfa-8; 1019 none";

	for (unsigned layout = GOPCLNTAB_1_16; layout <= GOPCLNTAB_1_20; layout++) {
		struct go_table t = {layout, EM_X86_64, TEXT_VA, TEXT_VA, 0, push, 1};

		check_rows("push", go_image(&t, ".gopclntab", 0), push_rows);
		t.fns = sub;
		check_rows("sub", go_image(&t, ".data.rel.ro.gopclntab", 0), sub_rows);
	}
}

/*
 * Go's own linker leaves out what describes the C code of cgo. It is analysed, or a walk would step over the
 * callers of what has no frame; the padding between functions is not, although nothing describes it either.
 */
Test(gopclntab, code_of_cgo_is_analysed)
{
	/* sub $8,%rsp; xor; test; je 1f; add $8,%rsp; ret; 1: xor; add $8,%rsp; ret */
	static const struct go_fn fns[] = {
		PUSH_FN("main.a"),
		{"x_cgo_mmap",
		 0,
		 BYTES("\x48\x83\xec\x08\x31\xc0\x85\xc0\x74\x05\x48\x83\xc4\x08\xc3\x31\xd2\x48\x83\xc4"
		       "\x08\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc"),
		 {{0}}},
		PUSH_FN("main.b"),
		{"padding", 0, BYTES("\x48\x83\xec\x08\x48\x83\xc4\x08\xc3"), {{0}}},
		PUSH_FN("main.c"),
	};
	const struct go_table t = {GOPCLNTAB_1_20, EM_X86_64, TEXT_VA, TEXT_VA, 0, fns, ARRAY_SIZE(fns)};

	check_rows("cgo", go_image(&t, ".gopclntab", 0),
		   "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1008 rsp+32 cfa-16 cfa-8; "
		   "100d rsp+16 cfa-16 cfa-8; 100e rsp+8 same cfa-8; 1014 rsp+16 same cfa-8; "
		   "101e rsp+8 same cfa-8; 101f rsp+16 same cfa-8; 1025 rsp+8 same cfa-8; 1026 none; "
		   "1040 rsp+8 same cfa-8; 1041 rsp+16 cfa-16 cfa-8; 1048 rsp+32 cfa-16 cfa-8; "
		   "104d rsp+16 cfa-16 cfa-8; 104e rsp+8 same cfa-8; 104f none; "
		   "1060 rsp+8 same cfa-8; 1061 rsp+16 cfa-16 cfa-8; 1068 rsp+32 cfa-16 cfa-8; "
		   "106d rsp+16 cfa-16 cfa-8; 106e rsp+8 same cfa-8; 106f none");
}

Test(gopclntab, aarch64)
{
	/* str x30,[sp,#-16]!; stur x29,[sp,#-8]; sub x29,sp,#8; nop; ldur; add sp,sp,#16; ret */
	static const struct go_fn fns[] = {
		{"main.a",
		 0,
		 BYTES("\xfe\x0f\x1f\xf8\xfd\x83\x1f\xf8\xfd\x23\x00\xd1\x1f\x20\x03\xd5\xfd\x83\x5f\xf8"
		       "\xff\x43\x00\x91\xc0\x03\x5f\xd6"),
		 {{4, 0}, {20, 16}, {4, 0}}},
	};
	const struct go_table t = {GOPCLNTAB_1_20, EM_AARCH64, TEXT_VA, TEXT_VA, 0, fns, 1};

	check_rows(
		"aarch64", go_image(&t, ".gopclntab", 0),
		"1000 sp+0 same x30; 1004 sp+16 same cfa-16; 1008 sp+16 cfa-24 cfa-16; 1018 sp+0 same x30; "
		"101c none");
}

/*
 * Some functions look as if an interrupted instruction had called them: they are recognised by name, if the
 * table marks them.
 */
Test(gopclntab, interrupted_callers)
{
	static const struct {
		struct go_fn fn;
		uint8_t flags;
	} cases[] = {
		{{"runtime.asyncPreempt", GO_FLAG_ASM, PUSH_CODE, PUSH_DEPTHS}, RULE_INTERRUPTS},
		{{"runtime.sigpanic", GO_ID(9), PUSH_CODE, PUSH_DEPTHS}, RULE_INTERRUPTS},
		{{"runtime.sigpanic0", GO_FLAG_ASM, PUSH_CODE, PUSH_DEPTHS}, RULE_INTERRUPTS},
		{{"runtime.sigpanic", GO_ID(0), PUSH_CODE, PUSH_DEPTHS}, 0},
		{{"runtime.panicmem", GO_ID(9), PUSH_CODE, PUSH_DEPTHS}, 0},
		{{"runtime.goexit", GO_ID(9), PUSH_CODE, PUSH_DEPTHS}, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (unsigned layout = GOPCLNTAB_1_18; layout <= GOPCLNTAB_1_20; layout++) {
			const struct go_table t = {layout, EM_X86_64, TEXT_VA, TEXT_VA, 0, &cases[i].fn, 1};
			struct elf_image *img = go_image(&t, ".gopclntab", 0);
			struct elf_rows *rows = NULL;

			cr_assert_eq(elf_rows_build(&rows, img), 0);
			cr_assert_eq(rows->n_rows, 6, "%s: %zu rows", cases[i].fn.name, rows->n_rows);
			for (size_t k = 0; k < 5; k++)
				cr_expect_eq(rows->rules[rows->rows[k].rule].flags, cases[i].flags,
					     "%s: row %zu", cases[i].fn.name, k);
			elf_rows_free(rows);
			elf_image_free(img);
		}
	}
}

/* One function of each kind that does not return in the usual way. */
Test(gopclntab, functions_of_the_runtime)
{
	static const struct {
		struct go_fn fn;
		const char *rows;
	} cases[] = {
		{{"runtime.goexit", GO_FLAG_ASM, BYTES("\x90\xe8\0\0\0\0\x90"), {{7, 0}}},
		 "1000 undef same undef; 1007 none"},
		{{"_rt0_amd64_linux", GO_FLAG_ASM, BYTES("\xe9\0\0\0\0"), {{5, 0}}},
		 "1000 undef same undef; 1005 none"},
		{{"_rt0_amd64_linux_lib", GO_FLAG_ASM, BYTES("\xe9\0\0\0\0"), {{5, 0}}},
		 "1000 rsp+8 same cfa-8; 1005 none"},
		{{"runtime.new_root", GO_FLAG_ASM | GO_FLAG_TOPFRAME, BYTES("\xe9\0\0\0\0"), {{5, 0}}},
		 "1000 undef same undef; 1005 none"},
		{{"runtime.sigtramp", GO_FLAG_ASM | GO_FLAG_TOPFRAME, BYTES("\xe9\0\0\0\0"), {{5, 0}}},
		 "1000 rsp+8 same cfa-8; 1005 none"},
		{{"main.goexit", 0, BYTES("\xe9\0\0\0\0"), {{5, 0}}}, "1000 rsp+8 same cfa-8; 1005 none"},
		{{"runtime.sigreturn__sigaction",
		  GO_FLAG_ASM,
		  BYTES("\x48\xc7\xc0\x0f\0\0\0\x0f\x05\xcc"),
		  {{10, 0}}},
		 "fff signal *(rsp+120) *(rsp+168); 100a none"},
		/* push %rbp; mov %rsp,%rbp; mov 0x38(%rax),%rsp; call *(%rax); pop %rbp; ret */
		{{"runtime.systemstack",
		  GO_FLAG_ASM | GO_FLAG_SPWRITE,
		  BYTES("\x55\x48\x89\xe5\x48\x8b\x60\x38\xff\x10\x5d\xc3"),
		  {{1, 0}, {10, 8}, {1, 0}}},
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1004 switch(rbp+16) cfa-16 cfa-8; "
		 "100b rsp+8 same cfa-8; 100c none"},
		/* the same without a frame, as before Go 1.21 */
		{{"runtime.systemstack",
		  GO_FLAG_ASM | GO_FLAG_SPWRITE,
		  BYTES("\x48\x8b\x58\x38\x48\x89\xdc\xff\x10\xc3"),
		  {{10, 0}}},
		 "1000 rsp+8 same cfa-8; 1007 switch(rbp+16)+1 cfa-16 cfa-8; 100a none"},
		{{"runtime.mcall",
		  GO_FLAG_ASM | GO_FLAG_SPWRITE,
		  BYTES("\x55\x48\x89\xe5\x49\x8b\x66\x38\x50\xff\x10\x90"),
		  {{1, 0}, {8, 8}, {3, 16}}},
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1008 undef same undef; 100c none"},
		{{"gogo", GO_FLAG_ASM | GO_FLAG_SPWRITE, BYTES("\x48\x89\xd1\x48\x8b\x23\xff\xe3"), {{8, 0}}},
		 "1000 rsp+8 same cfa-8; 1006 undef same undef; 1008 none"},
		{{"runtime.gogo", GO_FLAG_ASM, BYTES("\xe9\0\0\0\0"), {{5, 0}}},
		 "1000 rsp+8 same cfa-8; 1005 none"},
		{{"runtime.morestack",
		  GO_FLAG_ASM | GO_FLAG_SPWRITE,
		  BYTES("\x90\x90\x90\x90\x90"),
		  {{5, 0}}},
		 "1000 undef same undef; 1005 none"}, /* the place where it switches is not found */
		/* pop %r12; syscall; push %r12; ret */
		{{"syscall.rawVforkSyscall",
		  GO_FLAG_ASM,
		  BYTES("\x41\x5c\x0f\x05\x41\x54\xc3"),
		  {{2, 0}, {4, -8}, {1, 0}}},
		 "1000 rsp+8 same cfa-8; 1002 rsp+0 same r12; 1006 rsp+8 same cfa-8; 1007 none"},
		{{"main.pops", GO_FLAG_ASM, BYTES("\x58\x90\x50\xc3"), {{1, 0}, {2, -8}, {1, 0}}},
		 "1000 rsp+8 same cfa-8; 1001 none; 1003 rsp+8 same cfa-8; 1004 none"},
		/* push %rbx does not change the frame pointer */
		{{"main.rbx", GO_FLAG_ASM, BYTES("\x53\x90\x5b\xc3"), {{1, 0}, {2, 8}, {1, 0}}},
		 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rsp+8 same cfa-8; 1004 none"},
		{{"main.huge", GO_FLAG_ASM, BYTES("\x90\x90"), {{1, 0}, {1, 1 << 30}}},
		 "1000 rsp+8 same cfa-8; 1001 rsp+1073741832 same cfa-8; 1002 none"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct go_table t = {GOPCLNTAB_1_20, EM_X86_64, TEXT_VA, TEXT_VA, 0, &cases[i].fn, 1};

		check_rows(cases[i].fn.name, go_image(&t, ".gopclntab", 0), cases[i].rows);
	}
}

static const struct go_fn many[] = {
	PUSH_FN("main.a"), PUSH_FN("main.b"), PUSH_FN("main.c"), PUSH_FN("main.d"), PUSH_FN("main.e"),
	PUSH_FN("main.f"), PUSH_FN("main.g"), PUSH_FN("main.h"), PUSH_FN("main.i"), PUSH_FN("main.j"),
};

/* The rows of the first function do not depend on where the text starts or what the header says. */
Test(gopclntab, where_the_text_starts)
{
	static const struct {
		const char *what, *section;
		uint64_t header;
		size_t lead;
		unsigned flags;
		size_t n; /* number of functions */
	} cases[] = {
		{"header", ".gopclntab", TEXT_VA + 0x40, 0x40, 0, 10},
		{"section .text", ".gopclntab", 0, 0, 0, 10},
		{"header that lies", ".gopclntab", 0x5000, 0, 0, 10},
		{"behind start-up code", ".gopclntab", 0, 0x40, 0, 10},
		{"folded into another section", ".data.rel.ro", TEXT_VA + 0x40, 0x40, 0, 10},
		{"no section headers", ".gopclntab", TEXT_VA + 0x40, 0x40, FILE_NO_SECTIONS, 10},
		{"no section headers, header silent", ".gopclntab", 0, 0x40, FILE_NO_SECTIONS, 10},
		{"too few functions to be sure", ".gopclntab", 0, 0x40, 0, 7},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct go_table t = {
			.layout = GOPCLNTAB_1_20,
			.machine = EM_X86_64,
			.header_text = cases[i].header,
			.va = TEXT_VA + cases[i].lead,
			.lead = cases[i].lead,
			.fns = many,
			.n = cases[i].n,
		};
		struct elf_image *img = go_image(&t, cases[i].section, cases[i].flags);
		struct elf_rows *rows = NULL;
		int r = elf_rows_build(&rows, img);

		cr_assert_eq(r, 0, "%s: %d", cases[i].what, r);
		cr_expect_eq(rows->rows[0].va, TEXT_VA + cases[i].lead, "%s", cases[i].what);
		cr_expect_eq(rows->n_functions, cases[i].n > 7 ? cases[i].n : 0, "else the code is analysed");
		elf_rows_free(rows);
		elf_image_free(img);
	}
}

Test(gopclntab, names)
{
	static const struct go_fn fns[] = {PUSH_FN("main.a"), SUB_FN("main.(*T).b"), PUSH_FN("type:.eq")};
	static const struct {
		uint64_t addr, start, end;
		const char *name;
	} cases[] = {
		{0x1000, 0x1000, 0x100f, "main.a"},
		{0x100e, 0x1000, 0x100f, "main.a"},
		{0x100f, 0x100f, 0x1010, NULL},
		{0x1010, 0x1010, 0x1029, "main.(*T).b"},
		{0x1031, 0x1030, 0x103f, "type:.eq"},
		{0x1040, 0x1040, UINT64_MAX, NULL},
		{0xfff, 0, 0x1000, NULL},
	};

	for (unsigned layout = GOPCLNTAB_1_16; layout <= GOPCLNTAB_1_20; layout++) {
		const struct go_table t = {layout, EM_X86_64, TEXT_VA, TEXT_VA, 0, fns, ARRAY_SIZE(fns)};
		struct elf_image *img = go_image(&t, ".gopclntab", 0);
		uint64_t addrs[ARRAY_SIZE(cases)];
		struct elf_symbol found[ARRAY_SIZE(cases)];

		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			addrs[i] = cases[i].addr;
		cr_assert_eq(elf_symtab_resolve(img, addrs, ARRAY_SIZE(cases), found), 0);
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			cr_expect(cases[i].name ? found[i].name && !strcmp(found[i].name, cases[i].name)
						: !found[i].name,
				  "%" PRIx64 ": %s", addrs[i], found[i].name);
			cr_expect_eq(found[i].start, cases[i].start, "%" PRIx64 ": start %" PRIx64, addrs[i],
				     found[i].start);
			cr_expect_eq(found[i].end, cases[i].end, "%" PRIx64 ": end %" PRIx64, addrs[i],
				     found[i].end);
			free(found[i].name);
		}
		elf_image_free(img);
	}
}

/* A function without depths is skipped; its neighbours are not. */
Test(gopclntab, damaged_function)
{
	static const struct go_fn fns[] = {PUSH_FN("main.a"),
					   {"main.b", 0, PUSH_CODE, {{1u << 31, 0}, {1u << 31, 8}}},
					   PUSH_FN("main.c")};
	const struct go_table t = {GOPCLNTAB_1_20, EM_X86_64, TEXT_VA, TEXT_VA, 0, fns, ARRAY_SIZE(fns)};
	static const char expected[] = "1000 rsp+8 same cfa-8; 1001 rsp+16 cfa-16 cfa-8; 1008 rsp+32 cfa-16 "
				       "cfa-8; 100d rsp+16 cfa-16 cfa-8; 100e rsp+8 same cfa-8; 1021 rsp+16 "
				       "cfa-16 cfa-8; 1028 rsp+32 cfa-16 cfa-8; 102d rsp+16 cfa-16 cfa-8; "
				       "102e rsp+8 same cfa-8; 102f none";

	check_rows("depths longer than the function are cut", go_image(&t, ".gopclntab", 0), expected);
}

/* Damages every byte in turn, and truncates the table to every length: all rows stay inside the text. */
Test(gopclntab, damaged_bytes)
{
	static const struct go_fn fns[] = {PUSH_FN("main.a"), PUSH_FN("runtime.mcall"), SUB_FN("main.c")};
	static const uint8_t wrong[] = {0x00, 0x01, 0x7f, 0x80, 0xff};

	for (unsigned layout = GOPCLNTAB_1_16; layout <= GOPCLNTAB_1_20; layout++) {
		const struct go_table t = {layout, EM_X86_64, TEXT_VA, TEXT_VA, 0, fns, ARRAY_SIZE(fns)};
		_cleanup_buf_ struct buf code = {0}, table = {0};

		put_go_code(&code, fns, ARRAY_SIZE(fns));
		put_go_table(&table, &t);
		for (size_t i = 0; i < table.len * (ARRAY_SIZE(wrong) + 1); i++) {
			size_t at = i / (ARRAY_SIZE(wrong) + 1), k = i % (ARRAY_SIZE(wrong) + 1);
			uint8_t was = table.data[at];
			const struct file_section s[] = {
				{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code.data,
				 code.len, 0, 0},
				{".gopclntab", SHT_PROGBITS, SHF_ALLOC, GO_TABLE_VA, table.data,
				 k < ARRAY_SIZE(wrong) ? table.len : at, 0, 0},
			};
			struct elf_rows *rows = NULL;
			struct elf_symbol symbol;
			const uint64_t addr = 0x1012;

			if (k < ARRAY_SIZE(wrong))
				table.data[at] = wrong[k];
			struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
			if (elf_rows_build(&rows, img) == 0) {
				cr_expect_geq(rows->rows[0].va, TEXT_VA);
				cr_expect_leq(rows->rows[rows->n_rows - 1].va, TEXT_VA + code.len);
			}
			cr_expect_eq(elf_symtab_resolve(img, &addr, 1, &symbol), 0);
			free(symbol.name);
			elf_rows_free(rows);
			elf_image_free(img);
			table.data[at] = was;
		}
	}
}
