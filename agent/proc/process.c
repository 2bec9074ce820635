// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/mapping.h"

struct process *process_ref(struct process *p)
{
	p->refs++;
	return p;
}

void process_unref(struct process *p)
{
	if (p && !--p->refs)
		p->destroy(p);
}

void process_read_begin(struct process *p)
{
	p->n_reading++;
}

void process_read_end(struct process *p)
{
	if (--p->n_reading)
		return;
	proc_maps_unref(p->reported);
	p->reported = NULL;
}

int process_reported(struct process *p, uint64_t start, uint64_t end)
{
	int r = 0;

	if (!p->n_reading)
		return 0;
	if (!p->reported)
		r = proc_maps_new(&p->reported, NULL);
	return r < 0 ? r : proc_maps_insert(p->reported, (struct proc_mapping){.start = start, .end = end});
}

int proc_maps_own(struct process *p)
{
	struct proc_maps *copy;
	int r;

	if (p->maps->refs == 1)
		return 0;
	r = proc_maps_copy(&copy, p->maps);
	if (r < 0)
		return r;
	proc_maps_unref(p->maps);
	p->maps = copy;
	return 0;
}
