// SPDX-License-Identifier: Apache-2.0
/*
 * Where functions begin, as far as a file says it outside of the code that is to be analysed: symbols, entry
 * point, pointers in its data; and which imported functions do not return. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_STARTS_H
#define PROFLET_ELF_STARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_gap;
struct elf_image;
struct row_spans;

struct code_start {
	uint64_t va;
	bool certain; /* a function begins here; else the address may also be a label inside one */
	bool word;    /* only a word in data has this value: it may be the entry of a table of jumps, too */
};

/* Zero it, then call code_starts_read. */
struct code_starts {
	struct code_start *v; /* owned; increasing va */
	size_t n, cap;
	uint64_t *no_return; /* owned; increasing addresses of GOT entries of functions that do not return */
	size_t n_no_return, cap_no_return;
};

/*
 * Reads the file's tables, and what code with rows refers to. 0 or -ENOMEM. What cannot be read is left out.
 */
int code_starts_read(struct code_starts *s, const struct elf_image *img, const struct row_spans *spans);
/* Reads only the functions with a symbol that begin in one of the gaps, which ascend. 0 or -ENOMEM. */
int code_starts_read_symbols(struct code_starts *s, const struct elf_image *img, const struct code_gap *gaps,
			     size_t n_gaps);
/* Adds n addresses at which functions certainly begin. 0 or -ENOMEM. */
int code_starts_add(struct code_starts *s, const uint64_t *va, size_t n);
void code_starts_fini(struct code_starts *s);
/* The index of the first start at or behind `va`; s->n: there is none. */
size_t code_starts_from(const struct code_starts *s, uint64_t va);
/* The start at `va`; NULL: there is none. Borrowed. */
const struct code_start *code_starts_at(const struct code_starts *s, uint64_t va);
/* Whether the GOT entry at this address is that of a function that does not return. */
bool code_starts_no_return(const struct code_starts *s, uint64_t got);

#endif
