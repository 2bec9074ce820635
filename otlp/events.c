// SPDX-License-Identifier: Apache-2.0
#include "otlp/events.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char *otlp_event_name(enum otlp_event_kind kind)
{
#define X(name, text) #text,
	static const char *const names[] = {OTLP_EVENTS(X)};
#undef X

	return names[kind];
}

int otlp_events_init(struct otlp_events *e)
{
	e->first = e->n = 0;
	e->n_lost = 0;
	e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return e->fd < 0 ? -errno : 0;
}

void otlp_events_fini(struct otlp_events *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

void otlp_events_put(struct otlp_events *e, enum otlp_event_kind kind, const char *text,
		     uint64_t n_queued_requests)
{
	struct otlp_event *event = &e->ring[(e->first + e->n) % OTLP_EVENTS_MAX];

	if (e->n == OTLP_EVENTS_MAX) {
		e->n_lost++;
		return;
	}
	event->kind = kind;
	event->n_queued_requests = n_queued_requests;
	snprintf(event->text, sizeof event->text, "%s", text);
	e->n++;
	(void)eventfd_write(e->fd, 1);
}

bool otlp_events_next(struct otlp_events *e, struct otlp_event *ret)
{
	eventfd_t ignored;

	if (e->n) {
		*ret = e->ring[e->first];
		e->first = (e->first + 1) % OTLP_EVENTS_MAX;
		e->n--;
		return true;
	}
	(void)eventfd_read(e->fd, &ignored);
	return false;
}
