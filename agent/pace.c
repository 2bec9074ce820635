// SPDX-License-Identifier: Apache-2.0
#include "agent/pace.h"

#include "agent/base/clock.h"
#include "agent/base/loop.h"

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

static void set_slow(struct pace *p, bool slow)
{
	const uint64_t period_ns = slow ? SLOW_NS : QUICK_NS;

	if (loop_set_timer(p->timer, period_ns, period_ns) < 0)
		return; /* it stays as it was, and is tried again */
	p->slow = slow;
	pace_drained(p);
}

void pace_busy(struct pace *p)
{
	p->calm = 0;
	if (p->slow)
		set_slow(p, false);
}

void pace_calm(struct pace *p)
{
	if (!p->slow && ++p->calm >= CALM_TURNS)
		set_slow(p, true);
}
