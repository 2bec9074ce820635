// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/stuck_devices.h"

#include <stdlib.h>

#include "agent/base/array.h"

struct stuck_device {
	dev_t dev;
	unsigned n_stuck;
	bool tried; /* a job is under way */
	uint64_t retry_at_ns, retry_ns;
};

void stuck_devices_fini(struct stuck_devices *s)
{
	free(s->devices);
	*s = (struct stuck_devices){.devices = NULL};
}

static struct stuck_device *find(const struct stuck_devices *s, dev_t dev)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->devices[i].dev == dev)
			return &s->devices[i];
	return NULL;
}

void stuck_devices_add(struct stuck_devices *s, dev_t dev, uint64_t now_ns)
{
	struct stuck_device *d = find(s, dev);

	if (!d) {
		if (array_reserve(&s->devices, &s->cap, s->n + 1, sizeof *s->devices) < 0)
			return;
		d = &s->devices[s->n++];
		*d = (struct stuck_device){.dev = dev, .retry_ns = STUCK_RETRY_NS};
	}
	d->n_stuck++;
	d->retry_at_ns = now_ns + d->retry_ns;
	d->retry_ns = d->retry_ns * 2 < STUCK_RETRY_MAX_NS ? d->retry_ns * 2 : STUCK_RETRY_MAX_NS;
}

void stuck_devices_remove(struct stuck_devices *s, dev_t dev)
{
	struct stuck_device *d = find(s, dev);

	if (d && --d->n_stuck == 0)
		*d = s->devices[--s->n];
}

bool stuck_devices_has(const struct stuck_devices *s, dev_t dev)
{
	return find(s, dev);
}

bool stuck_devices_may_try(const struct stuck_devices *s, dev_t dev, uint64_t now_ns)
{
	const struct stuck_device *d = find(s, dev);

	return d && !d->tried && d->n_stuck < STUCK_MAX && now_ns >= d->retry_at_ns;
}

void stuck_devices_try_begin(struct stuck_devices *s, dev_t dev)
{
	struct stuck_device *d = find(s, dev);

	if (d)
		d->tried = true;
}

void stuck_devices_try_end(struct stuck_devices *s, dev_t dev, bool failed)
{
	struct stuck_device *d = find(s, dev);

	if (!d)
		return;
	d->tried = false;
	if (!failed) { /* the next one at once */
		d->retry_at_ns = 0;
		d->retry_ns = STUCK_RETRY_NS;
	}
}
