// SPDX-License-Identifier: Apache-2.0
/* Expressions, which readelf's interpreted dump does not show, from its raw dump. */
#ifndef PROFLET_EQUALITY_EXPRESSIONS_H
#define PROFLET_EQUALITY_EXPRESSIONS_H

#include "tests/oracle/equality/frames.h"

enum column { COLUMN_CFA, COLUMN_FP, COLUMN_SP, COLUMN_RA, N_COLUMNS };

/* The column that a register's name stands for, -1 for a register that is not compared. */
int column_of(const char *name);

/* Each column's expression in the words of `proflet tables`, from the texts; NULL where it had none. */
struct expression_state {
	const char *text[N_COLUMNS];
};

struct expression_step {
	uint64_t va; /* from here on */
	struct expression_state state;
};

struct expressions {
	struct expression_step *steps; /* owned */
	size_t n, cap;
};

/* Reads the output of readelf --debug-dump=frames as far as an FDE of `f` needs it, and notes in those FDEs
 * where their steps lie. 0; -ENOMEM; -EINVAL: not the entries of `f`. expressions_fini() in both cases. */
int expressions_read(struct expressions *x, struct frames *f, struct lines *from);
void expressions_fini(struct expressions *x);
/* What holds at `va` in the FDE. */
const struct expression_state *expressions_at(const struct expressions *x, const struct frames_entry *fde,
					      uint64_t va);
/* "DW_OP_breg7 (rsp): 8; DW_OP_deref" → "*(rsp+8)", "unsupported" outside the shapes of rule.h. From `texts`,
 * NULL when memory is short. */
const char *expressions_text(struct texts *texts, const char *ops);

#endif
