// SPDX-License-Identifier: Apache-2.0
/*
 * The stack of calls as the instructions make it: a call pushes a frame, a return takes it off. Nothing here
 * reads call-frame information.
 *
 * What happens beside calls and returns:
 *  - longjmp, exceptions: frames whose return address lies below the new stack pointer are gone ("left").
 *  - A return address that is popped into a register (vfork): the frame stays while the stack pointer stands
 *    just above it.
 *  - Signal handlers: the kernel's frame is one of its own, under that of the handler.
 *  - Another stack (coroutines, goroutines): the stack pointer is loaded with an address that is not near.
 *    The frames of the stack that was left are kept; those of one that was never seen are unknown until calls
 *    push some. A return that fits a kept stack finds it again. The function that changes stacks executes
 *    still, and has the caller that it had: it is a frame of the new stack, too ("switched"), until it goes
 *    back, returns, or jumps away.
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
	uint64_t ra, sp, fp; /* what the caller has when the frame ends */
	bool signal;	     /* the kernel's frame: ra is the interrupted instruction */
	bool popped;	     /* the return address was popped into a register */
	bool switched;	     /* called on another stack; slot: the stack pointer that it then loaded */
	bool unknown;	     /* of a switched one: its caller is not known */
	uint64_t origin;     /* of a switched one: id of its frame on the stack that it was called on */
	bool disputed;	     /* the caller of this module keeps something about it */
	uint64_t fp_slot;    /* the caller's too: where the saved frame pointer was read and was right, 0 */
};

enum shadow_end {
	SHADOW_RETURNED,  /* by a return through its slot, or by a jump to the address popped from it */
	SHADOW_LEFT,	  /* the stack pointer went past it */
	SHADOW_FORGOTTEN, /* its stack is not followed any more */
};

/* A frame ends; `to` is where execution goes on, with which sp and fp. */
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

#define SHADOW_KEPT 64 /* stacks that are remembered */

struct shadow {
	struct shadow_stack now, kept[SHADOW_KEPT];
	struct shadow_frame leaving; /* executes still, but its return address is gone; id 0: none */
	struct shadow_counts counts;
	uint64_t next_id, clock;
	shadow_end_fn end;
	void *data;
};

void shadow_init(struct shadow *s, shadow_end_fn end, void *data);
void shadow_fini(struct shadow *s);
/* A new program, or (not rooted) one that was not watched for a while. Frames end as forgotten. */
void shadow_reset(struct shadow *s, bool rooted);
/* The frame that executes; NULL when it is not known. */
struct shadow_frame *shadow_current(struct shadow *s);

/* The instruction of that kind was executed and led from one state to the other. 0 or -ENOMEM. `ra`: what a
 * call pushed. */
int shadow_step(struct shadow *s, enum insn_kind kind, const struct user_regs_struct *from,
		const struct user_regs_struct *to, uint64_t ra);
/* A handler was entered: `context` is the interrupted state as the kernel saved it, `restorer` the handler's
 * return address. */
int shadow_signal(struct shadow *s, const struct user_regs_struct *context,
		  const struct user_regs_struct *handler, uint64_t restorer);
/* rt_sigreturn was executed. */
void shadow_sigreturn(struct shadow *s, const struct user_regs_struct *to);

#endif
