// SPDX-License-Identifier: Apache-2.0
/* The same as hotspot_rows.h for A64 code, on any host. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_A64_HOTSPOT_H
#define PROFLET_ELF_A64_HOTSPOT_H

#include "agent/elf/code/hotspot_kind.h"
#include "agent/elf/code/memory_code.h"

/* Of all kinds but HOTSPOT_CODE_INTERPRETER; the sizes are checked. 0; -ENOMEM. */
int a64_hotspot_rows(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		     uint32_t frame_bytes);

#endif
