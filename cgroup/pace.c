// SPDX-License-Identifier: Apache-2.0
#include "cgroup/pace.h"

/* A random time from half of `ns` to all of it. */
static uint64_t jitter(uint64_t ns, double random)
{
	return ns / 2 + (uint64_t)((double)(ns / 2) * random);
}

void pace_answered(struct pace *p, uint64_t now_ns, bool ok, double random)
{
	p->asked_ns = now_ns;
	if (!ok) {
		p->failures++;
		p->wait_ns = p->failures == 1 ? PACE_RETRY_NS : p->wait_ns * 2;
		if (p->wait_ns > PACE_RETRY_MAX_NS)
			p->wait_ns = PACE_RETRY_MAX_NS;
		p->due_ns = now_ns + jitter(p->wait_ns, random);
		return;
	}
	if (p->failures ||
	    !p->wait_ns) /* a container that appeared meanwhile is in this list, or soon in the next */
		p->wait_ns = PACE_SOON_NS;
	else
		p->wait_ns *= 2;
	p->failures = 0;
	if (p->wait_ns > PACE_IDLE_NS)
		p->wait_ns = PACE_IDLE_NS;
	p->due_ns = now_ns + (p->wait_ns < PACE_IDLE_NS ? p->wait_ns : jitter(p->wait_ns, random));
}

void pace_unknown(struct pace *p, uint64_t now_ns)
{
	uint64_t soon = p->asked_ns + PACE_SOON_NS;

	if (p->failures)
		return;
	p->wait_ns = PACE_SOON_NS / 2; /* doubled by the next answer */
	if (p->due_ns > soon)
		p->due_ns = soon > now_ns ? soon : now_ns;
}
