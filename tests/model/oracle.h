// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the arena's memory as the BPF program does, process table → lists → tables, and says what is wrong
 * with it. What must hold after each step:
 *
 * - the arena's account covers every byte once, and its sums are right: used + retired + free = total;
 * - every slot, every list and every table that can be reached is a block in use, of the right owner, with
 *   the generation that its name says; a table holds the bytes of the binary that its entry names;
 * - no two blocks that can be reached have the same generation, and a block that is free has lost its own;
 * - what a program may have reached since before the last grace period that ended is still as it was;
 * - a slot's list says what its process maps now, or mapped since its start or execve, and never goes back;
 * - every block in use has one owner: a list is named by a slot, a table belongs to its binary.
 */
#ifndef PROFLET_TESTS_MODEL_ORACLE_H
#define PROFLET_TESTS_MODEL_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/mapping.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/tables.h"

#define PIDS 14u
#define VERSIONS 48u
#define MAPS_MAX 24u

/* What a process mapped at one time. */
struct snapshot {
	uint32_t n;
	struct proc_mapping maps[MAPS_MAX];
	uint64_t serials[MAPS_MAX]; /* of the files */
};

/* What the model tells the oracle about a pid. */
struct known_process {
	uint32_t pid;
	bool published; /* it has a slot */
	uint32_t n_versions;
	struct snapshot versions[VERSIONS]; /* those that the slot may say, oldest first */
	/* since it was published nothing has changed: the slot says just this */
	bool settled;
	bool selected, stack;
	uint32_t tables_change; /* unwind_tables_change() then */
};

struct oracle;

struct oracle *oracle_new(const struct arena *arena, const struct unwind_tables *tables);
void oracle_free(struct oracle *o);
/* A block of the model's own, which nothing names. */
void oracle_add_ballast(struct oracle *o, uint32_t ref);
void oracle_grace_begins(struct oracle *o);
/* Call at once, before anything takes the room. NULL, or what is wrong. */
const char *oracle_grace_ended(struct oracle *o);
/* NULL, or what is wrong. `full`: checks the whole process table, not only where the model's pids belong. */
const char *oracle_check(struct oracle *o, struct known_process *processes, bool full);
/* Whether the list at `ref` says just what the mappings are now. */
bool oracle_list_is(struct oracle *o, uint32_t ref, const struct snapshot *s);
/*
 * Whether evicting tables last used before that time could make `len` contiguous bytes free. Call it after
 * oracle_check.
 */
bool oracle_room_exists(const struct oracle *o, uint32_t len, uint64_t before_ns);

#endif
