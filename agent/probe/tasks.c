// SPDX-License-Identifier: Apache-2.0
/* All CPUs share one ring, so that the events of a task are in order. */
#include "agent/probe/tasks.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "bpf/abi.h"

struct tasks {
	struct ring_buffer *ring;
	const uint64_t *lost; /* counted by the BPF program */
	uint64_t n_bad;
	uint64_t reported[SIDEBAND_LOSSES_N];
	sideband_fn fn;
	void *fn_data;
};

static const enum sideband_kind kinds[] = {
	[TASK_FORK] = SIDEBAND_FORK,
	[TASK_EXEC] = SIDEBAND_COMM,
	[TASK_NAME] = SIDEBAND_COMM,
	[TASK_EXIT] = SIDEBAND_EXIT,
};

int tasks_decode(const void *record, size_t len, struct sideband_event *ret)
{
	const struct task_event *e = record;

	if (len < sizeof *e || e->kind >= ARRAY_SIZE(kinds) || !memchr(e->comm, '\0', sizeof e->comm))
		return -EBADMSG;
	*ret = (struct sideband_event){
		.kind = kinds[e->kind],
		.time_ns = e->time_ns,
		.pid = e->pid,
		.tid = e->tid,
		.ppid = e->ppid,
		.ptid = e->ptid,
		.exec = e->kind == TASK_EXEC,
		.name = e->comm,
	};
	return 0;
}

static int on_record(void *data, void *record, size_t len)
{
	struct tasks *t = data;
	struct sideband_event event;

	if (tasks_decode(record, len, &event) < 0)
		t->n_bad++;
	else
		t->fn(&event, t->fn_data);
	return 0;
}

int tasks_new(struct tasks **ret, int map_fd, const uint64_t *lost)
{
	struct tasks *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->lost = lost;
	t->ring = ring_buffer__new(map_fd, on_record, t, NULL);
	if (!t->ring) {
		int r = -errno;

		free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tasks_free(struct tasks *t)
{
	if (!t)
		return;
	ring_buffer__free(t->ring);
	free(t);
}

int tasks_fd(const struct tasks *t)
{
	return ring_buffer__epoll_fd(t->ring);
}

bool tasks_pending(const struct tasks *t)
{
	struct pollfd p = {.fd = tasks_fd(t), .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

void tasks_lost(const struct tasks *t, uint64_t ret[SIDEBAND_LOSSES_N])
{
	memset(ret, 0, SIDEBAND_LOSSES_N * sizeof *ret);
	ret[SIDEBAND_LOSS_OVERFLOW] = __atomic_load_n(t->lost, __ATOMIC_RELAXED);
	ret[SIDEBAND_LOSS_BAD_RECORD] = t->n_bad;
}

/* Reports new losses to fn; returns the number of events it passed. */
static int hand_on_losses(struct tasks *t, sideband_fn fn, void *data)
{
	uint64_t lost[SIDEBAND_LOSSES_N];
	int n = 0;

	tasks_lost(t, lost);
	for (int i = 0; i < SIDEBAND_LOSSES_N; i++) {
		if (lost[i] == t->reported[i])
			continue;
		fn(&(struct sideband_event){.kind = SIDEBAND_LOST,
					    .time_ns = clock_mono_ns(),
					    .loss = (enum sideband_loss)i,
					    .n_lost = lost[i] - t->reported[i],
					    .name = ""},
		   data);
		t->reported[i] = lost[i];
		n++;
	}
	return n;
}

int tasks_drain(struct tasks *t, sideband_fn fn, void *data)
{
	int before = hand_on_losses(t, fn, data), n;

	t->fn = fn;
	t->fn_data = data;
	n = ring_buffer__consume(t->ring);
	return n < 0 ? n : before + n + hand_on_losses(t, fn, data);
}
