// SPDX-License-Identifier: Apache-2.0
/*
 * Finds and reads .gopclntab, the function table by which the Go runtime unwinds its own stacks, in the
 * layouts of Go 1.16, 1.18 and 1.20 (still current). The format is that of the Go sources: runtime/symtab.go
 * (pcHeader, functab), runtime/runtime2.go (_func), and golang.org/s/go12symtab for pc-value tables. Little
 * endian, 64 bits. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_GOPCLNTAB_H
#define PROFLET_ELF_GOPCLNTAB_H

#include "agent/elf/file/cursor.h"
#include "agent/elf/file/elf_image.h"

enum gopclntab_layout {
	GOPCLNTAB_1_16, /* absolute addresses of 8 bytes */
	GOPCLNTAB_1_18, /* offsets of 4 bytes from the start of the text */
	GOPCLNTAB_1_20, /* the same with a larger function record */
};

struct gopclntab {
	const struct elf_image *img; /* borrowed */
	uint64_t offset, len;	     /* of the table in the file; at most up to the end of the segment */
	uint8_t *bytes;		     /* the whole table, owned; NULL: each part is read when needed */
	uint64_t n_functions;
	uint64_t functab, names, pctab; /* offsets in the table */
	uint64_t units, files;		/* the same: file lists of compilation units, file names */
	uint64_t header_text; /* start of the text according to the header; 0: the header does not have it */
	uint64_t text;	      /* start of the text, from which function offsets count */
	uint8_t layout;	      /* enum gopclntab_layout */
	uint8_t quantum;      /* bytes; unit of the addresses in pc-value tables */
};

/* funcFlag of the Go sources */
#define GO_FLAG_TOPFRAME 1u /* outermost; from 1.17 */
#define GO_FLAG_SPWRITE 2u  /* writes the stack pointer other than by a constant; from 1.17 */
#define GO_FLAG_ASM 4u	    /* from 1.18 */

struct gopclntab_function {
	uint64_t start, end; /* addresses; the end is the start of the next function */
	uint64_t name;	     /* offset in the names */
	uint64_t pcsp;	     /* stack depths: offset in pctab; 0: none */
	uint8_t flags;	     /* GO_FLAG_* */
	uint8_t id;	     /* funcID of the Go sources; 0: an ordinary function */
};

/* The tables that give the source positions in a function. */
struct gopclntab_lines {
	uint32_t file, line, inlined; /* offsets in pctab of pc-value tables; 0: none */
	uint32_t unit;		      /* start of the file list of its compilation unit */
	uint32_t start_line;	      /* where the function begins in its file; 0: unknown, before Go 1.20 */
	uint32_t tree; /* tree of inlined calls, relative to the start of the trees; UINT32_MAX: none */
};

/* An iterator over one pc-value table. */
struct gopclntab_values {
	struct cursor c;
	uint64_t pc;
	int32_t value;
	uint8_t quantum;
	bool started;
};

/*
 * Finds the table by its section, or in the segments if no section has its name. Sets all fields but `text`.
 * 0, -ENOENT, -ENOMEM, -errno of a read.
 */
int gopclntab_open(struct gopclntab *ret, const struct elf_image *img);
void gopclntab_fini(struct gopclntab *t);
/* Reads the whole table, for callers that need all functions. 0, -EFBIG, -ENOMEM, -errno. */
int gopclntab_load(struct gopclntab *t);
/* Reads function `i` of n_functions. 0, -EINVAL (malformed), -errno. */
int gopclntab_function(const struct gopclntab *t, uint64_t i, struct gopclntab_function *ret);
/* Finds the last function that starts at or below `addr`. 0, -ENOENT, -errno. */
int gopclntab_find(const struct gopclntab *t, uint64_t addr, uint64_t *ret);
/* Copies the name at an offset in the names, cut at `size` - 1 bytes; "" if it cannot be read. */
void gopclntab_name(const struct gopclntab *t, uint64_t name, char *ret, size_t size);
/*
 * Iterates over the stack depths of a function: distances of the stack pointer below its value at entry,
 * without the return address. If the table is not loaded, the first `size` bytes of the depths are read into
 * `buf`.
 */
void gopclntab_depths(const struct gopclntab *t, const struct gopclntab_function *fn, uint8_t *buf,
		      size_t size, struct gopclntab_values *ret);
/* The same for any pc-value table of the function; `table` is its offset in pctab. */
void gopclntab_values(const struct gopclntab *t, const struct gopclntab_function *fn, uint32_t table,
		      uint8_t *buf, size_t size, struct gopclntab_values *ret);
/* Reads the tables of source positions of function `i`. 0, -EINVAL, -errno. */
int gopclntab_lines(const struct gopclntab *t, uint64_t i, struct gopclntab_lines *ret);
/*
 * Copies the name of a file, given by its number in the compilation unit of the function, as gopclntab_name.
 */
void gopclntab_file(const struct gopclntab *t, const struct gopclntab_lines *lines, int32_t file, char *ret,
		    size_t size);
/*
 * Moves on to the next range [*from, v->pc), in which the value is v->value. False at the end, or if the
 * table is damaged.
 */
bool gopclntab_values_next(struct gopclntab_values *v, uint64_t *from);

#endif
