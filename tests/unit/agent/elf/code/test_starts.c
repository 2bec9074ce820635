// SPDX-License-Identifier: Apache-2.0
/* What a file says of its functions besides their code. */
#include "agent/elf/code/starts.h"

#include "agent/elf/cfi/row_spans.h"

#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#define DATA_VA 0x9000u

static char text[0x100];
static const char strings[] = "\0whole\0part.cold\0data\0abort\0puts";
static const Elf64_Sym symbols[] = {
	{0},
	{.st_name = 1,
	 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	 .st_shndx = 1,
	 .st_value = TEXT_VA + 0x10},
	{.st_name = 7,
	 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
	 .st_shndx = 1,
	 .st_value = TEXT_VA + 0x20},
	{.st_name = 17,
	 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT),
	 .st_shndx = 1,
	 .st_value = TEXT_VA + 0x30},
	{.st_name = 22, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = SHN_UNDEF},
	{.st_name = 28, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = SHN_UNDEF},
};
static const Elf64_Rela relocations[] = {
	{.r_offset = DATA_VA, .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE), .r_addend = TEXT_VA + 0x40},
	{.r_offset = DATA_VA + 8, .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE), .r_addend = TEXT_VA + 0x50},
	{.r_offset = DATA_VA + 16, .r_info = ELF64_R_INFO(4, R_X86_64_JUMP_SLOT)},
	{.r_offset = DATA_VA + 24, .r_info = ELF64_R_INFO(5, R_X86_64_JUMP_SLOT)},
	{.r_offset = DATA_VA + 32, .r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE), .r_addend = 0x100000},
};
static const uint64_t words[] = {TEXT_VA + 0x60, 7};

static void read_file(struct code_starts *ret, uint16_t type)
{
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, text, sizeof text, 0, 0},
		{".dynsym", SHT_DYNSYM, SHF_ALLOC, 0x5000, symbols, sizeof symbols, 3, sizeof *symbols},
		{".dynstr", SHT_STRTAB, SHF_ALLOC, 0x6000, strings, sizeof strings, 0, 0},
		{".rela.dyn", SHT_RELA, SHF_ALLOC, 0x7000, relocations, sizeof relocations, 2,
		 sizeof *relocations},
		{".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, DATA_VA, words, sizeof words, 0, 0},
	};
	_cleanup_buf_ struct buf file = {0};
	struct row_spans spans = {0};
	struct elf_image *img;

	file_write(&file, EM_X86_64, s, ARRAY_SIZE(s), 0);
	file_set_entry(&file, type, 0);
	img = file_open(&file);
	cr_assert_eq(code_starts_read(ret, img, &spans), 0);
	elf_image_free(img);
}

static bool has(const struct code_starts *s, uint32_t off, bool certain)
{
	const struct code_start *at = code_starts_at(s, TEXT_VA + off);

	return at && at->certain == certain;
}

Test(starts, symbols_relocations_and_words)
{
	for (int fixed = 0; fixed < 2; fixed++) {
		struct code_starts s = {0};

		read_file(&s, fixed ? ET_EXEC : ET_DYN);
		cr_expect(has(&s, 0x10, true), "a symbol");
		/* in a program at fixed addresses, .dynsym has such words, too */
		cr_expect_eq(has(&s, 0x20, false), fixed == 1, "a part of a function");
		cr_expect_eq(has(&s, 0x30, false), fixed == 1, "no function");
		cr_expect(has(&s, 0x40, false), "a pointer");
		cr_expect(has(&s, 0x50, true), "a resolver");
		cr_expect_eq(has(&s, 0x60, false), fixed == 1, "a word of a program at fixed addresses");
		cr_expect_null(code_starts_at(&s, 0x100000), "outside of the code");
		for (size_t i = 1; i < s.n; i++)
			cr_expect_lt(s.v[i - 1].va, s.v[i].va);
		cr_expect(code_starts_no_return(&s, DATA_VA + 16), "abort");
		cr_expect_not(code_starts_no_return(&s, DATA_VA + 24), "puts");
		code_starts_fini(&s);
	}
}
