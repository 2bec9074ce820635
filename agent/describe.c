// SPDX-License-Identifier: Apache-2.0
#include "agent/describe.h"

#include "agent/base/buf.h"
#include "agent/proc/image.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"
#include "agent/runtimes.h"
#include "agent/unwind/tables.h"

#define FILES_DESCRIBED_MAX 20u /* without a table; more are counted only */

/* Why the file has no table; NULL: it has one. */
static const char *why_no_table(const struct binary_table *t)
{
	switch (t->state) {
	case TABLE_READY:
		return NULL;
	case TABLE_NONE:
		return "it has no code that can be unwound";
	case TABLE_FAILED:
		return "it could not be read";
	case TABLE_EVICTED:
		return "there was no room for it; it is built again when a sample needs it";
	default:
		return "it waits to be built";
	}
}

static void describe_tables(const struct process *p, const struct unwind_tables *tables, struct buf *ret)
{
	struct proc_maps_cursor c = {.maps = p->maps};
	const struct proc_mapping *m;
	size_t missing = 0, ready = 0;

	while (p->maps && (m = proc_maps_next(&c))) {
		const struct binary_table *t = unwind_tables_get(tables, m->file);
		const char *why = t ? why_no_table(t) : NULL;

		if (!t || !t->binary->n_segments)
			continue;
		ready += !why;
		if (why && missing++ < FILES_DESCRIBED_MAX)
			(void)buf_printf(ret, "no unwind table: %s: %s\n", t->binary->module.path, why);
	}
	(void)buf_printf(ret, "mappings of files: %zu with an unwind table, %zu without\n", ready, missing);
}

void process_describe(const struct process *p, const struct unwind_tables *tables,
		      const struct runtimes *runtimes, struct buf *ret)
{
	(void)buf_printf(ret, "process %u: %s%s\n", p->pid, proc_image_name(p->image),
			 p->kernel_thread ? ", a kernel thread" : "");
	(void)buf_printf(ret, "samples: %s\n",
			 p->image->selected ? "taken" : "not taken, it is not selected");
	if (p->kernel_thread)
		return;
	describe_tables(p, tables, ret);
	if (runtimes)
		runtimes_describe_process(runtimes, p, ret);
	else
		(void)buf_puts(ret, "language runtimes: the configuration says off (runtimes)\n");
}
