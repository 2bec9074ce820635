// SPDX-License-Identifier: Apache-2.0
/* The kernel and its loadable modules, described like binaries of user frames. Private to agent/report. */
#ifndef PROFLET_REPORT_KERNEL_MODULES_H
#define PROFLET_REPORT_KERNEL_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct kallsyms;
struct kernel_modules;

/* `sys`: where sysfs is mounted, borrowed; NULL: /sys. 0 or -ENOMEM. */
int kernel_modules_new(struct kernel_modules **ret, const char *sys);
/* NULL is fine. */
void kernel_modules_free(struct kernel_modules *m);
/*
 * The module with this index in the symbol table; index 0 is the kernel itself, for which `table` may be
 * NULL. Borrowed until kernel_modules_free. NULL for an unknown index, or without memory.
 */
const struct frame_module *kernel_modules_get(struct kernel_modules *m, const struct kallsyms *table,
					      size_t index);

#endif
