/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The few kernel structures that are read, with the few fields of them; CO-RE finds the real offsets at load
 * time. Types of linux/bpf.h that the helpers' declarations need come with it.
 */
#ifndef PROFLET_BPF_KERNEL_H
#define PROFLET_BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct {
	struct {
		int counter;
	} mm_users;
	unsigned long start_code, start_stack;
};

struct signal_struct {
	int nr_threads;
};

struct task_struct {
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	struct signal_struct *signal;
	void *vfork_done;
	unsigned in_execve : 1;
	int pid, tgid;
	struct task_struct *real_parent, *group_leader;
	struct pid *thread_pid;
	void *cgroups; /* one for all that are in the same control groups */
};

struct hrtimer {
	void *function;
};

#pragma clang attribute pop

/* include/linux/sched.h, the same since 2.6 */
#define PF_FORKNOEXEC 0x00000040
#define PF_KTHREAD 0x00200000

#endif
