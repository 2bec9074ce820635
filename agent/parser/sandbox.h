// SPDX-License-Identifier: Apache-2.0
/* What parser processes give up. Private to parser/. */
#ifndef PROFLET_PARSER_SANDBOX_H
#define PROFLET_PARSER_SANDBOX_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A user id that no one has. Where it is not mapped (user namespaces), SANDBOX_NOBODY; else the agent's
 * own.
 */
#define SANDBOX_UID 4294770000u
#define SANDBOX_NOBODY 65534u

/*
 * For the nursery, and inherited by its children: user id, capabilities, files (Landlock), core files,
 * tracing; if memory is short, the kernel ends these processes first. What the kernel lacks or refuses is
 * left out, but not the capabilities. The process ends with the one that has forked it. `opens`: it keeps
 * CAP_DAC_READ_SEARCH if it has it, and may open files for reading. 0 or -errno.
 */
int sandbox_enter(bool opens);
/* Bytes of address space that the calling process has; 0: not known, or there must be no limit. */
uint64_t sandbox_address_space(void);
/*
 * Forbids all system calls but those of the nursery and of its children. *ret_rest is the filter that forbids
 * those of the nursery, for sandbox_close; `filter` in it is owned: free(). 0 or -errno.
 */
int sandbox_filter(struct sock_fprog *ret_rest, bool opens);

struct sandbox_limits {
	uint64_t memory_bytes; /* of address space, in all; 0: no limit */
	uint64_t file_bytes;   /* that it may write to a file */
	unsigned cpu_s;
};

/* For a process that is about to read foreign bytes: limits, and at last system calls. 0 or -errno. */
int sandbox_close(const struct sock_fprog *rest, const struct sandbox_limits *limits);

#endif
