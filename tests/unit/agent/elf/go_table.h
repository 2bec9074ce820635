// SPDX-License-Identifier: Apache-2.0
/*
 * Writes function tables of Go in the format that agent/elf/go/gopclntab.h names, and the code that they
 * describe.
 */
#ifndef PROFLET_TESTS_GO_TABLE_H
#define PROFLET_TESTS_GO_TABLE_H

#include "agent/elf/go/gopclntab.h"

#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#define GO_TABLE_VA 0x10000

struct go_depth {
	uint32_t bytes; /* bytes of code; 0 ends the list */
	int32_t depth;
};

#define GO_ID(n) ((n) << 8) /* funcID */

struct go_fn {
	const char *name;
	uint16_t flags; /* GO_FLAG_*, and GO_ID */
	struct bytes code;
	struct go_depth
		depths[8]; /* as many bytes in total as the code has; none: a function without depths */
};

struct go_table {
	enum gopclntab_layout layout;
	uint16_t machine;
	uint64_t header_text; /* start of the text in the header */
	uint64_t va;	      /* address of the first function */
	size_t lead;	      /* bytes of other code before it */
	const struct go_fn *fns;
	size_t n;
};

static inline void put_uleb(struct buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		put_u8(b, (uint8_t)(v | 0x80));
	put_u8(b, (uint8_t)v);
}

static inline void put_depths(struct buf *b, const struct go_depth *d, unsigned quantum)
{
	int32_t value = -1;

	for (; d->bytes; d++) {
		int64_t change = (int64_t)d->depth - value;

		put_uleb(b, (uint64_t)(change < 0 ? -change * 2 - 1 : change * 2));
		put_uleb(b, d->bytes / quantum);
		value = d->depth;
	}
	put_u8(b, 0);
}

/* Functions begin at multiples of 16. */
static inline size_t go_code_bytes(const struct go_fn *fn)
{
	return (fn->code.len + 15) & ~(size_t)15;
}

static inline void put_go_code(struct buf *b, const struct go_fn *fns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put(b, fns[i].code.data, fns[i].code.len);
		while (b->len & 15)
			put_u8(b, 0xcc);
	}
}

static inline void put_entry(struct buf *b, const struct go_table *t, uint64_t value)
{
	if (t->layout == GOPCLNTAB_1_16)
		put_u64(b, value);
	else
		put_u32(b, (uint32_t)value);
}

static inline void put_record(struct buf *b, const struct go_table *t, uint64_t at, const struct go_fn *fn,
			      uint32_t name, uint32_t pcsp)
{
	put_entry(b, t, at);
	put_u32(b, name);
	put_u32(b, 0); /* args */
	put_u32(b, 0); /* deferreturn */
	put_u32(b, pcsp);
	for (int i = 0; i < 4; i++)
		put_u32(b, 0); /* pcfile, pcln, npcdata, cuOffset */
	if (t->layout == GOPCLNTAB_1_20)
		put_u32(b, 1); /* startLine */
	put_u8(b, (uint8_t)(fn->flags >> 8));
	put_u8(b, (uint8_t)fn->flags);
	put_u8(b, 0);
	put_u8(b, 0); /* nfuncdata */
}

static inline void put_go_table(struct buf *b, const struct go_table *t)
{
	static const uint32_t magics[] = {0xfffffffa, 0xfffffff0, 0xfffffff1};
	_cleanup_buf_ struct buf names = {0}, depths = {0}, entries = {0}, records = {0};
	unsigned quantum = t->machine == EM_AARCH64 ? 4 : 1, field = t->layout == GOPCLNTAB_1_16 ? 8 : 4;
	unsigned header = t->layout == GOPCLNTAB_1_16 ? 64 : 72;
	uint64_t at = t->layout == GOPCLNTAB_1_16 ? t->va : 0;

	put_u8(&depths, 0);
	for (size_t i = 0; i < t->n; i++) {
		const struct go_fn *fn = &t->fns[i];

		put_entry(&entries, t, at);
		put_entry(&entries, t, (2 * t->n + 1) * field + records.len);
		put_record(&records, t, at, fn, (uint32_t)names.len,
			   fn->depths[0].bytes ? (uint32_t)depths.len : 0);
		put(&names, fn->name, strlen(fn->name) + 1);
		if (fn->depths[0].bytes)
			put_depths(&depths, fn->depths, quantum);
		at += go_code_bytes(fn);
	}
	put_entry(&entries, t, at);
	put_u32(b, magics[t->layout]);
	put_u8(b, 0);
	put_u8(b, 0);
	put_u8(b, (uint8_t)quantum);
	put_u8(b, 8);
	put_u64(b, t->n);
	put_u64(b, 0);
	if (t->layout != GOPCLNTAB_1_16)
		put_u64(b, t->header_text);
	put_u64(b, header);
	put_u64(b, header);
	put_u64(b, header);
	put_u64(b, header + names.len);
	put_u64(b, header + names.len + depths.len);
	put(b, names.data, names.len);
	put(b, depths.data, depths.len);
	put(b, entries.data, entries.len);
	put(b, records.data, records.len);
}

/*
 * Makes a file with the code of the functions at t->va and the table in `section`. t->lead is a multiple of
 * 16.
 */
static inline struct elf_image *go_image(const struct go_table *t, const char *section, unsigned flags)
{
	_cleanup_buf_ struct buf code = {0}, table = {0};

	while (code.len < t->lead)
		put_u8(&code, 0x90);
	put_go_code(&code, t->fns, t->n);
	put_go_table(&table, t);
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, t->va - t->lead, code.data, code.len, 0,
		 0},
		{".go.buildinfo", SHT_PROGBITS, SHF_ALLOC, 0x8000, "info", 4, 0, 0},
		{section, SHT_PROGBITS, SHF_ALLOC, GO_TABLE_VA, table.data, table.len, 0, 0},
	};

	return file_image(t->machine, s, ARRAY_SIZE(s), flags);
}

#endif
