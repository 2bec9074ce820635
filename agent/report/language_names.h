// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers and names for frames of language runtimes, whose code objects agent/runtime/code_names.h knows.
 * Only names.c uses it. Main loop only.
 *
 * Within a window, frames in equal functions at equal lines have equal numbers, in whatever process they ran
 * (FRAME_TAG_LANGUAGE). The texts are copied, since those of code_names live until the next report about a
 * code object only. Memory is bounded: frames for which there is no room have no name.
 */
#ifndef PROFLET_REPORT_LANGUAGE_NAMES_H
#define PROFLET_REPORT_LANGUAGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_names;
struct frame;
struct language_names;
struct stack_frame;

/* `code` is borrowed; NULL: no frame has a name. 0 or -ENOMEM. */
int language_names_new(struct language_names **ret, struct code_names *code);
void language_names_free(struct language_names *n); /* NULL is fine */
/* Begins the next window: all numbers become invalid. */
void language_names_clear(struct language_names *n);
/* The number of a frame (STACK_FRAME_RUNTIME). Frames of a runtime without a name share one. */
uint64_t language_names_number(struct language_names *n, const struct stack_frame *f);
/*
 * Writes the frame of such a number; its strings are borrowed until language_names_clear. False for any other
 * number; *ret is then not written.
 */
bool language_names_frame(const struct language_names *n, uint64_t number, struct frame *ret);
/* How many frames had no name, counted once in each window. */
uint64_t language_names_unknown(const struct language_names *n);
size_t language_names_bytes(const struct language_names *n);

#endif
