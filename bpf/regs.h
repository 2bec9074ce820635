/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The user's registers of a sample: from the context when it was taken in user mode, else from where the
 * kernel saved them at its entry. bpf/arch.h says where which register is.
 */
#ifndef PROFLET_BPF_REGS_H
#define PROFLET_BPF_REGS_H

#include "bpf/area.h"
#include "bpf/kernel.h"

/* The program's context, linux/bpf_perf_event.h, with the registers as an array. */
struct bpf_perf_event_data {
	__u64 regs[REGS_BYTES / 8];
	__u64 sample_period, addr;
};

/*
 * Read by UAPI offset through volatile: CO-RE would take the layout of the kernel's own pt_regs (whose cs has
 * 16 bits on x86 since 6.9), and clang would merge the loads of both kinds.
 */
#define CTX_REG(ctx, offset) (*(volatile __u64 *)((char *)(ctx) + (offset)))

static struct task_struct *(*const get_current_task_btf)(void) = (void *)158; /* 5.11 */
static long (*const task_pt_regs)(struct task_struct *task) = (void *)175;    /* 5.15 */

#define FROM_KERNEL (-1)

const volatile __u32 config_page_bytes = 4096; /* of the running kernel */

/* NEXT_MAPPING, FROM_KERNEL when the sample was taken in kernel mode, or ENDING_COMPAT_TASK. */
static __always_inline int user_registers_context(struct unwind_area *a, struct bpf_perf_event_data *ctx)
{
	__u64 mode = CTX_REG(ctx, REGS_MODE);

	if (!arch_is_user(mode))
		return FROM_KERNEL;
	if (arch_is_32_bit(mode))
		return ENDING_COMPAT_TASK;
	a->state.ip = CTX_REG(ctx, REGS_IP);
	a->state.sp = CTX_REG(ctx, REGS_SP);
	a->state.fp = CTX_REG(ctx, REGS_FP);
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
	if (arch_is_32_bit(regs->REGS_FIELD_MODE))
		return ENDING_COMPAT_TASK;
	a->state.ip = regs->REGS_FIELD_IP;
	a->state.sp = regs->REGS_FIELD_SP;
	a->state.fp = regs->REGS_FIELD_FP;
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

/* Before 5.15 they are read from the task's kernel stack. */
static __always_inline __u64 saved_registers(struct task_struct *task)
{
	return arch_saved_registers((__u64)BPF_CORE_READ(task, stack), config_page_bytes);
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
	if (arch_is_32_bit(regs[REGS_MODE / 8]))
		return ENDING_COMPAT_TASK;
	a->state.ip = regs[REGS_IP / 8];
	a->state.sp = regs[REGS_SP / 8];
	a->state.fp = regs[REGS_FP / 8];
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
