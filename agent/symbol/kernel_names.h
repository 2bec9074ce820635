// SPDX-License-Identifier: Apache-2.0
/*
 * Names of kernel addresses. Loads a kallsyms table on a worker thread when the first name is wanted, and
 * again when an address is in no known function, since a module or BPF program may have been loaded: at most
 * once a minute. The object belongs to one thread; a running job shares no data with it. Rank 2.
 */
#ifndef PROFLET_SYMBOL_KERNEL_NAMES_H
#define PROFLET_SYMBOL_KERNEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/symbol/kallsyms.h"

struct symbol_kernel;

#define SYMBOL_KERNEL_RELOAD_NS (60 * NS_PER_SEC)

struct symbol_kernel_job {
	struct worker_job work; /* `done` calls symbol_kernel_complete, as any replacement must */
	struct symbol_kernel *kernel;
	char *path;		/* owned */
	struct kallsyms *table; /* owned; the result */
	int status;		/* 0; -ECANCELED: did not run; else as symbol_kernel_status */
};

/* `path` NULL: /proc/kallsyms. Nothing is read yet. 0 or -ENOMEM. */
int symbol_kernel_new(struct symbol_kernel **ret, const char *path);
/* Its job must have completed: free the worker pool first. NULL is fine. */
void symbol_kernel_free(struct symbol_kernel *k);
/*
 * True when `addr` has a name. *ret is written only then, and is borrowed until the next
 * symbol_kernel_complete. A miss makes a job due, unless the address was missed before and the present table
 * was loaded after that.
 */
bool symbol_kernel_find(struct symbol_kernel *k, uint64_t addr, struct kallsyms_symbol *ret);
/*
 * Makes a job if one is due: an address was missed, no job is running, and the last one was made at least a
 * minute ago. 0; -EAGAIN: no job is due; -ENOMEM.
 */
int symbol_kernel_job_new(struct symbol_kernel_job **ret, struct symbol_kernel *k, uint64_t now_ns);
/* Starts to use the new table and frees the job. If loading failed, the old table stays in use. */
void symbol_kernel_complete(struct symbol_kernel *k, struct symbol_kernel_job *job);
/*
 * 0: a table is in use; -EAGAIN: not loaded yet; else why there are no names: -EPERM if the kernel hides its
 * addresses (loading is not tried again), -ENOENT or another error of the file. The caller should log it when
 * it changes.
 */
int symbol_kernel_status(const struct symbol_kernel *k);
/*
 * The table, for kallsyms_module and kallsyms_table_stats. NULL until loaded; borrowed as from
 * symbol_kernel_find.
 */
const struct kallsyms *symbol_kernel_table(const struct symbol_kernel *k);

#endif
