// SPDX-License-Identifier: Apache-2.0
/* What readelf says of a file's call-frame information: its FDEs, each with rows as readelf prints them. */
#ifndef PROFLET_EQUALITY_FRAMES_H
#define PROFLET_EQUALITY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/oracle/equality/lines.h"
#include "tests/oracle/equality/texts.h"

/* Where several kinds cover an address, the first holds. DEBUG_FILE: the .debug_frame of a separate debug
 * file. */
enum section_kind { EH_FRAME, DEBUG_FRAME, DEBUG_FILE };

/* A head of columns ("CFA rbx ra") and a row's text below it ("rsp+8 u c-8"). Many rows share one. */
struct frames_text {
	const char *columns, *row; /* borrowed from the texts */
	bool expression;	   /* a column says "exp": what is behind it is in the raw dump only */
	int64_t rule[2];	   /* of expected.h, without and with the CIE's S; -1: not made yet */
};

struct frames_row {
	uint64_t va;
	uint32_t text; /* index */
};

/* A CIE has no range; of its rows the first is what holds where an FDE has none. */
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
	const char *path;    /* borrowed; sections that readelf loaded from elsewhere are of the debug file */
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
	bool expression;   /* in an FDE */
	bool no_bytes;	   /* a section has none: readelf says so and fails */
	char unknown[128]; /* after -EINVAL: the line */
};

/* Reads the output of readelf --debug-dump=frames-interp. 0; -ENOMEM; -EINVAL: a line that says something
 * unknown. frames_fini() in both cases. */
int frames_read(struct frames *f, const char *path, struct texts *texts, struct lines *from);
void frames_fini(struct frames *f);

/* --- the lines that both dumps have */

/* "Contents of the .eh_frame section (loaded from FILE):": 1 and its kind, FILE being `path` or another, or
 * not there; 0: another line or section. */
int frames_section_line(const char *line, const char *path, enum section_kind *ret);

struct frames_line {
	bool is_cie;
	uint64_t offset, cie_offset, start, end;
	bool signal;
};

/* The line that begins a CIE or an FDE. 1, or 0 for any other. The raw dump does not say S there. */
int frames_entry_line(const char *line, struct frames_line *ret);

#endif
