// SPDX-License-Identifier: Apache-2.0
/* The rows of a file's .eh_frame as libdw (elfutils) reads them. */
#ifndef PROFLET_ANALYSIS_REFERENCE_H
#define PROFLET_ANALYSIS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DWARF numbers of x86-64 */
#define REF_RBP 6
#define REF_RSP 7
#define REF_RA 16

enum ref_cfa {
	REF_CFA_OTHER, /* an expression that is none of the two below */
	REF_CFA_REG,   /* reg + off */
	REF_CFA_DEREF, /* *(reg + off) + add */
};

enum ref_saved {
	REF_SAME,
	REF_AT, /* at CFA + off */
	REF_UNDEFINED,
	REF_OTHER,
};

struct ref_reg {
	uint8_t kind; /* enum ref_saved */
	int32_t off;
};

struct ref_row {
	uint64_t start, end, function; /* `function`: where its FDE starts */
	uint8_t cfa;		       /* enum ref_cfa */
	uint8_t reg;
	int32_t off, add;
	struct ref_reg rbp, ra;
	bool signal;
};

/* Zero it, then call reference_read. */
struct reference {
	struct ref_row *v; /* owned; increasing addresses */
	size_t n, cap;
	uint64_t bytes; /* described */
	char *producer; /* owned; of .comment; NULL: none */
	bool go;	/* it has Go's function table, and the analysis is not used for it */
};

/* Reads an x86-64 file. 0; -ENOENT: no .eh_frame, or of another machine; -EIO; -ENOMEM. */
int reference_read(struct reference *r, int fd);
void reference_fini(struct reference *r);
/* The row for the address; NULL: there is none. `hint`: the index that the last call has left, 0 at first. */
const struct ref_row *reference_find(const struct reference *r, uint64_t va, size_t *hint);

#endif
