// SPDX-License-Identifier: Apache-2.0
/*
 * The entries of a call-frame section: lengths, CIEs, FDEs, encoded pointers. Parses, interprets nothing.
 * Linux Standard Base 5 section 10.6.1 (.eh_frame), DWARF 5 section 6.4.1 (.debug_frame). Everything here
 * borrows the section's bytes. Errors are static strings that say what was wrong with the entry. Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_CFI_ENTRY_H
#define PROFLET_ELF_CFI_ENTRY_H

#include "agent/elf/file/arch.h"
#include "agent/elf/file/cursor.h"

/* What relative pointers are relative to. */
struct cfi_bases {
	const uint8_t *bytes; /* byte of the section that stands at address `section` */
	uint64_t section;
	uint64_t text, data, func; /* valid with the flags below */
	bool has_text, has_data, has_func;
};

struct eh_index;

struct cfi_section {
	const uint8_t *bytes;
	size_t len;
	struct cfi_bases bases;
	const struct elf_arch *arch; /* of the file; the interpreters need one, reading entries does not */
	struct eh_index *index;	     /* of .eh_frame; NULL: there is none */
	bool debug;		     /* .debug_frame rather than .eh_frame */
	bool separate;		     /* of a separate debug file */
	uint64_t delta;		     /* to be added to its addresses: how far the binary was moved since */
	bool until_zero; /* a zero length ends the entries; otherwise it is stepped over, as readelf and gdb
			    do */
};

struct cfi_entry {
	uint64_t offset;    /* of the length field */
	uint64_t cie;	    /* an FDE's: offset of its CIE */
	struct cursor body; /* behind the CIE id or CIE pointer; bad when the entry is too short for one */
	bool is_cie;
};

struct cfi_cie {
	const char *error; /* why the CIE is unusable; NULL when it is fine */
	struct cursor program;
	uint64_t code_align, ra_reg;
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding; /* DW_EH_PE_* */
	bool sized_augmentation;	     /* 'z' */
	bool signal;			     /* 'S' */
	bool usual;			     /* small factors, and the return address is where it always is */
};

struct cfi_fde {
	uint64_t start, end; /* addresses; end > start, or equal for an FDE of a discarded function */
	struct cursor program;
};

/* Reads a pointer. False when it is truncated, indirect, omitted, or relative to a base that is unknown. */
bool entry_pointer(struct cursor *c, uint8_t encoding, const struct cfi_bases *bases, uint64_t *ret);
/*
 * Reads the entry at *offset and moves *offset behind it. 1: *ret is an entry; 0: the end; -1: a length that
 * leaves the section or is reserved, which hides all that follows.
 */
int entry_next(const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret);
/* The CIE at `offset`; ret->error is set when it cannot be used. */
void entry_cie(const struct cfi_section *s, uint64_t offset, struct cfi_cie *ret);
/* NULL, or what is wrong. */
const char *entry_fde(const struct cfi_section *s, const struct cfi_cie *cie, const struct cfi_entry *entry,
		      struct cfi_fde *ret);

#endif
