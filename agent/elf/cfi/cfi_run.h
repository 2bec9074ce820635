// SPDX-License-Identifier: Apache-2.0
/*
 * One instruction stream while it is interpreted, shared by cfi.c (the way through it, the rows) and
 * cfi_step.c (what each instruction does). Rank 1, private to these two.
 */
#ifndef PROFLET_ELF_CFI_RUN_H
#define PROFLET_ELF_CFI_RUN_H

#include "agent/elf/cfi/cfi.h"

struct cfi_run {
	struct cfi_output *out;
	const struct cfi_section *section;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* NULL while the CIE itself runs */
	struct cursor c;
	struct cfi_state state;
	size_t depth;	     /* of out->states */
	uint64_t start, loc; /* addresses */
	uint64_t end;
	uint8_t fp, sp;
	uint64_t followed;  /* bit n: register n is the frame pointer, the stack pointer or the return address
			     */
	bool touched;	    /* since the last row */
	uint32_t last_rule; /* of the last row; CFI_NO_ROW before the first */
	const char *error;
	int fatal;
};

#define CFI_NO_ROW UINT32_MAX

/* Errors of the program, and those that end everything. Both move the cursor to the end. */
static inline void cfi_fail(struct cfi_run *run, const char *error)
{
	if (!run->error)
		run->error = error;
	run->c.pos = run->c.end;
}

static inline void cfi_set_fatal(struct cfi_run *run, int error)
{
	run->fatal = error;
	run->c.pos = run->c.end;
}

/* Something in the rule other than the offset of a CFA that is a register and an offset was changed. */
static inline void cfi_touch(struct cfi_run *run)
{
	run->state.family = NULL;
	run->touched = true;
}

/* The location moves; what held up to here becomes a row. */
void cfi_advance_to(struct cfi_run *run, uint64_t loc);
void cfi_advance_by(struct cfi_run *run, uint64_t delta); /* in units of the CIE's code alignment factor */
/* Carries out an instruction whose opcode has been taken from the cursor. */
void cfi_step(struct cfi_run *run, uint8_t op);

#endif
