// SPDX-License-Identifier: Apache-2.0
/*
 * A portable PDB file made by hand: two documents, and four methods: without lines; with some, of which one
 * is hidden and one in the other document; with the document in front of the lines; with one line.
 */
#ifndef PROFLET_TESTS_PDB_FILE_H
#define PROFLET_TESTS_PDB_FILE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/elf/runtime/dotnet_pdb.h"

#define PDB_BYTES 8192u /* the file has less */
#define PDB_LONG_PATH 300u
#define PDB_METHODS 4u

static const uint8_t pdb_id[DOTNET_PDB_ID_BYTES] = {1,	2,  3,	4,  5,	6,  7,	8,  9,	10,
						    11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

/* Method 2: line 10 from 0 on, 12 from 4 on, hidden from 6 on, 11 from 9 on, another document from 11 on. */
static const uint8_t pdb_points[] = {
	0,			/* no local variables */
	0, 0, 5, 10,   1,	/* bytecode 0, one line, 5 columns, line 10, column 1 */
	4, 1, 4, 4,    2,	/* + 4, over one line more, + 2 columns; line + 2, column + 1 */
	2, 0, 0,		/* + 2, hidden */
	3, 0, 5, 0x7f, 0,	/* + 3; line - 1 */
	0, 2,			/* document 2 */
	2, 0, 5, 0x80, 0xc8, 0, /* + 2; line + 100 */
};
static const uint8_t pdb_points_of_document[] = {0, 2, 0, 0, 5, 3, 1};
static const uint8_t pdb_one_point[] = {0, 0, 0, 5, 7, 1};

struct pdb_file {
	uint8_t bytes[PDB_BYTES];
	uint32_t n, blobs; /* where these begin */
};

/* As struct vm_memory wants it; `data` is the file. */
static inline int pdb_read(void *to, uint64_t address, void *data)
{
	const struct pdb_file *f = data;

	if (address >= PDB_BYTES)
		return -EFAULT;
	memcpy(to, f->bytes + address, VM_PIECE_BYTES);
	return 0;
}

static inline void pdb_put(struct pdb_file *f, uint64_t value, unsigned bytes)
{
	memcpy(f->bytes + f->n, &value, bytes);
	f->n += bytes;
}

static inline void pdb_put_bytes(struct pdb_file *f, const void *bytes, size_t n)
{
	memcpy(f->bytes + f->n, bytes, n);
	f->n += (uint32_t)n;
}

/* Appends a blob; returns its index. */
static inline uint32_t pdb_blob(struct pdb_file *f, const void *bytes, uint32_t n)
{
	const uint32_t index = f->n - f->blobs;

	if (n < 0x80)
		pdb_put(f, n, 1);
	else
		pdb_put(f, 0x80 | n >> 8 | (n & 0xff) << 8, 2);
	pdb_put_bytes(f, bytes, n);
	return index;
}

/* Blobs are behind the tables, whose rows have their indices. */
static inline void pdb_init(struct pdb_file *f)
{
	static const struct {
		const char *name;
		uint32_t off, bytes;
	} streams[] = {{"#Pdb\0\0\0", 0x100, 32}, {"#~\0", 0x140, 0x100}, {"#Blob\0\0", 0x400, 0x800}};
	char path[PDB_LONG_PATH];
	uint32_t parts[3], names[2], points[3];
	uint8_t name[8];

	memset(f, 0, sizeof *f);
	pdb_put(f, 0x424a5342, 4);
	pdb_put(f, 0, 8);
	pdb_put(f, 12, 4);
	pdb_put_bytes(f, "PDB v1.0\0\0\0", 12);
	pdb_put(f, 0, 2);
	pdb_put(f, 3, 2);
	for (unsigned i = 0; i < 3; i++) {
		pdb_put(f, streams[i].off, 4);
		pdb_put(f, streams[i].bytes, 4);
		pdb_put_bytes(f, streams[i].name, (strlen(streams[i].name) + 4) & ~3u);
	}
	memcpy(f->bytes + 0x100, pdb_id, sizeof pdb_id);
	f->n = f->blobs = 0x400;
	pdb_put(f, 0, 1);
	memset(path, 'x', sizeof path);
	parts[0] = pdb_blob(f, "src", 3);
	parts[1] = pdb_blob(f, "Main.cs", 7);
	parts[2] = pdb_blob(f, path, sizeof path);
	memcpy(name, (const uint8_t[]){'/', 0, (uint8_t)parts[0], (uint8_t)parts[1]}, 4); /* "/src/Main.cs" */
	names[0] = pdb_blob(f, name, 4);
	memcpy(name, (const uint8_t[]){'\\', (uint8_t)parts[2], (uint8_t)parts[1]}, 3);
	names[1] = pdb_blob(f, name, 3);
	points[0] = pdb_blob(f, pdb_points, sizeof pdb_points);
	points[1] = pdb_blob(f, pdb_points_of_document, sizeof pdb_points_of_document);
	points[2] = pdb_blob(f, pdb_one_point, sizeof pdb_one_point);
	f->n = 0x140 + 8;
	pdb_put(f, 3ull << 0x30, 8);
	pdb_put(f, 0, 8);
	pdb_put(f, 2, 4);
	pdb_put(f, PDB_METHODS, 4);
	for (unsigned i = 0; i < 2; i++) {
		pdb_put(f, names[i], 2);
		pdb_put(f, 0, 6);
	}
	for (unsigned i = 0; i < PDB_METHODS; i++) {
		pdb_put(f, (const uint32_t[]){1, 1, 0, 1}[i], 2);
		pdb_put(f, (const uint32_t[]){0, points[0], points[1], points[2]}[i], 2);
	}
	f->n = 0x400 + 0x800;
}

#endif
