// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the mapping list that the BPF program searches (struct mapping_list, bpf/abi.h) from the mappings
 * of a process. A mapping becomes one entry for each table block that covers part of it, and one for each
 * part that no block covers. Pure. Used within agent/unwind.
 */
#ifndef PROFLET_UNWIND_LIST_H
#define PROFLET_UNWIND_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct proc_mapping;
struct proc_maps;
struct unwind_tables;

struct list_entries {
	struct mapping_entry *entries; /* owned, ascending */
	size_t n, cap;
};

/* The entries of all mappings of `maps`, with the tables that are ready now. 0 or -ENOMEM. */
int list_entries_make(struct list_entries *ret, const struct proc_maps *maps,
		      const struct unwind_tables *tables);
/* The same for n mappings, which are in ascending order; `code` is their list's. */
int list_entries_make_some(struct list_entries *ret, const struct proc_mapping *const *mappings, size_t n,
			   uint32_t code, const struct unwind_tables *tables);
void list_entries_fini(struct list_entries *l);

/* The size in bytes of a list block with n entries; and how many entries fit into `max` bytes. */
size_t list_bytes(size_t n);
size_t list_capacity(size_t max);
/* The same with a struct runtime_walk behind the entries. */
size_t list_bytes_with_walk(size_t n);
/* Writes a struct mapping_list and, after it, the first n entries and their search index. */
void list_write(void *mem, const struct mapping_entry *entries, size_t n, uint32_t generation,
		uint32_t flags);
/* Writes the walk behind the entries of a list that was written. `mem` has list_bytes_with_walk bytes. */
void list_write_walk(void *mem, const struct runtime_walk *walk);
/* The same of heaps of code, behind the entries and the walk, if there is one. */
void list_write_heaps(void *mem, const struct code_heaps *heaps);

#endif
