// SPDX-License-Identifier: Apache-2.0
/* The files that a recording writes. */
#ifndef PROFLET_RECORD_FILES_H
#define PROFLET_RECORD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct config_list;
struct otlp_request;
struct output_profile;
struct output_stack;
struct record_otlp;
struct record_perf;

#define RECORD_STDOUT "-"

/* What to write; `formats` are some of html, folded, pprof, otlp, perf, perf-flat. */
struct record_files {
	const char *path;		   /* without extension; RECORD_STDOUT: standard output */
	const struct config_list *formats; /* empty: all but the last two */
	bool by_container, by_thread;
	FILE *names; /* takes the name of each file that was written; NULL: stdout */
};

/*
 * Whether the format can go where the recording goes: standard output takes one, whose first byte needs not
 * the last, and no terminal. NULL, or why not (static).
 */
const char *record_files_refusal(const struct record_files *files);
/*
 * The format of a path that ends in the extension of one, and the length of the path without it. NULL: it
 * ends in none.
 */
const char *record_files_format(const char *path, size_t *ret_len);

/*
 * Checks before a recording whether its files can be written. 0, or -errno of the file or directory that
 * *ret_failed (owned) names (-EEXIST: it exists and must not be overwritten); -ENOMEM leaves it NULL.
 */
int record_files_check(const struct record_files *files, bool overwrite, char **ret_failed);
/*
 * The OTLP file, which is written while the recording goes on: it may be larger than memory. *ret is NULL
 * when `files` do not want one. 0, or -errno of the file that *ret_failed (owned) names; -ENOMEM leaves it
 * NULL.
 */
int record_otlp_new(struct record_otlp **ret, const struct record_files *files, char **ret_failed);
/* Removes the file unless record_files_write has completed it. NULL is fine. */
void record_otlp_free(struct record_otlp *o);
/* Appends bytes of the request. A file has one: those of another are left out. Errors show at the end. */
void record_otlp_append(struct record_otlp *o, const void *bytes, size_t len);
/* The rest of the request (ownership moves). */
void record_otlp_finish(struct record_otlp *o, struct otlp_request *request);
/* Samples in requests after the first. */
uint64_t record_otlp_left_out(const struct record_otlp *o);
/*
 * The samples of perf.data, which are written to a file without a name beside it while the recording goes on.
 * *ret is NULL when `files` want none. As record_otlp_new.
 */
int record_perf_new(struct record_perf **ret, const struct record_files *files, char **ret_failed);
bool record_perf_wanted(const struct record_files *files);
void record_perf_free(struct record_perf *p); /* NULL is fine */
/* Adds the samples of a stack, which has their times. Errors show at the end. NULL is fine. */
void record_perf_add(struct record_perf *p, const struct output_stack *stack, uint32_t frequency_hz);
/* Frames of which perf will not find the file. */
uint64_t record_perf_unmapped(const struct record_perf *p);

/* What was written while the recording went on; either is NULL where `files` do not want it. */
struct record_growing {
	struct record_otlp *otlp;
	struct record_perf *perf;
};

/*
 * Writes the files, PATH.html and so on, each whole or not at all, and prints the name of each; or the one to
 * standard output. With `otlp`
 * NULL, or without samples, the .otlp file is empty. 0, or the first error: -errno of the file that
 * *ret_failed (owned) names; the others are written all the same.
 */
int record_files_write(const struct record_files *files, const struct output_profile *profile,
		       const struct record_growing *growing, char **ret_failed);

#endif
