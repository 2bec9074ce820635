// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitbudget.h"

void jit_budget_init(struct jit_budget *b, uint64_t max_bytes, uint64_t minute_bytes, uint64_t now_ns)
{
	*b = (struct jit_budget){
		.max_bytes = max_bytes, .minute_bytes = minute_bytes, .bytes = max_bytes, .at_ns = now_ns};
}

/* Time that is too short to be worth a byte counts the next time. */
static void fill(struct jit_budget *b, uint64_t now_ns)
{
	uint64_t ms = now_ns > b->at_ns ? (now_ns - b->at_ns) / NS_PER_MS : 0;

	if (!ms)
		return;
	if (ms > 3600000) /* more than enough */
		ms = 3600000;
	jit_budget_return(b, b->minute_bytes / 60000 * ms);
	b->at_ns = now_ns;
}

uint64_t jit_budget_take(struct jit_budget *b, uint64_t bytes, uint64_t now_ns)
{
	fill(b, now_ns);
	if (now_ns < b->until_ns)
		return 0;
	bytes = bytes < b->bytes ? bytes : b->bytes;
	b->bytes -= bytes;
	return bytes;
}

void jit_budget_return(struct jit_budget *b, uint64_t bytes)
{
	b->bytes = bytes < b->max_bytes - b->bytes ? b->bytes + bytes : b->max_bytes;
}

void jit_budget_wait(struct jit_budget *b, uint64_t first_ns, uint64_t max_ns, uint64_t now_ns)
{
	if (b->wait_ns < first_ns || now_ns > b->until_ns + b->wait_ns)
		b->wait_ns = first_ns;
	else
		b->wait_ns = 2 * b->wait_ns < max_ns ? 2 * b->wait_ns : max_ns;
	b->until_ns = now_ns + b->wait_ns;
}
