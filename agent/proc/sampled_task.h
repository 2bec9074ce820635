// SPDX-License-Identifier: Apache-2.0
/* The task that ran when a sample was taken, with the names it had then. */
#ifndef PROFLET_PROC_SAMPLED_TASK_H
#define PROFLET_PROC_SAMPLED_TASK_H

#include "agent/proc/stat.h"

struct process;
struct proc_image;

/* Borrowed until process events are drained again; take references to hold it longer. */
struct sampled_task {
	struct process *process;
	struct proc_image *image; /* the names that the process had at that time */
	char thread[PROC_TASK_COMM_LEN];
};

#endif
