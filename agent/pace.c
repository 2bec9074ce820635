// SPDX-License-Identifier: Apache-2.0
#include "agent/pace.h"

#include "agent/base/clock.h"
#include "agent/base/loop.h"

#define BRISK_NS (20 * NS_PER_MS)
#define QUICK_NS (100 * NS_PER_MS)
#define SLOW_NS (400 * NS_PER_MS)
#define CALM_TURNS 4u /* of the quick timer, before it is slow */

int pace_start(struct pace *p, struct loop *loop, int (*turn)(uint64_t expirations, void *data),
	       void (*wake_early)(void *data), void *data)
{
	*p = (struct pace){.wake_early = wake_early, .data = data};
	return loop_add_timer(loop, QUICK_NS, QUICK_NS, turn, data, &p->timer);
}

void pace_drained(struct pace *p)
{
	if (p->slow)
		p->wake_early(p->data);
}

static void set(struct pace *p, uint64_t period_ns)
{
	if (loop_set_timer(p->timer, period_ns, period_ns) < 0)
		return; /* it stays as it was, and is tried again */
	p->slow = period_ns == SLOW_NS;
	p->brisk = period_ns == BRISK_NS;
	pace_drained(p);
}

void pace_busy(struct pace *p)
{
	p->calm = 0;
	if (p->slow || p->brisk)
		set(p, QUICK_NS);
}

void pace_hurry(struct pace *p)
{
	p->calm = 0;
	if (!p->brisk)
		set(p, BRISK_NS);
}

void pace_calm(struct pace *p)
{
	if (!p->slow && ++p->calm >= CALM_TURNS)
		set(p, SLOW_NS);
}
