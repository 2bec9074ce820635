// SPDX-License-Identifier: Apache-2.0
/*
 * The runtime finds its inlining trees through its moduledata, for which a stripped file has no symbol. But
 * the first word of the moduledata is the address of the function table, and another one is the start of the
 * text, which is known: data that has both is the moduledata. In a position independent executable,
 * relocations contain these words.
 */
#include "agent/elf/go/golines.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/relocations.h"
#include "agent/elf/file/strtab.h"
#include "agent/elf/go/gocode.h"

/*
 * Offsets in struct moduledata; up to Go 1.18, and from 1.20 on, which has two more words before the trees.
 */
#define MODULE_TEXT (22ul * 8)
#define MODULE_TREES_1_18 (38ul * 8)
#define MODULE_TREES_1_20 (40ul * 8)
#define MODULE_BYTES (41ul * 8)

#define SCAN_MAX (64ull << 20) /* bytes of data in which it is searched */
#define SCAN_STEP (64u << 10)

#define VALUES_BYTES 2048u	/* bytes of a pc-value table that are read first */
#define VALUES_MAX (512u << 10) /* bytes that are read if the first ones do not suffice */

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof value); /* little endian */
	return value;
}

static size_t trees_at(const struct gopclntab *t)
{
	return t->layout == GOPCLNTAB_1_18 ? MODULE_TREES_1_18 : MODULE_TREES_1_20;
}

static uint64_t table_va(const struct gopclntab *t)
{
	size_t n;
	const struct elf_segment *segments = elf_image_segments(t->img, &n);

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segments[i];

		if (t->offset >= s->offset && t->offset - s->offset < s->file_bytes)
			return s->va + (t->offset - s->offset);
	}
	return 0;
}

/* Checks whether this is the moduledata of the table. */
static bool take_module(struct golines *g, const uint8_t *module, uint64_t va)
{
	uint64_t trees = word_at(module + trees_at(g->table));

	if (word_at(module) != va || word_at(module + MODULE_TEXT) != g->table->text ||
	    !elf_image_segment_at(g->table->img, trees))
		return false;
	g->trees = trees;
	return true;
}

static void scan_data(struct golines *g, uint64_t offset, uint64_t bytes, uint64_t va, uint8_t *buf,
		      uint64_t *budget)
{
	for (uint64_t at = 0; at < bytes && *budget && !g->trees; at += SCAN_STEP) {
		uint64_t left = bytes - at;
		size_t len = left < SCAN_STEP + MODULE_BYTES ? left : SCAN_STEP + MODULE_BYTES;

		if (elf_image_pread(g->table->img, offset + at, buf, len) < 0)
			return;
		for (size_t i = 0; i + MODULE_BYTES <= len && i < SCAN_STEP && !g->trees; i += 8)
			if (word_at(buf + i) == va)
				(void)take_module(g, buf + i, va);
		*budget -= *budget < len ? *budget : len;
	}
}

#define PLACES_MAX 8u /* pointers to the function table that are examined */

struct relocated {
	uint64_t va; /* address of the function table */
	uint64_t
		places[PLACES_MAX]; /* addresses of pointers to it; one is the first word of the moduledata */
	uint8_t modules[PLACES_MAX][MODULE_BYTES];
	size_t n;
};

static bool note_place(const Elf64_Rela *rela, void *data)
{
	struct relocated *x = data;

	if ((uint64_t)rela->r_addend == x->va && x->n < PLACES_MAX)
		x->places[x->n++] = rela->r_offset;
	return true;
}

static bool fill_modules(const Elf64_Rela *rela, void *data)
{
	struct relocated *x = data;

	for (size_t i = 0; i < x->n; i++)
		if (rela->r_offset >= x->places[i] && rela->r_offset - x->places[i] <= MODULE_BYTES - 8)
			memcpy(x->modules[i] + (rela->r_offset - x->places[i]), &rela->r_addend, 8);
	return true;
}

static int search_relocations(struct golines *g, uint64_t va)
{
	_cleanup_free_ struct relocated *x = calloc(1, sizeof *x);
	int r;

	if (!x)
		return -ENOMEM;
	x->va = va;
	r = elf_relocations_each(g->table->img, note_place, x);
	if (r == 0 && x->n)
		r = elf_relocations_each(g->table->img, fill_modules, x);
	if (r < 0)
		return r;
	for (size_t i = 0; i < x->n && !g->trees; i++)
		(void)take_module(g, x->modules[i], va);
	return 0;
}

static int search_data(struct golines *g, uint64_t va)
{
	_cleanup_free_ uint8_t *buf = malloc(SCAN_STEP + MODULE_BYTES);
	uint64_t budget = SCAN_MAX;
	size_t n;
	const struct elf_segment *s = elf_image_segments(g->table->img, &n);

	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < n && !g->trees; i++)
		if (s[i].writable)
			scan_data(g, s[i].offset, s[i].file_bytes, va, buf, &budget);
	return 0;
}

int golines_open(struct golines *ret, const struct gopclntab *table)
{
	struct golines g = {.table = table};
	uint64_t va = table_va(table);
	int r = 0;

	if (va && table->layout != GOPCLNTAB_1_16)
		r = search_data(&g, va);
	if (r == 0 && va && !g.trees && table->layout != GOPCLNTAB_1_16)
		r = search_relocations(&g, va);
	if (r == 0)
		*ret = g;
	return r;
}

struct line {
	uint64_t name; /* offset in the names */
	int32_t file;  /* number in the compilation unit */
	int32_t line, start_line;
};

/* The calls at one address, and the addresses to which they apply. */
struct lines {
	struct gopclntab_lines tables;
	struct line v[GOLINES_DEPTH_MAX];
	size_t n;
	uint64_t start, end;
};

/*
 * True when the walk came to `addr`, or to the end of the table; false: more bytes of the table are needed.
 */
static bool walk(struct gopclntab_values *v, uint64_t addr, uint64_t *from, bool *ret_found)
{
	*ret_found = false;
	while (gopclntab_values_next(v, from)) {
		if (addr >= *from && addr < v->pc) {
			*ret_found = true;
			return true;
		}
	}
	return !v->c.bad;
}

/*
 * Returns the value at `addr`, or -1 if there is none, and narrows the range of `ret` to it (NULL: does not).
 */
static int32_t value_at(const struct golines *g, const struct gopclntab_function *fn, uint32_t table,
			uint64_t addr, struct lines *ret)
{
	_cleanup_free_ uint8_t *more = NULL;
	uint8_t buf[VALUES_BYTES];
	struct gopclntab_values v;
	uint64_t from;
	bool found;

	gopclntab_values(g->table, fn, table, buf, sizeof buf, &v);
	if (!walk(&v, addr, &from, &found) && (more = malloc(VALUES_MAX))) {
		gopclntab_values(g->table, fn, table, more, VALUES_MAX, &v);
		(void)walk(&v, addr, &from, &found);
	}
	if (!found)
		return -1;
	if (ret) {
		ret->start = from > ret->start ? from : ret->start;
		ret->end = v.pc < ret->end ? v.pc : ret->end;
	}
	return v.value;
}

struct inlined {
	uint32_t name;
	int32_t parent;	    /* offset in the function of the instruction that replaces the call */
	int32_t start_line; /* from Go 1.20 on; else 0 */
};

static bool read_inlined(const struct golines *g, uint64_t tree, int32_t index, struct inlined *ret)
{
	bool old = g->table->layout == GOPCLNTAB_1_18;
	uint64_t at = tree + (uint64_t)index * (old ? 20 : 16);
	const struct elf_segment *s = elf_image_segment_at(g->table->img, at);
	uint8_t record[20];
	size_t bytes = old ? 20 : 16;

	if (index < 0 || !s || bytes > s->file_bytes - (at - s->va) ||
	    elf_image_pread(g->table->img, s->offset + (at - s->va), record, bytes) < 0)
		return false;
	memcpy(&ret->name, record + (old ? 12 : 4), 4);
	memcpy(&ret->parent, record + (old ? 16 : 8), 4);
	ret->start_line = 0;
	if (!old)
		memcpy(&ret->start_line, record + 12, 4);
	return true;
}

static void find_lines(const struct golines *g, const struct gopclntab_function *fn, uint64_t addr,
		       struct lines *ret)
{
	const struct gopclntab_lines *tables = &ret->tables;
	const bool inlines = tables->tree != UINT32_MAX;
	/* without the tree, the position may be in another function, whose call was inlined here */
	const uint32_t start_line = g->trees || !inlines ? tables->start_line : 0;
	uint64_t pc = addr, tree = 0;
	struct inlined call;

	if (g->trees && inlines)
		tree = g->trees + tables->tree;
	while (ret->n < GOLINES_DEPTH_MAX) {
		struct lines *first =
			ret->n ? NULL : ret; /* the ranges of the outer calls contain this one */
		int32_t index = tree ? value_at(g, fn, tables->inlined, pc, first) : -1;
		struct line *l = &ret->v[ret->n];

		*l = (struct line){.name = fn->name,
				   .file = value_at(g, fn, tables->file, pc, first),
				   .line = value_at(g, fn, tables->line, pc, first),
				   .start_line = (int32_t)start_line};
		ret->n++;
		if (index < 0 || !read_inlined(g, tree, index, &call))
			return;
		l->name = call.name;
		l->start_line = call.start_line;
		if (call.parent < 0 || (uint32_t)call.parent >= fn->end - fn->start)
			return;
		pc = fn->start + (uint32_t)call.parent;
	}
}

struct text {
	char name[ELF_STRING_MAX + 1], file[ELF_STRING_MAX + 1];
};

static void read_text(const struct golines *g, const struct lines *lines, size_t i, struct text *ret)
{
	const struct line *l = &lines->v[i];

	gopclntab_name(g->table, l->name, ret->name, sizeof ret->name);
	gopclntab_file(g->table, &lines->tables, l->file, ret->file, sizeof ret->file);
}

static char *put(char *to, const char *s)
{
	size_t len = strlen(s) + 1;

	memcpy(to, s, len);
	return to + len;
}

static int write_lines(const struct golines *g, const struct lines *lines, struct frame_line **ret)
{
	_cleanup_free_ struct text *texts = malloc(sizeof *texts);
	size_t bytes = lines->n * sizeof(struct frame_line);
	_cleanup_free_ struct frame_line *block = NULL;
	char *to;

	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < lines->n; i++) {
		read_text(g, lines, i, texts);
		bytes += strlen(texts->name) + strlen(texts->file) + 2;
	}
	block = calloc(1, bytes);
	if (!block)
		return -ENOMEM;
	to = (char *)(block + lines->n);
	for (size_t i = 0; i < lines->n; i++) {
		struct frame_line *l = &block[i];

		read_text(g, lines, i, texts);
		if (strlen(texts->name) + strlen(texts->file) + 2 > bytes - (size_t)(to - (char *)block))
			return -ENOENT; /* the file has changed in the meantime */
		l->function = to;
		to = put(to, texts->name);
		l->file = to;
		to = put(to, texts->file);
		l->line = lines->v[i].line > 0 ? (uint32_t)lines->v[i].line : 0;
		l->start_line = lines->v[i].start_line > 0 ? (uint32_t)lines->v[i].start_line : 0;
	}
	*ret = TAKE_PTR(block);
	return 0;
}

int golines_find(const struct golines *g, uint64_t i, uint64_t addr, struct frame_line **ret, size_t *ret_n,
		 uint64_t *start, uint64_t *end)
{
	struct lines lines = {.end = UINT64_MAX};
	struct gopclntab_function fn;
	int r;

	if (gopclntab_function(g->table, i, &fn) < 0 || gopclntab_lines(g->table, i, &lines.tables) < 0)
		return -ENOENT;
	find_lines(g, &fn, addr, &lines);
	if (lines.v[lines.n - 1].line <= 0)
		return -ENOENT;
	r = write_lines(g, &lines, ret);
	if (r < 0)
		return r;
	*ret_n = lines.n;
	*start = lines.start > fn.start ? lines.start : fn.start;
	*end = lines.end < fn.end ? lines.end : fn.end;
	return 0;
}
