// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises functions of V8, x86-64, whose frames cannot be found by following their instructions, and knows
 * their rows. V8 11.3 to 13.6 (Node.js 20, 22, 24). Rank 1, private to elf/.
 *
 * - A function of the baseline compiler (Sparkplug) does not make its frame record itself: the first thing
 *   that it does is to call code that all such functions share, which makes it for them, below its own return
 *   address. Most of them are left by a jump to shared code, too.
 * - A regular expression begins with a jump to the end of its code, where the frame record is made, and goes
 *   on by jumps to addresses that it keeps on a stack of its own.
 */
#ifndef PROFLET_ELF_V8_CODE_H
#define PROFLET_ELF_V8_CODE_H

#include <stdbool.h>
#include <stdint.h>

#define V8_CODE_ALIGN 16u  /* of functions, at least */
#define V8_CODE_BUDGET 16u /* bytes that the search may decode, for each byte of code */

/* Code in which functions are looked for. */
struct v8_code {
	uint64_t va;	     /* address of the first byte */
	const uint8_t *code; /* borrowed */
	uint32_t n;
	uint64_t budget; /* bytes that the search may still decode: at first n * V8_CODE_BUDGET */
};

/* Offsets. */
struct v8_function {
	uint32_t start;
	uint32_t frame;	 /* from here on rbp points to the frame record, but for what is around `record` */
	uint32_t record; /* where a regular expression makes it: push rbp; mov rbp, rsp; else 0 */
};

/* Where the frame of the caller is. */
enum v8_frame {
	V8_FRAME_NONE,	 /* rsp + 8 */
	V8_FRAME_PUSHED, /* rsp + 16, and its rbp is saved there */
	V8_FRAME_RECORD, /* rbp + 16, the same */
};

/* Finds the first such function that begins at the offset `from` or behind it. False: there is none. */
bool v8_code_find(struct v8_code *c, uint32_t from, struct v8_function *ret);
/*
 * Follows the function up to where it certainly ends, or where its frame is not known any more: *ret_end.
 * Calls `row` for each offset from which on the frame is another, ascending. 0, or what `row` returned if
 * that is negative.
 */
int v8_code_rows(const struct v8_code *c, const struct v8_function *f,
		 int (*row)(uint32_t off, enum v8_frame frame, void *data), void *data, uint32_t *ret_end);

#endif
