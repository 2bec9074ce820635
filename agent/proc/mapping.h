// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of executable mappings. A list is shared by reference count: a forked process holds its parent's
 * until either changes.
 */
#ifndef PROFLET_PROC_MAPPING_H
#define PROFLET_PROC_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_MAPS_MAX 32768u  /* mappings of a list */
#define PROC_MAPS_APART 1024u /* from here on, proc_maps_insert joins neighbours */

#define PROC_FILE_NONE 0u /* memory without a file */
/* In place of a file index, with a number: the file is being opened. It is not in published lists. */
#define PROC_FILE_OPENING (1u << 31)

/* One executable mapping. */
struct proc_mapping {
	uint64_t start, end; /* process addresses */
	uint64_t offset;     /* of `start` in the file, bytes */
	uint32_t file;	     /* file index, PROC_FILE_NONE, PROC_FILE_OPENING | number */
};

/*
 * Who gives out file indices, and counts the mappings that have them: each entry of a list holds its file,
 * also where that is PROC_FILE_NONE or a number of PROC_FILE_OPENING.
 */
struct proc_files {
	void (*hold)(uint32_t file, void *data);
	void (*release)(uint32_t file, void *data);
	void *data;
};

/* A list of mappings, ascending; shared by reference count. Id and version together name its content. */
struct proc_maps {
	unsigned refs;
	uint32_t n;
	size_t cap;
	uint64_t id;	  /* of the list; never used again */
	uint64_t version; /* grows with every change of the entries */
	struct proc_mapping *entries;
	const struct proc_files *files; /* borrowed; NULL: nobody counts */
};

/* `files` outlives the list. */
int proc_maps_new(struct proc_maps **ret, const struct proc_files *files);
/* A copy that is the caller's alone. 0 or -ENOMEM. */
int proc_maps_copy(struct proc_maps **ret, const struct proc_maps *m);
struct proc_maps *proc_maps_ref(struct proc_maps *m);
void proc_maps_unref(struct proc_maps *m);
/*
 * Puts a mapping in, cutting or removing what it overlaps; memory without a file becomes one with what
 * touches it, from PROC_MAPS_APART entries on also with what is near. `m` must be private. 0, -ENOMEM,
 * -ENOSPC at PROC_MAPS_MAX.
 */
int proc_maps_insert(struct proc_maps *m, struct proc_mapping mapping);
/* Gives every mapping that has file `from` the file `to`, in a list that may be shared; false: none has. */
bool proc_maps_replace_file(struct proc_maps *m, uint32_t from, uint32_t to);
/* Whether something else is mapped where `mapping` will be. */
bool proc_maps_replaces(const struct proc_maps *m, const struct proc_mapping *mapping);
/* Whether the list says already all that `mapping` does. */
bool proc_maps_has(const struct proc_maps *m, const struct proc_mapping *mapping);
/* The mapping that covers `address`, NULL. Borrowed. */
const struct proc_mapping *proc_maps_find(const struct proc_maps *m, uint64_t address);

#endif
