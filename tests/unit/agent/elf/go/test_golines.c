// SPDX-License-Identifier: Apache-2.0
/*
 * Finds source positions of Go functions in handmade tables: main.f calls main.g, which is inlined, in line
 * 10.
 */
#include "tests/unit/agent/elf/elf_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/elf/names/symtab.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define CODE_VA 0x1000
#define TABLE_VA 0x10000
#define TREES_VA 0x20000
#define MODULE_VA 0x30000
#define HEADER 72

static char code[0x20];

struct step {
	uint8_t bytes;
	int8_t value;
};

/* Writes a pc-value table and returns its offset. */
static uint32_t put_values(struct buf *b, const struct step *s)
{
	uint32_t at = (uint32_t)b->len;
	int value = -1;

	for (; s->bytes; s++) {
		int change = s->value - value;

		put_u8(b, (uint8_t)(change < 0 ? -change * 2 - 1 : change * 2));
		put_u8(b, s->bytes);
		value = s->value;
	}
	put_u8(b, 0);
	return at;
}

static void put_pclntab(struct buf *b)
{
	static const char names[] = "main.f\0main.g", files[] = "a.go\0b.go";
	_cleanup_buf_ struct buf values = {0};
	uint32_t tables[4];

	put_u8(&values, 0);
	tables[0] = put_values(&values, (struct step[]){{0x20, 8}, {0, 0}});
	tables[1] = put_values(&values, (struct step[]){{8, 0}, {8, 1}, {16, 0}, {0, 0}});
	tables[2] = put_values(&values, (struct step[]){{8, 10}, {8, 55}, {16, 12}, {0, 0}});
	tables[3] = put_values(&values, (struct step[]){{8, -1}, {8, 0}, {16, -1}, {0, 0}});
	uint64_t units = HEADER + sizeof names, file_names = units + 8, pctab = file_names + sizeof files;
	put_u32(b, 0xfffffff1);
	put_u8(b, 0);
	put_u8(b, 0);
	put_u8(b, 1);
	put_u8(b, 8);
	put_u64(b, 1); /* functions */
	put_u64(b, 2); /* files */
	put_u64(b, CODE_VA);
	put_u64(b, HEADER);
	put_u64(b, units);
	put_u64(b, file_names);
	put_u64(b, pctab);
	put_u64(b, pctab + values.len);
	put(b, names, sizeof names);
	put_u32(b, 0);
	put_u32(b, 5);
	put(b, files, sizeof files);
	put(b, values.data, values.len);
	for (int i = 0; i < 3; i++)
		put_u32(b, (uint32_t[]){0, 12, sizeof code}[i]); /* functab */
	put_u32(b, 0); /* the record: entry, name, args, deferreturn */
	put_u32(b, 0);
	put_u32(b, 0);
	put_u32(b, 0);
	for (int i = 0; i < 3; i++)
		put_u32(b, tables[i]);
	put_u32(b, 3); /* pc-value tables behind it */
	put_u32(b, 0); /* unit */
	put_u32(b, 9); /* startLine */
	put_u8(b, 0);
	put_u8(b, 0);
	put_u8(b, 0);
	put_u8(b, 4); /* funcdata */
	put_u32(b, 0);
	put_u32(b, 0);
	put_u32(b, tables[3]);
	for (int i = 0; i < 3; i++)
		put_u32(b, UINT32_MAX);
	put_u32(b, 16); /* the second tree */
}

enum place { IN_DATA, IN_RELOCATIONS, NOWHERE };

static struct elf_image *image(enum place place)
{
	const uint32_t tree[] = {~0u, ~0u, ~0u, ~0u, 0, 7, 4, 54}; /* at 16: main.g, called at 4 */
	uint64_t module[41] = {[0] = TABLE_VA, [22] = CODE_VA, [40] = TREES_VA};
	Elf64_Rela relas[3];
	_cleanup_buf_ struct buf table = {0};
	size_t n = 0;

	for (size_t i = 0; i < 41; i++)
		if (module[i] && place != IN_DATA) {
			relas[n++] = (Elf64_Rela){MODULE_VA + 8 * i, ELF64_R_INFO(0, R_X86_64_RELATIVE),
						  (int64_t)module[i]};
			module[i] = 0;
		}
	put_pclntab(&table);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, CODE_VA, code, sizeof code, 0, 0},
		{".gopclntab", SHT_PROGBITS, SHF_ALLOC, TABLE_VA, table.data, table.len, 0, 0},
		{".rodata", SHT_PROGBITS, SHF_ALLOC, TREES_VA, tree, sizeof tree, 0, 0},
		{".noptrdata", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, MODULE_VA, module, sizeof module, 0, 0},
		{place == IN_RELOCATIONS ? ".rela.dyn" : ".none", SHT_RELA, 0, 0, relas, sizeof relas, 0,
		 sizeof relas[0]},
	};
	return file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
}

static void check(enum place place, uint64_t addr, const char *expected)
{
	struct elf_image *img = image(place);
	struct elf_symbol s;
	char text[256];
	int n;

	cr_assert_eq(elf_symtab_resolve_with(img, NULL, 0, &addr, 1, &s), 0);
	n = snprintf(text, sizeof text, "%s [%" PRIx64 ", %" PRIx64 ")", s.name ? s.name : "-", s.start,
		     s.end);
	for (size_t i = 0; i < s.n_lines; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, " %s %s:%u-%u", s.lines[i].function,
			      s.lines[i].file, s.lines[i].start_line, s.lines[i].line);
	cr_expect_str_eq(text, expected, "%d: %s", place, text);
	free(s.name);
	free(s.lines);
	elf_image_free(img);
}

Test(golines, places)
{
	check(IN_DATA, 0x1001, "main.f [1000, 1008) main.f a.go:9-10");
	check(IN_DATA, 0x1009, "main.f [1008, 1010) main.g b.go:54-55 main.f a.go:9-10");
	check(IN_DATA, 0x101f, "main.f [1010, 1020) main.f a.go:9-12");
	check(IN_RELOCATIONS, 0x1009, "main.f [1008, 1010) main.g b.go:54-55 main.f a.go:9-10");
	check(NOWHERE, 0x1009,
	      "main.f [1008, 1010) main.f b.go:0-55"); /* without the tree of inlined calls */
	check(IN_DATA, 0x1020, "- [1020, ffffffffffffffff)");
}
