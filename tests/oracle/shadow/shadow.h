// SPDX-License-Identifier: Apache-2.0
/*
 * The shadow stack: the stack of calls as the executed instructions make it. A call pushes a frame, a return
 * removes it. No call-frame information is used.
 *
 * Besides calls and returns:
 *
 * - longjmp, exceptions: frames whose return address is below the new stack pointer end ("left").
 *
 * - A return address that is popped into a register (vfork): the frame stays while the stack pointer is just
 * above it.
 *
 * - A return address that is moved down the stack, to make room for arguments, and is then returned to (V8).
 *
 * - Signal handlers: the frame that the kernel makes is a frame of its own, under that of the handler.
 *
 * - Another stack (coroutines, goroutines): the stack pointer is loaded with a distant address. The frames of
 * the   old stack are stored. Those of a stack that was never seen are unknown until calls push some. A
 * return that   fits a stored stack switches back to it. The function that switches stacks continues with the
 * caller that it   had: it is a frame of the new stack, too ("switched"), until it switches back, returns, or
 * jumps away.
 */
#ifndef PROFLET_TESTS_SHADOW_SHADOW_H
#define PROFLET_TESTS_SHADOW_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "tests/oracle/shadow/insn.h"

struct shadow_frame {
	uint64_t id;	     /* never used again */
	uint64_t slot;	     /* address of the return address; of a signal's frame: of the ucontext */
	uint64_t ra, sp, fp; /* registers of the caller after the return */
	bool signal;	     /* the kernel's frame: ra is the interrupted instruction */
	bool popped;	     /* the return address was popped into a register */
	bool switched;	     /* called on another stack; slot: the stack pointer that it then loaded */
	bool unknown;	     /* of a switched one: its caller is not known */
	uint64_t origin;     /* of a switched one: id of its frame on the stack that it was called on */
	bool disputed;	     /* used by the caller of this module */
	uint64_t
		fp_slot; /* also the caller's: where the saved frame pointer was read and found right, or 0 */
};

enum shadow_end {
	SHADOW_RETURNED,  /* by a return through its slot, or by a jump to the address popped from it */
	SHADOW_LEFT,	  /* the stack pointer went past it */
	SHADOW_FORGOTTEN, /* its stack is not tracked any more */
};

/* Called when a frame ends; execution continues at `to`, with these sp and fp. */
typedef void (*shadow_end_fn)(const struct shadow_frame *f, enum shadow_end how,
			      const struct user_regs_struct *to, void *data);

struct shadow_stack {
	struct shadow_frame *frames; /* owned; innermost last */
	size_t n, cap;
	bool rooted;  /* below the first frame is where the program began */
	uint64_t sp;  /* when it was left */
	uint64_t age; /* when it was left, 0: free */
};

struct shadow_counts {
	uint64_t calls, returns, left, rewritten; /* returns to another address than the call pushed */
	uint64_t signals, switches, lost;	  /* returns from frames that no stack has */
	uint64_t fp_changed;			  /* returns with another frame pointer than at the call */
};

#define SHADOW_KEPT 64 /* number of stacks that are stored */

struct shadow {
	struct shadow_stack now, kept[SHADOW_KEPT];
	struct shadow_frame leaving; /* still executes, but its return address is gone; id 0: none */
	struct shadow_counts counts;
	uint64_t next_id, clock;
	shadow_end_fn end;
	void *data;
};

void shadow_init(struct shadow *s, shadow_end_fn end, void *data);
void shadow_fini(struct shadow *s);
/*
 * Begins with a new program, or (not rooted) with one that was not traced for a while. All frames end as
 * forgotten.
 */
void shadow_reset(struct shadow *s, bool rooted);
/* The frame that executes; NULL: unknown. */
struct shadow_frame *shadow_current(struct shadow *s);

/*
 * Processes an executed instruction of this kind, with the registers before and after it. `top`: the word on
 * top of the stack after a call, and after a jump while a frame is left. 0 or -ENOMEM.
 */
int shadow_step(struct shadow *s, enum insn_kind kind, const struct user_regs_struct *from,
		const struct user_regs_struct *to, uint64_t top);
/*
 * Processes the start of a signal handler: `context` is the interrupted state that the kernel saved,
 * `restorer` the return address of the handler.
 */
int shadow_signal(struct shadow *s, const struct user_regs_struct *context,
		  const struct user_regs_struct *handler, uint64_t restorer);
/* Processes rt_sigreturn. */
void shadow_sigreturn(struct shadow *s, const struct user_regs_struct *to);

#endif
