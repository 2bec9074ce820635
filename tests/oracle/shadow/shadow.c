// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/shadow.h"

#include <errno.h>
#include <stdlib.h>

/* A load of the stack pointer that goes farther is a change of stacks, or leaves frames behind. */
#define NEAR_BYTES (1ull << 20)
#define ARGUMENTS_BYTES 4096u /* of a call, at most */

void shadow_init(struct shadow *s, shadow_end_fn end, void *data)
{
	*s = (struct shadow){.end = end, .data = data};
}

void shadow_fini(struct shadow *s)
{
	for (size_t i = 0; i < SHADOW_KEPT; i++)
		free(s->kept[i].frames);
	free(s->now.frames);
	*s = (struct shadow){0};
}

static void pop(struct shadow *s, enum shadow_end how, const struct user_regs_struct *to)
{
	struct shadow_frame *f = &s->now.frames[--s->now.n];

	s->counts.left += how == SHADOW_LEFT;
	if (f->disputed)
		s->end(f, how, to, s->data);
}

static void forget(struct shadow *s, struct shadow_stack *stack)
{
	for (size_t i = 0; i < stack->n; i++)
		if (stack->frames[i].disputed)
			s->end(&stack->frames[i], SHADOW_FORGOTTEN, NULL, s->data);
	free(stack->frames);
	*stack = (struct shadow_stack){0};
}

void shadow_reset(struct shadow *s, bool rooted)
{
	if (s->leaving.disputed)
		s->end(&s->leaving, SHADOW_FORGOTTEN, NULL, s->data);
	s->leaving = (struct shadow_frame){0};
	for (size_t i = 0; i < SHADOW_KEPT; i++)
		forget(s, &s->kept[i]);
	forget(s, &s->now);
	s->now.rooted = rooted;
}

static struct shadow_frame *shadow_top(const struct shadow *s)
{
	return s->now.n ? &s->now.frames[s->now.n - 1] : NULL;
}

struct shadow_frame *shadow_current(struct shadow *s)
{
	return s->leaving.id ? &s->leaving : shadow_top(s);
}

static int push(struct shadow *s, struct shadow_frame f)
{
	struct shadow_stack *stack = &s->now;

	if (stack->n == stack->cap) {
		size_t cap = stack->cap ? stack->cap * 2 : 256;
		struct shadow_frame *more = realloc(stack->frames, cap * sizeof *more);

		if (!more)
			return -ENOMEM;
		stack->frames = more;
		stack->cap = cap;
	}
	f.id = ++s->next_id;
	stack->frames[stack->n++] = f;
	return 0;
}

/* Frames whose return address is no longer on the stack. */
static void leave_below(struct shadow *s, uint64_t sp, const struct user_regs_struct *to)
{
	for (struct shadow_frame *f = shadow_top(s); f && f->slot < sp; f = shadow_top(s))
		pop(s, SHADOW_LEFT, to);
}

/* The same, by an instruction that is not the last of its function. */
static void begin_leaving(struct shadow *s, const struct user_regs_struct *to)
{
	const struct shadow_frame *f = shadow_top(s);

	if (!f || f->slot >= to->rsp)
		return;
	if (!s->leaving.id) {
		s->leaving = *f;
		s->now.n--;
	}
	leave_below(s, to->rsp, to);
}

static void end_leaving(struct shadow *s, const struct user_regs_struct *to)
{
	if (!s->leaving.id)
		return;
	s->counts.left++;
	if (s->leaving.disputed)
		s->end(&s->leaving, SHADOW_LEFT, to, s->data);
	s->leaving = (struct shadow_frame){0};
	leave_below(s, to->rsp, to);
}

/*
 * Whether the function that jumps away has put its return address on top again, over arguments that it drops:
 * what it jumps to has its frame.
 */
static bool stays(struct shadow *s, const struct user_regs_struct *to, uint64_t top)
{
	struct shadow_frame f = s->leaving;

	if (!f.id || f.signal || f.ra != top)
		return false;
	s->leaving = (struct shadow_frame){0};
	leave_below(s, to->rsp, to);
	f.slot = to->rsp;
	f.sp = to->rsp + 8;
	s->now.frames[s->now.n++] = f; /* where it was */
	return true;
}

/* --- other stacks */

static struct shadow_stack *oldest_kept(struct shadow *s)
{
	struct shadow_stack *oldest = &s->kept[0];

	for (size_t i = 1; i < SHADOW_KEPT; i++)
		if (s->kept[i].age < oldest->age)
			oldest = &s->kept[i];
	return oldest;
}

/* Stores the current stack and continues with `next`, which may be a stored one, or empty. */
static void change_to(struct shadow *s, struct shadow_stack *next, uint64_t sp)
{
	struct shadow_stack old = s->now;

	old.sp = sp;
	old.age = ++s->clock;
	s->now = (struct shadow_stack){0};
	if (next) {
		s->now = *next;
		*next = (struct shadow_stack){0};
	}
	if (old.n || old.rooted) {
		struct shadow_stack *place = oldest_kept(s);

		forget(s, place);
		*place = old;
	} else {
		free(old.frames);
	}
	s->counts.switches++;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * The stored stack to which the program switches back: it was left there, or one of its frames ends there, or
 * the function that executes was called on it.
 */
static struct shadow_stack *kept_at(struct shadow *s, uint64_t sp, uint64_t origin)
{
	for (size_t i = 0; i < SHADOW_KEPT; i++) {
		struct shadow_stack *k = &s->kept[i];

		if (!k->age)
			continue;
		if (k->n && k->frames[k->n - 1].id == origin && distance(sp, k->sp) < NEAR_BYTES)
			return k;
		if (k->sp == sp)
			return k;
		for (size_t n = k->n; n-- > 0;)
			if (k->frames[n].slot == sp || k->frames[n].slot + 8 == sp)
				return k;
	}
	return NULL;
}

/* The stored stack that has exactly this return. */
static struct shadow_stack *kept_return(struct shadow *s, uint64_t slot, uint64_t ra)
{
	for (size_t i = 0; i < SHADOW_KEPT; i++)
		for (size_t n = s->kept[i].n; n-- > 0;)
			if (s->kept[i].frames[n].slot == slot && s->kept[i].frames[n].ra == ra)
				return &s->kept[i];
	return NULL;
}

/* True when this stack has a frame that is still there at this stack pointer, and near. */
static bool holds(const struct shadow_stack *stack, uint64_t sp)
{
	for (size_t n = stack->n; n-- > 0;)
		if (stack->frames[n].slot >= sp)
			return stack->frames[n].slot - sp < NEAR_BYTES;
	return false;
}

/* A function that switched stacks continues elsewhere. */
static void end_switched(struct shadow *s, const struct user_regs_struct *to)
{
	if (shadow_top(s) && shadow_top(s)->switched)
		pop(s, SHADOW_LEFT, to);
}

/* Removes frames below the place where a stack is entered: they are left from before. */
static void leave_stale(struct shadow *s, const struct user_regs_struct *to)
{
	leave_below(s, to->rsp, to);
	while (shadow_top(s) && shadow_top(s)->switched && shadow_top(s)->slot <= to->rsp)
		pop(s, SHADOW_LEFT, to);
}

static int switch_to(struct shadow *s, struct shadow_stack *kept, struct shadow_frame here,
		     const struct user_regs_struct *from, const struct user_regs_struct *to)
{
	end_leaving(s, to);
	end_switched(s, to);
	change_to(s, kept, from->rsp);
	leave_stale(s, to);
	if (shadow_top(s) && shadow_top(s)->id == here.origin)
		return 0; /* back where it was called */
	here.switched = true;
	here.disputed = here.popped = here.signal = false;
	here.slot = to->rsp;
	here.fp_slot = 0;
	return push(s, here);
}

static int loaded_sp(struct shadow *s, const struct user_regs_struct *from, const struct user_regs_struct *to)
{
	const struct shadow_frame *f = shadow_current(s);
	struct shadow_frame here = f ? *f : (struct shadow_frame){.unknown = true};
	bool near = distance(to->rsp, from->rsp) < NEAR_BYTES;
	struct shadow_stack *kept;

	if (!here.switched)
		here.origin = here.id;
	if (holds(&s->now, to->rsp) || (near && to->rsp < from->rsp))
		return 0;
	kept = kept_at(s, to->rsp, here.origin);
	return kept || !near ? switch_to(s, kept, here, from, to) : 0;
}

/* --- instructions */

static int called(struct shadow *s, const struct user_regs_struct *from, const struct user_regs_struct *to,
		  uint64_t ra)
{
	if (to->rsp != from->rsp - 8)
		return 0; /* it faulted */
	s->counts.calls++;
	end_leaving(s, from);
	leave_below(s, to->rsp + 1, to); /* a popped frame's slot is used again */
	return push(s, (struct shadow_frame){.slot = to->rsp, .ra = ra, .sp = from->rsp, .fp = from->rbp});
}

/*
 * Whether the innermost frame returns, though not through its slot: its return address was moved down to
 * make room for arguments.
 */
static bool is_moved(const struct shadow_frame *f, const struct user_regs_struct *from,
		     const struct user_regs_struct *to)
{
	return f && !f->signal && !f->switched && f->ra == to->rip && f->slot > from->rsp &&
	       f->slot - from->rsp <= ARGUMENTS_BYTES;
}

static void returned(struct shadow *s, const struct user_regs_struct *from, const struct user_regs_struct *to)
{
	const uint64_t left = s->counts.left; /* in recursion, the frame behind one that is left has its ra */
	struct shadow_frame *f;
	struct shadow_stack *kept;

	if (to->rsp < from->rsp + 8)
		return; /* it faulted */
	end_leaving(s, to);
	end_switched(s, to);
	leave_below(s, from->rsp, to);
	f = shadow_top(s);
	if ((!f || f->slot != from->rsp) && !(s->counts.left == left && is_moved(f, from, to))) {
		kept = kept_return(s, from->rsp, to->rip);
		if (!kept) {
			s->counts.lost += !f && !s->now.rooted;
			return; /* of a frame that is not known, or a jump through the stack */
		}
		change_to(s, kept, from->rsp);
		leave_below(s, from->rsp, to);
		f = shadow_top(s);
	}
	s->counts.returns++;
	s->counts.rewritten += f->ra != to->rip;
	s->counts.fp_changed += f->ra == to->rip && f->fp != to->rbp;
	pop(s, SHADOW_RETURNED, to);
}

static void moved_sp(struct shadow *s, enum insn_kind kind, const struct user_regs_struct *to)
{
	struct shadow_frame *f = shadow_top(s);

	if (!f)
		return;
	if (to->rsp <= f->slot) {
		f->popped = false;
		return;
	}
	if (f->signal && to->rsp == f->slot)
		return;
	if (to->rsp != f->slot + 8) {
		begin_leaving(s, to);
	} else if (f->popped && to->rip == f->ra) {
		s->counts.returns++;
		pop(s, SHADOW_RETURNED, to);
	} else if (kind == INSN_POP) {
		f->popped = true;
	} else if (!f->popped) {
		begin_leaving(s, to);
	}
}

int shadow_step(struct shadow *s, enum insn_kind kind, const struct user_regs_struct *from,
		const struct user_regs_struct *to, uint64_t top)
{
	int r = 0;

	if (kind == INSN_CALL)
		return called(s, from, to, top);
	if (kind == INSN_LOAD_SP && to->rsp != from->rsp)
		r = loaded_sp(s, from, to);
	if (kind == INSN_RET)
		returned(s, from, to);
	else if (to->rsp != from->rsp || (s->now.n && shadow_top(s)->popped))
		moved_sp(s, kind, to);
	if (kind == INSN_JUMP && !stays(s, to, top)) {
		end_leaving(s, to);
		end_switched(s, to);
	}
	return r;
}

int shadow_signal(struct shadow *s, const struct user_regs_struct *context,
		  const struct user_regs_struct *handler, uint64_t restorer)
{
	struct shadow_frame kernel = {.slot = handler->rsp + 8,
				      .ra = context->rip,
				      .sp = context->rsp,
				      .fp = context->rbp,
				      .signal = true};
	struct shadow_frame f = {
		.slot = handler->rsp, .ra = restorer, .sp = handler->rsp + 8, .fp = handler->rbp};
	int r;

	s->counts.signals++;
	end_leaving(s, handler); /* not where it goes, but rare enough */
	r = push(s, kernel);
	return r < 0 ? r : push(s, f);
}

void shadow_sigreturn(struct shadow *s, const struct user_regs_struct *to)
{
	struct shadow_frame *f;

	end_leaving(s, to);
	f = shadow_top(s);
	if (f && f->signal)
		pop(s, f->ra == to->rip && f->sp == to->rsp ? SHADOW_RETURNED : SHADOW_LEFT, to);
	leave_below(s, to->rsp, to);
}
