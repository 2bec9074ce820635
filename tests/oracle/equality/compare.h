// SPDX-License-Identifier: Apache-2.0
/* Compares the rows of one file with those that follow from readelf's output. */
#ifndef PROFLET_EQUALITY_COMPARE_H
#define PROFLET_EQUALITY_COMPARE_H

#include "tests/oracle/equality/binary.h"
#include "tests/oracle/equality/layout.h"
#include "tests/oracle/equality/table.h"

/*
 * Rows that differ for a known reason, or that cannot be compared. Nothing else is excluded. X(name, printed,
 * explanation)
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
	X(CODE, "code", "rows without FDE: from the instructions, which other oracles judge")               \
	X(ROOT, "root", "the byte before __start_context, without FDE: outermost")

enum compare_count {
#define X(name, printed, text) COUNT_##name,
	COMPARE_COUNTS(X)
#undef X
		N_COUNTS
};

struct compare_result {
	size_t rows;	    /* rows of readelf that were compared, with overlaps resolved */
	size_t differing;   /* differing rows, and rows of proflet where there is no FDE */
	size_t without_fde; /* of these, rows without FDE */
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
	size_t show; /* number of differences to print */
};

/* Of one file; more differ: */
#define GO_RUNTIME_ROWS 100

/* 0 or -ENOMEM. Prints differences to standard output. */
int compare_run(const struct compare_input *in, struct compare_result *ret);

#endif
