// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the state that the analysis has at each instruction with the row of .eh_frame there, and sorts the
 * differences into classes.
 */
#ifndef PROFLET_ANALYSIS_COMPARE_H
#define PROFLET_ANALYSIS_COMPARE_H

#include "agent/elf/code/flow.h"
#include "tests/oracle/analysis/reference.h"

/* What came of comparing one instruction: name, description. */
#define OUTCOMES(X)                                                                                        \
	X(EQUAL, "equal")                                                                                  \
	X(CFA_DIFFERS, "another CFA")                                                                      \
	X(FP_DIFFERS, "another rbp")                                                                       \
	X(FP_BOTH,                                                                                         \
	  "rbp saved or unchanged")	  /* the row says unchanged, the analysis saved: both are right */ \
	X(FP_UNKNOWN, "rbp unknown")	  /* to the analysis: the caller's rbp is lost */                  \
	X(OTHER_BASE, "another base")	  /* of which the analysis knows nothing */                        \
	X(SPECIAL, "outermost or signal") /* frame, by .eh_frame */

enum outcome {
#define X(name, text) name,
	OUTCOMES(X)
#undef X
		N_OUTCOMES
};

/* Where a difference begins, and by what. */
#define CLASSES(X)                                                                               \
	X(LAGS, "lags", "the row does not follow push, pop, add, leave")                         \
	X(PART_AS_FUNCTION, "part_as_function", "a moved part, taken for a function")            \
	X(PART, "part", "a moved part, with another state")                                      \
	X(FUNCTION, "function", "the start of a function, with another state")                   \
	X(INNER_AS_FUNCTION, "inner_as_function", "inside of a function, taken for another one") \
	X(BEHIND_CALL, "behind_call", "behind a call")                                           \
	X(BEHIND_END, "behind_end", "inside of a function, behind what does not continue")       \
	X(STEP, "step", "behind any other instruction")                                          \
	X(JOINED, "joined", "inside of a function, behind an instruction that is not equal or not known")

enum class {
#define X(name, id, text) name,
	CLASSES(X)
#undef X
		N_CLASSES
};

struct class_count {
	uint64_t instructions[2]; /* another CFA, another rbp */
	uint64_t places;	  /* sequences of them */
	uint64_t example;	  /* address */
	struct flow_state state;  /* of the example */
	struct ref_row row;
};

struct comparison {
	const struct reference *reference;
	const struct elf_image *img;
	uint64_t n[N_OUTCOMES];
	uint64_t bytes; /* that both describe */
	uint64_t rules; /* of the analysis: changes of its rule from an instruction to the next */
	struct class_count classes[N_CLASSES];
	unsigned show; /* differences that are still to be printed */
	/* the instruction before */
	uint64_t next; /* behind it */
	uint64_t va;
	enum outcome outcome;
	enum class class;
	const struct ref_row *row;
	struct elf_rule rule;
	struct flow_state state;
	size_t hint;
	uint64_t function; /* the last function in which there was an instruction */
	bool start_seen, start_is_entry;
};

enum outcome compare_state(const struct ref_row *row, const struct flow_state *s);
/* To be called for the instructions in the order of their addresses. */
void compare_instruction(struct comparison *c, uint64_t va, unsigned bytes, const struct flow_state *state);
void compare_print(const char *prefix, uint64_t va, const struct ref_row *row, const struct flow_state *s);

#endif
