// SPDX-License-Identifier: Apache-2.0
/*
 * A process's mappings as the entries that the BPF program searches: one for each stretch that has one table
 * block, or none. Pure. Inside unwind/ only.
 */
#ifndef PROFLET_UNWIND_LIST_H
#define PROFLET_UNWIND_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct proc_maps;
struct unwind_tables;

struct list_entries {
	struct mapping_entry *entries; /* owned, ascending */
	size_t n, cap;
};

/* 0 or -ENOMEM. */
int list_entries_make(struct list_entries *ret, const struct proc_maps *maps,
		      const struct unwind_tables *tables);
/* The same of the n mappings with these indices, which ascend; NULL: the first n. */
int list_entries_make_some(struct list_entries *ret, const struct proc_maps *maps, const uint32_t *indices,
			   size_t n, const struct unwind_tables *tables);
void list_entries_fini(struct list_entries *l);

/* Bytes of a list block with n entries; how many fit a block of `max` bytes. */
size_t list_bytes(size_t n);
size_t list_capacity(size_t max);
/* Writes the first n entries as a struct mapping_list with what follows it. */
void list_write(void *mem, const struct mapping_entry *entries, size_t n, uint32_t generation,
		uint32_t flags);

#endif
