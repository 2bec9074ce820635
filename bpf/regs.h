/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The user's registers of a sample: from the context when it was taken in user mode, else from where the
 * kernel saved them at its entry. The architecture's file gives offsets and DWARF numbers.
 */
#ifndef PROFLET_BPF_REGS_H
#define PROFLET_BPF_REGS_H

#include "bpf/area.h"
#include "bpf/kernel.h"

#if defined(__TARGET_ARCH_x86)
#include "bpf/regs_x86.h"
#else
#error "no register layout for this architecture yet"
#endif

static struct task_struct *(*const get_current_task_btf)(void) = (void *)158; /* 5.11 */
static long (*const task_pt_regs)(struct task_struct *task) = (void *)175;    /* 5.15 */

#define FROM_KERNEL (-1)

/* NEXT_MAPPING, FROM_KERNEL when the sample was taken in kernel mode, or ENDING_COMPAT_TASK. */
static __always_inline int user_registers_context(struct unwind_area *a, struct bpf_perf_event_data *ctx)
{
	__u64 cs = CTX_REG(ctx, REGS_CS);

	if (!(cs & USER_CS_MASK))
		return FROM_KERNEL;
	if ((cs & 0xffff) == USER_CS_32)
		return ENDING_COMPAT_TASK;
	a->state.ip = CTX_REG(ctx, REGS_IP);
	a->state.sp = CTX_REG(ctx, REGS_SP);
	a->state.fp = CTX_REG(ctx, REGS_BP);
	return NEXT_MAPPING;
}

static __always_inline void registers_fill_context(struct unwind_area *a, struct bpf_perf_event_data *ctx)
{
#define X(number, field, offset) a->state.regs[number] = CTX_REG(ctx, offset);
	DWARF_REGISTERS(X)
#undef X
}

/* From 5.15 on the kernel hands out the saved registers. */
static __always_inline int user_registers_btf(struct unwind_area *a)
{
	struct task_struct *task = get_current_task_btf();
	struct pt_regs *regs;

	if (task->flags & PF_KTHREAD)
		return ENDING_KERNEL_THREAD;
	regs = (struct pt_regs *)task_pt_regs(task);
	if (!regs)
		return ENDING_NO_REGISTERS;
	if (regs->cs == USER_CS_32)
		return ENDING_COMPAT_TASK;
	a->state.ip = regs->ip;
	a->state.sp = regs->sp;
	a->state.fp = regs->bp;
	return NEXT_MAPPING;
}

static __always_inline int registers_fill_btf(struct unwind_area *a)
{
	struct pt_regs *regs = (struct pt_regs *)task_pt_regs(get_current_task_btf());

	if (!regs)
		return ENDING_NO_REGISTERS;
#define X(number, field, offset) a->state.regs[number] = regs->field;
	DWARF_REGISTERS(X)
#undef X
	return 0;
}

/* Before that: they lie at the top of the task's kernel stack. */
static __always_inline __u64 saved_registers(struct task_struct *task)
{
	return (__u64)BPF_CORE_READ(task, stack) + THREAD_SIZE_5_10 - REGS_BYTES;
}

static __always_inline int user_registers_read(struct unwind_area *a)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 saved, regs[REGS_BYTES / 8];

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return ENDING_KERNEL_THREAD;
	saved = saved_registers(task);
	if (bpf_probe_read_kernel(regs, sizeof regs, (void *)saved))
		return ENDING_NO_REGISTERS;
	if ((regs[REGS_CS / 8] & 0xffff) == USER_CS_32)
		return ENDING_COMPAT_TASK;
	a->state.ip = regs[REGS_IP / 8];
	a->state.sp = regs[REGS_SP / 8];
	a->state.fp = regs[REGS_BP / 8];
	return NEXT_MAPPING;
}

static __always_inline int registers_fill_read(struct unwind_area *a)
{
	__u64 regs[REGS_BYTES / 8];

	if (bpf_probe_read_kernel(regs, sizeof regs, (void *)saved_registers((void *)bpf_get_current_task())))
		return ENDING_NO_REGISTERS;
#define X(number, field, offset) a->state.regs[number] = regs[offset / 8];
	DWARF_REGISTERS(X)
#undef X
	return 0;
}

#endif
