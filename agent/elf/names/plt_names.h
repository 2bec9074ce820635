// SPDX-License-Identifier: Apache-2.0
/*
 * Names slots of procedure linkage tables (PLT) after the functions to which they jump. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_PLT_NAMES_H
#define PROFLET_ELF_PLT_NAMES_H

#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/elf_symbol.h"

struct plt_slot {
	size_t index;	     /* in the caller's arrays */
	uint64_t start, end; /* addresses */
};

/*
 * Slots of functions that are selected when the program starts (IRELATIVE). Their relocations have no name,
 * but the address of the resolver, which has a symbol.
 */
struct plt_ifuncs {
	struct plt_slot *slots; /* owned */
	uint64_t *resolvers;	/* owned; resolvers[i] belongs to slots[i] */
	size_t n;
};

/*
 * Sets the name of ret[i], as "puts@plt", if it has none and addrs[i] lies in a PLT slot. Slots with a
 * resolver are added to ret_ifuncs, which the caller has zeroed. 0 or -ENOMEM.
 */
int plt_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret,
		struct plt_ifuncs *ret_ifuncs);
/* Names a slot after a function. Does nothing if `function` is NULL or "". 0 or -ENOMEM. */
int plt_name_slot(struct elf_symbol *s, const struct plt_slot *slot, const char *function);
void plt_ifuncs_fini(struct plt_ifuncs *x);

#endif
