// SPDX-License-Identifier: Apache-2.0
/*
 * The function table that the Go runtime walks its own stacks by: .gopclntab, in the layouts of Go 1.16, 1.18
 * and 1.20 (which holds to this day). The format is that of the Go sources: runtime/symtab.go (pcHeader,
 * functab), runtime/runtime2.go (_func), and golang.org/s/go12symtab for the encoding of pc-value tables.
 * Finds and reads it, interprets nothing. Little endian, 64 bits. Rank 1, private to elf/.
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
	uint64_t offset, len;	     /* of the table in the file; where only its start is known, up to the
					segment's end */
	uint8_t *bytes;		     /* owned; NULL: each part is read when it is wanted */
	uint64_t n_functions;
	uint64_t functab, names, pctab; /* offsets in the table */
	uint64_t units, files;		/* the same: of the files of compilation units, of file names */
	uint64_t header_text;		/* start of the text as the header says it; 0: it does not */
	uint64_t text;			/* start of the text: what function offsets count from */
	uint8_t layout;			/* enum gopclntab_layout */
	uint8_t quantum;		/* bytes: unit of the addresses in pc-value tables */
};

/* funcFlag of the Go sources */
#define GO_FLAG_TOPFRAME 1u /* outermost; from 1.17 */
#define GO_FLAG_SPWRITE 2u  /* writes the stack pointer other than by a constant; from 1.17 */
#define GO_FLAG_ASM 4u	    /* from 1.18 */

struct gopclntab_function {
	uint64_t start, end; /* addresses; the end is where the next function starts */
	uint64_t name;	     /* offset in the names */
	uint64_t pcsp;	     /* offset in pctab; 0: none */
	uint8_t flags;	     /* GO_FLAG_* */
	uint8_t id;	     /* funcID of the Go sources, 0: an ordinary function */
};

/* What tells a function's places in the source. */
struct gopclntab_lines {
	uint32_t file, line, inlined; /* offsets in pctab of pc-value tables; 0: none */
	uint32_t unit;		      /* where the files of its compilation unit begin */
	uint32_t tree;		      /* of inlined calls, past where such trees are; UINT32_MAX: none */
};

/* One pc-value table, walked. */
struct gopclntab_values {
	struct cursor c;
	uint64_t pc;
	int32_t value;
	uint8_t quantum;
	bool started;
};

/* Finds the table: by section, or in the segments where no section is named for it. Everything but `text` is
 * set. 0, -ENOENT, -ENOMEM, -errno of a read. */
int gopclntab_open(struct gopclntab *ret, const struct elf_image *img);
void gopclntab_fini(struct gopclntab *t);
/* Reads the whole table, for who wants all functions. 0, -EFBIG, -ENOMEM, -errno. */
int gopclntab_load(struct gopclntab *t);
/* Function `i` of n_functions. 0, -EINVAL (nonsense), -errno. */
int gopclntab_function(const struct gopclntab *t, uint64_t i, struct gopclntab_function *ret);
/* The last function that starts at or below `addr`. 0, -ENOENT, -errno. */
int gopclntab_find(const struct gopclntab *t, uint64_t addr, uint64_t *ret);
/* The name at an offset in the names, cut at `size` - 1 bytes; "" where it cannot be read. */
void gopclntab_name(const struct gopclntab *t, uint64_t name, char *ret, size_t size);
/*
 * The function's stack depths: values below the stack pointer at entry, the return address not counted. When
 * the table is not loaded, the first `size` bytes of them are read into `buf` (at least).
 */
void gopclntab_depths(const struct gopclntab *t, const struct gopclntab_function *fn, uint8_t *buf,
		      size_t size, struct gopclntab_values *ret);
/* The same of any pc-value table; `table` is its offset in pctab. */
void gopclntab_values(const struct gopclntab *t, const struct gopclntab_function *fn, uint32_t table,
		      uint8_t *buf, size_t size, struct gopclntab_values *ret);
/* 0, -EINVAL, -errno. */
int gopclntab_lines(const struct gopclntab *t, uint64_t i, struct gopclntab_lines *ret);
/* The name of a file by its number in the function's compilation unit, as gopclntab_name. */
void gopclntab_file(const struct gopclntab *t, const struct gopclntab_lines *lines, int32_t file, char *ret,
		    size_t size);
/* The next stretch [*from, v->pc) that has v->value. False at the end, and where the table is damaged. */
bool gopclntab_values_next(struct gopclntab_values *v, uint64_t *from);

#endif
