/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Samples from the timer's tick, where perf_event_open is refused: a raw tracepoint in the tick, which the
 * kernel runs CONFIG_HZ times a second on a busy CPU. A tick stands for one period of the CPU time of the
 * task that it interrupts, and one of many ticks is a sample. The interval between two samples is counted
 * in ticks, that is in busy time: while the CPU idles there are none, and a sample that became due
 * meanwhile would always be of the task that ends the idling. Each interval is drawn at random, between
 * half and one and a half of the mean: otherwise work that the tick itself starts would appear in every
 * sample, or in none.
 *
 * The context does not say what was interrupted. If it was the kernel, its frames follow those of the
 * interrupt. In both cases the user's registers are where the task saved them when it entered the kernel.
 */
#ifndef PROFLET_BPF_TICK_H
#define PROFLET_BPF_TICK_H

#include "bpf/kernel.h"
#include "bpf/maps.h"
#include "bpf/regs.h"

#define TICK_FRAMES_ABOVE 48 /* most frames that the interrupt itself has */

const volatile __u64 config_tick_function; /* the address of the tick's timer function */
const volatile __u64 config_tick_period_ns;
const volatile __u64 config_entry_text, config_entry_text_bytes; /* where interrupts enter the kernel */

__u64 tick_ns; /* mean busy time between samples of a CPU; the agent sets it */

/* Whether the tick is a sample. If so, draws the busy time until the one after it. */
static __always_inline int tick_due(struct unwind_area *a)
{
	__u64 mean = *(volatile __u64 *)&tick_ns;
	__u64 part = (mean >> 10) * (bpf_get_prandom_u32() >> 22); /* 0 to 1 intervals */

	if (mean <= config_tick_period_ns)
		return 1;
	if (!a->tick_interval_ns) /* the first */
		a->tick_interval_ns = part + 1;
	a->tick_busy_ns += config_tick_period_ns;
	if (a->tick_busy_ns < a->tick_interval_ns)
		return 0;
	a->tick_busy_ns -= a->tick_interval_ns;
	a->tick_interval_ns = mean / 2 + part;
	return 1;
}

/*
 * The kernel's frames without the interrupt's own: those after the first frame in the kernel's entry code.
 * None: the interrupt came in user mode.
 */
UNWIND_FN int tick_kernel_frames(struct bpf_raw_tracepoint_args *ctx)
{
	struct unwind_area *a = env_area();
	__u32 n, above = 0;
	long bytes;

	if (!a)
		return 0;
	bytes = bpf_get_stack(ctx, a->frames, KERNEL_FRAMES_MAX * 8, 0);
	n = bytes > 0 ? (__u32)bytes / 8 : 0;
	ROLLED
	for (__u32 i = 0; i < TICK_FRAMES_ABOVE; i++) {
		if (i >= n)
			break; /* so that the verifier does not go on with each smaller n */
		if (a->frames[i] - config_entry_text < config_entry_text_bytes) {
			above = i + 1;
			break;
		}
	}
	if (above && n > above) {
		bytes = bpf_get_stack(ctx, a->frames, KERNEL_FRAMES_MAX * 8, above & BPF_F_SKIP_FIELD_MASK);
		a->state.n = bytes > 0 ? (__u32)bytes / 8 : 0;
	} else if (!above) {
		a->state.n = n; /* not an entry that we know: keep all frames */
	}
	return 0;
}

/* As user_registers_context and kernel_part. */
UNWIND_FN int tick_part(struct bpf_raw_tracepoint_args *ctx)
{
	struct unwind_area *a = env_area();

	if (!a)
		return ENDING_NO_REGISTERS;
	tick_kernel_frames(ctx);
	if (a->state.n)
		a->record.flags = SAMPLE_KERNEL_MODE;
	if (config_task_pt_regs)
		return user_registers_btf(a);
	return user_registers_read(a);
}

/* (timer, now) */
SEC("raw_tp/hrtimer_expire_entry")
int tick(struct bpf_raw_tracepoint_args *ctx)
{
	struct hrtimer *timer = (void *)ctx->args[0];
	__u64 pids = bpf_get_current_pid_tgid();
	struct unwind_area *a;
	__u32 slot;

	if (!pids || (__u64)BPF_CORE_READ(timer, function) != config_tick_function)
		return 0;
	a = env_area();
	if (!a || !tick_due(a))
		return 0;
	pids = sample_begin(a, pids, &slot);
	if (!pids)
		return 0;
	sample_end(a, 0, pids, slot, tick_part(ctx), 1);
	return 0;
}

#endif
