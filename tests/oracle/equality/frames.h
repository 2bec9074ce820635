// SPDX-License-Identifier: Apache-2.0
/* The call-frame information of a file as readelf prints it: FDEs with their rows. */
#ifndef PROFLET_EQUALITY_FRAMES_H
#define PROFLET_EQUALITY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/oracle/equality/lines.h"
#include "tests/oracle/equality/texts.h"

/*
 * If several kinds cover an address, the first in this order applies. DEBUG_FILE: the .debug_frame of a
 * separate debug file.
 */
enum section_kind { EH_FRAME, DEBUG_FRAME, DEBUG_FILE };

/* The head of the columns ("CFA rbx ra") and the text of a row ("rsp+8 u c-8"). Many rows share one. */
struct frames_text {
	const char *columns, *row; /* borrowed from the texts */
	bool expression;	   /* a column is "exp" or "vexp": the expression is in the raw dump only */
	int64_t rule[2];	   /* index of the expected rule, without and with S; -1: not made yet */
};

struct frames_row {
	uint64_t va;
	uint32_t text; /* index */
};

/* A CIE has no range; its first row applies in FDEs without rows. */
struct frames_entry {
	uint64_t start, end; /* ELF virtual addresses */
	uint64_t offset;     /* in its section */
	uint64_t cie_offset;
	size_t cie;		    /* index; SIZE_MAX where there is none */
	size_t first, n;	    /* rows */
	size_t first_step, n_steps; /* expressions.h */
	uint32_t section;	    /* index */
	bool signal;		    /* CIE: its augmentation has an S */
	bool expression;	    /* a row has one */
};

struct frames_section {
	enum section_kind kind;
	size_t first_cie, n_cies;
};

struct frames {
	const char *path;    /* borrowed; sections from another file are those of the debug file */
	struct texts *texts; /* borrowed */
	struct texts keys;   /* "columns\nrow" */
	struct frames_text *list;
	size_t list_cap;
	struct frames_entry *cies, *fdes;
	size_t n_cies, cies_cap, n_fdes, fdes_cap;
	struct frames_row *rows;
	size_t n_rows, rows_cap;
	struct frames_section *sections;
	size_t n_sections, sections_cap;
	bool expression;   /* an FDE has an expression */
	bool no_bytes;	   /* a section has no bytes, which makes readelf fail */
	char unknown[128]; /* after -EINVAL: the line that was not understood */
};

/*
 * Reads the output of readelf --debug-dump=frames-interp. 0; -ENOMEM; -EINVAL: an unknown line. Call
 * frames_fini() in both cases.
 */
int frames_read(struct frames *f, const char *path, struct texts *texts, struct lines *from);
void frames_fini(struct frames *f);

/* --- the lines that both dumps have */

/*
 * Parses "Contents of the .eh_frame section (loaded from FILE):", where FILE is `path`, another file, or
 * missing. 1 and the kind; 0: another line or section.
 */
int frames_section_line(const char *line, const char *path, enum section_kind *ret);

struct frames_line {
	bool is_cie;
	uint64_t offset, cie_offset, start, end;
	bool signal;
};

/* Parses the first line of a CIE or FDE. 1; 0 for any other line. The raw dump does not show S there. */
int frames_entry_line(const char *line, struct frames_line *ret);

#endif
