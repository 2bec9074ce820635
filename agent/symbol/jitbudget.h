// SPDX-License-Identifier: Apache-2.0
/*
 * How much of the lists of generated code is read: bytes a minute, for each process and for each workload,
 * and not at all for a while if what was read is written anew, or does harm. Values only. Private to
 * symbol/.
 */
#ifndef PROFLET_SYMBOL_JITBUDGET_H
#define PROFLET_SYMBOL_JITBUDGET_H

#include <stdint.h>

#include "agent/base/clock.h"

#define JIT_PROCESS_BYTES (32ull << 20)	 /* at once; */
#define JIT_PROCESS_MINUTE (16ull << 20) /* from then on, in a minute */
#define JIT_SHARE_BYTES (64ull << 20)
#define JIT_SHARE_MINUTE (32ull << 20)

#define JIT_REWRITTEN_WAIT_NS (5 * NS_PER_SEC) /* doubles each time */
#define JIT_REWRITTEN_WAIT_MAX_NS (600 * NS_PER_SEC)
#define JIT_HARMFUL_WAIT_NS (30 * NS_PER_SEC)
#define JIT_HARMFUL_WAIT_MAX_NS (3600 * NS_PER_SEC)

struct jit_budget {
	uint64_t max_bytes, minute_bytes;
	uint64_t bytes, at_ns;	    /* left then */
	uint64_t until_ns, wait_ns; /* nothing is read before; the last wait */
};

void jit_budget_init(struct jit_budget *b, uint64_t max_bytes, uint64_t minute_bytes, uint64_t now_ns);
/* Takes at most that many bytes; returns how many. */
uint64_t jit_budget_take(struct jit_budget *b, uint64_t bytes, uint64_t now_ns);
/* Gives back what was taken and not used. */
void jit_budget_return(struct jit_budget *b, uint64_t bytes);
/* Nothing is read for a while, twice as long as the last time if that was not long ago. */
void jit_budget_wait(struct jit_budget *b, uint64_t first_ns, uint64_t max_ns, uint64_t now_ns);

#endif
