// SPDX-License-Identifier: Apache-2.0
/* The parts of an interpreter's loop: [start, end) each, ELF virtual addresses. Used within this folder. */
#ifndef PROFLET_ELF_RUNTIME_LOOPS_H
#define PROFLET_ELF_RUNTIME_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the first n of `max` parts are in order, none overlaps another, and the others are zeros. */
bool runtime_loops_valid(const uint64_t *start, const uint64_t *end, uint32_t n, uint32_t max);

#endif
