// SPDX-License-Identifier: Apache-2.0
/*
 * Most files have a section .gopclntab, or, in a position independent executable before Go 1.26,
 * .data.rel.ro.gopclntab. In such an executable the system linker, which cgo uses, merges the latter into
 * .data.rel.ro. Then the header of the table is searched in the segments, as in files without section
 * headers.
 */
#include "agent/elf/go/gopclntab.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"

#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u
#define HEADER_MAX (8 + 9 * 8)	  /* bytes: eight, then at most nine words */
#define RECORD_MAX 44		  /* bytes of a function record that are used, in any layout */
#define SEARCH_MAX (256ull << 20) /* bytes of segments in which a header is searched */
#define SEARCH_STEP (256u << 10)  /* bytes read at a time */
#define SEARCH_ALIGN 8
#define FUNCTIONS_MAX (16u << 20)
#define CHECKED_FUNCTIONS 8

/* Offsets of the fields of a function record (_func). */
static const struct record_layout {
	uint8_t name, pcsp, start_line, flags, bytes; /* start_line 0: there is none */
} records[] = {
	[GOPCLNTAB_1_16] = {.name = 8, .pcsp = 20, .flags = 41, .bytes = 44},
	[GOPCLNTAB_1_18] = {.name = 4, .pcsp = 16, .flags = 37, .bytes = 40},
	[GOPCLNTAB_1_20] = {.name = 4, .pcsp = 16, .start_line = 36, .flags = 41, .bytes = 44},
};

static int read_part(const struct gopclntab *t, uint64_t at, void *ret, size_t len)
{
	if (at > t->len || len > t->len - at)
		return -EINVAL;
	if (!t->bytes)
		return elf_image_pread(t->img, t->offset + at, ret, len);
	memcpy(ret, t->bytes + at, len);
	return 0;
}

static uint64_t word(const uint8_t *bytes, unsigned len)
{
	uint64_t value = 0;

	memcpy(&value, bytes, len); /* little endian */
	return value;
}

static unsigned entry_bytes(const struct gopclntab *t)
{
	return t->layout == GOPCLNTAB_1_16 ? 16 : 8;
}

static uint8_t quantum_of(const struct elf_image *img)
{
	const struct elf_arch *arch = elf_arch(elf_image_machine(img));

	return arch ? arch->instruction_align : 1;
}

/* Sets the fields that the header has. */
static bool parse_header(struct gopclntab *t, const uint8_t *bytes, size_t len)
{
	struct cursor c = cursor_of(bytes, len);
	uint32_t magic = cursor_u32(&c);
	uint16_t pad = cursor_u16(&c);

	t->quantum = cursor_u8(&c);
	uint8_t pointer = cursor_u8(&c);
	if (magic != MAGIC_1_16 && magic != MAGIC_1_18 && magic != MAGIC_1_20)
		return false;
	t->layout = magic == MAGIC_1_16	  ? GOPCLNTAB_1_16
		    : magic == MAGIC_1_18 ? GOPCLNTAB_1_18
					  : GOPCLNTAB_1_20;
	t->n_functions = cursor_u64(&c);
	cursor_u64(&c); /* files */
	t->header_text = t->layout == GOPCLNTAB_1_16 ? 0 : cursor_u64(&c);
	t->names = cursor_u64(&c);
	t->units = cursor_u64(&c);
	t->files = cursor_u64(&c);
	t->pctab = cursor_u64(&c);
	t->functab = cursor_u64(&c);
	t->text = 0;
	return !c.bad && pad == 0 && t->quantum == quantum_of(t->img) && pointer == 8 && t->n_functions > 0 &&
	       t->n_functions <= FUNCTIONS_MAX && t->names < t->len && t->pctab < t->len &&
	       t->functab < t->len && (t->len - t->functab) / entry_bytes(t) > t->n_functions;
}

int gopclntab_function(const struct gopclntab *t, uint64_t i, struct gopclntab_function *ret)
{
	const struct record_layout *layout = &records[t->layout];
	size_t field = entry_bytes(t) / 2;
	uint8_t entry[3 * 8], record[RECORD_MAX];

	int r = read_part(t, t->functab + i * entry_bytes(t), entry, 3 * field);
	if (r < 0)
		return r;
	uint64_t start = word(entry, field), end = word(entry + 2 * field, field);
	r = read_part(t, t->functab + word(entry + field, field), record, layout->bytes);
	if (r < 0)
		return r;
	/* the record must repeat its start */
	if (end < start || word(record, field) != start || __builtin_add_overflow(start, t->text, &start) ||
	    __builtin_add_overflow(end, t->text, &end))
		return -EINVAL;
	*ret = (struct gopclntab_function){
		.start = start,
		.end = end,
		.name = word(record + layout->name, 4),
		.pcsp = word(record + layout->pcsp, 4),
		.flags = record[layout->flags],
		.id = record[layout->flags - 1],
	};
	return 0;
}

/* Valid functions follow a real header, and hardly follow bytes that merely look like one. */
static bool has_functions(const struct gopclntab *t)
{
	struct gopclntab_function fn;
	uint64_t before = 0;

	for (uint64_t i = 0; i < t->n_functions && i < CHECKED_FUNCTIONS; i++) {
		if (gopclntab_function(t, i, &fn) < 0 || fn.start < before || fn.name >= t->len - t->names ||
		    fn.pcsp >= t->len - t->pctab)
			return false;
		before = fn.end;
	}
	return true;
}

/* Opens the table at `offset` of the file, which has at most `len` bytes. */
static bool open_at(struct gopclntab *ret, const struct elf_image *img, uint64_t offset, uint64_t len)
{
	struct gopclntab t = {.img = img, .offset = offset, .len = len};
	size_t header = len < HEADER_MAX ? len : HEADER_MAX;
	uint8_t bytes[HEADER_MAX];

	if (elf_image_pread(img, offset, bytes, header) < 0 || !parse_header(&t, bytes, header) ||
	    !has_functions(&t))
		return false;
	*ret = t;
	return true;
}

static bool is_magic(const uint8_t *bytes, const struct elf_image *img)
{
	/* bytes two to four of the magic, the padding, quantum and pointer size */
	return bytes[1] == 0xff && bytes[2] == 0xff && bytes[3] == 0xff && bytes[4] == 0 && bytes[5] == 0 &&
	       bytes[6] == quantum_of(img) && bytes[7] == 8;
}

static int search_segment(struct gopclntab *ret, const struct elf_image *img, const struct elf_segment *s,
			  uint8_t *buf, uint64_t *budget)
{
	uint64_t first = (SEARCH_ALIGN - s->va % SEARCH_ALIGN) % SEARCH_ALIGN;

	for (uint64_t at = first; at < s->file_bytes && *budget > 0;) {
		uint64_t left = s->file_bytes - at;
		size_t len = left < SEARCH_STEP ? left : SEARCH_STEP;

		len = len < *budget ? len : *budget;
		int r = elf_image_pread(img, s->offset + at, buf, len);
		if (r < 0)
			return r == -EINVAL ? -ENOENT : r;
		for (size_t i = 0; i + SEARCH_ALIGN <= len; i += SEARCH_ALIGN) {
			if (is_magic(buf + i, img) && open_at(ret, img, s->offset + at + i, left - i))
				return 0;
		}
		at += len;
		*budget -= len;
	}
	return -ENOENT;
}

static int search(struct gopclntab *ret, const struct elf_image *img)
{
	_cleanup_free_ uint8_t *buf = malloc(SEARCH_STEP);
	uint64_t budget = SEARCH_MAX;
	int r = -ENOENT;
	size_t n;
	const struct elf_segment *s = elf_image_segments(img, &n);

	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == -ENOENT; i++) {
		if (!s[i].executable)
			r = search_segment(ret, img, &s[i], buf, &budget);
	}
	return r;
}

/* True when a search is worthwhile: Go wrote the file, or it has no section headers that would show this. */
static bool may_be_go(const struct elf_image *img)
{
	struct elf_section section;

	return elf_image_n_sections(img) == 0 ||
	       elf_image_find_section(img, ".go.buildinfo", &section) == 0 ||
	       elf_image_find_section(img, ".note.go.buildid", &section) == 0;
}

int gopclntab_open(struct gopclntab *ret, const struct elf_image *img)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	struct elf_section section;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (elf_image_find_section(img, names[i], &section) == 0 && section.type != SHT_NOBITS &&
		    open_at(ret, img, section.offset, section.bytes))
			return 0;
	}
	return may_be_go(img) ? search(ret, img) : -ENOENT;
}

void gopclntab_fini(struct gopclntab *t)
{
	free(t->bytes);
	t->bytes = NULL;
}

int gopclntab_load(struct gopclntab *t)
{
	return t->bytes ? 0 : elf_image_pread_new(t->img, t->offset, t->len, &t->bytes);
}

int gopclntab_find(const struct gopclntab *t, uint64_t addr, uint64_t *ret)
{
	uint64_t low = 0, n = t->n_functions;
	unsigned field = entry_bytes(t) / 2;
	uint8_t entry[8];

	while (n > 0) {
		uint64_t half = n / 2;
		int r = read_part(t, t->functab + (low + half) * entry_bytes(t), entry, field);

		if (r < 0)
			return r;
		if (word(entry, field) + t->text <= addr) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	if (low == 0)
		return -ENOENT;
	*ret = low - 1;
	return 0;
}

#define INLINE_TABLE 2u /* PCDATA_InlTreeIndex */
#define INLINE_TREE 3u	/* FUNCDATA_InlTree */

/* Reads entry `index` of one of the two arrays of u32 behind a function record. */
static int read_data(const struct gopclntab *t, uint64_t arrays, uint64_t index, uint32_t *ret)
{
	return read_part(t, arrays + index * sizeof *ret, ret, sizeof *ret);
}

int gopclntab_lines(const struct gopclntab *t, uint64_t i, struct gopclntab_lines *ret)
{
	const struct record_layout *layout = &records[t->layout];
	unsigned field = entry_bytes(t) / 2;
	uint8_t entry[2 * 8], record[RECORD_MAX];
	int r = read_part(t, t->functab + i * entry_bytes(t), entry, 2 * (size_t)field);

	if (r < 0)
		return r;
	uint64_t at = t->functab + word(entry + field, field);
	r = read_part(t, at, record, layout->bytes);
	if (r < 0)
		return r;
	const uint8_t *next = record + layout->pcsp + 4;
	uint32_t n_tables = (uint32_t)word(next + 8, 4), n_trees = record[layout->bytes - 1];
	*ret = (struct gopclntab_lines){.file = (uint32_t)word(next, 4),
					.line = (uint32_t)word(next + 4, 4),
					.unit = (uint32_t)word(next + 12, 4),
					.tree = UINT32_MAX};
	if (layout->start_line)
		ret->start_line = (uint32_t)word(record + layout->start_line, 4);
	at += layout->bytes;
	if (t->layout == GOPCLNTAB_1_16 || n_tables <= INLINE_TABLE || n_trees <= INLINE_TREE)
		return 0;
	r = read_data(t, at, INLINE_TABLE, &ret->inlined);
	return r < 0 ? r : read_data(t, at, (uint64_t)n_tables + INLINE_TREE, &ret->tree);
}

static void read_string(const struct gopclntab *t, uint64_t at, char *ret, size_t size)
{
	size_t len = at < t->len && t->len - at < size - 1 ? t->len - at : size - 1;

	ret[0] = '\0';
	if (read_part(t, at, ret, len) < 0)
		ret[0] = '\0';
	else
		ret[len] = '\0';
}

void gopclntab_name(const struct gopclntab *t, uint64_t name, char *ret, size_t size)
{
	read_string(t, t->names + name, ret, size);
}

void gopclntab_file(const struct gopclntab *t, const struct gopclntab_lines *lines, int32_t file, char *ret,
		    size_t size)
{
	uint32_t name;

	ret[0] = '\0';
	if (file >= 0 &&
	    read_part(t, t->units + ((uint64_t)lines->unit + (uint32_t)file) * 4, &name, sizeof name) == 0 &&
	    name != UINT32_MAX)
		read_string(t, t->files + name, ret, size);
}

void gopclntab_depths(const struct gopclntab *t, const struct gopclntab_function *fn, uint8_t *buf,
		      size_t size, struct gopclntab_values *ret)
{
	gopclntab_values(t, fn, (uint32_t)fn->pcsp, buf, size, ret);
}

void gopclntab_values(const struct gopclntab *t, const struct gopclntab_function *fn, uint32_t table,
		      uint8_t *buf, size_t size, struct gopclntab_values *ret)
{
	uint64_t at = t->pctab + table;

	*ret = (struct gopclntab_values){
		.c = cursor_of("", 0), .pc = fn->start, .value = -1, .quantum = t->quantum};
	if (table == 0 || at >= t->len)
		return;
	if (t->bytes) {
		ret->c = cursor_of(t->bytes + at, t->len - at);
		return;
	}
	size_t len = t->len - at < size ? t->len - at : size;
	if (read_part(t, at, buf, len) == 0)
		ret->c = cursor_of(buf, len);
}

/*
 * Each step is a pair of numbers: the change of the value, zigzag encoded, and the number of units for which
 * the new value applies.
 */
bool gopclntab_values_next(struct gopclntab_values *v, uint64_t *from)
{
	uint64_t change = cursor_uleb(&v->c), units;

	if (v->c.bad || (change == 0 && v->started) || change > UINT32_MAX)
		return false;
	int64_t value = v->value + (int64_t)((change >> 1) ^ -(change & 1));
	units = cursor_uleb(&v->c);
	*from = v->pc;
	if (v->c.bad || units == 0 || units > UINT32_MAX || value < INT32_MIN || value > INT32_MAX ||
	    __builtin_add_overflow(v->pc, units * v->quantum, &v->pc))
		return false;
	v->value = (int32_t)value;
	v->started = true;
	return true;
}
