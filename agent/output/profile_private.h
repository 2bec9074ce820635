// SPDX-License-Identifier: Apache-2.0
/*
 * The data of a profile, for the writers of this folder. Strings, modules, functions, locations and groups
 * are in tables, in which equal things are one entry. Entries have dense ids from 1; id 0 means "none", and
 * for strings "".
 */
#ifndef PROFLET_OUTPUT_PROFILE_PRIVATE_H
#define PROFLET_OUTPUT_PROFILE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/output/profile.h"

/* The start of every entry of a table. */
struct output_entry {
	struct map_node node;
	uint32_t id;
};

struct output_table {
	struct map map;
	struct output_entry **entries; /* by id; [0] is NULL; owned, as are the entries */
	size_t cap;
};

struct output_string {
	struct output_entry entry;
	char text[]; /* cleaned, see display_text.h */
};

struct output_module {
	struct output_entry entry;
	uint32_t path, name, build_id; /* strings */
	uint64_t start, limit, file_offset;
	bool go;
};

/*
 * Frames are of the same function if a reader would call them equal. Those of a language runtime are in no
 * module: they are equal if they begin at one place in the source.
 */
struct output_function {
	struct output_entry entry;
	uint32_t name;	      /* string: the function, else module+0xOFFSET, else 0xADDRESS */
	uint32_t system_name; /* string or 0 */
	uint32_t module;      /* or 0 */
	uint32_t runtime;     /* string: the language runtime that it belongs to; or 0 */
	uint32_t file;	      /* string: the source file, of the location that was added first; or 0 */
	uint32_t start_line;  /* in that file; 0: unknown in all frames so far */
	enum frame_kind kind;
	bool named; /* false: `name` is only the address */
};

struct output_location {
	struct output_entry entry;
	uint32_t function;
	uint32_t line; /* in the function's source file; 0: unknown */
	uint64_t address;
};

struct output_node {
	struct map_node node;
	struct output_node *parent, *child, *sibling;
	uint32_t location; /* 0 in the root of a group */
	uint32_t cells;	   /* the first of those of `times`; 0: none */
	uint64_t self;	   /* samples that ended here */
};

/* Samples of one node in one column of time. */
struct output_cell {
	uint64_t column; /* since 1970 */
	uint32_t count;
	uint32_t next; /* 0: none */
};

/* When samples were taken; see profile_times.c. A node may have several cells of one column. */
struct output_times {
	struct output_cell *cells; /* from [1] on; owned */
	size_t n, cap;
	size_t n_used, max_cells;
	uint32_t free;	      /* the first cell that is not used; 0: none */
	unsigned shift;	      /* a column is 1 << shift ns wide */
	uint64_t first, last; /* column; without samples, first is the greater */
	uint64_t n_samples;   /* that have a time */
};

/* The stacks of one process and thread name, or of several processes of the same name. */
struct output_group {
	struct output_entry entry;
	uint32_t process, thread, container, container_name; /* strings */
	uint32_t pid;					     /* 0: of several processes */
	uint32_t n_folded;				     /* number of these processes */
	bool after;					     /* as struct output_stack */
	uint64_t n_samples, n_complete;
	struct output_node root;
	struct output_node other; /* child of root: stacks for which there was no room */
};

struct output_profile {
	struct output_info info; /* strings owned */
	struct output_table strings, modules, functions, locations, groups;
	struct map nodes;
	struct output_times times;
	size_t string_bytes;
	uint32_t other_location, empty_location;
	struct output_group *other_group; /* takes the stacks of processes for which no group can be made */
	uint64_t n_samples, n_complete, n_merged;
	size_t fold_nodes; /* with this many nodes, or groups, processes are folded */
	uint32_t fold_groups;
	struct buf scratch;	      /* a text while it is made */
	uint32_t *locations_of_stack; /* OUTPUT_MAX_DEPTH of them, leaf first */
};

const char *output_string_text(const struct output_profile *p, uint32_t id);
const struct output_module *output_module_of(const struct output_profile *p, uint32_t id);
const struct output_function *output_function_of(const struct output_profile *p, uint32_t id);
/* Where a function belongs, in a word: its module, source file or language runtime; "" if none is known. */
const char *output_function_origin(const struct output_profile *p, const struct output_function *f);
const struct output_location *output_location_of(const struct output_profile *p, uint32_t id);
const struct output_group *output_group_of(const struct output_profile *p, uint32_t id);
/* Entries of a table: ids run from 1 to this. */
static inline uint32_t output_table_len(const struct output_table *t)
{
	return (uint32_t)t->map.len;
}

/* profile_times.c. `max_cells` must be at least the number of nodes that there can be. */
void output_times_init(struct output_times *t, size_t max_cells);
void output_times_fini(struct output_times *t);
static inline uint64_t output_times_columns(const struct output_times *t)
{
	return t->first <= t->last ? t->last - t->first + 1 : 0;
}
/* Notes when samples of a node were taken, ns since 1970. Without memory, samples are without a time. */
void output_times_add(struct output_profile *p, struct output_node *node, const uint64_t *times, size_t n);
/* Adds the times of `from`, which has none then, to `to`. */
void output_times_move(struct output_profile *p, struct output_node *to, struct output_node *from);

/* profile_tables.c. All return 0, -ENOMEM, or -ENOSPC at the table's maximum; *ret_id on success only. */
void output_table_init(struct output_table *t, size_t max_entries);
void output_table_fini(struct output_table *t);
struct output_entry *output_table_find(const struct output_table *t, uint64_t hash, map_eq_fn eq,
				       const void *key);
/* Takes ownership of `e` on success. */
int output_table_add(struct output_table *t, struct output_entry *e, uint64_t hash);
/* `s` may be NULL: the empty string, id 0. */
int output_intern_string(struct output_profile *p, const char *s, uint32_t *ret_id);
int output_intern_frame(struct output_profile *p, const struct frame *frame, uint32_t *ret_location_id);

#endif
