/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Samples from the timer's tick, where perf_event_open is refused: a raw tracepoint in the tick, which the
 * kernel runs CONFIG_HZ times a second on a busy CPU. A tick is taken when the CPU's next sample is due. Each
 * interval is drawn at random, between half and one and a half of the mean: otherwise work that the tick
 * itself starts would appear in every sample, or in none.
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
const volatile __u64 config_entry_text, config_entry_text_bytes; /* where interrupts enter the kernel */

__u64 tick_ns; /* mean interval of samples on a CPU; the agent sets it */

/* Whether this CPU's next sample is due. If so, draws the time of the one after it. */
static __always_inline int tick_due(struct unwind_area *a)
{
	__u64 now = bpf_ktime_get_ns(), due = a->tick_due_ns, mean = *(volatile __u64 *)&tick_ns;
	__u64 part = (mean >> 10) * (bpf_get_prandom_u32() >> 22); /* 0 to 1 intervals */

	if (now < due)
		return 0;
	if (now - due < 2 * mean) {
		a->tick_due_ns = due + mean / 2 + part;
		return 1;
	}
	/* the CPU was idle: the next sample may come at any time within an interval */
	a->tick_due_ns = now + part;
	return 0;
}

/*
 * The kernel's frames without the interrupt's own: those after the first frame in the kernel's entry code.
 * None: the interrupt came in user mode.
 */
static __always_inline void tick_kernel_frames(struct unwind_area *a, struct bpf_raw_tracepoint_args *ctx)
{
	long bytes = bpf_get_stack(ctx, a->frames, KERNEL_FRAMES_MAX * 8, 0);
	__u32 n = bytes > 0 ? (__u32)bytes / 8 : 0, above = 0;

	ROLLED
	for (__u32 i = 0; i < TICK_FRAMES_ABOVE; i++) {
		if (i < n && a->frames[i] - config_entry_text < config_entry_text_bytes) {
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
}

/* As user_registers_context and kernel_part. */
UNWIND_FN int tick_part(struct bpf_raw_tracepoint_args *ctx)
{
	struct unwind_area *a = env_area();

	if (!a)
		return ENDING_NO_REGISTERS;
	tick_kernel_frames(a, ctx);
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
