// SPDX-License-Identifier: Apache-2.0
/* ELF files that look like a language runtime, and those that are one. */
#ifndef PROFLET_TESTS_RUNTIME_FILE_H
#define PROFLET_TESTS_RUNTIME_FILE_H

#include <glob.h>
#include <stdlib.h>

#include "tests/unit/agent/elf/elf_file.h"

#define RUNTIME_VA 0x3000
#define VERSION_VA 0x2000
#define LOOP_VA 0x1000
#define RUNTIME_CODE_BYTES 256u

struct runtime_symbol {
	const char *name;
	uint64_t va, bytes;
	uint8_t info;
};

#define FUNCTION ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)
#define OBJECT ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT)

struct runtime_file {
	const struct runtime_symbol *symbols;
	size_t n_symbols;
	uint32_t table;	      /* SHT_DYNSYM (the default), SHT_SYMTAB */
	const char *section;  /* of the runtime; NULL: .data */
	const uint8_t *code;  /* RUNTIME_CODE_BYTES at LOOP_VA; NULL: zeros */
	uint64_t version;     /* at VERSION_VA */
	const void *runtime;  /* at RUNTIME_VA */
	size_t runtime_bytes; /* 0: 8 zeros */
};

static inline void runtime_file_symbols(const struct runtime_file *f, struct buf *strings,
					struct buf *symbols)
{
	Elf64_Sym sym = {0};

	buf_putc(strings, '\0');
	buf_append(symbols, &sym, sizeof sym);
	for (size_t i = 0; i < f->n_symbols; i++) {
		sym = (Elf64_Sym){.st_name = (Elf64_Word)strings->len,
				  .st_info = f->symbols[i].info,
				  .st_shndx = f->symbols[i].va ? 1 : SHN_UNDEF,
				  .st_value = f->symbols[i].va,
				  .st_size = f->symbols[i].bytes};
		buf_append(strings, f->symbols[i].name, strlen(f->symbols[i].name) + 1);
		buf_append(symbols, &sym, sizeof sym);
	}
}

/* Appends the file to `b`. */
static inline void runtime_file_write(struct buf *b, const struct runtime_file *f)
{
	_cleanup_buf_ struct buf strings = {0}, symbols = {0};
	static const uint8_t zeros[RUNTIME_CODE_BYTES];
	static const uint64_t zero;

	runtime_file_symbols(f, &strings, &symbols);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, LOOP_VA, f->code ?: zeros,
		 RUNTIME_CODE_BYTES, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, strings.data, strings.len, 0, 0},
		{".symbols", f->table ?: SHT_DYNSYM, 0, 0, symbols.data, symbols.len, 2, sizeof(Elf64_Sym)},
		{".rodata", SHT_PROGBITS, SHF_ALLOC, VERSION_VA, &f->version, sizeof f->version, 0, 0},
		{f->section ?: ".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, RUNTIME_VA,
		 f->runtime_bytes ? f->runtime : &zero, f->runtime_bytes ?: sizeof zero, 0, 0},
	};
	file_write(b, EM_X86_64, s, ARRAY_SIZE(s), 0);
}

static inline struct elf_image *runtime_file_image(const struct runtime_file *f)
{
	_cleanup_buf_ struct buf b = {0};

	runtime_file_write(&b, f);
	return file_open(&b);
}

/*
 * Calls `fn` for each file that a pattern fits. A pattern that does not begin with / is one below the folder
 * that the oracles fetch runtimes into. The test is skipped if there is none.
 */
static inline void runtime_files_each(const char *const *patterns, size_t n, void (*fn)(const char *path))
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	glob_t g = {0};

	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf b = {0};

		if (*patterns[i] != '/')
			buf_printf(&b, "%s%s/proflet/", cache ?: home ?: "", cache ? "" : "/.cache");
		buf_printf(&b, "%s", patterns[i]);
		(void)glob(buf_str(&b), i ? GLOB_APPEND : 0, NULL, &g);
	}
	for (size_t i = 0; i < g.gl_pathc; i++)
		fn(g.gl_pathv[i]);
	if (!g.gl_pathc)
		cr_skip_test("none is installed");
	globfree(&g);
}

#endif
