// SPDX-License-Identifier: Apache-2.0
/*
 * Derives from the code of Go functions what their table does not say: where a prologue saves the caller's
 * frame pointer, where a function switches to another stack, and the start of the text from which offsets in
 * the table count. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_GOCODE_H
#define PROFLET_ELF_GOCODE_H

#include "agent/elf/go/gopclntab.h"

#define GOCODE_WINDOW 4096 /* bytes */

/* Reads code through a window. Zero all fields but img. */
struct gocode {
	const struct elf_image *img; /* borrowed */
	uint64_t va;		     /* address of the window */
	size_t len;
	uint8_t window[GOCODE_WINDOW];
};

/* The ways to save the frame pointer. */
enum go_prologue {
	GO_PROLOGUE_NONE, /* none that the Go tools write */
	GO_PROLOGUE_PUSH, /* push %rbp; mov %rsp,%rbp (from 1.21) */
	GO_PROLOGUE_SUB,  /* sub $n,%rsp; mov %rbp,n-8(%rsp); lea n-8(%rsp),%rbp (before) */
	GO_PROLOGUE_STR,  /* str x30,[sp,#-n]!; stur x29,[sp,#-8]; sub x29,sp,#8; a large frame ends with mov
			     sp,x20; sub x29,sp,#8 */
};

/* Addresses from which the effects of a prologue are complete. */
struct go_frame {
	uint64_t saved; /* from here on the caller's frame pointer is saved in the frame */
	uint64_t set;	/* from here on the frame pointer points to it */
};

/*
 * Returns `len` bytes of code, at most GOCODE_WINDOW; bytes behind the end of the segment are zero. NULL: the
 * file has no code there. Borrowed until the next call.
 */
const uint8_t *gocode_at(struct gocode *code, uint64_t va, size_t len);
/*
 * The kind of prologue of which the instruction in front of `va` lowered the stack pointer by `depth` bytes
 * in total.
 */
enum go_prologue gocode_prologue(struct gocode *code, uint64_t va, int32_t depth);
struct go_frame gocode_frame(enum go_prologue prologue, uint64_t va, int32_t depth);
/* The first address in [va, end) behind an instruction that replaces the stack pointer, or `end`. */
uint64_t gocode_stack_switch(struct gocode *code, uint64_t va, uint64_t end);
/*
 * Sets t->text and *ret, the prologue that the compiler writes (GO_PROLOGUE_NONE: unknown). If the header
 * does not give the start of the text (from Go 1.26 on, or because it is relocated), searches the address at
 * which functions have prologues where the table says so. 0, -ENOENT, -ENOMEM.
 */
int gocode_find_text(struct gopclntab *t, enum go_prologue *ret);

#endif
