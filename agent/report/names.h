// SPDX-License-Identifier: Apache-2.0
/*
 * Names of the functions in a window's stacks. They come in two steps: when a window closes, what its stacks
 * need and the caches do not have is requested, one job for each binary; when the jobs are back the frames
 * can be read. Private to agent/report. Main loop only.
 *
 * A frame is asked for by its number (agent/sample/frames.h): equal numbers are equal frames within a window.
 */
#ifndef PROFLET_REPORT_NAMES_H
#define PROFLET_REPORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sample/aggregate.h"

struct binary_registry;
struct frame;
struct names;
struct process;
struct unwind_tables;
struct worker;

struct names_options {
	struct binary_registry *binaries;
	const struct unwind_tables *tables; /* NULL: none is being built */
	struct worker *worker;
	bool kernel, native;  /* which functions get names */
	bool source_lines;    /* and inlined calls; symbol_dwarf_load has been called */
	const char *kallsyms; /* NULL: /proc/kallsyms */
};

/* The most frames of one stack: those of kernel and user, and the reason of an early end. */
#define NAMES_FRAMES_MAX (KERNEL_FRAMES_MAX + USER_FRAMES_MAX + 1u)

/* Everything in `options` is borrowed. 0 or -errno. */
int names_new(struct names **ret, const struct names_options *options);
/* All jobs must be done: free the workers first. NULL is fine. */
void names_free(struct names *n);
/* Requests what every window needs. */
void names_prepare(struct names *n);
/* A sample goes into the open window: the sources of its names may be gone when that closes. */
void names_note(struct names *n, struct process *p, const struct sample_view *v);
/* Requests what the stacks of a window that began at since_ns need and the caches do not have. The entries'
 * owners are images. */
void names_request(struct names *n, const struct sample_aggregate *samples, uint64_t since_ns);
/* Requests what had to wait for the separate debug file of a binary. After worker_collect. */
void names_progress(struct names *n);
/* Whether nothing that was requested is outstanding. */
bool names_complete(const struct names *n);
/*
 * The entry's stack as numbers, leaf first, the reason of an early end last; at most NAMES_FRAMES_MAX.
 * Returns how many. *ret_own: some mean something in the entry's process alone. Good until the next
 * names_note or names_request.
 */
size_t names_numbers(struct names *n, const struct sample_entry *e, uint64_t *ret, bool *ret_own);
/* What a number means; an otlp_frame_fn. Borrowed until the next names_request or worker_collect. */
void names_frame(void *names, uint64_t number, struct frame *ret);
/* The entry's stack as frames, inlined calls among them as long as NAMES_FRAMES_MAX is not passed. */
size_t names_frames(struct names *n, const struct sample_entry *e, struct frame *ret);
/* The index is about to stand for another binary. */
void names_forget(struct names *n, uint32_t file);
size_t names_bytes(const struct names *n);
/* Addresses whose source lines are missing because there was no time to read them. */
uint64_t names_lines_left(const struct names *n);

#endif
