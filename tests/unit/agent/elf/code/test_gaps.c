// SPDX-License-Identifier: Apache-2.0
/* The code that no span covers. */
#include "agent/elf/code/gaps.h"

#include "agent/elf/code/starts.h"

#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#define SECTION 0x400u

static char code[SECTION];

static struct elf_image *open_sections(struct buf *file, const uint64_t *va, size_t n)
{
	struct file_section s[4];

	for (size_t i = 0; i < n; i++)
		s[i] = (struct file_section){
			".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, va[i], code, sizeof code, 0, 0};
	file_write(file, EM_X86_64, s, n, 0);
	return file_open(file);
}

/* Of each byte of the sections, whether it is in a gap: by the definition. */
static void expect_gaps(const struct code_gaps *gaps, const struct row_spans *spans, const uint64_t *va,
			size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t begin = va[i]; /* of the bytes that no span covers */

		for (uint64_t at = va[i]; at <= va[i] + SECTION; at++) {
			bool covered = at == va[i] + SECTION, found = false;

			for (size_t k = 0; k < spans->n && !covered; k++)
				covered = at >= spans->v[k].start && at < spans->v[k].end;
			if (!covered)
				continue;
			for (size_t k = 0; k < gaps->n && !found; k++)
				found = gaps->v[k].start == begin && gaps->v[k].end == at;
			cr_assert_eq(found, at - begin >= ELF_GAP_MIN, "section %zu, %" PRIx64 " to %" PRIx64,
				     i, begin, at);
			begin = at + 1;
		}
	}
	for (size_t k = 1; k < gaps->n; k++)
		cr_assert_leq(gaps->v[k - 1].start, gaps->v[k].start);
}

/* Sections in any order, spans that overlap, extend beyond a section, or are added between two searches. */
Test(gaps, by_definition)
{
	static const uint64_t va[] = {0x2000, 0x1000, 0x1000 + SECTION};
	unsigned seed = 3;

	for (int round = 0; round < 200; round++) {
		_cleanup_buf_ struct buf file = {0};
		struct elf_image *img = open_sections(&file, va, ARRAY_SIZE(va));
		struct code_gaps gaps = {0};
		struct row_spans spans = {0};
		size_t n;
		const struct elf_segment *segments = elf_image_segments(img, &n);

		cr_assert_eq(row_spans_init(&spans, segments, n), 0);
		for (int i = 0; i < 40; i++) {
			uint64_t start;

			seed = seed * 1103515245 + 12345;
			start = va[seed >> 8 & 1] - 0x20 + (seed >> 16) % (2 * SECTION);
			cr_assert_eq(
				row_spans_add(&spans, start, start + 1 + (seed >> 4) % 70, 0, ELF_EH_FRAME),
				0);
			if (i % 13 != round % 13)
				continue;
			cr_assert_eq(code_gaps_find(&gaps, &spans, img), 0);
			expect_gaps(&gaps, &spans, va, ARRAY_SIZE(va));
		}
		code_gaps_fini(&gaps);
		row_spans_fini(&spans);
		elf_image_free(img);
	}
}

/* A damaged file's sections overlap, and so do gaps, the last of which does not end last. */
Test(gaps, symbols_in_gaps_that_overlap)
{
	static const Elf64_Sym symbols[] = {
		{0},
		{.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = 0x1010},
		{.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = 0x1210},
		{.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_value = 0x1390},
	};
	/* V8's own functions are local ones */
	static const Elf64_Sym local[] = {
		{0},
		{.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC), .st_shndx = 1, .st_value = 0x1110},
		{.st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), .st_shndx = 1, .st_value = 0x1120},
	};
	static const struct code_gap gaps[] = {{.start = 0x1000, .end = 0x9000},
					       {.start = 0x1200, .end = 0x1220}};
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, code, sizeof code, 0, 0},
		{".dynsym", SHT_DYNSYM, SHF_ALLOC, 0x5000, symbols, sizeof symbols, 3, sizeof *symbols},
		{".dynstr", SHT_STRTAB, SHF_ALLOC, 0x6000, "", 1, 0, 0},
		{".symtab", SHT_SYMTAB, 0, 0, local, sizeof local, 5, sizeof *local},
		{".strtab", SHT_STRTAB, 0, 0, "", 1, 0, 0},
	};
	_cleanup_buf_ struct buf file = {0};
	struct code_starts starts = {0};
	struct elf_image *img;

	file_write(&file, EM_X86_64, s, ARRAY_SIZE(s), 0);
	img = file_open(&file);
	cr_assert_eq(code_starts_read_symbols(&starts, img, gaps, ARRAY_SIZE(gaps)), 0);
	cr_expect(code_starts_at(&starts, 0x1010));
	cr_expect(code_starts_at(&starts, 0x1210));
	cr_expect(code_starts_at(&starts, 0x1110));
	cr_expect_not(code_starts_at(&starts, 0x1120));
	code_starts_fini(&starts);
	elf_image_free(img);
}
