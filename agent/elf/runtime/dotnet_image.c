// SPDX-License-Identifier: Apache-2.0
/*
 * Of a table of metadata, the bytes of a row depend on how many rows other tables have, and a table begins
 * where the one before ends: so all columns of all tables are listed here, though few are read.
 */
#include "agent/elf/runtime/dotnet_image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/dotnet_metadata.h"
#include "agent/elf/runtime/vm_memory.h"

#define IMAGE_MAX DOTNET_METADATA_MAX /* bytes; addresses in it are smaller */
#define NESTED_MAX 8u		      /* types in each other */

#define PE_OFFSET 0x3cu
#define PE_HEADER_MAX 4096u
#define PE_SIGNATURE 0x00004550u
#define PE_HEADER_BYTES 24u /* signature and file header */
#define PE_PLUS 0x20bu	    /* the optional header's kind: of 64 bits */
#define PE_32 0x10bu
#define SECTION_BYTES 40u
#define DIRECTORY_DEBUG 6u
#define DIRECTORY_CLI 14u
#define CLI_BYTES 72u
#define CLI_METADATA 8u
#define CLI_READY 64u /* ManagedNativeHeader */

/* What a row has: values are table numbers, or these. */
enum column {
	NUMBER_2 = 0x40,
	NUMBER_4,
	STRING,
	GUID,
	BLOB,
	CODED = 0x50, /* a row of one of several tables: CODED + enum coded */
	END = 0x7f
};

enum coded {
	TYPE_DEF_OR_REF,
	HAS_CONSTANT,
	HAS_CUSTOM_ATTRIBUTE,
	HAS_FIELD_MARSHAL,
	HAS_DECL_SECURITY,
	MEMBER_REF_PARENT,
	HAS_SEMANTICS,
	METHOD_DEF_OR_REF,
	MEMBER_FORWARDED,
	IMPLEMENTATION,
	CUSTOM_ATTRIBUTE_TYPE,
	RESOLUTION_SCOPE,
	TYPE_OR_METHOD_DEF,
	CODED_KINDS
};

enum {
	TYPE_DEF = 0x02,
	FIELD = 0x04,
	METHOD_PTR = 0x05,
	METHOD_DEF = 0x06,
	PARAM = 0x08,
	NESTED_CLASS = 0x29
};

#define COLUMNS_MAX 10u

/* ECMA-335, II.22 */
static const uint8_t columns[DOTNET_TABLES][COLUMNS_MAX] = {
	[0x00] = {NUMBER_2, STRING, GUID, GUID, GUID, END},
	[0x01] = {CODED + RESOLUTION_SCOPE, STRING, STRING, END},
	[TYPE_DEF] = {NUMBER_4, STRING, STRING, CODED + TYPE_DEF_OR_REF, FIELD, METHOD_DEF, END},
	[0x03] = {FIELD, END},
	[FIELD] = {NUMBER_2, STRING, BLOB, END},
	[METHOD_PTR] = {METHOD_DEF, END},
	[METHOD_DEF] = {NUMBER_4, NUMBER_2, NUMBER_2, STRING, BLOB, PARAM, END},
	[0x07] = {PARAM, END},
	[PARAM] = {NUMBER_2, NUMBER_2, STRING, END},
	[0x09] = {TYPE_DEF, CODED + TYPE_DEF_OR_REF, END},
	[0x0a] = {CODED + MEMBER_REF_PARENT, STRING, BLOB, END},
	[0x0b] = {NUMBER_2, CODED + HAS_CONSTANT, BLOB, END},
	[0x0c] = {CODED + HAS_CUSTOM_ATTRIBUTE, CODED + CUSTOM_ATTRIBUTE_TYPE, BLOB, END},
	[0x0d] = {CODED + HAS_FIELD_MARSHAL, BLOB, END},
	[0x0e] = {NUMBER_2, CODED + HAS_DECL_SECURITY, BLOB, END},
	[0x0f] = {NUMBER_2, NUMBER_4, TYPE_DEF, END},
	[0x10] = {NUMBER_4, FIELD, END},
	[0x11] = {BLOB, END},
	[0x12] = {TYPE_DEF, 0x14, END},
	[0x13] = {0x14, END},
	[0x14] = {NUMBER_2, STRING, CODED + TYPE_DEF_OR_REF, END},
	[0x15] = {TYPE_DEF, 0x17, END},
	[0x16] = {0x17, END},
	[0x17] = {NUMBER_2, STRING, BLOB, END},
	[0x18] = {NUMBER_2, METHOD_DEF, CODED + HAS_SEMANTICS, END},
	[0x19] = {TYPE_DEF, CODED + METHOD_DEF_OR_REF, CODED + METHOD_DEF_OR_REF, END},
	[0x1a] = {STRING, END},
	[0x1b] = {BLOB, END},
	[0x1c] = {NUMBER_2, CODED + MEMBER_FORWARDED, STRING, 0x1a, END},
	[0x1d] = {NUMBER_4, FIELD, END},
	[0x1e] = {NUMBER_4, NUMBER_4, END},
	[0x1f] = {NUMBER_4, END},
	[0x20] = {NUMBER_4, NUMBER_4, NUMBER_4, NUMBER_4, BLOB, STRING, STRING, END},
	[0x21] = {NUMBER_4, END},
	[0x22] = {NUMBER_4, NUMBER_4, NUMBER_4, END},
	[0x23] = {NUMBER_4, NUMBER_4, NUMBER_4, BLOB, STRING, STRING, BLOB, END},
	[0x24] = {NUMBER_4, 0x23, END},
	[0x25] = {NUMBER_4, NUMBER_4, NUMBER_4, 0x23, END},
	[0x26] = {NUMBER_4, STRING, BLOB, END},
	[0x27] = {NUMBER_4, NUMBER_4, STRING, STRING, CODED + IMPLEMENTATION, END},
	[0x28] = {NUMBER_4, NUMBER_4, STRING, CODED + IMPLEMENTATION, END},
	[NESTED_CLASS] = {TYPE_DEF, TYPE_DEF, END},
	[0x2a] = {NUMBER_2, NUMBER_2, CODED + TYPE_OR_METHOD_DEF, STRING, END},
	[0x2b] = {CODED + METHOD_DEF_OR_REF, BLOB, END},
	[0x2c] = {0x2a, CODED + TYPE_DEF_OR_REF, END},
};

#define CODED_TABLES_MAX 22u

/* II.24.2.6: the bits that say which table it is, and the tables */
static const struct {
	uint8_t bits, n, tables[CODED_TABLES_MAX];
} coded[CODED_KINDS] = {
	[TYPE_DEF_OR_REF] = {2, 3, {0x02, 0x01, 0x1b}},
	[HAS_CONSTANT] = {2, 3, {0x04, 0x08, 0x17}},
	[HAS_CUSTOM_ATTRIBUTE] = {5, 22, {0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14,
					  0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b}},
	[HAS_FIELD_MARSHAL] = {1, 2, {0x04, 0x08}},
	[HAS_DECL_SECURITY] = {2, 3, {0x02, 0x06, 0x20}},
	[MEMBER_REF_PARENT] = {3, 5, {0x02, 0x01, 0x1a, 0x06, 0x1b}},
	[HAS_SEMANTICS] = {1, 2, {0x14, 0x17}},
	[METHOD_DEF_OR_REF] = {1, 2, {0x06, 0x0a}},
	[MEMBER_FORWARDED] = {1, 2, {0x04, 0x06}},
	[IMPLEMENTATION] = {2, 3, {0x26, 0x23, 0x27}},
	[CUSTOM_ATTRIBUTE_TYPE] = {3, 2, {0x06, 0x0a}},
	[RESOLUTION_SCOPE] = {2, 4, {0x00, 0x1a, 0x23, 0x01}},
	[TYPE_OR_METHOD_DEF] = {1, 2, {0x02, 0x06}},
};

/* --- the file */

/* Reads little-endian numbers of the image's headers. */
struct header {
	uint8_t bytes[PE_HEADER_MAX];
	uint32_t n;
};

static uint32_t u16_at(const struct header *h, uint32_t at)
{
	return at + 2 <= h->n ? (uint32_t)h->bytes[at] | (uint32_t)h->bytes[at + 1] << 8 : 0;
}

static uint32_t u32_at(const struct header *h, uint32_t at)
{
	return u16_at(h, at) | u16_at(h, at + 2) << 16;
}

uint64_t dotnet_image_address(const struct dotnet_image *image, uint32_t rva, uint32_t bytes)
{
	for (uint32_t i = 0; i < image->n_sections; i++) {
		const struct dotnet_section *s = &image->sections[i];
		const uint32_t size = image->as_file ? s->file_bytes : s->bytes;

		if (rva < s->rva || rva - s->rva > size || bytes > size - (rva - s->rva))
			continue;
		return image->base + (image->as_file ? s->file_offset + (rva - s->rva) : rva);
	}
	return 0;
}

static int read_sections(struct dotnet_image *x, const struct header *h, uint32_t at, uint32_t n)
{
	if (!n || n > DOTNET_SECTIONS_MAX || at + n * SECTION_BYTES > h->n)
		return -ENOTSUP;
	for (uint32_t i = 0; i < n; i++, at += SECTION_BYTES) {
		x->sections[i] = (struct dotnet_section){.bytes = u32_at(h, at + 8),
							 .rva = u32_at(h, at + 12),
							 .file_bytes = u32_at(h, at + 16),
							 .file_offset = u32_at(h, at + 20)};
		if (x->sections[i].rva > IMAGE_MAX || x->sections[i].bytes > IMAGE_MAX ||
		    x->sections[i].file_offset > IMAGE_MAX || x->sections[i].file_bytes > IMAGE_MAX)
			return -ENOTSUP;
	}
	x->n_sections = n;
	return 0;
}

/* The sections, and where the header of .NET is. */
static int read_pe(struct dotnet_image *x, struct vm_memory *m, uint32_t *ret_cli)
{
	struct header h = {.n = PE_HEADER_MAX};
	uint32_t at, optional, kind, directories;
	int r = vm_read(m, h.bytes, x->base, h.n);

	if (r < 0)
		return r;
	at = u32_at(&h, PE_OFFSET);
	if (h.bytes[0] != 'M' || h.bytes[1] != 'Z' || at > h.n - PE_HEADER_BYTES ||
	    u32_at(&h, at) != PE_SIGNATURE)
		return -ENOTSUP;
	optional = at + PE_HEADER_BYTES;
	kind = u16_at(&h, optional);
	directories = optional + (kind == PE_PLUS ? 112 : 96);
	if ((kind != PE_PLUS && kind != PE_32) || u32_at(&h, directories - 4) <= DIRECTORY_CLI)
		return -ENOTSUP;
	*ret_cli = u32_at(&h, directories + DIRECTORY_CLI * 8);
	x->debug = u32_at(&h, directories + DIRECTORY_DEBUG * 8);
	x->debug_bytes = u32_at(&h, directories + DIRECTORY_DEBUG * 8 + 4);
	return read_sections(x, &h, optional + u16_at(&h, at + 20), u16_at(&h, at + 6));
}

/* --- the metadata */

static uint32_t index_bytes(const struct dotnet_image *x, uint8_t table)
{
	return x->tables[table].rows > 0xffff ? 4 : 2;
}

static uint32_t column_bytes(const struct dotnet_image *x, uint8_t column)
{
	uint32_t most = 0;

	switch (column) {
	case NUMBER_2:
		return 2;
	case NUMBER_4:
		return 4;
	case STRING:
		return x->heaps & 1 ? 4 : 2;
	case GUID:
		return x->heaps & 2 ? 4 : 2;
	case BLOB:
		return x->heaps & 4 ? 4 : 2;
	default:
		break;
	}
	if (column < CODED)
		return index_bytes(x, column);
	for (uint32_t i = 0; i < coded[column - CODED].n; i++) {
		const uint32_t rows = x->tables[coded[column - CODED].tables[i]].rows;

		most = rows > most ? rows : most;
	}
	return most >= 1u << (16 - coded[column - CODED].bits) ? 4 : 2;
}

/* The offset of a column in a row; of END: the row's bytes. */
static uint32_t column_offset(const struct dotnet_image *x, uint32_t table, unsigned column)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; i < column && columns[table][i] != END; i++)
		bytes += column_bytes(x, columns[table][i]);
	return bytes;
}

/* The tables' rows, and where they are. `at` is the stream "#~" (II.24.2.6). */
static int read_tables(struct dotnet_image *x, struct vm_memory *m, uint64_t at, uint32_t bytes)
{
	uint64_t heaps, valid, rows, end = at + bytes;
	int r = vm_read_number(m, &heaps, at + 6, 1);

	if (r == 0)
		r = vm_read_number(m, &valid, at + 8, 8);
	at += 24;
	for (uint32_t i = 0; r == 0 && i < 64; i++) {
		if (!(valid >> i & 1))
			continue;
		r = vm_read_number(m, &rows, at, 4);
		if (r == 0 && rows > DOTNET_ROWS_MAX)
			r = -ENOTSUP;
		if (r == 0 && i < DOTNET_TABLES)
			x->tables[i].rows = (uint32_t)rows;
		at += 4;
	}
	if (r < 0)
		return r;
	x->heaps = (uint8_t)(heaps & 7);
	at += heaps & 0x40 ? 4 : 0;
	for (uint32_t i = 0; i < DOTNET_TABLES; i++) {
		x->tables[i].at = at;
		x->tables[i].bytes = column_offset(x, i, COLUMNS_MAX);
		at += (uint64_t)x->tables[i].rows * x->tables[i].bytes;
	}
	return at > end || x->tables[METHOD_PTR].rows ? -ENOTSUP : 0;
}

/* The metadata that begins at `root` (II.24.2.1). */
static int read_metadata(struct dotnet_image *x, struct vm_memory *m, uint64_t root)
{
	struct dotnet_stream streams[] = {{.name = "#~"}, {.name = "#Strings"}};
	int r = dotnet_streams_find(streams, ARRAY_SIZE(streams), m, root);

	if (r == 0 && (!streams[0].at || !streams[1].at))
		r = -ENOTSUP;
	if (r < 0)
		return r;
	x->strings = streams[1].at;
	x->string_bytes = streams[1].bytes;
	return read_tables(x, m, streams[0].at, streams[0].bytes);
}

/* The header of .NET, and what it leads to, if the image is laid out as `as_file` says. */
static int read_cli(struct dotnet_image *x, struct vm_memory *m, uint32_t rva)
{
	const uint64_t cli = dotnet_image_address(x, rva, CLI_BYTES);
	uint64_t bytes, metadata, root, ready, ready_bytes;
	int r = cli ? vm_read_number(m, &bytes, cli, 4) : -ENOTSUP;

	if (r == 0 && bytes != CLI_BYTES)
		r = -ENOTSUP;
	if (r == 0)
		r = vm_read_number(m, &metadata, cli + CLI_METADATA, 8);
	if (r == 0)
		r = vm_read_number(m, &ready, cli + CLI_READY, 4);
	if (r == 0)
		r = vm_read_number(m, &ready_bytes, cli + CLI_READY + 4, 4);
	if (r < 0)
		return r;
	x->ready = (uint32_t)ready;
	x->ready_bytes = (uint32_t)ready_bytes;
	root = dotnet_image_address(x, (uint32_t)metadata, (uint32_t)(metadata >> 32));
	return root ? read_metadata(x, m, root) : -ENOTSUP;
}

int dotnet_image_read(struct dotnet_image *ret, struct vm_memory *m, uint64_t base)
{
	struct dotnet_image x;
	uint32_t cli;
	int r;

	for (int as_file = 0; as_file <= 1; as_file++) {
		memset(&x, 0, sizeof x);
		x.base = base;
		x.as_file = as_file;
		r = read_pe(&x, m, &cli);
		if (r < 0)
			return r;
		r = read_cli(&x, m, cli);
		if (r == -E2BIG)
			return r;
		if (r == 0) {
			*ret = x;
			return 0;
		}
	}
	return r;
}

/* --- names */

/* The value of a column in a row, which counts from 1. */
static int read_column(const struct dotnet_image *x, struct vm_memory *m, uint32_t table, uint32_t row,
		       unsigned column, uint32_t *ret)
{
	const struct dotnet_table *t = &x->tables[table];
	uint64_t value;
	int r;

	if (!row || row > t->rows)
		return -ENOTSUP;
	r = vm_read_number(m, &value,
			   t->at + (uint64_t)(row - 1) * t->bytes + column_offset(x, table, column),
			   column_bytes(x, columns[table][column]));
	if (r == 0)
		*ret = (uint32_t)value;
	return r;
}

static int read_text(const struct dotnet_image *x, struct vm_memory *m, uint32_t table, uint32_t row,
		     unsigned column, char text[VM_TEXT_MAX])
{
	uint32_t at;
	int r = read_column(x, m, table, row, column, &at);

	if (r == 0 && at >= x->string_bytes)
		r = -ENOTSUP;
	return r == 0 ? vm_read_string(m, text, VM_TEXT_MAX, x->strings + at) : r;
}

enum { TYPE_NAME = 1, TYPE_NAMESPACE = 2, TYPE_METHODS = 5, METHOD_NAME = 3 };

/* The last row of a table that is in ascending order of a column whose value there is at most `value`. */
static int last_row(const struct dotnet_image *x, struct vm_memory *m, uint32_t table, unsigned column,
		    uint32_t value, uint32_t *ret)
{
	uint32_t low = 0, high = x->tables[table].rows;

	while (low < high) {
		const uint32_t middle = low + (high - low + 1) / 2;
		uint32_t there;
		int r = read_column(x, m, table, middle, column, &there);

		if (r < 0)
			return r;
		if (there <= value)
			low = middle;
		else
			high = middle - 1;
	}
	*ret = low;
	return low ? 0 : -ENOTSUP;
}

/* The type that a type is in; 0: none. */
static int outer_type(const struct dotnet_image *x, struct vm_memory *m, uint32_t type, uint32_t *ret)
{
	uint32_t row, nested;
	int r = last_row(x, m, NESTED_CLASS, 0, type, &row);

	*ret = 0;
	if (r == -ENOTSUP)
		return 0;
	if (r == 0)
		r = read_column(x, m, NESTED_CLASS, row, 0, &nested);
	return r == 0 && nested == type ? read_column(x, m, NESTED_CLASS, row, 1, ret) : r;
}

static void append(char *to, size_t size, const char *text)
{
	const size_t n = strlen(to);

	(void)snprintf(to + n, size - n, "%s%s", n ? "." : "", text);
}

int dotnet_image_method(const struct dotnet_image *image, struct vm_memory *m, uint32_t row, char *to,
			size_t size)
{
	uint32_t types[NESTED_MAX], type = 0;
	char text[VM_TEXT_MAX];
	unsigned n = 0;
	int r = row && row <= image->tables[METHOD_DEF].rows
			? last_row(image, m, TYPE_DEF, TYPE_METHODS, row, &type)
			: -ENOTSUP;

	while (r == 0 && type && n < NESTED_MAX) {
		types[n++] = type;
		r = outer_type(image, m, type, &type);
	}
	to[0] = '\0';
	if (r == 0)
		r = read_text(image, m, TYPE_DEF, types[n - 1], TYPE_NAMESPACE, text);
	if (r == 0 && text[0])
		append(to, size, text);
	while (r == 0 && n) {
		r = read_text(image, m, TYPE_DEF, types[--n], TYPE_NAME, text);
		if (r == 0)
			append(to, size, text);
	}
	if (r == 0)
		r = read_text(image, m, METHOD_DEF, row, METHOD_NAME, text);
	if (r == 0)
		append(to, size, text);
	return r;
}

/* --- debug information */

/* IMAGE_DEBUG_DIRECTORY; dotnet/runtime, docs/design/specs/PE-COFF.md */
struct debug_entry {
	uint32_t characteristics, stamp;
	uint16_t major, minor;
	uint32_t type, bytes, rva, file_offset;
};

enum { DEBUG_CODEVIEW = 2, DEBUG_EMBEDDED = 17 };

#define DEBUG_ENTRIES_MAX 32u
#define CODEVIEW_RSDS 0x53445352u
#define CODEVIEW_GUID 4u
#define CODEVIEW_PATH 24u
#define CODEVIEW_PORTABLE 0x504du /* the entry's minor version */
#define GUID_BYTES 16u
#define EMBEDDED_SIGNATURE 0x4244504du
#define EMBEDDED_HEAD 8u /* signature, and the size that it has unpacked */

static int read_codeview(struct dotnet_symbols *ret, struct vm_memory *m, uint64_t at,
			 const struct debug_entry *entry)
{
	char path[VM_TEXT_MAX * 4];
	const char *name = path;
	uint64_t signature;
	int r = vm_read_number(m, &signature, at, 4);

	if (r == 0 && signature != CODEVIEW_RSDS)
		r = -ENOTSUP;
	if (r == 0)
		r = vm_read(m, ret->id, at + CODEVIEW_GUID, GUID_BYTES);
	if (r == 0)
		r = vm_read_string(m, path, sizeof path, at + CODEVIEW_PATH);
	if (r < 0)
		return r;
	memcpy(ret->id + GUID_BYTES, &entry->stamp, sizeof entry->stamp);
	for (const char *p = path; *p; p++)
		if (*p == '/' || *p == '\\')
			name = p + 1;
	if (strlen(name) < sizeof ret->name)
		memcpy(ret->name, name, strlen(name) + 1);
	return 0;
}

static int read_embedded(struct dotnet_symbols *ret, struct vm_memory *m, uint64_t at,
			 const struct debug_entry *entry)
{
	uint64_t signature, bytes;
	int r = vm_read_number(m, &signature, at, 4);

	if (r == 0)
		r = vm_read_number(m, &bytes, at + 4, 4);
	if (r < 0)
		return r;
	if (signature != EMBEDDED_SIGNATURE || bytes > DOTNET_PDB_MAX || entry->bytes <= EMBEDDED_HEAD ||
	    entry->bytes > DOTNET_PDB_MAX)
		return 0;
	ret->packed = at + EMBEDDED_HEAD;
	ret->packed_bytes = entry->bytes - EMBEDDED_HEAD;
	ret->bytes = (uint32_t)bytes;
	return 0;
}

int dotnet_image_symbols(const struct dotnet_image *image, struct vm_memory *m, struct dotnet_symbols *ret)
{
	const uint32_t n = image->debug_bytes / (uint32_t)sizeof(struct debug_entry);
	const uint64_t at = n && n <= DEBUG_ENTRIES_MAX
				    ? dotnet_image_address(image, image->debug, image->debug_bytes)
				    : 0;
	bool found = false;
	int r = at ? 0 : -ENOENT;

	memset(ret, 0, sizeof *ret);
	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct debug_entry entry;
		uint64_t data;

		r = vm_read(m, &entry, at + i * sizeof entry, sizeof entry);
		data = r == 0 ? dotnet_image_address(image, entry.rva, entry.bytes) : 0;
		if (data && entry.type == DEBUG_CODEVIEW && entry.minor == CODEVIEW_PORTABLE) {
			r = read_codeview(ret, m, data, &entry);
			found = r == 0;
		} else if (data && entry.type == DEBUG_EMBEDDED) {
			r = read_embedded(ret, m, data, &entry);
		}
	}
	return r == 0 && !found ? -ENOENT : r;
}
