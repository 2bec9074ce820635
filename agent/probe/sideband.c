// SPDX-License-Identifier: Apache-2.0
/*
 * Each CPU has its own ring, and the events of one process are spread over several rings: it forks on one CPU
 * and calls execve on another. A drain therefore copies the records of all rings into one batch, sorts it by
 * time and hands it on.
 *
 * The rings are read one after the other while the CPUs go on writing. Of a sequence of events that is being
 * written meanwhile, the drain might read the last one without the one before it. So records younger than the
 * drain are held back until the next drain, which follows at once, since they have made the rings readable.
 *
 * A process that maps and unmaps code all the time fills the rings with records of memory that is known
 * already. These are skipped without being copied (sideband_ignore).
 *
 * Whatever loses records (a full ring, damaged bytes, no memory) is counted by reason and handed on as a
 * SIDEBAND_LOST event.
 */
#include "agent/probe/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/probe/online.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband_layout.h"
#include "agent/probe/sideband_ring.h"
#include "agent/probe/tasks.h"

/* A record of the batch. */
struct pending {
	uint64_t time_ns;
	size_t offset, len; /* in the batch */
};

struct sideband {
	struct tasks *tasks; /* used instead of all that follows; NULL: perf */
	int epoll_fd;
	struct online online; /* CPUs that have a ring */
	unsigned n_rings;
	struct sideband_ring *rings;
	struct buf batch;
	struct pending *pending, *merged;
	size_t n_pending, cap_pending, cap_merged;
	size_t *run_ends, n_runs, cap_runs; /* in `pending`: the held records, then those of each ring */
	bool disordered;		    /* the times of one of these runs do not ascend */
	struct buf held;		    /* records for the next drain */
	uint64_t lost[SIDEBAND_LOSSES_N], reported[SIDEBAND_LOSSES_N];
	struct {
		uint32_t pid; /* 0: none */
		uint64_t start, end;
	} ignored;
	uint8_t whole[SIDEBAND_RECORD_MAX]; /* a record that wraps around the end of its ring */
};

static const char *const loss_texts[SIDEBAND_LOSSES_N] = {
#define X(name, text) [SIDEBAND_LOSS_##name] = text,
	SIDEBAND_LOSSES(X)
#undef X
};

const char *sideband_loss_text(enum sideband_loss reason)
{
	return loss_texts[reason];
}

static int ring_open(struct sideband *s, int cpu)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct sideband_ring *ring;
	int r = array_resize(&s->rings, s->n_rings + 1, sizeof *s->rings);

	if (r < 0)
		return r;
	ring = &s->rings[s->n_rings];
	r = sideband_ring_open(ring, cpu);
	if (r < 0)
		return r;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, ring->fd, &ev) < 0) {
		r = -errno;
		sideband_ring_close(ring);
		return r;
	}
	s->n_rings++;
	return 0;
}

static int on_cpu(int cpu, bool came, void *data)
{
	struct sideband *s = data;

	if (came)
		return ring_open(s, cpu);
	for (unsigned i = 0; i < s->n_rings; i++)
		s->rings[i].ended |= s->rings[i].cpu == cpu;
	return 0;
}

int sideband_follow(struct sideband *s)
{
	int r = s->tasks ? 0 : online_follow(&s->online, ONLINE_SYSFS, on_cpu, s);

	return r == -EAGAIN ? 1 : r;
}

int sideband_new(struct sideband **ret)
{
	struct sideband *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = s->epoll_fd < 0 ? -errno : sideband_follow(s);
	if (r < 0) {
		sideband_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int sideband_new_of_rings(struct sideband **ret, const struct sideband_ring *rings, unsigned n)
{
	struct sideband *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->epoll_fd = -1;
	s->rings = calloc(n, sizeof *s->rings);
	if (!s->rings) {
		free(s);
		return -ENOMEM;
	}
	memcpy(s->rings, rings, n * sizeof *rings);
	s->n_rings = n;
	*ret = s;
	return 0;
}

int sideband_new_of_tasks(struct sideband **ret, struct probe *probe)
{
	struct sideband *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->epoll_fd = -1;
	r = probe_tasks_open(probe, &s->tasks);
	if (r < 0) {
		sideband_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

bool sideband_has_mappings(const struct sideband *s)
{
	return !s->tasks;
}

void sideband_free(struct sideband *s)
{
	if (!s)
		return;
	tasks_free(s->tasks);
	for (unsigned i = 0; i < s->n_rings; i++)
		sideband_ring_close(&s->rings[i]);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	online_fini(&s->online);
	free(s->rings);
	free(s->run_ends);
	free(s->pending);
	free(s->merged);
	buf_fini(&s->batch);
	buf_fini(&s->held);
	free(s);
}

int sideband_fd(struct sideband *s)
{
	return s->tasks ? tasks_fd(s->tasks) : s->epoll_fd;
}

bool sideband_pending(const struct sideband *s)
{
	if (s->tasks)
		return tasks_pending(s->tasks);
	for (unsigned i = 0; i < s->n_rings; i++)
		if (sideband_ring_head(&s->rings[i]) != sideband_ring_tail(&s->rings[i]))
			return true;
	return s->held.len;
}

void sideband_ignore(struct sideband *s, uint32_t pid, uint64_t start, uint64_t end)
{
	s->ignored.pid = pid;
	s->ignored.start = start;
	s->ignored.end = end;
}

static bool of_process(const uint8_t *record, size_t len, uint32_t *ret_pid)
{
	struct perf_event_header header;

	if (len < sizeof header + sizeof *ret_pid)
		return false;
	memcpy(&header, record, sizeof header);
	memcpy(ret_pid, record + sizeof header, sizeof *ret_pid);
	return header.type == PERF_RECORD_MMAP2 || header.type == PERF_RECORD_COMM ||
	       header.type == PERF_RECORD_FORK || header.type == PERF_RECORD_EXIT;
}

/* Whether the record maps memory that is ignored. Looks at the raw bytes: decoding takes longer. */
static bool within_ignored(const struct sideband *s, const uint8_t *record, size_t len)
{
	struct perf_event_header header;
	struct {
		uint64_t start, len;
	} at;

	if (len < SIDEBAND_MMAP_NAME + sizeof SIDEBAND_ANONYMOUS + SIDEBAND_TRAILER_BYTES)
		return false;
	memcpy(&header, record, sizeof header);
	memcpy(&at, record + SIDEBAND_MMAP_START, sizeof at);
	return header.type == PERF_RECORD_MMAP2 && at.start >= s->ignored.start &&
	       at.start <= s->ignored.end && at.len <= s->ignored.end - at.start &&
	       memcmp(record + SIDEBAND_MMAP_NAME, SIDEBAND_ANONYMOUS, sizeof SIDEBAND_ANONYMOUS) == 0;
}

static uint64_t time_of(const uint8_t *record, size_t len)
{
	uint64_t time_ns = 0;

	if (len >= sizeof(struct perf_event_header) + SIDEBAND_TRAILER_BYTES)
		memcpy(&time_ns, record + len - SIDEBAND_TRAILER_BYTES + SIDEBAND_TRAILER_TIME,
		       sizeof time_ns);
	return time_ns;
}

static int pending_add(struct sideband *s, size_t run, size_t offset, size_t len)
{
	const uint8_t *record = s->batch.data + offset;
	struct pending *p;
	int r = array_reserve(&s->pending, &s->cap_pending, s->n_pending + 1, sizeof *s->pending);

	if (r < 0)
		return r;
	p = &s->pending[s->n_pending++];
	*p = (struct pending){time_of(record, len), offset, len};
	s->disordered |= p > s->pending + run && p[-1].time_ns > p->time_ns;
	return 0;
}

/* Adds every record of the batch, which were held back. */
static int held_add(struct sideband *s)
{
	struct perf_event_header header;
	int r = 0;

	for (size_t offset = 0; r == 0 && offset < s->batch.len; offset += header.size) {
		memcpy(&header, s->batch.data + offset, sizeof header);
		r = pending_add(s, 0, offset, header.size);
	}
	s->run_ends[s->n_runs++] = s->n_pending;
	return r;
}

/*
 * Puts the records that the last drain held back at the beginning of the batch. On failure, nothing is lost.
 */
static int batch_begin(struct sideband *s)
{
	struct buf last = s->batch;
	int r = array_reserve(&s->run_ends, &s->cap_runs, (size_t)s->n_rings + 1, sizeof *s->run_ends);

	s->n_pending = s->n_runs = 0;
	s->disordered = false;
	if (r < 0)
		return r;
	s->batch = s->held;
	s->held = last;
	buf_clear(&s->held);
	s->lost[SIDEBAND_LOSS_NO_MEMORY] += held_add(s) < 0;
	return 0;
}

enum relation {
	RELATION_NONE,
	RELATION_IGNORED,
	RELATION_OTHER, /* another event of that process: after it, an ignored mapping may be new again */
};

static enum relation relation(const struct sideband *s, const uint8_t *record, size_t len)
{
	uint32_t pid;

	if (!of_process(record, len, &pid) || pid != s->ignored.pid)
		return RELATION_NONE;
	return within_ignored(s, record, len) ? RELATION_IGNORED : RELATION_OTHER;
}

static int record_add(struct sideband *s, size_t run, const uint8_t *record, size_t len)
{
	size_t offset = s->batch.len;
	int r = buf_append(&s->batch, record, len);

	return r < 0 ? r : pending_add(s, run, offset, len);
}

/*
 * Copies the records of a ring into the batch; with `skip`, all but those that are ignored. 1: one of the
 * records ends the ignoring.
 */
static int ring_collect(struct sideband *s, struct sideband_ring *ring, uint64_t begun_ns, bool skip)
{
	uint64_t at = sideband_ring_tail(ring);
	size_t run = s->n_pending, len;
	int r = 0;

	ring->taken = sideband_ring_head(ring);
	for (; at != ring->taken && r == 0; at += len) {
		const uint8_t *record = sideband_ring_record(ring, at, s->whole, &len);
		enum relation to = record && skip ? relation(s, record, len) : RELATION_NONE;

		if (!record) { /* nothing says where the next one begins */
			s->lost[SIDEBAND_LOSS_BAD_RECORD]++;
			break;
		}
		if (to == RELATION_OTHER)
			return 1;
		if (to == RELATION_NONE || time_of(record, len) >= begun_ns)
			r = record_add(s, run, record, len);
	}
	s->run_ends[s->n_runs++] = s->n_pending;
	return r;
}

static int rings_collect(struct sideband *s, uint64_t begun_ns, bool skip)
{
	int r = 0;

	for (unsigned i = 0; i < s->n_rings && r == 0; i++)
		r = ring_collect(s, &s->rings[i], begun_ns, skip);
	return r;
}

/*
 * Adds the records of all rings. Ignored mappings are skipped on the assumption that no event ends the
 * ignoring; where one does, the rings are read again from the start, with nothing skipped.
 */
static void batch_collect(struct sideband *s, uint64_t begun_ns)
{
	size_t held = s->n_pending, held_bytes = s->batch.len;
	uint64_t n_bad = s->lost[SIDEBAND_LOSS_BAD_RECORD];
	bool skip = s->ignored.pid, disordered = s->disordered;
	int r;

	for (size_t i = 0; i < held && skip; i++)
		skip = relation(s, s->batch.data + s->pending[i].offset, s->pending[i].len) != RELATION_OTHER;
	r = rings_collect(s, begun_ns, skip);
	if (r > 0) {
		s->n_pending = held;
		s->batch.len = held_bytes;
		s->n_runs = 1;
		s->lost[SIDEBAND_LOSS_BAD_RECORD] = n_bad;
		s->disordered = disordered;
		r = rings_collect(s, begun_ns, false);
	}
	s->lost[SIDEBAND_LOSS_NO_MEMORY] += r < 0;
	for (unsigned i = 0; i < s->n_rings; i++)
		sideband_ring_release(&s->rings[i]);
}

static int by_time(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->offset < y->offset ? -1 : 1; /* records of one CPU stay in order */
}

/* Merges two neighbouring runs of `pending` into the same place of `merged`. */
static void merge(struct sideband *s, size_t from, size_t middle, size_t end)
{
	size_t a = from, b = middle;

	for (size_t i = from; i < end; i++) {
		bool first = a < middle && (b == end || s->pending[a].time_ns <= s->pending[b].time_ns);

		s->merged[i] = s->pending[first ? a++ : b++];
	}
}

/* Merges the runs in pairs, until one is left. */
static void merge_runs(struct sideband *s)
{
	for (size_t n = s->n_runs, out; n > 1; n = out) {
		struct pending *pending = s->pending;
		size_t from = 0, cap = s->cap_pending;

		out = 0;
		for (size_t i = 0; i < n; i += 2) {
			size_t end = s->run_ends[i + 1 < n ? i + 1 : i];

			merge(s, from, s->run_ends[i], end);
			s->run_ends[out++] = from = end;
		}
		s->pending = s->merged;
		s->cap_pending = s->cap_merged;
		s->merged = pending;
		s->cap_merged = cap;
	}
}

/*
 * Sorts by time. The records of one ring are in order already, except where an interrupt wrote one while
 * another was being written.
 */
static void sort(struct sideband *s)
{
	int r = array_reserve(&s->merged, &s->cap_merged, s->n_pending, sizeof *s->merged);

	if (s->disordered || r < 0)
		qsort(s->pending, s->n_pending, sizeof *s->pending, by_time);
	else
		merge_runs(s);
}

static bool ignore(struct sideband *s, const struct pending *p)
{
	const uint8_t *record = s->batch.data + p->offset;
	enum relation to;
	uint32_t pid;

	if (!of_process(record, p->len, &pid))
		return false;
	if (!pid || pid == UINT32_MAX)
		return true; /* it has no pid in our PID namespace, or has ended */
	to = relation(s, record, p->len);
	if (to == RELATION_OTHER)
		s->ignored.pid = 0;
	return to == RELATION_IGNORED;
}

/* Returns how many events it handed on. */
static int hand_on(struct sideband *s, const struct pending *p, sideband_fn fn, void *data)
{
	struct sideband_event event;

	if (sideband_decode(s->batch.data + p->offset, p->len, &event) < 0) {
		s->lost[SIDEBAND_LOSS_BAD_RECORD]++;
		return 0;
	}
	if (event.kind == SIDEBAND_LOST) {
		s->lost[SIDEBAND_LOSS_OVERFLOW] += event.n_lost;
		s->reported[SIDEBAND_LOSS_OVERFLOW] += event.n_lost;
	}
	fn(&event, data);
	return 1;
}

/* Reports the losses that fn has not seen yet. Returns the number of events. */
static int hand_on_losses(struct sideband *s, uint64_t time_ns, sideband_fn fn, void *data)
{
	int n = 0;

	for (int i = 0; i < SIDEBAND_LOSSES_N; i++) {
		if (s->lost[i] == s->reported[i])
			continue;
		fn(&(struct sideband_event){.kind = SIDEBAND_LOST,
					    .time_ns = time_ns,
					    .loss = (enum sideband_loss)i,
					    .n_lost = s->lost[i] - s->reported[i],
					    .name = ""},
		   data);
		s->reported[i] = s->lost[i];
		n++;
	}
	return n;
}

/* Closes the rings of CPUs that went offline, after their last records were read. */
static void close_ended(struct sideband *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n_rings; i++) {
		if (s->rings[i].ended)
			sideband_ring_close(&s->rings[i]);
		else
			s->rings[n++] = s->rings[i];
	}
	s->n_rings = n;
}

/*
 * Holds a record for the next drain. False: there is no memory for it, so the caller must hand it on out
 * of order.
 */
static bool hold(struct sideband *s, const struct pending *p)
{
	if (buf_append(&s->held, s->batch.data + p->offset, p->len) == 0)
		return true;
	s->lost[SIDEBAND_LOSS_NO_MEMORY]++;
	return false;
}

int sideband_drain(struct sideband *s, sideband_fn fn, void *data)
{
	uint64_t begun_ns = clock_mono_ns();
	int r, n = 0;

	if (s->tasks)
		return tasks_drain(s->tasks, fn, data);
	r = batch_begin(s);
	if (r < 0)
		return r;
	batch_collect(s, begun_ns);
	close_ended(s);
	if (s->n_pending)
		sort(s);
	for (size_t i = 0; i < s->n_pending; i++) {
		const struct pending *p = &s->pending[i];

		if (p->time_ns >= begun_ns && hold(s, p))
			continue;
		if (ignore(s, p))
			continue;
		n += hand_on(s, p, fn, data);
	}
	return n + hand_on_losses(s, begun_ns, fn, data);
}

void sideband_lost(const struct sideband *s, uint64_t ret[SIDEBAND_LOSSES_N])
{
	if (s->tasks)
		tasks_lost(s->tasks, ret);
	else
		memcpy(ret, s->lost, sizeof s->lost);
}
