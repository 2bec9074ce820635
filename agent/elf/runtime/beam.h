// SPDX-License-Identifier: Apache-2.0
/*
 * BEAM, Erlang's virtual machine with its JIT, in an ELF file (beam.smp). Its functions are found by tables
 * in the process's memory (beam_code.h). Most builds of the releases 25 to 27 export the variables that lead
 * to them; of others, which are recognised by what drivers import and by a text, only the range of their
 * variables is known, and tables are found by their shape. Rank 1, pure.
 */
#ifndef PROFLET_ELF_BEAM_H
#define PROFLET_ELF_BEAM_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define BEAM_RELEASE_MIN 25u
#define BEAM_RELEASE_MAX 29u
#define BEAM_DATA_MAX (16ull << 20) /* bytes of variables in which a table is looked for */

enum beam_known {
	BEAM_UNKNOWN,
	BEAM_EXPORTED, /* all of struct beam_facts is filled in */
	BEAM_SHAPE,    /* of the variables, only their range */
};

/* Addresses are ELF virtual addresses. */
struct beam_facts {
	uint32_t release;      /* of OTP: 25; 0: no BEAM with a JIT in the file */
	uint32_t known;	       /* enum beam_known */
	uint64_t code_index;   /* u32: which of the three tables of modules is in use */
	uint64_t atom_table;   /* its IndexTable */
	uint64_t normal_exit;  /* pointer to the code that the outermost function of a process returns to */
	uint64_t frame_layout; /* u32: 1: frames have records */
	uint64_t data_start,
		data_end; /* variables that begin as zeros; the tables of modules are among them */
};

/* 0; -ENOENT: the file is no BEAM with a JIT; -ENOMEM. On failure, *ret is zeroed. */
int beam_facts_read(struct beam_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as beam_facts_read gives. */
bool beam_facts_valid(const struct beam_facts *f);

#endif
