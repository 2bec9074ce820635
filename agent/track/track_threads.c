// SPDX-License-Identifier: Apache-2.0
/*
 * A process is over when its last thread is: its threads are counted. One whose main thread goes first goes
 * on (pthread_exit in main, or a thread that calls execve, which takes the main one's place). Where the count
 * cannot be right, because an exit was lost, /proc is asked now and then.
 */
#include <string.h>

#include "agent/probe/sideband.h"
#include "agent/proc/stat.h"
#include "agent/track/track_private.h"

void track_thread_name(struct track *t, struct process *p, uint32_t tid, uint64_t time_ns,
		       char ret[PROC_TASK_COMM_LEN])
{
	char name[PROC_TASK_COMM_LEN];

	memcpy(ret, proc_image_at(p, time_ns)->comm, PROC_TASK_COMM_LEN);
	if (tid == p->pid || proc_threads_at(t->threads, p->pid, tid, time_ns, ret))
		return;
	/* a thread that was there before us */
	if (p->end_ns || proc_threads_known(t->threads, p->pid, tid) ||
	    proc_comm_read(t->proc_fd, p->pid, tid, name) < 0)
		return;
	proc_threads_set(t->threads, p->pid, tid, 0, name);
	memcpy(ret, name, PROC_TASK_COMM_LEN);
}

void track_thread_begin(struct track *t, struct process *p, const struct sideband_event *fork)
{
	char name[PROC_TASK_COMM_LEN];

	p->n_threads++;
	track_thread_name(t, p, fork->ptid, fork->time_ns, name);
	proc_threads_set(t->threads, p->pid, fork->tid, fork->time_ns, name);
}

void track_thread_end(struct track *t, uint32_t tid, uint64_t time_ns)
{
	proc_threads_end(t->threads, tid, time_ns);
}

/* By /proc, which counts a main thread that is over. */
static bool has_threads(const struct track *t, const struct process *p)
{
	struct proc_stat stat;

	return proc_stat_read(t->proc_fd, p->pid, &stat) == 0 && stat.num_threads > 1;
}

bool track_last_thread(struct process *p, const struct sideband_event *exit)
{
	if (exit->tid != exit->pid)
		p->n_threads -= p->n_threads > 0;
	else
		p->main_over = true;
	return p->main_over && !p->n_threads;
}

void track_main_over_check(struct track *t, struct process *p, uint64_t now_ns)
{
	if (p->main_over && !has_threads(t, p))
		track_process_over(t, p, now_ns);
}

void track_threads_over(struct track *t, struct process *p, uint64_t time_ns)
{
	if (p->n_threads)
		proc_threads_end_all(t->threads, p->pid, time_ns);
	p->n_threads = 0;
	p->main_over = false;
}
