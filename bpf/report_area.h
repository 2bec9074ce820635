/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Where a report about a code object is assembled (reports.h): head first, then its texts. */
#ifndef PROFLET_BPF_REPORT_AREA_H
#define PROFLET_BPF_REPORT_AREA_H

#include "bpf/env.h"

/* In the deep area, while no record is in it. */
struct report_area {
	struct runtime_code head;
	__u8 bytes[3 * RUNTIME_TEXT_MAX + RUNTIME_LINES_MAX + 4096];
};

_Static_assert(sizeof(struct report_area) <= sizeof(struct deep_area), "report_area");

static __always_inline struct report_area *report_area(void)
{
	return (struct report_area *)env_deep_area();
}

static __always_inline void report_begin(struct report_area *d, const struct runtime_walk *walk, __u64 number)
{
	d->head = (struct runtime_code){.kind = RUNTIME_REPORT_CODE,
					.number = number,
					.bias = walk->bias,
					.runtime = walk->runtime,
					.layout = walk->layout};
}

#endif
