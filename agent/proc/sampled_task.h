// SPDX-License-Identifier: Apache-2.0
/* Who ran when a sample was taken, and under which names. */
#ifndef PROFLET_PROC_SAMPLED_TASK_H
#define PROFLET_PROC_SAMPLED_TASK_H

#include "agent/proc/stat.h"

struct process;
struct proc_image;

/* Borrowed until the process events are drained again; whoever keeps it longer takes references. */
struct sampled_task {
	struct process *process;
	struct proc_image *image; /* the names that the process had at that time */
	char thread[PROC_TASK_COMM_LEN];
};

#endif
