// SPDX-License-Identifier: Apache-2.0
/* Names of parts of functions in string tables, also across the borders of what is read at once. */
#include "agent/elf/code/cold_names.h"

#include <elf.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/strtab.h"

#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

static const Elf64_Sym symbols[2];

static void read_table(struct cold_names *ret, const void *strings, size_t bytes)
{
	const struct file_section s[] = {
		{".dynsym", SHT_DYNSYM, SHF_ALLOC, 0x5000, symbols, sizeof symbols, 2, sizeof *symbols},
		{".dynstr", SHT_STRTAB, SHF_ALLOC, 0x6000, strings, bytes, 0, 0},
	};
	_cleanup_buf_ struct buf file = {0};
	struct elf_section section;
	struct elf_strtab table;
	struct elf_image *img;

	file_write(&file, EM_X86_64, s, ARRAY_SIZE(s), 0);
	img = file_open(&file);
	cr_assert_eq(elf_image_find_section_type(img, SHT_DYNSYM, &section), 0);
	cr_assert(elf_strtab_open(&table, img, &section));
	cr_assert_eq(cold_names_read(ret, &table), 0);
	elf_image_free(img);
}

Test(cold_names, which)
{
	static const char strings[] =
		"\0whole\0part.cold\0other.cold.12\0.cold\0.colder\0a.cold.cold\0scold\0x.coldy.cold\0.cold";
	struct cold_names c;

	read_table(&c, strings, sizeof strings);
	for (size_t at = 0; at < sizeof strings; at++) {
		const char *mark = strings + at;
		bool cold = false;

		while ((mark = strstr(mark, ".cold"))) {
			mark += 5;
			cold |= !*mark || *mark == '.';
		}
		cr_expect_eq(cold_names_has(&c, at), cold, "%zu: %s", at, strings + at);
	}
	cr_expect(!cold_names_has(&c, sizeof strings));
	cr_expect(!cold_names_has(&c, UINT64_MAX));
	cold_names_fini(&c);
	cr_expect_eq(c.n, 0);
}

/* A table without a 0 at its end, and one without any name. */
Test(cold_names, damaged)
{
	struct cold_names c;

	read_table(&c, "\0part.cold", 10);
	cr_expect(cold_names_has(&c, 1));
	cold_names_fini(&c);
	read_table(&c, "", 1);
	cr_expect_eq(c.n, 0);
	cold_names_fini(&c);
}

Test(cold_names, at_each_border)
{
	static const char name[] = "f.cold.1";
	const size_t border = 64u << 10, bytes = border + 4096;
	_cleanup_free_ char *strings = malloc(bytes);

	cr_assert_not_null(strings);
	for (size_t at = border - 16; at <= border + 16; at++) {
		struct cold_names c;

		memset(strings, 'x', bytes); /* one name up to here */
		strings[0] = strings[at - 1] = strings[bytes - 1] = '\0';
		memcpy(strings + at, name, sizeof name);
		read_table(&c, strings, bytes);
		cr_expect_eq(c.n, 1, "at %zu", at);
		cr_expect(cold_names_has(&c, at), "at %zu", at);
		cr_expect(cold_names_has(&c, at + 1), "at %zu", at);
		cr_expect(!cold_names_has(&c, at + 2), "at %zu", at);
		cr_expect(!cold_names_has(&c, at - 2), "at %zu", at);
		cold_names_fini(&c);
	}
}
