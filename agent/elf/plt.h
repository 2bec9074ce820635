// SPDX-License-Identifier: Apache-2.0
/* Names of procedure linkage table slots, by what their code jumps through. Best effort. Rank 1, private to
 * elf/. */
#ifndef PROFLET_ELF_PLT_H
#define PROFLET_ELF_PLT_H

#include "agent/elf/image_private.h"
#include "agent/elf/symtab.h"

/* Fills ret[i] where it has no name yet and addrs[i] lies in a PLT slot: "puts@plt". 0 or -ENOMEM. */
int plt_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret);

#endif
