// SPDX-License-Identifier: Apache-2.0
/*
 * Names of kernel addresses: a kallsyms table that is loaded on a worker thread when it is first wanted and
 * again when an address is in no known function (a module or a BPF program has been loaded since), at most
 * once a minute. Belongs to one thread; a job shares nothing with it while it runs. Rank 2.
 */
#ifndef PROFLET_SYMBOL_KERNEL_H
#define PROFLET_SYMBOL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/symbol/kallsyms.h"

struct symbol_kernel;

#define SYMBOL_KERNEL_RELOAD_NS (60 * NS_PER_SEC)

struct symbol_kernel_job {
	struct worker_job work; /* `done` is set to completing; whoever wants to know may replace it */
	struct symbol_kernel *kernel;
	char *path;		/* owned */
	struct kallsyms *table; /* owned; the result */
	int status;		/* 0; -ECANCELED: not run; else as symbol_kernel_status */
};

/* `path` NULL: /proc/kallsyms. Nothing is read yet. 0 or -ENOMEM. */
int symbol_kernel_new(struct symbol_kernel **ret, const char *path);
/* Its job must have been completed: free the worker pool first. NULL is fine. */
void symbol_kernel_free(struct symbol_kernel *k);
/*
 * True when `addr` has a name; *ret is written then only and is borrowed until the next
 * symbol_kernel_complete. A miss makes a job due, unless the same address is known to be missing from the
 * present table.
 */
bool symbol_kernel_find(struct symbol_kernel *k, uint64_t addr, struct kallsyms_symbol *ret);
/*
 * A job when one is due: something was missed, none is under way, and the last one began a minute ago or
 * more. 0; -EAGAIN: nothing is due; -ENOMEM.
 */
int symbol_kernel_job_new(struct symbol_kernel_job **ret, struct symbol_kernel *k, uint64_t now_ns);
/* Takes the new table and frees the job. A reload that failed leaves the old table in use. */
void symbol_kernel_complete(struct symbol_kernel *k, struct symbol_kernel_job *job);
/*
 * 0: a table is in use; -EAGAIN: not loaded yet; else why there are no names, -EPERM for a kernel that
 * hides its addresses (not tried again), -ENOENT or another error of the file. To be told to the operator
 * when it changes.
 */
int symbol_kernel_status(const struct symbol_kernel *k);
/* For kallsyms_module and kallsyms_table_stats; NULL until loaded; borrowed as from symbol_kernel_find. */
const struct kallsyms *symbol_kernel_table(const struct symbol_kernel *k);

#endif
