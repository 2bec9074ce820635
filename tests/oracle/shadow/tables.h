// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the tables that the agent would give to the kernel for one process, with the agent's own modules
 * (proc/, unwind/), and runs the unwinder of bpf/unwind.h on them.
 */
#ifndef PROFLET_TESTS_SHADOW_TABLES_H
#define PROFLET_TESTS_SHADOW_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/names/symtab.h"
#include "tests/oracle/shadow/tracee.h"

struct tables;

/* One frame unwound. */
struct unwound {
	uint64_t frame; /* file index << 48 | ELF virtual address, as in a sample; of no file: the address */
	uint64_t rule;	/* bits of the struct unwind_rule that was used */
	int ending;	/* enum unwind_ending, or -1: stepped to the caller below */
	int reason;	/* why it was stepped by frame pointer, where it was: enum unwind_ending */
	uint64_t ra, sp, fp; /* registers of the caller */
};

/* `corrupt`: the name of a module whose most used rules get a wrong CFA offset; NULL. */
int tables_new(struct tables **ret, const struct tracee *tracee, const char *corrupt);
void tables_free(struct tables *t);
/* Reads the process's mappings and makes the tables that are missing. 0 or -errno. */
int tables_refresh(struct tables *t);
/* True when the range overlaps an executable mapping. */
bool tables_covers(const struct tables *t, uint64_t start, uint64_t len);
/* True when the address is in a mapped file. */
bool tables_is_file(const struct tables *t, uint64_t address);

/*
 * True when the tables are right, as far as this shows without reading the stack: the rule is a plain one,
 * its CFA is `sp`, and the frame pointer is unchanged, or saved at `fp_slot`, which was read and right
 * before.
 */
bool tables_agree(struct tables *t, const struct user_regs_struct *regs, uint64_t sp, uint64_t fp,
		  uint64_t fp_slot);
/*
 * Where the frame pointer of this frame is saved according to the rule; 0: not on the stack at a distance
 * from the CFA.
 */
uint64_t tables_fp_slot(const struct unwound *u);

/* Unwinds the frame of the tracee's present registers. */
void tables_unwind(struct tables *t, const struct user_regs_struct *regs, struct unwound *ret);
/* How often tables_unwind was called in code that is in no file. */
uint64_t tables_in_code(const struct tables *t);
/* Unwinds the next frame, after one that was stepped. */
void tables_unwind_on(struct tables *t, struct unwound *ret);

/* Reads memory of the process. False unless all of it could be read. */
bool tables_read(const struct tables *t, uint64_t address, void *to, uint32_t len);

/* Where code is, for what is counted apart. */
enum tables_place { PLACE_FILES, PLACE_PART, PLACE_NO_FILE, PLACES };

/* ELF addresses [low, high) of the program's own file are counted apart; 0, 0: none. */
void tables_set_part(struct tables *t, uint64_t low, uint64_t high);
enum tables_place tables_place(const struct tables *t, uint64_t frame);
/* The frame of an instruction that tables_agree() was right about. */
uint64_t tables_frame(const struct tables *t, uint64_t ip);

/* Build id of a module, borrowed; NULL: none. */
const char *tables_build_id(const struct tables *t, uint64_t frame);
/* Name of a module by frame, borrowed; NULL: none. */
const char *tables_module(const struct tables *t, uint64_t frame);
/* The function, as elf_symtab_resolve; the name is to be freed. -ENOENT: in no file; else -errno. */
int tables_symbol(const struct tables *t, uint64_t frame, struct elf_symbol *ret);

#endif
