// SPDX-License-Identifier: Apache-2.0
/*
 * HotSpot, the Java virtual machine, in an ELF file (libjvm.so). Its objects have another layout in each
 * version and build; the file exports tables that say which, for debuggers (gHotSpotVM*, in .dynsym, so
 * that they are there in stripped files, too). The tables hold addresses, so they are read in a process
 * (hotspot_layout.h). Rank 1, pure.
 */
#ifndef PROFLET_ELF_HOTSPOT_H
#define PROFLET_ELF_HOTSPOT_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

struct hotspot_facts {
	/* ELF virtual addresses of the pointers to the tables of fields and of types */
	uint64_t structs, types;
};

/* 0; -ENOENT: the file is no HotSpot; -ENOMEM. On failure, *ret is zeroed. */
int hotspot_facts_read(struct hotspot_facts *ret, struct elf_image *img);
/* Whether facts are such as hotspot_facts_read gives for a HotSpot. */
bool hotspot_facts_valid(const struct hotspot_facts *f);

#endif
