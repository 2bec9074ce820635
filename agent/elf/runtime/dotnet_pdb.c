// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/dotnet_pdb.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/dotnet_metadata.h"

enum { DOCUMENT = 0x30, METHOD_DEBUG_INFORMATION };

#define TABLES 64u
#define ID_ENTRIES \
	(DOTNET_PDB_ID_BYTES + 4) /* in the stream "#Pdb", which tables of the assembly it refers to */
#define HEAP_GUIDS 2u
#define HEAP_BLOBS 4u
#define HEAP_EXTRA 0x40u /* four more bytes follow the numbers of rows */
#define PARTS_MAX 64u	 /* of a document's name */
#define IL_MAX (1u << 28)
#define LINES_MAX (1u << 29)

/* --- the file */

static int read_id(struct dotnet_pdb *p, const struct dotnet_stream *s, const uint8_t *id)
{
	uint8_t own[DOTNET_PDB_ID_BYTES];
	int r = s->at && s->bytes >= sizeof own ? vm_read(&p->file, own, s->at, sizeof own) : -ENOTSUP;

	return r == 0 && memcmp(own, id, sizeof own) != 0 ? -ESTALE : r;
}

/*
 * Documents and methods are the first of the tables that such a file has: the stream "#~" (ECMA-335,
 * II.24.2.6).
 */
static int read_tables(struct dotnet_pdb *p, const struct dotnet_stream *s)
{
	uint64_t heaps, valid, rows[TABLES] = {0}, at = s->at + 24;
	int r = s->at ? vm_read_number(&p->file, &heaps, s->at + 6, 1) : -ENOTSUP;

	if (r == 0)
		r = vm_read_number(&p->file, &valid, s->at + 8, 8);
	if (r == 0 && valid & ((1ull << DOCUMENT) - 1))
		r = -ENOTSUP;
	for (unsigned i = 0; r == 0 && i < TABLES; i++) {
		if (!(valid >> i & 1))
			continue;
		r = vm_read_number(&p->file, &rows[i], at, 4);
		if (r == 0 && rows[i] > DOTNET_ROWS_MAX)
			r = -ENOTSUP;
		at += 4;
	}
	if (r < 0)
		return r;
	at += heaps & HEAP_EXTRA ? 4 : 0;
	p->blob_index_bytes = heaps & HEAP_BLOBS ? 4 : 2;
	p->n_documents = (uint32_t)rows[DOCUMENT];
	p->n_methods = (uint32_t)rows[METHOD_DEBUG_INFORMATION];
	p->document_bytes = 2u * p->blob_index_bytes + 2 * (heaps & HEAP_GUIDS ? 4 : 2);
	p->method_bytes = p->blob_index_bytes + (p->n_documents > 0xffff ? 4 : 2);
	p->documents = at;
	p->methods = at + (uint64_t)p->n_documents * p->document_bytes;
	at = p->methods + (uint64_t)p->n_methods * p->method_bytes;
	return at > s->at + s->bytes ? -ENOTSUP : 0;
}

int dotnet_pdb_open(struct dotnet_pdb *pdb, const uint8_t *id)
{
	struct dotnet_stream streams[] = {{.name = "#Pdb"}, {.name = "#~"}, {.name = "#Blob"}};
	int r = dotnet_streams_find(streams, ARRAY_SIZE(streams), &pdb->file, 0);

	if (r == 0)
		r = read_id(pdb, &streams[0], id);
	if (r == 0)
		r = read_tables(pdb, &streams[1]);
	pdb->blobs = streams[2].at;
	pdb->blob_bytes = streams[2].bytes;
	return r == 0 && !pdb->blobs ? -ENOTSUP : r;
}

/* --- blobs */

struct blob {
	struct vm_memory *file;
	uint64_t at, end;
	int error; /* the first one; numbers are 0 from then on */
};

static struct blob blob_at(struct dotnet_pdb *p, uint32_t index)
{
	struct blob b = {.file = &p->file, .at = p->blobs + index};
	uint32_t bytes = 0;

	if (index >= p->blob_bytes)
		b.error = -ENOTSUP;
	if (b.error == 0)
		b.error = dotnet_number_read(&bytes, b.file, &b.at);
	b.end = b.at + bytes;
	if (b.error == 0 && b.end > p->blobs + p->blob_bytes)
		b.error = -ENOTSUP;
	return b;
}

static bool has_more(const struct blob *b)
{
	return b->error == 0 && b->at < b->end;
}

static uint32_t next(struct blob *b)
{
	uint32_t value = 0;

	if (b->error == 0)
		b->error = b->at < b->end ? dotnet_number_read(&value, b->file, &b->at) : -ENOTSUP;
	return b->error ? 0 : value;
}

static int32_t next_signed(struct blob *b)
{
	int32_t value = 0;

	if (b->error == 0)
		b->error = b->at < b->end ? dotnet_signed_read(&value, b->file, &b->at) : -ENOTSUP;
	return b->error ? 0 : value;
}

/* --- documents */

struct path {
	char bytes[DOTNET_DOCUMENT_MAX];
	size_t n;
};

/* Appends what is in a blob. */
static int append_part(struct path *to, struct dotnet_pdb *p, uint32_t index)
{
	struct blob b = index ? blob_at(p, index) : (struct blob){0};
	const size_t n = b.end - b.at;

	if (b.error < 0)
		return b.error;
	if (n > sizeof to->bytes - to->n)
		return -ENOTSUP;
	if (n)
		b.error = vm_read(&p->file, to->bytes + to->n, b.at, n);
	to->n += n;
	return b.error;
}

/* A name is a separator (0: none) and its parts, each of which is in a blob. */
static int read_path(struct path *to, struct dotnet_pdb *p, uint32_t index)
{
	struct blob b = blob_at(p, index);
	char separator = 0;

	if (has_more(&b))
		b.error = vm_read(b.file, &separator, b.at++, 1);
	for (unsigned i = 0; has_more(&b) && i < PARTS_MAX; i++) {
		if (i && separator && to->n < sizeof to->bytes)
			to->bytes[to->n++] = separator;
		b.error = append_part(to, p, next(&b));
	}
	return b.error;
}

/* The end of the path if it is long. */
static int read_document(char to[VM_TEXT_MAX], struct dotnet_pdb *p, uint32_t row)
{
	struct path path = {.n = 0};
	uint64_t name;
	size_t skip;
	int r = row && row <= p->n_documents
			? vm_read_number(&p->file, &name,
					 p->documents + (uint64_t)(row - 1) * p->document_bytes,
					 p->blob_index_bytes)
			: -ENOTSUP;

	if (r == 0)
		r = read_path(&path, p, (uint32_t)name);
	if (r < 0)
		return r;
	skip = path.n < VM_TEXT_MAX ? 0 : path.n - (VM_TEXT_MAX - 1);
	memcpy(to, path.bytes + skip, path.n - skip);
	to[path.n - skip] = '\0';
	return 0;
}

/* --- sequence points */

/* What a record says in relation to those before. */
struct position {
	uint32_t il, document;
	int64_t line;
	bool any_il, any_line; /* whether there was one before */
};

/* The lines and columns of a point are equal where it is hidden: no line. */
static bool next_line(struct blob *b, struct position *at)
{
	const uint32_t lines = next(b);
	const int64_t columns = lines ? next_signed(b) : (int64_t)next(b);

	if (!lines && !columns)
		return false;
	if (at->any_line) {
		at->line += next_signed(b);
		(void)next_signed(b); /* the column */
	} else {
		at->line = next(b);
		(void)next(b);
	}
	at->any_line = true;
	if (at->line < 0 || at->line > LINES_MAX)
		b->error = -ENOTSUP;
	return true;
}

/*
 * Hidden points are left out: what is hidden has the line before it. The columns, whose numbers are without a
 * sign where the lines are equal, only have to be gone over.
 */
static int read_points(struct dotnet_points *ret, struct blob *b, uint32_t document, bool own_document)
{
	struct position at = {.document = document};

	(void)next(b); /* the signature of local variables */
	if (own_document)
		at.document = document = next(b);
	while (has_more(b) && ret->n < DOTNET_POINTS_MAX) {
		const uint32_t step = next(b);

		if (at.any_il && !step) {
			at.document = next(b);
			continue;
		}
		at.il += step;
		at.any_il = true;
		if (at.il > IL_MAX)
			b->error = -ENOTSUP;
		if (next_line(b, &at) && b->error == 0)
			ret->v[ret->n++] =
				(struct dotnet_point){at.il, at.document == document ? (uint32_t)at.line : 0};
	}
	return b->error;
}

/* The document that a method's points begin in, where its row does not say. */
static uint32_t first_document(struct blob b)
{
	(void)next(&b);
	return next(&b);
}

int dotnet_pdb_points(struct dotnet_points *ret, struct dotnet_pdb *pdb, uint32_t row)
{
	const uint8_t document_bytes = (uint8_t)(pdb->method_bytes - pdb->blob_index_bytes);
	const uint64_t at = pdb->methods + (uint64_t)(row - 1) * pdb->method_bytes;
	uint64_t document, index;
	struct blob b;
	int r = row && row <= pdb->n_methods ? vm_read_number(&pdb->file, &document, at, document_bytes)
					     : -ENOTSUP;

	ret->n = 0;
	ret->document[0] = '\0';
	if (r == 0)
		r = vm_read_number(&pdb->file, &index, at + document_bytes, pdb->blob_index_bytes);
	if (r < 0 || !index)
		return r;
	b = blob_at(pdb, (uint32_t)index);
	r = read_document(ret->document, pdb, document ? (uint32_t)document : first_document(b));
	if (r == 0)
		r = read_points(ret, &b, (uint32_t)document, !document);
	if (r < 0)
		ret->n = 0;
	return r;
}
