/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a sample brings along when its stack cannot be finished here (struct sample_rest): registers, and the
 * stack as it is. The first REST_STACK_NEAR bytes stand behind the record in the CPU's area; a deeper stack
 * is put together in the CPU's deep area.
 */
#ifndef PROFLET_BPF_REST_H
#define PROFLET_BPF_REST_H

#include "bpf/env.h"
#include "bpf/kernel.h"
#include "bpf/maps.h"

#define REST_HOLE_MAX 16384u /* bytes in a row that cannot be read: the stack ends below them */

/* May the unwind be finished when more is known? Not behind a step that led nowhere. */
static __always_inline int can_finish(const struct unwind_area *a, int ending)
{
	if (ending == ENDING_UNSUPPORTED_RULE)
		return 1;
	return (ending == ENDING_NO_PROCESS || ending == ENDING_NO_MAPPING || ending == ENDING_NO_TABLE) &&
	       !a->state.fallback;
}

const volatile __u32 config_crowded_bytes = 1 << 19; /* that wait in the ring: no more stacks now */

/* Where the rest begins. Returns 1 when rest_attach may follow, 2 when it takes the sample's registers first.
 */
UNWIND_FN int rest_begin(void)
{
	struct unwind_area *a = env_area();

	if (!a || a->state.n > REST_FRAMES_MAX)
		return 0;
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > config_crowded_bytes) {
		a->n_crowded++;
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
 * The next chunk of stack, up to a multiple of REST_CHUNK, so that the end of the stack's memory cuts off
 * nothing below it. What was never touched (in large frames) is a hole. Returns its bytes.
 */
static __always_inline __u64 rest_chunk(struct sample_rest *rest, void *to, __u64 address, __u32 *got)
{
	__u64 bytes = REST_CHUNK - (address & (REST_CHUNK - 1));

	BOUND(bytes, 0xfff);
	if (!env_read_user(to, bytes, address))
		*got = (__u32)(address + bytes - rest->stack_address);
	else
		rest->holes |= 1u << ((address / REST_CHUNK - rest->stack_address / REST_CHUNK) & 31);
	return bytes;
}

static __always_inline void rest_size(struct unwind_area *a, struct sample_rest *rest, __u32 stack_bytes)
{
	rest->stack_bytes = stack_bytes;
	a->record.rest_bytes = sizeof *rest + stack_bytes;
}

/* Appends to the record what finishing the stack later takes: registers, and REST_STACK_NEAR bytes of stack.
 */
UNWIND_FN int rest_attach(int ending)
{
	struct unwind_area *a = env_area();
	struct sample_rest *rest;
	__u64 n, stack, tried = 0;
	__u32 got = 0;

	if (!a)
		return 0;
	n = a->state.n;
	BOUND(n, 1023);
	rest = (struct sample_rest *)(a->frames + n);
	rest->ip = a->state.ip;
	rest->sp = a->state.sp;
	rest->fp = a->state.fp;
	rest->innermost = a->state.innermost;
	rest->n_before = a->state.n_before - a->record.n_kernel;
	rest->holes = 0;
	/* registers that functions save are found by walking again from where all are known */
	stack = a->state.regs[REGISTER_SP];
	if (ending != ENDING_UNSUPPORTED_RULE || rest->sp - stack > REST_STACK_NEAR - REST_CHUNK)
		stack = rest->sp;
	rest->stack_address = stack - REST_BELOW;
	if (env_read_user(rest + 1, 8, rest->stack_address))
		rest->stack_address = stack;
	for (int i = 0; i < (int)REST_REGISTERS; i++)
		rest->regs[i] = a->state.regs[i];
	ROLLED
	for (__u32 i = 0; i < REST_STACK_NEAR / REST_CHUNK; i++) {
		__u64 at = tried;

		BOUND(at, 0x3fff);
		tried += rest_chunk(rest, (__u8 *)(rest + 1) + at, rest->stack_address + tried, &got);
	}
	a->rest_tried = tried;
	rest_size(a, rest, got);
	return 0;
}

/*
 * Sends the record that stands in the area with the stack beyond REST_STACK_NEAR. Returns 0, or else nothing
 * was sent: there is none, or no room.
 */
UNWIND_FN int record_send_deep(__u32 flags)
{
	struct unwind_area *a = env_area();
	struct deep_area *d = env_deep_area();
	__u64 head, n, tried;
	struct sample_rest *rest;
	__u32 got, near;
	int failed;

	if (!a || !d)
		return -1;
	n = a->record.n_kernel + a->record.n_user;
	BOUND(n, 1023);
	rest = (struct sample_rest *)(a->frames + n);
	tried = a->rest_tried;
	got = near = rest->stack_bytes;
	n = sizeof a->record + n * 8 + sizeof *rest;
	head = n + tried;
	ROLLED
	for (__u32 i = 0; i < (REST_STACK_MAX - REST_STACK_NEAR) / REST_CHUNK; i++) {
		__u64 at = n + tried;

		BOUND(at, 0x1ffff);
		if (at > sizeof d->record - 2 * REST_CHUNK || tried - got > REST_HOLE_MAX)
			break;
		tried += rest_chunk(rest, d->record + at, rest->stack_address + tried, &got);
	}
	if (got <= a->rest_tried)
		return -1;
	rest_size(a, rest, got);
	BOUND(head, 0x7fff);
	failed = bpf_probe_read_kernel(d->record, head, &a->record);
	head = n + got;
	BOUND(head, 0x1ffff);
	if (!failed && head <= sizeof d->record)
		failed = bpf_ringbuf_output(&ring, d->record, head, flags);
	if (failed)
		rest_size(a, rest, near);
	else
		a->unannounced += got - near;
	return failed;
}

#endif
