/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a sample carries when its unwind cannot be finished here (struct saved_stack): registers, and a copy
 * of the stack. The first SAVED_STACK_NEAR bytes stand behind the record in the CPU's area; a record with
 * more stack is assembled in the CPU's deep area.
 */
#ifndef PROFLET_BPF_SAVED_STACK_H
#define PROFLET_BPF_SAVED_STACK_H

#include "bpf/env.h"
#include "bpf/kernel.h"
#include "bpf/maps.h"

#define SAVED_STACK_HOLE_MAX 16384u /* bytes in a row that cannot be read: the stack ends below them */

/* Whether user space can go on with the unwind: not behind a frame-pointer step that led nowhere. */
static __always_inline int can_finish(const struct unwind_area *a, int ending)
{
	if (ending == ENDING_UNSUPPORTED_RULE || (ending == ENDING_NO_TABLE && a->state.pending))
		return 1;
	return (ending == ENDING_NO_PROCESS || ending == ENDING_NO_MAPPING || ending == ENDING_NO_TABLE) &&
	       !a->state.fallback;
}

const volatile __u32 config_ring_pressure_bytes = 1 << 19; /* with more in the ring, no stacks are saved */
__u32 saved_round; /* goes up while the ring is nearly empty: what anybody had in it is gone */

static __always_inline struct saved_share *saved_share_of_task(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 groups = 0;
	__u32 i;

	if (bpf_core_field_exists(task->cgroups))
		groups = (__u64)BPF_CORE_READ(task, cgroups);
	i = groups * 0x9e3779b97f4a7c15ull >> (64 - SAVED_SHARES_BITS);
	return bpf_map_lookup_elem(&saved_shares, &i);
}

/*
 * Whether the ring has room for a stack of this task's. While the agent gets no CPU, a tenant with large
 * stacks would fill it, and samples of programs that have only just begun would go without theirs. Shares are
 * counted anew whenever the ring is nearly empty, or as much was read from it as it has room for: an agent
 * that is behind all the time does not empty it.
 */
static __always_inline int saved_stack_has_room(void)
{
	__u64 used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	struct saved_share *share;
	__u32 round;

	if (used > config_ring_pressure_bytes)
		return 0;
	if (used < config_ring_pressure_bytes / 16)
		saved_round++;
	share = saved_share_of_task();
	if (!share)
		return 1;
	round = saved_round + (__u32)(bpf_ringbuf_query(&ring, BPF_RB_CONS_POS) / config_ring_pressure_bytes);
	if (share->round != round) {
		share->round = round;
		share->bytes = 0;
	}
	return share->bytes <= config_ring_pressure_bytes - used; /* as much as is left for all others */
}

/* The area's record was sent with its stack. */
static __always_inline void saved_stack_count(const struct unwind_area *a)
{
	struct saved_share *share = saved_share_of_task();

	if (share)
		share->bytes += a->state.saved_bytes;
}

/*
 * Chooses the frame to go on from. 1: call saved_stack_attach; 2: fill state.regs with the sample's registers
 * first; 0: the sample goes without its stack.
 */
UNWIND_FN int saved_stack_begin(void)
{
	struct unwind_area *a = env_area();

	if (!a || a->state.n + a->state.runtime_words > SAVED_STACK_FRAMES_MAX)
		return 0;
	if (!saved_stack_has_room()) {
		a->n_ring_pressure++;
		return 0;
	}
	if (a->record.flags & SAMPLE_FROM_START) {
		a->state.ip = a->state.first_ip;
		a->state.sp = a->state.first_sp;
		a->state.fp = a->state.first_fp;
		a->state.innermost = 1;
		a->state.n_before = a->record.n_kernel;
		a->state.have_regs = 0; /* a signal frame may have replaced them */
	}
	return a->state.have_regs ? 1 : 2;
}

/*
 * Reads the next chunk of stack, up to a multiple of SAVED_STACK_CHUNK, so that the end of the stack's memory
 * cuts off nothing below it. Memory that was never touched (in large frames) is a hole. Returns the chunk's
 * bytes.
 */
static __always_inline __u64 saved_stack_chunk(struct saved_stack *saved, void *to, __u64 address, __u32 *got)
{
	__u64 bytes = SAVED_STACK_CHUNK - (address & (SAVED_STACK_CHUNK - 1));

	BOUND(bytes, 0xfff);
	if (!env_read_user(to, bytes, address))
		*got = (__u32)(address + bytes - saved->stack_address);
	else
		saved->holes |=
			1u << ((address / SAVED_STACK_CHUNK - saved->stack_address / SAVED_STACK_CHUNK) & 31);
	return bytes;
}

static __always_inline void saved_stack_set_bytes(struct unwind_area *a, struct saved_stack *saved,
						  __u32 stack_bytes)
{
	saved->stack_bytes = stack_bytes;
	a->state.saved_bytes = sizeof *saved + stack_bytes;
	a->record.flags |= SAMPLE_SAVED_STACK;
}

/* Appends to the record what user space needs to go on: registers, and SAVED_STACK_NEAR bytes of stack. */
UNWIND_FN int saved_stack_attach(int ending)
{
	struct unwind_area *a = env_area();
	struct saved_stack *saved;
	__u64 n, stack, tried = 0;
	__u32 got = 0;

	if (!a)
		return 0;
	n = a->state.n + a->state.runtime_words;
	BOUND(n, 1023);
	saved = (struct saved_stack *)(a->frames + n);
	saved->ip = a->state.ip;
	saved->sp = a->state.sp;
	saved->fp = a->state.fp;
	saved->innermost = a->state.innermost;
	saved->n_before = a->state.n_before - a->record.n_kernel;
	saved->holes = 0;
	/* user space finds saved registers by walking again from the frame whose registers are all known */
	stack = a->state.regs[REGISTER_SP];
	if (ending != ENDING_UNSUPPORTED_RULE || a->state.n_before == N_BEFORE_NONE ||
	    saved->sp - stack > SAVED_STACK_NEAR - SAVED_STACK_CHUNK)
		stack = saved->sp;
	saved->stack_address = stack - SAVED_STACK_BELOW;
	if (env_read_user(saved + 1, 8, saved->stack_address))
		saved->stack_address = stack;
	for (int i = 0; i < (int)SAVED_STACK_REGISTERS; i++)
		saved->regs[i] = a->state.regs[i];
	ROLLED
	for (__u32 i = 0; i < SAVED_STACK_NEAR / SAVED_STACK_CHUNK; i++) {
		__u64 at = tried;

		BOUND(at, 0x3fff);
		tried += saved_stack_chunk(saved, (__u8 *)(saved + 1) + at, saved->stack_address + tried,
					   &got);
	}
	a->saved_stack_tried = tried;
	saved_stack_set_bytes(a, saved, got);
	return 0;
}

/*
 * Sends the area's record together with the stack beyond SAVED_STACK_NEAR. Returns 0; anything else: nothing
 * was sent, because there is no more stack or no room in the ring.
 */
UNWIND_FN int record_send_deep(__u32 flags)
{
	struct unwind_area *a = env_area();
	struct deep_area *d = env_deep_area();
	__u64 head, n, tried;
	struct saved_stack *saved;
	__u32 got, near;
	int failed;

	if (!a || !d)
		return -1;
	n = a->record.n_kernel + a->record.n_user + a->state.runtime_words;
	BOUND(n, 1023);
	saved = (struct saved_stack *)(a->frames + n);
	tried = a->saved_stack_tried;
	got = near = saved->stack_bytes;
	n = sizeof a->record + n * 8 + sizeof *saved;
	head = n + tried;
	ROLLED
	for (__u32 i = 0; i < (SAVED_STACK_MAX - SAVED_STACK_NEAR) / SAVED_STACK_CHUNK; i++) {
		__u64 at = n + tried;

		BOUND(at, 0x1ffff);
		if (at > sizeof d->record - 2 * SAVED_STACK_CHUNK || tried - got > SAVED_STACK_HOLE_MAX)
			break;
		tried += saved_stack_chunk(saved, d->record + at, saved->stack_address + tried, &got);
	}
	if (got <= a->saved_stack_tried)
		return -1;
	saved_stack_set_bytes(a, saved, got);
	BOUND(head, 0x7fff);
	failed = bpf_probe_read_kernel(d->record, head, &a->record);
	head = n + got;
	BOUND(head, 0x1ffff);
	if (!failed && head <= sizeof d->record)
		failed = bpf_ringbuf_output(&ring, d->record, head, flags);
	if (failed)
		saved_stack_set_bytes(a, saved, near);
	else
		a->unannounced += got - near;
	return failed;
}

#endif
