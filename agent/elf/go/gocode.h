// SPDX-License-Identifier: Apache-2.0
/*
 * What the code of Go functions tells beside their table: where a prologue saves the caller's frame pointer,
 * where a function leaves its stack, and from what address on the table's offsets count. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_GOCODE_H
#define PROFLET_ELF_GOCODE_H

#include "agent/elf/go/gopclntab.h"

#define GOCODE_WINDOW 4096 /* bytes */

/* Reads code in windows; zeroed but for img. */
struct gocode {
	const struct elf_image *img; /* borrowed */
	uint64_t va;		     /* of the window */
	size_t len;
	uint8_t window[GOCODE_WINDOW];
};

/* How the frame pointer is saved. */
enum go_prologue {
	GO_PROLOGUE_NONE, /* by no sequence that the Go tools write */
	GO_PROLOGUE_PUSH, /* push %rbp; mov %rsp,%rbp (from 1.21) */
	GO_PROLOGUE_SUB,  /* sub $n,%rsp; mov %rbp,n-8(%rsp); lea n-8(%rsp),%rbp (before) */
	GO_PROLOGUE_STR,  /* str x30,[sp,#-n]!; stur x29,[sp,#-8]; sub x29,sp,#8; or, in a large frame,
			     the like that ends with mov sp,x20; sub x29,sp,#8 */
};

/* Where a prologue's work is done. */
struct go_frame {
	uint64_t saved; /* from here on the caller's frame pointer is in the frame */
	uint64_t set;	/* from here on the frame pointer points at it */
};

/* `len` bytes of code, at most GOCODE_WINDOW, zeros behind the segment's end; NULL where the file has none.
 * Borrowed until the next call. */
const uint8_t *gocode_at(struct gocode *code, uint64_t va, size_t len);
/* The prologue of which the instruction before `va` took the stack pointer `depth` bytes down. */
enum go_prologue gocode_prologue(struct gocode *code, uint64_t va, int32_t depth);
struct go_frame gocode_frame(enum go_prologue prologue, uint64_t va, int32_t depth);
/* First address in [va, end) behind an instruction that replaces the stack pointer, or `end`. */
uint64_t gocode_stack_switch(struct gocode *code, uint64_t va, uint64_t end);
/*
 * Sets t->text and tells which prologue the compiler wrote (GO_PROLOGUE_NONE: not known). Where the header is
 * silent (from Go 1.26, or relocated), it is the place where functions have prologues where the table says
 * so. 0, -ENOENT, -ENOMEM.
 */
int gocode_find_text(struct gopclntab *t, enum go_prologue *ret);

#endif
