// SPDX-License-Identifier: Apache-2.0
/* Names of procedure linkage table slots, by what their code jumps through. Best effort. Rank 1, private to
 * elf/. */
#ifndef PROFLET_ELF_PLT_NAMES_H
#define PROFLET_ELF_PLT_NAMES_H

#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/elf_symbol.h"

struct plt_slot {
	size_t index;	     /* in the caller's arrays */
	uint64_t start, end; /* addresses */
};

/* Slots of functions that are chosen when the program starts (IRELATIVE): their relocations have no name, but
 * the address of the function that chooses, which does. */
struct plt_ifuncs {
	struct plt_slot *slots; /* owned */
	uint64_t *resolvers;	/* owned; the i-th is the i-th slot's */
	size_t n;
};

/* Fills ret[i] where it has no name yet and addrs[i] lies in a PLT slot: "puts@plt". Those that need another
 * look-up are put into ret_ifuncs (zeroed). 0 or -ENOMEM. */
int plt_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret,
		struct plt_ifuncs *ret_ifuncs);
/* Names a slot after a function; NULL or "": leaves it as it is. 0 or -ENOMEM. */
int plt_name_slot(struct elf_symbol *s, const struct plt_slot *slot, const char *function);
void plt_ifuncs_fini(struct plt_ifuncs *x);

#endif
