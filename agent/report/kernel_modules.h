// SPDX-License-Identifier: Apache-2.0
/* The kernel and its modules as the modules of frames. Inside the report only.. */
#ifndef PROFLET_REPORT_KERNEL_MODULES_H
#define PROFLET_REPORT_KERNEL_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct kallsyms;
struct kernel_modules;

/* `sys`: where sysfs is mounted, borrowed; NULL: /sys. 0 or -ENOMEM. */
int kernel_modules_new(struct kernel_modules **ret, const char *sys);
void kernel_modules_free(struct kernel_modules *m);
/*
 * The module with this index in the symbol table, 0 the kernel itself; `table` may be NULL with index 0.
 * Borrowed for the life of `m`; NULL when memory is short.
 */
const struct frame_module *kernel_modules_get(struct kernel_modules *m, const struct kallsyms *table,
					      size_t index);

#endif
