// SPDX-License-Identifier: Apache-2.0
/* Reads expressions from readelf's raw dump, since its interpreted dump does not show them. */
#ifndef PROFLET_EQUALITY_EXPRESSIONS_H
#define PROFLET_EQUALITY_EXPRESSIONS_H

#include "tests/oracle/equality/frames.h"

enum column { COLUMN_CFA, COLUMN_FP, COLUMN_SP, COLUMN_RA, N_COLUMNS };

/* The column of a register by its name; -1 for a register that is not compared. */
int column_of(const char *name);

/* The expression of each column in the form of `proflet tables`, from the texts; NULL where there is none. */
struct expression_state {
	const char *text[N_COLUMNS];
};

struct expression_step {
	uint64_t va; /* first address */
	struct expression_state state;
};

struct expressions {
	struct expression_step *steps; /* owned */
	size_t n, cap;
};

/*
 * Reads the output of readelf --debug-dump=frames up to the last FDE of `f` that needs it, and stores in
 * those FDEs the indices of their steps. 0; -ENOMEM; -EINVAL: these are not the entries of `f`. Call
 * expressions_fini() in both cases.
 */
int expressions_read(struct expressions *x, struct frames *f, struct lines *from);
void expressions_fini(struct expressions *x);
/* The expressions at `va` in the FDE. */
const struct expression_state *expressions_at(const struct expressions *x, const struct frames_entry *fde,
					      uint64_t va);
/*
 * Turns "DW_OP_breg7 (rsp): 8; DW_OP_deref" into "*(rsp+8)", or "unsupported" if it has none of the forms of
 * rule.h. From `texts`; NULL without memory.
 */
const char *expressions_text(struct texts *texts, const char *ops);

#endif
