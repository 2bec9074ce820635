// SPDX-License-Identifier: Apache-2.0
/*
 * Splits a call-frame section into its entries and parses CIEs, FDEs and encoded pointers (Linux Standard
 * Base 5 section 10.6.1 for .eh_frame, DWARF 5 section 6.4.1 for .debug_frame). Does not run call-frame
 * instructions. All results borrow the section's bytes. Errors are static strings that say what is wrong with
 * the entry. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_CFI_ENTRY_H
#define PROFLET_ELF_CFI_ENTRY_H

#include "agent/elf/file/arch.h"
#include "agent/elf/file/cursor.h"

/* The addresses to which encoded pointers can be relative. */
struct cfi_bases {
	const uint8_t *bytes; /* the byte at address `section` */
	uint64_t section;
	uint64_t text, data, func; /* valid with the flags below */
	bool has_text, has_data, has_func;
};

struct eh_index;

struct cfi_section {
	const uint8_t *bytes;
	size_t len;
	struct cfi_bases bases;
	const struct elf_arch *arch; /* of the file; needed by the interpreters only */
	struct eh_index *index;	     /* search table of .eh_frame; NULL: there is none */
	bool debug;		     /* .debug_frame rather than .eh_frame */
	bool separate;		     /* in a separate debug file */
	uint64_t delta;	 /* to be added to its addresses: the binary was moved by this distance later */
	bool until_zero; /* a zero length ends the entries; otherwise it is skipped, as readelf and gdb do */
};

struct cfi_entry {
	uint64_t offset;    /* of the length field */
	uint64_t cie;	    /* in an FDE: offset of its CIE */
	struct cursor body; /* behind the CIE id or CIE pointer; bad if the entry is too short */
	bool is_cie;
};

struct cfi_cie {
	const char *error; /* why the CIE is unusable, or NULL */
	const char *fault; /* what its instructions give that no row can express, or NULL */
	struct cursor program;
	uint64_t code_align, ra_reg;
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding; /* DW_EH_PE_* */
	bool sized_augmentation;	     /* 'z' */
	bool signal;			     /* 'S' */
	bool usual; /* small alignment factors, and the return address in its usual column */
};

struct cfi_fde {
	uint64_t start, end; /* addresses; end > start, or equal if the linker discarded the function */
	struct cursor program;
};

/* Reads a pointer. False when it is truncated, indirect, omitted, or relative to a base that is unknown. */
bool entry_pointer(struct cursor *c, uint8_t encoding, const struct cfi_bases *bases, uint64_t *ret);
/*
 * Reads the entry at *offset and moves *offset to the next. 1: *ret is an entry; 0: end of the section; -1:
 * the length is reserved or exceeds the section, so that no further entry can be found.
 */
int entry_next(const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret);
/* Reads the CIE at `offset`. ret->error says why it cannot be used, or is NULL. */
void entry_cie(const struct cfi_section *s, uint64_t offset, struct cfi_cie *ret);
/* Reads an FDE. NULL, or what is wrong with it. */
const char *entry_fde(const struct cfi_section *s, const struct cfi_cie *cie, const struct cfi_entry *entry,
		      struct cfi_fde *ret);

#endif
