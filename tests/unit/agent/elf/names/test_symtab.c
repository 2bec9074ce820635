// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/elf/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/elf/names/symtab.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define CODE 1 /* section index of .text */
#define DATA 2
#define FUNC(bind) ELF64_ST_INFO(bind, STT_FUNC)
#define LABEL(bind) ELF64_ST_INFO(bind, STT_NOTYPE)

struct symbol {
	const char *name;
	uint64_t va, len;
	uint8_t info;
	uint16_t section;
};

static char code[0x1000];

static struct elf_image *image_with(uint16_t machine, const struct symbol *symbols, size_t n, uint32_t type)
{
	_cleanup_buf_ struct buf strings = {0}, table = {0};
	Elf64_Sym sym = {0};

	buf_putc(&strings, '\0');
	buf_append(&table, &sym, sizeof(sym));
	for (size_t i = 0; i < n; i++) {
		sym = (Elf64_Sym){.st_name = symbols[i].name ? (Elf64_Word)strings.len : 0,
				  .st_info = symbols[i].info,
				  .st_shndx = symbols[i].section,
				  .st_value = symbols[i].va,
				  .st_size = symbols[i].len};
		if (symbols[i].name)
			buf_append(&strings, symbols[i].name, strlen(symbols[i].name) + 1);
		buf_append(&table, &sym, sizeof(sym));
	}
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, code, sizeof(code), 0, 0},
		{".data", SHT_PROGBITS, SHF_ALLOC, 0x3000, code, sizeof(code), 0, 0},
		{".strtab", SHT_STRTAB, 0, 0, strings.data, strings.len, 0, 0},
		{".symtab", type, 0, 0, table.data, table.len, 3, sizeof(sym)},
	};
	return file_image(machine, s, ARRAY_SIZE(s), 0);
}

/* Compares with "NAME [START, END)", where "-" means no name. */
static void check_symbol(const char *what, const struct elf_symbol *s, const char *expected)
{
	char text[256];

	snprintf(text, sizeof(text), "%s [%" PRIx64 ", %" PRIx64 ")", s->name ? s->name : "-", s->start,
		 s->end);
	cr_expect_str_eq(text, expected, "%s: found %s, expected %s", what, text, expected);
}

static const struct {
	const char *what;
	struct symbol symbols[4];
	uint64_t addr;
	const char *expected;
} rule_cases[] = {
	{"first byte", {{"f", 0x1100, 16, FUNC(STB_GLOBAL), CODE}}, 0x1100, "f [1100, 1110)"},
	{"last byte", {{"f", 0x1100, 16, FUNC(STB_GLOBAL), CODE}}, 0x110f, "f [1100, 1110)"},
	{"behind it", {{"f", 0x1100, 16, FUNC(STB_GLOBAL), CODE}}, 0x1110, "- [1110, 2000)"},
	{"before it", {{"f", 0x1100, 16, FUNC(STB_GLOBAL), CODE}}, 0x10ff, "- [1000, 1100)"},
	{"outside every section",
	 {{"f", 0x1100, 16, FUNC(STB_GLOBAL), CODE}},
	 0x2fff,
	 "- [2000, ffffffffffffffff)"},
	{"global before weak before local",
	 {{"a", 0x1100, 16, FUNC(STB_LOCAL), CODE},
	  {"bbb", 0x1100, 16, FUNC(STB_GLOBAL), CODE},
	  {"b", 0x1100, 16, FUNC(STB_WEAK), CODE}},
	 0x1104,
	 "bbb [1100, 1110)"},
	{"function before label",
	 {{"a", 0x1100, 16, LABEL(STB_GLOBAL), CODE}, {"bbb", 0x1100, 16, FUNC(STB_LOCAL), CODE}},
	 0x1104,
	 "bbb [1100, 1110)"},
	{"indirect functions are functions",
	 {{"memcpy", 0x1100, 16, ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC), CODE}},
	 0x1104,
	 "memcpy [1100, 1110)"},
	{"fewer underscores",
	 {{"__libc_malloc", 0x1100, 16, FUNC(STB_GLOBAL), CODE},
	  {"malloc", 0x1100, 16, FUNC(STB_GLOBAL), CODE},
	  {"__malloc", 0x1100, 16, FUNC(STB_GLOBAL), CODE}},
	 0x1104,
	 "malloc [1100, 1110)"},
	{"shorter, then alphabetical",
	 {{"ccc", 0x1100, 16, FUNC(STB_GLOBAL), CODE},
	  {"bb", 0x1100, 16, FUNC(STB_GLOBAL), CODE},
	  {"ba", 0x1100, 16, FUNC(STB_GLOBAL), CODE}},
	 0x1104,
	 "ba [1100, 1110)"},
	{"version",
	 {{"memcpy@@GLIBC_2.14", 0x1100, 16, FUNC(STB_GLOBAL), CODE}},
	 0x1104,
	 "memcpy [1100, 1110)"},
	{"old version",
	 {{"memcpy@GLIBC_2.2.5", 0x1100, 16, FUNC(STB_GLOBAL), CODE}},
	 0x1104,
	 "memcpy [1100, 1110)"},
	{"nested: inner",
	 {{"outer", 0x1100, 64, FUNC(STB_GLOBAL), CODE}, {"inner", 0x1110, 16, FUNC(STB_LOCAL), CODE}},
	 0x1114,
	 "inner [1110, 1120)"},
	{"nested: outer behind it",
	 {{"outer", 0x1100, 64, FUNC(STB_GLOBAL), CODE}, {"inner", 0x1110, 16, FUNC(STB_LOCAL), CODE}},
	 0x1130,
	 "outer [1120, 1140)"},
	{"no size: up to the next",
	 {{"_init", 0x1100, 0, FUNC(STB_GLOBAL), CODE}, {"f", 0x1200, 16, FUNC(STB_GLOBAL), CODE}},
	 0x11ff,
	 "_init [1100, 1200)"},
	{"no size: up to the section's end",
	 {{"_fini", 0x1100, 0, FUNC(STB_GLOBAL), CODE}},
	 0x1ffe,
	 "_fini [1100, 2000)"},
	{"no size, inside a function: the function",
	 {{"f", 0x1100, 64, FUNC(STB_GLOBAL), CODE}, {"label", 0x1110, 0, LABEL(STB_LOCAL), CODE}},
	 0x1118,
	 "f [1110, 1140)"},
	{"no size, before a function that ended",
	 {{"label", 0x1100, 0, LABEL(STB_LOCAL), CODE}, {"f", 0x1110, 16, FUNC(STB_GLOBAL), CODE}},
	 0x1128,
	 "- [1120, 2000)"},
	{"assembly label", {{"loop", 0x1100, 0, LABEL(STB_LOCAL), CODE}}, 0x1108, "loop [1100, 2000)"},
	{"data",
	 {{"table", 0x3000, 16, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), DATA}},
	 0x3004,
	 "- [2000, ffffffffffffffff)"},
	{"label in data",
	 {{"_edata", 0x3000, 16, LABEL(STB_GLOBAL), DATA}},
	 0x3004,
	 "- [2000, ffffffffffffffff)"},
	{"undefined", {{"puts", 0x1100, 16, FUNC(STB_GLOBAL), SHN_UNDEF}}, 0x1104, "- [1000, 2000)"},
	{"absolute label", {{"size", 0x1100, 16, LABEL(STB_GLOBAL), SHN_ABS}}, 0x1104, "- [1000, 2000)"},
	{"without a name", {{NULL, 0x1100, 16, FUNC(STB_GLOBAL), CODE}}, 0x1104, "- [1000, 2000)"},
	{"wraps around", {{"f", 0x1100, UINT64_MAX, FUNC(STB_GLOBAL), CODE}}, 0x1104, "- [1000, 2000)"},
};

Test(symtab, rules)
{
	for (size_t i = 0; i < ARRAY_SIZE(rule_cases); i++) {
		size_t n = 0;

		while (n < ARRAY_SIZE(rule_cases[i].symbols) &&
		       rule_cases[i].symbols[n].section + rule_cases[i].symbols[n].info)
			n++;
		struct elf_image *img =
			image_with(EM_X86_64, rule_cases[i].symbols, n, i % 2 ? SHT_SYMTAB : SHT_DYNSYM);
		struct elf_symbol s;

		cr_assert_eq(elf_symtab_resolve(img, &rule_cases[i].addr, 1, &s), 0);
		check_symbol(rule_cases[i].what, &s, rule_cases[i].expected);
		free(s.name);
		elf_image_free(img);
	}
}

/* Symbols without size name the function that begins there, not what follows it. */
static const struct {
	const char *what;
	struct bytes code; /* at 0x1100 */
	uint64_t addr;
	const char *expected;
} end_cases[] = {
	{"frame_dummy: endbr64; jmp back", BYTES("\xf3\x0f\x1e\xfa\xeb\xe0"), 0x1104, "f [1100, 1106)"},
	{"behind it", BYTES("\xf3\x0f\x1e\xfa\xeb\xe0"), 0x1106, "- [1106, 1200)"},
	{"a branch over a return: test; je; ret; nop; xor; ret",
	 BYTES("\x85\xff\x74\x02\xc3\x90\x31\xc0\xc3"), 0x1107, "f [1100, 1109)"},
	{"behind its second return", BYTES("\x85\xff\x74\x02\xc3\x90\x31\xc0\xc3"), 0x1109, "- [1109, 1200)"},
	{"a loop and a return", BYTES("\x48\xff\xcf\x75\xfb\xc3"), 0x1180, "- [1106, 1200)"},
	{"a loop that is entered at its end: jmp; dec; test; jne; ret",
	 BYTES("\xeb\x03\x48\xff\xcf\x85\xff\x75\xf9\xc3"), 0x1109, "f [1100, 110a)"},
	{"a jump to another function", BYTES("\xe9\x00\x02\x00\x00"), 0x1105, "- [1105, 1200)"},
	{"a trap", BYTES("\x0f\x0b"), 0x1102, "- [1102, 1200)"},
	{"a table of jumps: more of it may follow", BYTES("\xff\xe0"), 0x1180, "f [1100, 1200)"},
	{"no instruction", BYTES("\x06"), 0x1180, "f [1100, 1200)"},
	{"no end", BYTES("\x90"), 0x11ff, "f [1100, 1200)"},
};

Test(symtab, ends_of_labels)
{
	static const struct symbol symbols[] = {{"f", 0x1100, 0, LABEL(STB_LOCAL), CODE},
						{"g", 0x1200, 16, FUNC(STB_GLOBAL), CODE}};

	for (size_t i = 0; i < ARRAY_SIZE(end_cases); i++) {
		struct elf_symbol s;

		memset(code, 0, sizeof code);
		memcpy(code + 0x100, end_cases[i].code.data, end_cases[i].code.len);
		struct elf_image *img = image_with(EM_X86_64, symbols, 2, SHT_SYMTAB);
		cr_assert_eq(elf_symtab_resolve(img, &end_cases[i].addr, 1, &s), 0);
		check_symbol(end_cases[i].what, &s, end_cases[i].expected);
		free(s.name);
		elf_image_free(img);
		img = image_with(EM_AARCH64, symbols, 2, SHT_SYMTAB);
		cr_assert_eq(elf_symtab_resolve(img, &end_cases[i].addr, 1, &s), 0);
		check_symbol("aarch64: not known", &s, "f [1100, 1200)");
		free(s.name);
		elf_image_free(img);
	}
}

Test(symtab, mapping_symbols_are_no_names)
{
	static const struct symbol symbols[] = {
		{"f", 0x1100, 0, FUNC(STB_GLOBAL), CODE},
		{"$x", 0x1100, 0, LABEL(STB_LOCAL), CODE},
		{"$d.1", 0x1110, 0, LABEL(STB_LOCAL), CODE},
		{"$other", 0x1140, 0, LABEL(STB_LOCAL), CODE},
	};
	const uint64_t addrs[] = {0x1118, 0x1150};
	struct elf_symbol s[2];
	struct elf_image *img = image_with(EM_AARCH64, symbols, ARRAY_SIZE(symbols), SHT_SYMTAB);

	cr_assert_eq(elf_symtab_resolve(img, addrs, 2, s), 0);
	check_symbol("$d", &s[0], "f [1100, 1140)");
	check_symbol("$other", &s[1], "$other [1140, 2000)");
	free(s[0].name);
	free(s[1].name);
	elf_image_free(img);
}

/* A batch in any order must give the same results as each address alone. */
Test(symtab, batches)
{
	enum { SYMBOLS = 60, ADDRESSES = 200 };
	struct symbol symbols[SYMBOLS];
	struct elf_symbol batch[ADDRESSES], single;
	uint64_t addrs[ADDRESSES];
	char names[SYMBOLS][16];
	unsigned seed = 7;

	for (int i = 0; i < SYMBOLS; i++) {
		seed = seed * 1103515245 + 12345;
		snprintf(names[i], sizeof(names[i]), "s%d", i);
		symbols[i] = (struct symbol){names[i], 0x1000 + (seed >> 16) % 0x400,
					     (seed >> 8) % 5 ? (seed >> 4) % 80 : 0, FUNC(seed % 3), CODE};
	}
	for (int i = 0; i < ADDRESSES; i++) {
		seed = seed * 1103515245 + 12345;
		addrs[i] = 0xff0 + (seed >> 16) % 0x480;
	}
	struct elf_image *img = image_with(EM_X86_64, symbols, SYMBOLS, SHT_SYMTAB);
	cr_assert_eq(elf_symtab_resolve(img, addrs, ADDRESSES, batch), 0);
	for (int i = 0; i < ADDRESSES; i++) {
		char expected[64];

		cr_assert_eq(elf_symtab_resolve(img, &addrs[i], 1, &single), 0);
		cr_expect(addrs[i] >= single.start && addrs[i] < single.end);
		snprintf(expected, sizeof(expected), "%s [%" PRIx64 ", %" PRIx64 ")",
			 single.name ? single.name : "-", single.start, single.end);
		check_symbol("batch", &batch[i], expected);
		free(single.name);
		free(batch[i].name);
	}
	elf_image_free(img);
}

Test(symtab, files_without_symbols)
{
	const struct file_section s = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, code, sizeof(code), 0, 0};
	const uint64_t addr = 0x1100;

	for (unsigned flags = 0; flags <= FILE_NO_SECTIONS; flags++) {
		struct elf_image *img = file_image(EM_X86_64, &s, 1, flags);
		struct elf_symbol symbol;

		cr_assert_eq(elf_symtab_resolve(img, &addr, 1, &symbol), 0);
		cr_expect_null(symbol.name);
		cr_assert_eq(elf_symtab_resolve(img, &addr, 0, &symbol), 0);
		elf_image_free(img);
	}
}

static __attribute__((noinline)) int a_static_function(int n)
{
	return n * 3 + getpid();
}

Test(symtab, this_program)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_image *img = NULL;
	struct elf_symbol s;
	struct elf_data plt;
	size_t n_plt = 0;

	cr_assert_eq(elf_image_open(&img, fd), 0);
	uint64_t addr = (uint64_t)(uintptr_t)a_static_function + 1; /* linked without PIE */
	cr_assert_neq(a_static_function(1), 0);
	cr_assert_eq(elf_symtab_resolve(img, &addr, 1, &s), 0);
	cr_assert_not_null(s.name);
	cr_expect_str_eq(s.name, "a_static_function");
	cr_expect_eq(s.start, addr - 1);
	free(s.name);
	if (elf_image_section(img, ".plt.sec", &plt) < 0 && elf_image_section(img, ".plt", &plt) < 0)
		cr_skip("linked without a PLT");
	for (uint64_t at = plt.va; at < plt.va + plt.len; at += 16) {
		cr_assert_eq(elf_symtab_resolve(img, &at, 1, &s), 0);
		if (s.name && strcmp(s.name, "getpid@plt") == 0) {
			n_plt++;
			cr_expect_eq(s.start, at);
			cr_expect_eq(s.end, at + 16);
		}
		free(s.name);
	}
	cr_expect_eq(n_plt, 1, "getpid has one slot");
	elf_image_free(img);
}
