// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of executable mappings. A list is shared by reference count: a forked process shares its parent's
 * list until one of them changes.
 */
#ifndef PROFLET_PROC_MAPPING_H
#define PROFLET_PROC_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_MAPS_MAX 32768u  /* per list */
#define PROC_MAPS_APART 1024u /* from this number on, proc_maps_insert joins neighbours */

#define PROC_FILE_NONE 0u /* memory without a file */
/*
 * Combined with a number, in place of a file index: the file is being opened. Such entries are not published.
 */
#define PROC_FILE_OPENING (1u << 31)
/* Combined with both: the file system does not answer. The entry is published as memory without a file. */
#define PROC_FILE_STUCK (1u << 30)

/* One executable mapping. */
struct proc_mapping {
	uint64_t start, end; /* process addresses */
	uint64_t offset;     /* of `start` in the file, bytes */
	uint32_t file;	     /* file index, PROC_FILE_NONE, or PROC_FILE_OPENING | number */
};

/*
 * Assigns file indices and counts the mappings that use them: each entry of a list holds its file, also if
 * that is PROC_FILE_NONE or a number of PROC_FILE_OPENING. Entries that lists share hold it once.
 */
struct proc_files {
	void (*hold)(uint32_t file, void *data);
	void (*release)(uint32_t file, void *data);
	void *data;
};

struct proc_maps_chunk;

/*
 * A list of mappings in ascending order, shared by reference count. `id` and `version` together identify
 * its content.
 */
struct proc_maps {
	unsigned refs;
	uint32_t n; /* mappings */
	uint32_t n_chunks;
	size_t cap;
	uint32_t replaced;		 /* mapping.c's own */
	uint64_t id;			 /* of the list; never reused */
	uint64_t version;		 /* incremented by every change of the entries */
	struct proc_maps_chunk **chunks; /* in ascending order; several lists may share a chunk */
	const struct proc_files *files;	 /* borrowed; NULL: files are not counted */
	uint32_t code; /* file index that stands for code which the process has generated; 0: none yet */
};

/*
 * Goes through a list in ascending order; {.maps = m} begins at its first mapping. The list must not change
 * meanwhile.
 */
struct proc_maps_cursor {
	const struct proc_maps *maps;
	uint32_t chunk, at;
};

/* Creates an empty list. `files` must outlive it. */
int proc_maps_new(struct proc_maps **ret, const struct proc_files *files);
/* Makes a private copy, which takes time for each chunk, not for each mapping. 0 or -ENOMEM. */
int proc_maps_copy(struct proc_maps **ret, const struct proc_maps *m);
struct proc_maps *proc_maps_ref(struct proc_maps *m);
void proc_maps_unref(struct proc_maps *m);
/*
 * Inserts a mapping, and cuts or removes those that it overlaps. Memory without a file is joined with the
 * memory it touches and, from PROC_MAPS_APART entries on, with a neighbour. `m` must be private. 0, -ENOMEM,
 * -ENOSPC at PROC_MAPS_MAX.
 */
int proc_maps_insert(struct proc_maps *m, struct proc_mapping mapping);
/*
 * A file has been opened: replaces `from`, a number of PROC_FILE_OPENING, by `to` in every mapping. Lists
 * that share entries with this one have the new file, too; call it for each of them. False: no mapping had
 * `from`.
 */
bool proc_maps_opened(struct proc_maps *m, uint32_t from, uint32_t to);
/* Sets `code` of the list, and counts its use. Counts as a change of the entries. */
void proc_maps_set_code(struct proc_maps *m, uint32_t code);
/* Whether another mapping is in the range of `mapping`. */
bool proc_maps_replaces(const struct proc_maps *m, const struct proc_mapping *mapping);
/* Whether the list already covers all of `mapping`. */
bool proc_maps_has(const struct proc_maps *m, const struct proc_mapping *mapping);
/* The mapping that covers `address`; NULL: none. Borrowed. */
const struct proc_mapping *proc_maps_find(const struct proc_maps *m, uint64_t address);
/* The next mapping, NULL: there is none. Borrowed until the list changes. */
const struct proc_mapping *proc_maps_next(struct proc_maps_cursor *c);
/* A cursor at the first mapping that ends after `address`. */
struct proc_maps_cursor proc_maps_from(const struct proc_maps *m, uint64_t address);
/*
 * The mapping with that index, which is less than m->n. Slow in a long list: use a cursor to see all of them.
 * Borrowed.
 */
const struct proc_mapping *proc_maps_at(const struct proc_maps *m, uint32_t index);
/* Mappings in chunks that no other list shares. */
uint32_t proc_maps_private(const struct proc_maps *m);

#endif
