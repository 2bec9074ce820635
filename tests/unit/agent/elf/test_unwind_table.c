// SPDX-License-Identifier: Apache-2.0
/* Reads whole files: where the call-frame information is found, and the C library of this system. */
#include "tests/unit/agent/elf/elf_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <zlib.h>

#include "agent/elf/unwind_table.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

static char code[0x80];
static const struct file_section text = {
	".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};

static void check_rows(struct elf_image *img, int expected, size_t n_rows)
{
	struct elf_rows *t = NULL;
	int r = elf_rows_build(&t, img);

	cr_expect_eq(r, expected, "%d", r);
	if (r == 0) {
		cr_expect_eq(t->n_rows, n_rows, "%zu rows", t->n_rows);
		cr_expect_eq(t->rows[0].va, TEXT_VA);
		cr_expect_eq(t->rules[0].cfa_kind, CFA_NONE);
		cr_expect_gt(t->build_ns, 0);
		elf_rows_free(t);
	} else {
		cr_expect_null(t);
	}
	elf_image_free(img);
}

static struct buf one_function(void)
{
	struct buf b = {0};
	size_t cie = put_cie(&b, EM_X86_64, "", X86_START);

	put_fde(&b, cie, false, TEXT_VA, 0x40, BYTES("\x41\x0e\x10"));
	return b;
}

Test(rows, eh_frame_by_section_and_by_program_header)
{
	_cleanup_buf_ struct buf eh = one_function();
	/* version 1, pcrel sdata4, no table: .eh_frame is 0x1000 bytes behind the pointer's field */
	static const char header[] = "\x01\x1b\xff\xff\xfc\x0f\x00\x00";

	put_u32(&eh, 0);
	put(&eh, "garbage behind the terminator", 29);
	for (unsigned flags = 0; flags <= FILE_NO_SECTIONS; flags++) {
		const struct file_section s[] = {
			text,
			{".eh_frame_hdr", SHT_PROGBITS, 0, 0x3000, header, sizeof(header) - 1, 0, 0},
			{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, flags ? eh.len : eh.len - 29,
			 0, 0},
		};

		check_rows(file_image(EM_X86_64, s, ARRAY_SIZE(s), flags), 0, 3);
	}
}

/* Static programs may have no header: the entries are found by their contents. */
Test(rows, eh_frame_without_any_header)
{
	static const char decoys[] = "....\0\0\0\0\1zR\0\x14\0\0\0\0\0\0\0\1zR\0\1\x78\x10\1\0garbage";
	_cleanup_buf_ struct buf segment = {0};

	put(&segment, decoys, 36);
	size_t cie = put_cie(&segment, EM_X86_64, "zR", X86_START);
	put_fde(&segment, cie, true, TEXT_VA, 0x40, BYTES("\x41\x0e\x10"));
	put_u32(&segment, 0);
	put(&segment, "garbage behind the terminator", 29);
	for (unsigned i = 0; i < 3; i++) {
		const struct file_section s[] = {
			text,
			/*
			 * at an address that an entry cannot have; then in a section that is not executable
			 */
			{".rodata", SHT_PROGBITS, SHF_ALLOC, 0x4000 + (i == 1), segment.data, segment.len, 0,
			 0},
		};
		struct file_section other = text;

		other.va = 0x8000;
		const struct file_section elsewhere[] = {other, s[1]};
		check_rows(file_image(EM_X86_64, i == 2 ? elsewhere : s, 2, FILE_NO_SECTIONS),
			   i == 0 ? 0 : -ENODATA, 3);
	}
}

Test(rows, bad_eh_frame_header)
{
	_cleanup_buf_ struct buf eh = one_function();
	static const struct bytes headers[] = {
		BYTES(""),
		BYTES("\x02\x1b\xff\xff\xfc\x0f\x00\x00"), /* version */
		BYTES("\x01\x9b\xff\xff\xfc\x0f\x00\x00"), /* indirect */
		BYTES("\x01\x1b\xff\xff\xfc\x0f"),	   /* truncated */
		BYTES("\x01\x1b\xff\xff\xfc\xff\xff\x00"), /* points to no segment */
	};

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		const struct file_section s[] = {
			text,
			{".eh_frame_hdr", SHT_PROGBITS, 0, 0x3000, headers[i].data, headers[i].len, 0, 0},
			{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
		};

		check_rows(file_image(EM_X86_64, s, ARRAY_SIZE(s), FILE_NO_SECTIONS), -EINVAL, 0);
	}
}

Test(rows, files_without_rows)
{
	_cleanup_buf_ struct buf eh = one_function();
	const struct file_section s[] = {
		text, {".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0}};
	const struct file_section terminator[] = {
		text, {".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, "\0\0\0\0", 4, 0, 0}};

	check_rows(file_image(EM_X86_64, &text, 1, 0), -ENODATA, 0);
	check_rows(file_image(EM_X86_64, &text, 1, FILE_NO_SECTIONS), -ENODATA, 0);
	check_rows(file_image(EM_X86_64, terminator, ARRAY_SIZE(terminator), 0), -ENODATA, 0);
	check_rows(file_image(EM_RISCV, s, ARRAY_SIZE(s), 0), -ENOTSUP, 0);
}

Test(rows, compressed_debug_frame)
{
	_cleanup_buf_ struct buf frame = one_function(), section = {0};
	uint8_t packed[256];
	uLongf packed_len = sizeof(packed);

	memset(frame.data + 4, 0xff, 4);   /* the CIE's id */
	memset(frame.data + 24 + 4, 0, 4); /* the FDE's CIE */
	const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = frame.len, .ch_addralign = 1};
	cr_assert_eq(compress(packed, &packed_len, frame.data, frame.len), Z_OK);
	put(&section, &header, sizeof(header));
	put(&section, packed, packed_len);
	const struct file_section s[] = {
		text, {".debug_frame", SHT_PROGBITS, SHF_COMPRESSED, 0, section.data, section.len, 0, 0}};
	check_rows(file_image(EM_X86_64, s, ARRAY_SIZE(s), 0), 0, 3);
}

struct library {
	char path[4096];
	uint64_t bias;
};

static int is_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library *l = data;

	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so") && !strstr(info->dlpi_name, "/libc-"))
		return 0;
	snprintf(l->path, sizeof(l->path), "%s", info->dlpi_name);
	l->bias = info->dlpi_addr;
	return 1;
}

Test(rows, the_c_library)
{
	struct library l = {0};
	struct elf_image *img = NULL;
	struct elf_rows *t = NULL;
	size_t n_signal = 0, n_root = 0;

	cr_assert(dl_iterate_phdr(is_libc, &l), "no libc among the loaded objects");
	_cleanup_close_ int fd = open(l.path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(elf_rows_build(&t, img), 0);
	cr_expect_gt(t->n_rows, 10000);
	cr_expect_eq(t->n_skipped, 0);
	/* at the first instruction of a function, nothing has been pushed yet */
	static const char *const names[] = {"qsort", "fopen", "getaddrinfo", "system", "regcomp"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t va = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, names[i]) - l.bias;
		const struct elf_row *row = elf_rows_find(t, va);

		if (!row || va > t->rows[t->n_rows - 1].va)
			continue; /* a sanitizer intercepts the library's function */
		const struct elf_rule *rule = &t->rules[row->rule];
		cr_expect_eq(rule->cfa_kind, CFA_REG_OFF, "%s", names[i]);
		cr_expect_eq(rule->fp.kind, REG_SAME, "%s", names[i]);
		if (elf_image_machine(img) == EM_X86_64) {
			cr_expect_eq(rule->cfa_reg, X86_RSP, "%s", names[i]);
			cr_expect_eq(rule->cfa_off, 8, "%s", names[i]);
			cr_expect_eq(rule->ra.kind, REG_CFA_OFF, "%s", names[i]);
			cr_expect_eq(rule->ra.off, -8, "%s", names[i]);
		}
	}
	for (size_t i = 0; i < t->n_rows; i++) {
		n_signal += t->rules[t->rows[i].rule].cfa_kind == CFA_SIGNAL;
		n_root += t->rules[t->rows[i].rule].cfa_kind == CFA_UNDEFINED;
	}
	if (elf_image_machine(img) == EM_X86_64)
		cr_expect_eq(n_signal, 1, "__restore_rt");
	cr_expect_geq(n_root, 1, "clone");
	elf_rows_free(t);
	elf_image_free(img);
}

/* --- PLT sections that no FDE covers */

#define PLT_VA 0x1100
#define PLT_HEADER "\xff\x35\0\0\0\0\xff\x25\0\0\0\0\x0f\x1f\x40\0"
#define PLT_LAZY "\xff\x25\0\0\0\0\x68\0\0\0\0\xe9\0\0\0\0"
#define PLT_LAZY_CET "\xf3\x0f\x1e\xfa\x68\0\0\0\0\xf2\xe9\0\0\0\0\x90"
#define PLT_JUMP_CET "\xf3\x0f\x1e\xfa\xf2\xff\x25\0\0\0\0\x0f\x1f\x44\0\0"
#define PLT_JUMP "\xff\x25\0\0\0\0\x66\x90\xff\x25\0\0\0\0\x66\x90"
#define CRT_BEGIN "\x48\x83\xec\x08"
#define CRT_END "\x48\x83\xc4\x08\xc3"
#define CRT_GMON "\x48\x8b\x05\1\2\3\4\x48\x85\xc0\x74\x02\xff\xd0"
#define CRT_GMON_DIRECT "\x48\x8b\x05\1\2\3\4\x48\x85\xc0\x74\x05\xe8\1\2\3\4"
#define ENDBR64 "\xf3\x0f\x1e\xfa"
#define PLT_RETPOLINE "\x4c\x8b\x1d\0\0\0\0\xe8\0\0\0\0\x0f\x1f\x40\0"

struct plt_row {
	uint64_t va;
	uint8_t cfa_kind;
	int32_t off;
};

static const struct plt_case {
	const char *name, *section;
	struct bytes bytes;
	struct plt_row rows[4]; /* rows from PLT_VA on; va 0 ends them */
} plts[] = {
	{"lld",
	 ".plt",
	 BYTES(PLT_HEADER PLT_LAZY PLT_LAZY),
	 {{PLT_VA, CFA_REG_OFF, 16},
	  {PLT_VA + 6, CFA_REG_OFF, 24},
	  {PLT_VA + 16, CFA_PLT, 11},
	  {PLT_VA + 48, CFA_NONE, 0}}},
	{"endbr64",
	 ".plt",
	 BYTES(PLT_HEADER PLT_LAZY_CET),
	 {{PLT_VA, CFA_REG_OFF, 16},
	  {PLT_VA + 6, CFA_REG_OFF, 24},
	  {PLT_VA + 16, CFA_PLT, 9},
	  {PLT_VA + 32, CFA_NONE, 0}}},
	{"second PLT",
	 ".plt.sec",
	 BYTES(PLT_JUMP_CET),
	 {{PLT_VA, CFA_REG_OFF, 8}, {PLT_VA + 16, CFA_NONE, 0}}},
	{"slots of eight bytes",
	 ".plt.got",
	 BYTES(PLT_JUMP),
	 {{PLT_VA, CFA_REG_OFF, 8}, {PLT_VA + 16, CFA_NONE, 0}}},
	{"retpoline",
	 ".plt",
	 BYTES(PLT_HEADER PLT_RETPOLINE),
	 {{PLT_VA, CFA_REG_OFF, 16}, {PLT_VA + 6, CFA_REG_OFF, 24}, {PLT_VA + 16, CFA_NONE, 0}}},
	{"the first of all functions",
	 ".init",
	 BYTES(ENDBR64 CRT_BEGIN CRT_GMON CRT_END),
	 {{PLT_VA, CFA_REG_OFF, 8},
	  {PLT_VA + 8, CFA_REG_OFF, 16},
	  {PLT_VA + 26, CFA_REG_OFF, 8},
	  {PLT_VA + 27, CFA_NONE, 0}}},
	{"it calls by a PLT",
	 ".init",
	 BYTES(CRT_BEGIN CRT_GMON_DIRECT CRT_END),
	 {{PLT_VA, CFA_REG_OFF, 8},
	  {PLT_VA + 4, CFA_REG_OFF, 16},
	  {PLT_VA + 25, CFA_REG_OFF, 8},
	  {PLT_VA + 26, CFA_NONE, 0}}},
	{"the last of all functions",
	 ".fini",
	 BYTES(CRT_BEGIN CRT_END),
	 {{PLT_VA, CFA_REG_OFF, 8},
	  {PLT_VA + 4, CFA_REG_OFF, 16},
	  {PLT_VA + 8, CFA_REG_OFF, 8},
	  {PLT_VA + 9, CFA_NONE, 0}}},
	{"parts of other files",
	 ".init",
	 BYTES(ENDBR64 CRT_BEGIN CRT_GMON "\xe8\1\2\3\4\xe8\1\2\3\4" CRT_END),
	 {{PLT_VA, CFA_REG_OFF, 8},
	  {PLT_VA + 8, CFA_REG_OFF, 16},
	  {PLT_VA + 36, CFA_REG_OFF, 8},
	  {PLT_VA + 37, CFA_NONE, 0}}},
	{"something between", ".fini", BYTES(CRT_BEGIN "\x50" CRT_END), {{0, 0, 0}}},
	{"another end", ".init", BYTES(CRT_BEGIN CRT_GMON "\x48\x83\xc4\x18\xc3"), {{0, 0, 0}}},
	{"too short", ".fini", BYTES("\xc3"), {{0, 0, 0}}},
	{"other section", ".text.plt", BYTES(PLT_HEADER PLT_LAZY), {{0, 0, 0}}},
};

static void check_plt(const struct plt_case *c, const struct elf_rows *t)
{
	size_t i = 0, k = 0;

	while (i < t->n_rows && t->rows[i].va < PLT_VA)
		i++;
	for (; i < t->n_rows && k < ARRAY_SIZE(c->rows) && c->rows[k].va; i++, k++) {
		const struct elf_rule *rule = &t->rules[t->rows[i].rule];

		cr_expect_eq(t->rows[i].va, c->rows[k].va, "%s: row %zu at %#lx", c->name, k, t->rows[i].va);
		cr_expect_eq(rule->cfa_kind, c->rows[k].cfa_kind, "%s: row %zu, kind %d", c->name, k,
			     rule->cfa_kind);
		cr_expect_eq(rule->cfa_off, c->rows[k].off, "%s: row %zu, offset %d", c->name, k,
			     rule->cfa_off);
	}
	cr_expect_eq(i, t->n_rows, "%s: %zu rows", c->name, t->n_rows);
	cr_expect(k == ARRAY_SIZE(c->rows) || !c->rows[k].va, "%s: %zu rows of the PLT", c->name, k);
}

Test(rows, plt_without_call_frame_information)
{
	_cleanup_buf_ struct buf eh = one_function();

	for (size_t i = 0; i < ARRAY_SIZE(plts); i++) {
		const struct plt_case *c = &plts[i];
		const struct file_section s[] = {
			text,
			{c->section, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PLT_VA, c->bytes.data,
			 c->bytes.len, 0, 0},
			{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
		};
		struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
		struct elf_rows *t = NULL;

		cr_assert_eq(elf_rows_build(&t, img), 0, "%s", c->name);
		check_plt(c, t);
		elf_rows_free(t);
		elf_image_free(img);
	}
}

/* In a static program the section begins behind .init, at a multiple of 8. */
Test(rows, plt_of_slots_of_eight_bytes)
{
	_cleanup_buf_ struct buf eh = one_function();
	static const struct plt_case plt = {
		"static",
		".plt",
		BYTES(PLT_JUMP PLT_JUMP),
		{{PLT_VA + 8, CFA_REG_OFF, 8}, {PLT_VA + 40, CFA_NONE, 0}},
	};
	const struct file_section s[] = {
		text,
		{plt.section, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PLT_VA + 8, plt.bytes.data,
		 plt.bytes.len, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
	};
	struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
	struct elf_rows *t = NULL;

	cr_assert_eq(elf_rows_build(&t, img), 0);
	check_plt(&plt, t);
	elf_rows_free(t);
	elf_image_free(img);
}

/* --- a little assembly in a file whose other code is described */

#define ASM_VA 0x3000

/* As in GMP: push rbx; mov r10, r8; jmp +4; second: push rbx; xor r10, r10; both: nops; pop rbx; ret */
Test(rows, exported_function_that_shares_its_code)
{
	static const char big[0x1000];
	static const struct bytes shared =
		BYTES("\x53\x4d\x89\xc2\xeb\x04\x53\x4d\x31\xd2\x0f\x1f\x84\0\0\0\0\0\x5b\xc3");
	static const char names[] = "\0first\0second";
	const Elf64_Sym symbols[] = {
		{0},
		{1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 2, ASM_VA, 6},
		{7, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 2, ASM_VA + 6, 14},
	};
	_cleanup_buf_ struct buf eh = {0};

	put_fde(&eh, put_cie(&eh, EM_X86_64, "", X86_START), false, TEXT_VA, sizeof big,
		BYTES("\x41\x0e\x10"));
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, big, sizeof big, 0, 0},
		{".asm", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, ASM_VA, shared.data, shared.len, 0, 0},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
		{".dynstr", SHT_STRTAB, SHF_ALLOC, 0x5000, names, sizeof names, 0, 0},
		{".dynsym", SHT_DYNSYM, SHF_ALLOC, 0x6000, symbols, sizeof symbols, 4, sizeof symbols[0]},
	};
	static const struct plt_row expected[] = {
		{ASM_VA, CFA_REG_OFF, 8},      {ASM_VA + 1, CFA_REG_OFF, 16}, {ASM_VA + 6, CFA_REG_OFF, 8},
		{ASM_VA + 7, CFA_REG_OFF, 16}, {ASM_VA + 19, CFA_REG_OFF, 8}, {ASM_VA + 20, CFA_NONE, 0}};
	struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
	struct elf_rows *t = NULL;
	size_t first = 0;

	cr_assert_eq(elf_rows_build(&t, img), 0);
	while (first < t->n_rows && t->rows[first].va < ASM_VA)
		first++;
	cr_assert_eq(t->n_rows - first, ARRAY_SIZE(expected), "%zu rows", t->n_rows - first);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct elf_rule *rule = &t->rules[t->rows[first + i].rule];

		cr_expect_eq(t->rows[first + i].va, expected[i].va, "row %zu at %#lx", i,
			     t->rows[first + i].va);
		cr_expect_eq(rule->cfa_kind, expected[i].cfa_kind, "row %zu, kind %d", i, rule->cfa_kind);
		cr_expect_eq(rule->cfa_off, expected[i].off, "row %zu, offset %d", i, rule->cfa_off);
	}
	elf_rows_free(t);
	elf_image_free(img);
}

/* --- the root of a coroutine: the byte before glibc's __start_context */

#define START_CONTEXT \
	"\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85\xff\x74\x08\xe8\0\0\0\0\x48\x89\xc7\xe8\0\0\0\0\xf4"

Test(rows, the_byte_before_start_context_is_outermost)
{
	static const struct {
		const char *name;
		uint32_t start, len; /* of its FDE, in the text */
		bool root;
	} cases[] = {
		{"behind padding", 0x40, 26, true},
		{"behind another function", 0x30, 26, false},
		{"another length", 0x40, 27, false},
		{"other code", 0x48, 26, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf eh = {0};
		size_t cie = put_cie(&eh, EM_X86_64, "", X86_START);
		char bytes[0x80] = {0};
		const struct file_section s[] = {
			{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, bytes, sizeof(bytes), 0,
			 0},
			{".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x4000, eh.data, eh.len, 0, 0},
		};
		struct file_section sections[ARRAY_SIZE(s)];
		struct elf_rows *t = NULL;

		put_fde(&eh, cie, false, TEXT_VA, 0x30, BYTES("\x41\x0e\x10"));
		put_fde(&eh, cie, false, TEXT_VA + cases[i].start, cases[i].len, BYTES(""));
		memcpy(bytes + (cases[i].start & ~8u), START_CONTEXT, 26);
		memcpy(sections, s, sizeof(s));
		sections[1].data = eh.data;
		sections[1].len = eh.len;
		struct elf_image *img = file_image(EM_X86_64, sections, ARRAY_SIZE(sections), 0);
		cr_assert_eq(elf_rows_build(&t, img), 0, "%s", cases[i].name);
		const struct elf_row *row = elf_rows_find(t, TEXT_VA + cases[i].start - 1);
		cr_assert_not_null(row);
		cr_expect_eq(t->rules[row->rule].cfa_kind == CFA_UNDEFINED, cases[i].root, "%s",
			     cases[i].name);
		row = elf_rows_find(t, TEXT_VA + cases[i].start);
		cr_expect_eq(t->rules[row->rule].cfa_kind, CFA_REG_OFF, "%s", cases[i].name);
		elf_rows_free(t);
		elf_image_free(img);
	}
}
