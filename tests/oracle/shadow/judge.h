// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the result of the tables with the shadow stack, counts, and records wrong or uncovered steps by
 * their place in the code.
 *
 * A step that differs is not wrong yet. It is in dispute until its frame ends, and the return from it
 * decides: return addresses may be rewritten on the stack; the rows of longjmp describe its target; before
 * libgcc's unwinder jumps to a handler, it overwrites its saved registers with those of the handler. Assembly
 * may call functions of its own that do not preserve rbp, or not where the rows say; this does not matter if
 * the caller restores rbp from its own frame. V8's functions remove their arguments when they return, and its
 * adaptors move the return address: the stack pointer is then higher than a row can express.
 */
#ifndef PROFLET_TESTS_SHADOW_JUDGE_H
#define PROFLET_TESTS_SHADOW_JUDGE_H

#include <stdio.h>

#include "agent/base/map.h"
#include "tests/oracle/shadow/shadow.h"
#include "tests/oracle/shadow/tables.h"

/*
 * The verdicts on a step: X(name, text, covered). "covered": a row was there and was used. Without a row, the
 * frame pointer is used.
 */
#define JUDGE_VERDICTS(X)                                                   \
	X(RIGHT, "right", 1)                                                \
	X(RIGHT_LATER, "right by the return itself", 1)                     \
	X(FP_LOST, "right, but for a frame pointer that no frame needs", 1) \
	X(SP_LOST, "right, but for a stack pointer that no frame needs", 1) \
	X(POPPED, "right, but for arguments that the callee removes", 1)    \
	X(OVERWRITTEN, "frame overwritten by its function (eh_return)", 1)  \
	X(SWITCHES, "root in code that leaves its stack, by name", 1)       \
	X(WRONG, "wrong", 1)                                                \
	X(UNKNOWN, "not judged: frame from before the watch", 0)            \
	X(FORGOTTEN, "not judged: stack never returned to", 0)              \
	X(UNSUPPORTED, "unsupported rule", 0)                               \
	X(NO_MAPPING, "no mapping", 0)                                      \
	X(NO_TABLE, "no table, no frame pointer", 0)                        \
	X(NO_TABLE_FP, "no table, frame pointer right", 0)                  \
	X(NO_TABLE_FP_WRONG, "no table, frame pointer wrong", 0)            \
	X(NO_ROW, "no row, no frame pointer", 0)                            \
	X(NO_ROW_FP, "no row, frame pointer right", 0)                      \
	X(NO_ROW_FP_WRONG, "no row, frame pointer wrong", 0)

enum verdict {
#define X(name, text, covered) VERDICT_##name,
	JUDGE_VERDICTS(X)
#undef X
		VERDICTS
};

extern const char *const verdict_texts[VERDICTS];

/* The registers of the caller, by the shadow stack. */
struct truth {
	uint64_t ra, sp, fp;
};

/*
 * What rule would have been right: the CFA as an offset from rsp, the same in every wrong step, and where the
 * caller's frame pointer may be saved, as it was found in all of them.
 */
#define NEED_WORDS 63 /* below the return address that are searched */
#define NEED_FP_SAME (1ull << NEED_WORDS)

struct need {
	int64_t cfa;  /* 0: not the same in all */
	uint64_t fps; /* bit i: at CFA - 16 - 8 i; NEED_FP_SAME: in rbp */
};

/* An address in the code with wrong or uncovered steps. */
struct spot {
	struct map_node node;
	uint64_t frame;
	uint64_t rule; /* of its first wrong step, else of its first step */
	uint64_t n[VERDICTS];
	uint64_t walks_wrong;	      /* walks that went wrong when they came here */
	struct unwound got;	      /* by the first wrong step */
	struct truth truth;	      /* and what it should have been */
	struct user_regs_struct regs; /* innermost registers then */
	struct need need;
};

struct dispute {
	uint64_t id; /* of the shadow frame */
	struct spot *spot;
	struct unwound got;
	struct truth truth;
	struct user_regs_struct regs;
	struct need need;
	uint64_t n; /* steps alike */
	enum verdict if_right, if_wrong;
	bool overwritten; /* no more than the words on the stack differ */
};

/* Of whole stacks: how far the walk agreed with the shadow stack. */
struct walk_counts {
	uint64_t walks, frames;
	uint64_t complete; /* to the program's first frame, and ended as root there */
	uint64_t partial;  /* to the last frame that the shadow stack knows */
	uint64_t ended;	   /* earlier: no row, unsupported rule, a frame overwritten … */
	uint64_t wrong;
};

struct judge {
	uint64_t n[VERDICTS];
	uint64_t by[PLACES][VERDICTS];
	uint64_t n_by_rule;	     /* right steps judged without reading the stack */
	const struct tables *tables; /* borrowed; set by the caller */
	struct map spots;	     /* struct spot, owned */
	struct dispute *disputes;    /* owned */
	size_t n_disputes, cap_disputes;
	struct walk_counts walk;
};

void judge_init(struct judge *j);
void judge_fini(struct judge *j);
/* Judges one step. 0 or -ENOMEM. */
int judge_step(struct judge *j, struct shadow *s, struct tables *t, const struct user_regs_struct *regs,
	       const struct unwound *got);
/* Counts one step at that address that tables_agree found right. */
void judge_agreed(struct judge *j, const struct tables *t, uint64_t ip);
/* Judges a whole stack; `got` is its first step. */
int judge_walk(struct judge *j, const struct shadow *s, struct tables *t, struct unwound got,
	       const struct user_regs_struct *regs);
/* A shadow_end_fn with the judge as data. */
void judge_frame_end(const struct shadow_frame *f, enum shadow_end how, const struct user_regs_struct *to,
		     void *data);
/*
 * Steps still in dispute are wrong: their functions do not return. Then excuses the functions that have no
 * caller and are known by name (exclude.h).
 */
void judge_finish(struct judge *j, const struct tables *t);
/* Number of steps with any verdict, and of those that count as covered. */
uint64_t judge_total(const struct judge *j);
uint64_t judge_covered(const struct judge *j);

#endif
