// SPDX-License-Identifier: Apache-2.0
/* Compares the rows of one file with what readelf's say they should be. */
#ifndef PROFLET_EQUALITY_COMPARE_H
#define PROFLET_EQUALITY_COMPARE_H

#include "tests/oracle/equality/binary.h"
#include "tests/oracle/equality/layout.h"
#include "tests/oracle/equality/table.h"

/*
 * What is not a difference although it is not equal, or not to be compared. Nothing else is left out.
 * X(name, printed, explanation)
 */
#define COMPARE_COUNTS(X)                                                                                   \
	X(UNDEFINED_FP, "undefined-fp", "rows whose frame pointer readelf shows as u and proflet as undef") \
	X(GO_FP, "go-fp", "rows of Go in .debug_frame: all but the frame pointer is compared")              \
	X(GO_RUNTIME, "go-runtime", "rows of Go's runtime that may differ from .debug_frame")               \
	X(DEBUG_FILE, "debug-file", "rows compared with the .debug_frame of a separate debug file")         \
	X(OVERRIDDEN, "overridden", "rows that proflet replaced because the FDE lies, and said so")         \
	X(SKIPPED, "skipped", "FDEs that proflet gave up, and said so")                                     \
	X(PADDING, "padding", "gaps of less than 16 bytes behind an FDE, to which its last row holds")      \
	X(PLT, "plt", "rows without FDE in a .plt section: from its code")                                  \
	X(GO, "go", "rows without FDE in a program of Go: from its function table")                         \
	X(CODE, "code", "rows without FDE on x86-64: from the instructions, which run_shadow judges")       \
	X(ROOT, "root", "the byte before __start_context, without FDE: outermost")

enum compare_count {
#define X(name, printed, text) COUNT_##name,
	COMPARE_COUNTS(X)
#undef X
		N_COUNTS
};

struct compare_result {
	size_t rows;	    /* of readelf, overlaps resolved, that were compared */
	size_t differing;   /* rows, and rows of proflet where no FDE is */
	size_t without_fde; /* of those that differ */
	size_t counts[N_COUNTS];
};

struct compare_range {
	uint64_t start, end;
};

struct compare_input {
	struct expected *expected;
	const struct table *table;
	const struct binary *binary;
	const struct layout_skip *skips;
	size_t n_skips;
	const struct compare_range *overridden; /* not overlapping */
	size_t n_overridden;
	size_t show; /* differences printed */
};

/* Of one file; more differ: */
#define GO_RUNTIME_ROWS 100

/* 0 or -ENOMEM. Prints differences to standard output. */
int compare_run(const struct compare_input *in, struct compare_result *ret);

#endif
