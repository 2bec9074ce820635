// SPDX-License-Identifier: Apache-2.0
/* Names of stripped files, from .gnu_debugdata and separate debug files, and of PLT slots with a resolver. */
#include "tests/unit/agent/elf/elf_file.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/elf/file/debugdata.h"
#include "agent/elf/names/symtab.h"

#define TEXT 0x1000

static char code[0x1000];

struct function {
	const char *name;
	uint64_t va, len;
	uint8_t info;
};

#define GLOBAL ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)
#define LOCAL ELF64_ST_INFO(STB_LOCAL, STT_FUNC)
#define IFUNC ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC)

struct tables {
	struct buf strings, symbols;
};

static void tables_fini(struct tables *t)
{
	buf_fini(&t->strings);
	buf_fini(&t->symbols);
}

static void put_functions(struct tables *t, const struct function *f, size_t n)
{
	Elf64_Sym sym = {0};

	buf_putc(&t->strings, '\0');
	buf_append(&t->symbols, &sym, sizeof sym);
	for (size_t i = 0; i < n; i++) {
		sym = (Elf64_Sym){.st_name = (Elf64_Word)t->strings.len,
				  .st_info = f[i].info,
				  .st_shndx = 1,
				  .st_value = f[i].va,
				  .st_size = f[i].len};
		buf_append(&t->strings, f[i].name, strlen(f[i].name) + 1);
		buf_append(&t->symbols, &sym, sizeof sym);
	}
}

/* Writes a file with one table of functions; `extra` is one more section. */
static void put_file(struct buf *ret, uint32_t type, uint64_t text, const struct function *f, size_t n,
		     const struct file_section *extra)
{
	_cleanup_(tables_fini) struct tables t = {0};

	put_functions(&t, f, n);
	const struct file_section s[] = {
		{".text", type == SHT_SYMTAB && text != TEXT ? SHT_NOBITS : SHT_PROGBITS,
		 SHF_ALLOC | SHF_EXECINSTR, text, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, t.strings.data, t.strings.len, 0, 0},
		{".symbols", type, 0, 0, t.symbols.data, t.symbols.len, 2, sizeof(Elf64_Sym)},
		extra ? *extra : (struct file_section){".none", SHT_PROGBITS, 0, 0, "", 1, 0, 0},
	};
	file_write(ret, EM_X86_64, s, ARRAY_SIZE(s), 0);
}

static void put_xz(struct buf *ret, const void *bytes, size_t len)
{
	size_t room = lzma_stream_buffer_bound(len), at = 0;
	uint8_t *out = malloc(room);

	cr_assert_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, bytes, len, out, &at, room), LZMA_OK);
	cr_assert_eq(buf_append(ret, out, at), 0);
	free(out);
}

static void expect_name(struct elf_image *img, struct elf_image *debug, uint64_t delta, uint64_t addr,
			const char *expected)
{
	struct elf_symbol s;

	cr_assert_eq(elf_symtab_resolve_with(img, debug, delta, &addr, 1, &s), 0);
	cr_expect_str_eq(s.name ? s.name : "-", expected, "%lx: %s, expected %s", addr, s.name ? s.name : "-",
			 expected);
	free(s.name);
}

static const struct function exported[] = {{"open_it", TEXT + 0x100, 16, GLOBAL}};
static const struct function inner[] = {{"helper", TEXT + 0x200, 16, LOCAL}};

Test(symbol_sources, debugdata_adds_to_dynsym)
{
	_cleanup_buf_ struct buf mini = {0}, xz = {0}, b = {0};

	put_file(&mini, SHT_SYMTAB, TEXT, inner, 1, NULL);
	put_xz(&xz, mini.data, mini.len);
	put_file(&b, SHT_DYNSYM, TEXT, exported, 1,
		 &(struct file_section){".gnu_debugdata", SHT_PROGBITS, 0, 0, xz.data, xz.len, 0, 0});
	struct elf_image *img = file_open(&b);

	expect_name(img, NULL, 0, TEXT + 0x104, "open_it");
	expect_name(img, NULL, 0, TEXT + 0x204, "helper");
	expect_name(img, NULL, 0, TEXT + 0x304, "-");
	elf_image_free(img);
}

/* A parser process, where such files are read, can neither open nor create a file. */
Test(symbol_sources, debugdata_needs_no_descriptor)
{
	_cleanup_buf_ struct buf mini = {0}, xz = {0}, b = {0};
	struct elf_image *inside = NULL;
	struct rlimit before;

	put_file(&mini, SHT_SYMTAB, TEXT, inner, 1, NULL);
	put_xz(&xz, mini.data, mini.len);
	put_file(&b, SHT_DYNSYM, TEXT, exported, 1,
		 &(struct file_section){".gnu_debugdata", SHT_PROGBITS, 0, 0, xz.data, xz.len, 0, 0});
	struct elf_image *img = file_open(&b);

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
	cr_expect_eq(debugdata_open(&inside, img), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert(inside);
	cr_expect(elf_image_has(inside, ".symbols"));
	elf_image_free(inside);
	elf_image_free(img);
}

Test(symbol_sources, symtab_needs_no_debugdata)
{
	_cleanup_buf_ struct buf mini = {0}, xz = {0}, b = {0};

	put_file(&mini, SHT_SYMTAB, TEXT, inner, 1, NULL);
	put_xz(&xz, mini.data, mini.len);
	put_file(&b, SHT_SYMTAB, TEXT, exported, 1,
		 &(struct file_section){".gnu_debugdata", SHT_PROGBITS, 0, 0, xz.data, xz.len, 0, 0});
	struct elf_image *img = file_open(&b);

	expect_name(img, NULL, 0, TEXT + 0x204, "-");
	elf_image_free(img);
}

Test(symbol_sources, with_damaged_debugdata_dynsym_is_used)
{
	_cleanup_buf_ struct buf mini = {0}, xz = {0}, text = {0}, bomb = {0};
	const size_t zeros = DEBUGDATA_MAX + 1;
	uint8_t *zero = calloc(1, zeros);

	put_file(&mini, SHT_SYMTAB, TEXT, inner, 1, NULL);
	put_xz(&xz, mini.data, mini.len);
	put_xz(&text, "not an ELF file", 15);
	put_xz(&bomb, zero, zeros);
	free(zero);
	struct {
		const uint8_t *bytes;
		size_t len;
		int expected;
	} cases[] = {
		{xz.data, xz.len / 2, -EINVAL},	     {xz.data, 0, -EINVAL},
		{xz.data + 1, xz.len - 1, -ENOTSUP}, {text.data, text.len, -ENOEXEC},
		{bomb.data, bomb.len, -EFBIG},	     {mini.data, mini.len, -ENOTSUP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct elf_image *none = NULL;

		put_file(&b, SHT_DYNSYM, TEXT, exported, 1,
			 &(struct file_section){".gnu_debugdata", SHT_PROGBITS, 0, 0, cases[i].bytes,
						cases[i].len, 0, 0});
		struct elf_image *img = file_open(&b);
		int r = debugdata_open(&none, img);

		cr_expect_eq(r, cases[i].expected, "case %zu: %d", i, r);
		cr_expect_null(none);
		expect_name(img, NULL, 0, TEXT + 0x104, "open_it");
		expect_name(img, NULL, 0, TEXT + 0x204, "-");
		elf_image_free(img);
	}
}

Test(symbol_sources, debug_file_with_other_addresses)
{
	static const struct function both[] = {{"open_it", 0x5100, 16, GLOBAL},
					       {"helper", 0x5200, 16, LOCAL}};
	_cleanup_buf_ struct buf b = {0}, d = {0};

	put_file(&b, SHT_DYNSYM, TEXT, exported, 1, NULL);
	put_file(&d, SHT_SYMTAB, 0x5000, both, 2, NULL);
	struct elf_image *img = file_open(&b), *debug = file_open(&d);

	expect_name(img, debug, TEXT - 0x5000ull, TEXT + 0x104, "open_it");
	expect_name(img, debug, TEXT - 0x5000ull, TEXT + 0x204, "helper");
	expect_name(img, debug, TEXT - 0x5000ull, 0x5204, "-");
	expect_name(img, NULL, 0, TEXT + 0x204, "-");
	elf_image_free(img);
	elf_image_free(debug);
}

/* Writes a slot at `va`: jmp *disp32(%rip) for the GOT entry at `got`. */
static void put_slot(uint8_t *slot, uint64_t va, uint64_t got)
{
	int32_t disp = (int32_t)(got - (va + 6));

	memset(slot, 0x90, 16);
	slot[0] = 0xff;
	slot[1] = 0x25;
	memcpy(slot + 2, &disp, 4);
}

Test(symbol_sources, slots_with_a_resolver)
{
	static const struct function functions[] = {{"strlen", TEXT + 0x100, 64, IFUNC}};
	_cleanup_(tables_fini) struct tables t = {0};
	uint8_t slots[32];
	const Elf64_Rela relas[] = {
		{.r_offset = 0x4000, .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE), .r_addend = TEXT + 0x100},
		{.r_offset = 0x4008, .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE), .r_addend = TEXT + 0x900},
	};

	put_slot(slots, 0x3000, 0x4000);
	put_slot(slots + 16, 0x3010, 0x4008);
	put_functions(&t, functions, 1);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, t.strings.data, t.strings.len, 0, 0},
		{".symbols", SHT_SYMTAB, 0, 0, t.symbols.data, t.symbols.len, 2, sizeof(Elf64_Sym)},
		{".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x3000, slots, sizeof slots, 0, 16},
		{".rela.plt", SHT_RELA, 0, 0, relas, sizeof relas, 0, sizeof relas[0]},
	};
	struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);

	expect_name(img, NULL, 0, 0x3004, "strlen@plt");
	expect_name(img, NULL, 0, 0x300c, "strlen@plt");
	expect_name(img, NULL, 0, 0x3014, "-"); /* the resolver has no name */
	expect_name(img, NULL, 0, TEXT + 0x104, "strlen");
	elf_image_free(img);
}

/* Static programs of the GNU linker have such slots. */
Test(symbol_sources, slots_of_eight_bytes)
{
	static const struct function functions[] = {{"strlen", TEXT + 0x100, 64, IFUNC},
						    {"memcpy", TEXT + 0x200, 64, IFUNC}};
	_cleanup_(tables_fini) struct tables t = {0};
	uint8_t slots[32];
	const Elf64_Rela relas[] = {
		{.r_offset = 0x4000, .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE), .r_addend = TEXT + 0x100},
		{.r_offset = 0x4008, .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE), .r_addend = TEXT + 0x200},
	};

	put_slot(slots, 0x3000, 0x4000);
	put_slot(slots + 8, 0x3008, 0x4008);
	put_functions(&t, functions, 2);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, t.strings.data, t.strings.len, 0, 0},
		{".symbols", SHT_SYMTAB, 0, 0, t.symbols.data, t.symbols.len, 2, sizeof(Elf64_Sym)},
		{".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x3000, slots, 16, 0, 8},
		{".rela.plt", SHT_RELA, 0, 0, relas, sizeof relas, 0, sizeof relas[0]},
	};
	struct elf_image *img = file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);

	expect_name(img, NULL, 0, 0x3000, "strlen@plt");
	expect_name(img, NULL, 0, 0x3008, "memcpy@plt");
	elf_image_free(img);
}
