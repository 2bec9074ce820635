// SPDX-License-Identifier: Apache-2.0
/* Does what the agent does with a binary (identity, table, blocks, names), and measures the cost. */
#ifndef PROFLET_MUTATIONS_WORK_H
#define PROFLET_MUTATIONS_WORK_H

#include <stddef.h>
#include <stdint.h>

struct elf_rows;

struct cost {
	uint64_t cpu_ns, peak_bytes; /* highest resident memory, above that at the start */
};

/* *ret_rows is owned by the caller; NULL: the file has no rows. Aborts if a result violates its contract. */
void work_run(int fd, struct elf_rows **ret_rows, struct cost *ret);

#endif
