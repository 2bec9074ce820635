// SPDX-License-Identifier: Apache-2.0
/* Finds the functions of a stripped file by their FDEs. */
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#include <stdlib.h>

#include "agent/elf/names/symtab.h"

#define TEXT_BYTES 0x1000u
#define EXPORT 0x1400 /* "exported", 0x40 bytes, inside an FDE of 0x100 bytes from 0x13c0 on */

#define LABEL 0x1500 /* "label", without size: a return, and more that its FDE covers */

static const struct {
	uint64_t start, len;
} fdes[] = {
	{0x1000, 0x40}, {0x1040, 0x10}, {0x1100, 0x100}, /* the FDE at 0x1150 lies inside the third */
	{0x1150, 0x10}, {0x1300, 0x0},	{0x13c0, 0x100}, {LABEL, 0x80},
};

static int stripped(bool with_frames)
{
	static char code[TEXT_BYTES];
	static const char strings[] = "\0exported\0label";
	const Elf64_Sym symbols[] = {{0},
				     {.st_name = 1,
				      .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				      .st_shndx = 1,
				      .st_value = EXPORT,
				      .st_size = 0x40},
				     {.st_name = 10,
				      .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
				      .st_shndx = 1,
				      .st_value = LABEL}};
	_cleanup_buf_ struct buf frames = {0}, file = {0};
	size_t cie = put_cie(&frames, EM_X86_64, "zR", X86_START);

	code[LABEL - TEXT_VA] = '\xc3';
	for (size_t i = 0; i < ARRAY_SIZE(fdes); i++)
		put_fde(&frames, cie, true, fdes[i].start, fdes[i].len, BYTES(""));
	put_u32(&frames, 0);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof code, 0, 0},
		{".dynstr", SHT_STRTAB, 0, 0, strings, sizeof strings, 0, 0},
		{".dynsym", SHT_DYNSYM, 0, 0, symbols, sizeof symbols, 2, sizeof *symbols},
		{".eh_frame", SHT_PROGBITS, SHF_ALLOC, SECTION_VA, frames.data, frames.len, 0, 0},
	};

	file_write(&file, EM_X86_64, s, with_frames ? 4 : 3, 0);
	return file_fd(file.data, file.len);
}

static void expect(struct elf_image *img, uint64_t addr, const char *name, bool unnamed, uint64_t start,
		   uint64_t end)
{
	struct elf_symbol s;

	cr_assert_eq(elf_symtab_resolve(img, &addr, 1, &s), 0);
	cr_expect(name ? s.name && strcmp(s.name, name) == 0 : !s.name, "%" PRIx64 ": %s", addr, s.name);
	cr_expect_eq(s.unnamed, unnamed, "%" PRIx64, addr);
	if (end) {
		cr_expect_eq(s.start, start, "%" PRIx64 ": %" PRIx64, addr, s.start);
		cr_expect_eq(s.end, end, "%" PRIx64 ": %" PRIx64, addr, s.end);
	}
	free(s.name);
}

Test(extents, functions_without_symbols)
{
	_cleanup_close_ int fd = stripped(true);
	struct elf_image *img = NULL;

	cr_assert_eq(elf_image_open(&img, fd), 0);
	expect(img, 0x1000, NULL, true, 0x1000, 0x1040);
	expect(img, 0x103f, NULL, true, 0x1000, 0x1040);
	expect(img, 0x1045, NULL, true, 0x1040, 0x1050);
	expect(img, 0x1050, NULL, false, 0x1050, 0x1100); /* between functions: the range contains none */
	expect(img, 0x1100, NULL, true, 0x1100, 0x1200);
	expect(img, 0x1155, NULL, true, 0x1150, 0x1160); /* the FDE that starts last */
	expect(img, 0x1300, NULL, false, 0, 0);		 /* an empty FDE */
	expect(img, 0x1410, "exported", false, EXPORT, EXPORT + 0x40);
	expect(img, 0x13d0, NULL, true, 0x13c0, EXPORT); /* up to the function that has a name */
	expect(img, 0x1450, NULL, false, EXPORT + 0x40,
	       0x14c0); /* behind it: unknown, since the FDE begins before the named function */
	expect(img, LABEL, "label", false, LABEL, LABEL + 1);
	expect(img, LABEL + 0x40, "label", false, LABEL, LABEL + 0x80); /* its FDE goes on */
	expect(img, LABEL + 0x80, NULL, false, LABEL + 0x80, 0x2000);
	elf_image_free(img);
}

Test(extents, many_at_once_and_none)
{
	const uint64_t addrs[] = {0x1155, 0x1000, 0x1410, 0x1001, 0x1050};
	_cleanup_close_ int fd = stripped(true), none = stripped(false);
	struct elf_symbol s[ARRAY_SIZE(addrs)];
	struct elf_image *img = NULL;

	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(elf_symtab_resolve(img, addrs, ARRAY_SIZE(addrs), s), 0);
	cr_expect(s[0].unnamed && s[0].start == 0x1150);
	cr_expect(s[1].unnamed && s[1].start == 0x1000 && s[3].unnamed && s[3].start == 0x1000);
	cr_expect(s[2].name && !s[2].unnamed);
	cr_expect(!s[4].unnamed && s[4].start == 0x1050 && s[4].end == 0x1100,
		  "as when it is asked for alone");
	free(s[2].name);
	elf_image_free(img);
	cr_assert_eq(elf_image_open(&img, none), 0);
	expect(img, 0x1000, NULL, false, 0, 0);
	elf_image_free(img);
}
