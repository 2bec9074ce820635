/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Events of tasks, by raw tracepoints: the part of the perf side-band that the agent needs even where
 * perf_event_open is refused. They do not report mappings: the agent reads those from /proc after an execve,
 * and when a sample lies in none.
 */
#ifndef PROFLET_BPF_TASKS_H
#define PROFLET_BPF_TASKS_H

#include "bpf/kernel.h"
#include "bpf/maps.h"

__u64 tasks_lost; /* events for which the ring had no room */

#define CURRENT_PIDS (config_pid_inum ? pids_translate() : bpf_get_current_pid_tgid())

/* An event, to be filled and submitted. NULL: the task is not visible to the agent, or the ring is full. */
static __always_inline struct task_event *task_event_begin(__u32 kind, __u64 pids)
{
	struct task_event *e;

	if (!pids)
		return NULL;
	e = bpf_ringbuf_reserve(&tasks, sizeof *e, 0);
	if (!e) {
		__sync_fetch_and_add(&tasks_lost, 1);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof *e);
	e->time_ns = bpf_ktime_get_ns();
	e->kind = kind;
	e->pid = pids >> 32;
	e->tid = pids;
	return e;
}

/* (parent, child) */
SEC("raw_tp/sched_process_fork")
int task_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = (void *)ctx->args[1];
	__u64 parent = CURRENT_PIDS;
	__u32 pid, tid;
	struct task_event *e;

	if (config_pid_inum) {
		pid = pid_in_namespace(BPF_CORE_READ(child, group_leader));
		tid = pid_in_namespace(child);
	} else {
		pid = BPF_CORE_READ(child, tgid);
		tid = BPF_CORE_READ(child, pid);
	}
	if (!pid)
		return 0;
	e = task_event_begin(TASK_FORK, (__u64)pid << 32 | tid);
	if (!e)
		return 0;
	e->ppid = parent >> 32;
	e->ptid = parent;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int task_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_event *e = task_event_begin(TASK_EXEC, CURRENT_PIDS);

	if (!e)
		return 0;
	bpf_get_current_comm(e->comm, sizeof e->comm);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* (task, new name). One thread may rename another. Renaming by execve is part of TASK_EXEC. */
SEC("raw_tp/task_rename")
int task_name(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct task_event *e;
	__u64 pids = CURRENT_PIDS;
	int in_execve = 0;

	if (bpf_core_field_exists(task->in_execve))
		in_execve = BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
	if (in_execve)
		return 0;
	if (config_pid_inum)
		pids = (pids & ~0xffffffffull) | pid_in_namespace(task);
	else
		pids = (pids & ~0xffffffffull) | (__u32)BPF_CORE_READ(task, pid);
	e = task_event_begin(TASK_NAME, pids);
	if (!e)
		return 0;
	bpf_probe_read_kernel_str(e->comm, sizeof e->comm, (void *)ctx->args[1]);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int task_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_event *e = task_event_begin(TASK_EXIT, CURRENT_PIDS);

	if (e)
		bpf_ringbuf_submit(e, 0);
	return 0;
}

#endif
