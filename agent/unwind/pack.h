// SPDX-License-Identifier: Apache-2.0
/* Packs a rule of the call-frame information into the eight bytes that the BPF program reads. Pure. */
#ifndef PROFLET_UNWIND_PACK_H
#define PROFLET_UNWIND_PACK_H

#include <stdint.h>

#include "bpf/abi.h"

struct elf_rule;

/* `machine` is the file's, EM_*. What the kernel cannot do becomes UNWIND_CFA_UNSUPPORTED. */
struct unwind_rule unwind_rule_pack(const struct elf_rule *rule, uint16_t machine);

#endif
