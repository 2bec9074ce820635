// SPDX-License-Identifier: Apache-2.0
/*
 * The inside of a profile, for the writers of this folder. Strings, modules, functions, locations and groups
 * live in tables: equal things are one entry with a dense id from 1; id 0 is "none", for strings "".
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

/* Starts every entry of a table. */
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
	char text[]; /* cleaned, see text.h */
};

struct output_module {
	struct output_entry entry;
	uint32_t path, name, build_id; /* strings */
	uint64_t start, limit, file_offset;
	bool go;
};

/* What two stacks share when a reader would call the frames equal. */
struct output_function {
	struct output_entry entry;
	uint32_t name;	      /* string: the function, else module+0xOFFSET, else 0xADDRESS */
	uint32_t system_name; /* string or 0 */
	uint32_t module;      /* or 0 */
	uint32_t file;	      /* string: its source file, of the location that came first; or 0 */
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
	uint64_t self;	   /* samples that ended here */
};

/* The stacks of one thread name of one process, or of several of the same name. */
struct output_group {
	struct output_entry entry;
	uint32_t process, thread, container, container_name; /* strings */
	uint32_t pid;					     /* 0: of several processes */
	uint32_t n_folded;				     /* how many these are */
	uint64_t n_samples, n_complete;
	struct output_node root;
	struct output_node other; /* child of root: what did not fit */
};

struct output_profile {
	struct output_info info; /* strings owned */
	struct output_table strings, modules, functions, locations, groups;
	struct map nodes;
	size_t string_bytes;
	uint32_t other_location, empty_location;
	struct output_group *other_group; /* takes what no longer finds a group */
	uint64_t n_samples, n_complete, n_merged;
	size_t fold_nodes; /* so many nodes, or groups, make it fold processes */
	uint32_t fold_groups;
	struct buf scratch;	      /* text under construction */
	uint32_t *locations_of_stack; /* OUTPUT_MAX_DEPTH of them, leaf first */
};

const char *output_string_text(const struct output_profile *p, uint32_t id);
const struct output_module *output_module_of(const struct output_profile *p, uint32_t id);
const struct output_function *output_function_of(const struct output_profile *p, uint32_t id);
const struct output_location *output_location_of(const struct output_profile *p, uint32_t id);
const struct output_group *output_group_of(const struct output_profile *p, uint32_t id);
/* Entries of a table: ids run from 1 to this. */
static inline uint32_t output_table_len(const struct output_table *t)
{
	return (uint32_t)t->map.len;
}

/* intern.c. All: 0, -ENOMEM, or -ENOSPC at the table's maximum; *ret_id on success only. */
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
