// SPDX-License-Identifier: Apache-2.0
/*
 * When which generated code of a process was known to be there. A virtual machine frees code and gives its
 * memory to other code, so the rows that a walk has used may have been those of the code before. A frame of a
 * sample can be trusted if its code had been found, and its rows published, before the sample was taken, and
 * was found to be the same by a look that began after it. Main loop only.
 */
#ifndef PROFLET_UNWIND_CODE_TIMES_H
#define PROFLET_UNWIND_CODE_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_times;

/* A part of the code: process addresses [start, end). Times are CLOCK_MONOTONIC. */
struct code_span {
	uint64_t start, end;
	uint64_t found_ns; /* before the look that has found it began */
	uint64_t same_ns;  /* the same of the last one that has found it unchanged; 0: it is not looked at */
	uint64_t look;	   /* number of the one that has found it: tables made from then on have its rows */
	uint32_t compile_id;
	bool plain; /* a stub for which its callers push nothing (HOTSPOT_CODE_PLAIN_STUB) */
	bool over;  /* it is there no more; it was until same_ns */
};

enum code_state {
	CODE_SAME,   /* the rows were those of the code that was there */
	CODE_UNSEEN, /* that is not known: nobody has looked since, or what was found is not in the arena */
	CODE_OTHER,  /* other code was there, or may have been */
	CODE_OVER,   /* the code was freed before, so that other code was there: it may still be found */
	CODE_UNSURE, /* the code was found later: it was there already, or other code was */
	CODE_GONE,   /* it is known which code it was, but that was gone before anybody has looked at it */
};

/* 0 or -ENOMEM. */
int code_times_new(struct code_times **ret);
void code_times_free(struct code_times *t); /* NULL is fine */
/*
 * Takes what a look knows: spans in ascending order, without overlaps; copied. What was known of others is
 * forgotten. 0; -ENOMEM: then nothing is known.
 */
int code_times_set(struct code_times *t, const struct code_span *spans, size_t n);
/* Whether code was seen to be freed or replaced in one of the last looks. */
bool code_times_changes(const struct code_times *t);
/* Whether the address is in a span. */
bool code_times_has(const struct code_times *t, uint64_t address);
/* Whether it is in one that is plain. */
bool code_times_is_plain(const struct code_times *t, uint64_t address);
/* A look that began then has found no code at an address where samples had met some. */
void code_times_add_empty(struct code_times *t, uint64_t address, uint64_t began_ns);
/* Whether that is so, for a sample taken at that time: no later look will find what it has met. */
bool code_times_is_empty(const struct code_times *t, uint64_t address, uint64_t time_ns);
/* The table made by that look is in the arena: what is published from now on names it. */
void code_times_placed(struct code_times *t, uint64_t look);
/* It was published. */
void code_times_published(struct code_times *t, uint64_t now_ns);
/* Changes with each look, and when the table of one is in the arena. */
uint64_t code_times_looks(const struct code_times *t);
/*
 * Whether a step of a sample taken at that time can be trusted, from a frame at that process address.
 * `published`: it was made with the rows that were published at that time; else with those of the last look.
 * Code that nobody looks at is CODE_SAME, unless other code was there before.
 */
enum code_state code_times_at(const struct code_times *t, uint64_t address, uint64_t time_ns, bool published);
/*
 * The same of a step from code of which the sample says what it was: `code` is the payload of its word
 * with FRAME_TAG_CODE. CODE_SAME: the step is right, unless it was the sample's own frame and was made
 * by its size; then that is for the caller to find out, with the last table. CODE_OTHER; CODE_UNSEEN:
 * the code is to be looked at; CODE_GONE: of a step by the size of the frame.
 */
enum code_state code_times_of(const struct code_times *t, uint64_t address, uint64_t time_ns, uint64_t code);
/*
 * The same of a step made with the rows of the last look, from code of that compilation (frame_code_id()):
 * CODE_SAME, CODE_OTHER, or CODE_UNSEEN: its rows are not in the arena yet.
 */
enum code_state code_times_is(const struct code_times *t, uint64_t address, uint32_t compile_id);

#endif
