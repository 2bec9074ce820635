// SPDX-License-Identifier: Apache-2.0
/*
 * Names of the functions in a window's stacks, in two steps. When a window closes, names_request gives the
 * workers one job for each binary that has frames whose names are not in the caches. When the jobs are done
 * (names_complete), names_frame and names_frames give each frame with its name. Private to agent/report. Main
 * loop only.
 *
 * Frames are identified by numbers (agent/sample/frames.h): within a window, equal numbers are equal frames.
 */
#ifndef PROFLET_REPORT_NAMES_H
#define PROFLET_REPORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sample/aggregate.h"

struct binary_registry;
struct code_names;
struct frame;
struct names;
struct process;
struct symbol_jit_code;
struct symbol_jit_stats;
struct unwind_tables;
struct worker;

struct names_options {
	struct binary_registry *binaries;
	struct unwind_tables *tables; /* NULL: no unwind tables are built */
	struct worker *worker;
	struct worker *lists;	 /* for lists of generated code, which may take long; NULL: `worker` */
	bool kernel, native;	 /* whether kernel functions, and those of processes, get names */
	bool source_lines;	 /* also file, line and inlined calls; symbol_dwarf_load has been called */
	const char *kallsyms;	 /* NULL: /proc/kallsyms */
	struct code_names *code; /* functions of language runtimes; NULL: none are known */
};

/* Maximum frames of one stack: of the kernel, native, of a language runtime, and one for an early end. */
#define NAMES_FRAMES_MAX (KERNEL_FRAMES_MAX + USER_FRAMES_MAX + RUNTIME_FRAMES_MAX + 1u)

/* Everything in `options` is borrowed. 0 or -errno. */
int names_new(struct names **ret, const struct names_options *options);
/* All jobs must have been done before: free the workers first. NULL is fine. */
void names_free(struct names *n);
/* Lists of generated code are no longer read: call it before the workers are freed. NULL is fine. */
void names_stop(struct names *n);
/* Call at the start: reads the kernel's symbols ahead, since every window needs them. */
void names_prepare(struct names *n);
/*
 * Call for each sample that is added to the open window. Names of generated code are requested at once, since
 * their sources may be gone when the window closes.
 */
void names_note(struct names *n, struct process *p, const struct sample_view *v);
/* As report_code_at. */
int names_code(struct names *n, struct process *p, uint64_t address, uint64_t since_ns,
	       struct symbol_jit_code *ret);
/*
 * Requests the names that the stacks of a closed window need and the caches do not have. The window began at
 * `since_ns`. The entries' owners are images (struct proc_image).
 */
void names_request(struct names *n, const struct sample_aggregate *samples, uint64_t since_ns);
/* Requests names that had to wait for a binary's separate debug file. Call after worker_collect. */
void names_progress(struct names *n);
/*
 * How the unwind of the entry's stack ended, with its detail. A stack is cut at the first frame of a file
 * that may have had other content when it was walked.
 */
enum unwind_ending names_ending(struct names *n, const struct sample_entry *e, uint32_t *ret_detail);
/* Whether all requests have been answered, or given up. */
bool names_complete(const struct names *n);
/*
 * Writes the numbers of the entry's frames, leaf first, the reason of an early end last, and returns how many
 * there are: at most NAMES_FRAMES_MAX. *ret_own: some of them are numbers of the entry's process alone, so
 * that an equal stack of another process has other numbers. Valid until the next names_note or names_request.
 */
size_t names_numbers(struct names *n, const struct sample_entry *e, uint64_t *ret, bool *ret_own);
/*
 * Writes the frame that a number stands for, with its name if that is known. Its strings are borrowed until
 * the next names_request or worker_collect. Has the type otlp_frame_fn.
 */
void names_frame(void *names, uint64_t number, struct frame *ret);
/*
 * Writes the entry's stack as frames and returns how many there are. Inlined calls are frames of their own,
 * as long as there is room: at most NAMES_FRAMES_MAX.
 */
size_t names_frames(struct names *n, const struct sample_entry *e, struct frame *ret);
/* Drops the names of a binary, before its index is given to another one. */
void names_forget(struct names *n, uint32_t file);
size_t names_bytes(const struct names *n);
/* Of code that processes generate. */
void names_jit_stats(const struct names *n, struct symbol_jit_stats *ret);
/* Number of addresses without a name because their file has got other content. */
uint64_t names_changed(const struct names *n);
/* Number of frames of language runtimes without a name, since nothing is known about their code object. */
uint64_t names_unknown_code(const struct names *n);
/* Number of addresses whose source lines have not been read. */
uint64_t names_lines_left(const struct names *n);

#endif
