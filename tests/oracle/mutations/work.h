// SPDX-License-Identifier: Apache-2.0
/* What the agent does with a binary: identity, table, blocks, names; and what that costs. */
#ifndef PROFLET_MUTATIONS_WORK_H
#define PROFLET_MUTATIONS_WORK_H

#include <stddef.h>
#include <stdint.h>

struct elf_rows;

struct cost {
	uint64_t cpu_ns, peak_bytes; /* peak of the process's resident memory above what it had before */
};

/* *ret_rows is owned by the caller, NULL when the file gives none. Aborts where a result breaks its contract.
 */
void work_run(int fd, struct elf_rows **ret_rows, struct cost *ret);

#endif
