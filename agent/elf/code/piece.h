// SPDX-License-Identifier: Apache-2.0
/* A piece of code without call-frame information, as it is analysed. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_PIECE_H
#define PROFLET_ELF_PIECE_H

#include <stdbool.h>
#include <stdint.h>

struct code_starts;
struct elf_image;
struct flow_state;

/* For tests: receives each instruction that was followed, with the state before it. */
struct code_observer {
	void (*instruction)(uint64_t va, unsigned bytes, const struct flow_state *state, void *data);
	void *data;
};

/* All borrowed. */
struct code_piece {
	uint64_t va;
	const uint8_t *code;
	uint32_t n;
	uint64_t before, behind; /* bytes of code before and behind it that are analysed as other pieces */
	const struct elf_image *img;	   /* for what lies elsewhere in the file; NULL: that is not known */
	const struct code_starts *starts;  /* what is known of functions; NULL: nothing */
	const struct code_starts *symbols; /* of a gap: functions by their symbols; or NULL */
	const struct code_observer *observer; /* or NULL */
	uint64_t
		until_ns; /* of this thread's CPU clock: what is not known by then has no rows; 0: no limit */
	/*
	 * Compilers at run time move the stack pointer by numbers that only they know, to drop arguments:
	 * where the CFA is lost, a path ends without contradiction.
	 */
	bool generated;
	/* Of these, one function, which begins with the piece: where it is not followed, no other begins. */
	bool single;
};

#endif
