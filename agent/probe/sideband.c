// SPDX-License-Identifier: Apache-2.0
/*
 * Each CPU has a ring of its own, and one process's story is spread over them: forked here, executed there.
 * So a drain first copies what all rings hold, then sorts by time and hands on. While the rings are read, one
 * after the other, CPUs go on writing: of a story that goes on then, the end could be read without its
 * middle. So what is younger than the drain is held back until the next one. (It woke us: the next one comes
 * at once.)
 *
 * Of a process that maps and unmaps code without end, most records tell of memory that is known: they are
 * left in their ring, not copied (sideband_ignore).
 */
#include "agent/probe/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/probe/online.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband_layout.h"
#include "agent/probe/sideband_ring.h"
#include "agent/probe/tasks.h"

/* A record in the batch of one drain. */
struct pending {
	uint64_t time_ns;
	size_t offset, len; /* in batch */
};

struct sideband {
	struct tasks *tasks; /* instead of all that follows; NULL: perf */
	int epoll_fd;
	struct online online; /* CPUs that have a ring */
	unsigned n_rings;
	struct sideband_ring *rings;
	struct buf batch;
	struct pending *pending, *merged; /* cap_pending each */
	size_t n_pending, cap_pending;
	size_t *run_ends, n_runs, cap_runs; /* in `pending`: what was held, then each ring's records */
	bool disordered;		    /* one of them is not ascending */
	struct buf held;		    /* records for the next drain */
	uint64_t n_lost, n_bad;
	struct {
		uint32_t pid; /* 0: none */
		uint64_t start, end;
	} ignored;
	uint8_t whole[SIDEBAND_RECORD_MAX]; /* a record that goes over the end of its ring */
};

static int ring_open(struct sideband *s, int cpu)
{
	struct sideband_ring *more = realloc(s->rings, (s->n_rings + 1) * sizeof *more);
	struct epoll_event ev = {.events = EPOLLIN};
	int r;

	if (!more)
		return -ENOMEM;
	s->rings = more;
	r = sideband_ring_open(&more[s->n_rings], cpu);
	if (r < 0)
		return r;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, more[s->n_rings].fd, &ev) < 0) {
		r = -errno;
		sideband_ring_close(&more[s->n_rings]);
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

/* Is it a mapping of such memory? Before it is decoded, which would take longer. */
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

static int pending_grow(struct sideband *s)
{
	size_t cap = s->cap_pending ? s->cap_pending * 2 : 256;
	struct pending *more = realloc(s->pending, cap * sizeof *more);

	if (!more)
		return -ENOMEM;
	s->pending = more;
	more = realloc(s->merged, cap * sizeof *more);
	if (!more)
		return -ENOMEM;
	s->merged = more;
	s->cap_pending = cap;
	return 0;
}

static int pending_add(struct sideband *s, size_t run, size_t offset, size_t len)
{
	const uint8_t *record = s->batch.data + offset;
	struct pending *p;

	if (s->n_pending == s->cap_pending && pending_grow(s) < 0)
		return -ENOMEM;
	p = &s->pending[s->n_pending++];
	*p = (struct pending){time_of(record, len), offset, len};
	s->disordered |= p > s->pending + run && p[-1].time_ns > p->time_ns;
	return 0;
}

/* Notes the records of the batch, all of them. */
static int records_find(struct sideband *s)
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

/* One for what is held and one for each ring: CPUs come and go. */
static int runs_reserve(struct sideband *s)
{
	size_t cap = (size_t)s->n_rings + 1, *more;

	if (cap <= s->cap_runs)
		return 0;
	more = realloc(s->run_ends, cap * sizeof *more);
	if (!more)
		return -ENOMEM;
	s->run_ends = more;
	s->cap_runs = cap;
	return 0;
}

/* The batch begins with what the last drain held back. */
static int batch_begin(struct sideband *s)
{
	struct buf last = s->batch;
	int r = runs_reserve(s);

	s->n_pending = s->n_runs = 0;
	s->disordered = false;
	if (r < 0)
		return r;
	s->batch = s->held;
	s->held = last;
	buf_clear(&s->held);
	return records_find(s);
}

enum relation {
	RELATION_NONE,
	RELATION_IGNORED,
	RELATION_OTHER, /* of the same process: mappings as those that are ignored may be news after it */
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

/* What the ring holds, into the batch; `leave` what is ignored where it is. 1: it is not to be ignored. */
static int ring_collect(struct sideband *s, struct sideband_ring *ring, uint64_t begun_ns, bool leave)
{
	uint64_t at = sideband_ring_tail(ring);
	size_t run = s->n_pending, len;
	int r = 0;

	ring->taken = sideband_ring_head(ring);
	for (; at != ring->taken && r == 0; at += len) {
		const uint8_t *record = sideband_ring_record(ring, at, s->whole, &len);
		enum relation to = record && leave ? relation(s, record, len) : RELATION_NONE;

		if (!record) {
			s->n_bad++;
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

static int rings_collect(struct sideband *s, uint64_t begun_ns, bool leave)
{
	int r = 0;

	for (unsigned i = 0; i < s->n_rings && r == 0; i++)
		r = ring_collect(s, &s->rings[i], begun_ns, leave);
	return r;
}

/* Behind what was held: first as if none of it ended the ignoring. */
static int batch_collect(struct sideband *s, uint64_t begun_ns)
{
	size_t held = s->n_pending, held_bytes = s->batch.len;
	uint64_t n_bad = s->n_bad;
	bool leave = s->ignored.pid, disordered = s->disordered;
	int r;

	for (size_t i = 0; i < held && leave; i++)
		leave = relation(s, s->batch.data + s->pending[i].offset, s->pending[i].len) !=
			RELATION_OTHER;
	r = rings_collect(s, begun_ns, leave);
	if (r > 0) {
		s->n_pending = held;
		s->batch.len = held_bytes;
		s->n_runs = 1;
		s->n_bad = n_bad;
		s->disordered = disordered;
		r = rings_collect(s, begun_ns, false);
	}
	s->n_bad += r < 0; /* what did not find room */
	for (unsigned i = 0; i < s->n_rings; i++)
		sideband_ring_release(&s->rings[i]);
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->offset < y->offset ? -1 : 1; /* records of one CPU stay in order */
}

/* Two neighbouring runs of `pending`, into the same place of `merged`. */
static void merge(struct sideband *s, size_t from, size_t middle, size_t end)
{
	size_t a = from, b = middle;

	for (size_t i = from; i < end; i++) {
		bool first = a < middle && (b == end || s->pending[a].time_ns <= s->pending[b].time_ns);

		s->merged[i] = s->pending[first ? a++ : b++];
	}
}

/* By time. Each ring's records are in order, but for what an interrupt wrote into the middle of another. */
static void sort(struct sideband *s)
{
	size_t n = s->n_runs;

	if (s->disordered)
		qsort(s->pending, s->n_pending, sizeof *s->pending, by_time);
	while (n > 1 && !s->disordered) {
		size_t from = 0, out = 0;
		struct pending *swap = s->pending;

		for (size_t i = 0; i < n; i += 2) {
			size_t end = s->run_ends[i + 1 < n ? i + 1 : i];

			merge(s, from, s->run_ends[i], end);
			s->run_ends[out++] = from = end;
		}
		s->pending = s->merged;
		s->merged = swap;
		n = out;
	}
}

static bool ignore(struct sideband *s, const struct pending *p)
{
	const uint8_t *record = s->batch.data + p->offset;
	enum relation to;
	uint32_t pid;

	if (!of_process(record, p->len, &pid))
		return false;
	if (!pid || pid == UINT32_MAX)
		return true; /* outside of our PID namespace, or gone: it has no number here */
	to = relation(s, record, p->len);
	if (to == RELATION_OTHER)
		s->ignored.pid = 0;
	return to == RELATION_IGNORED;
}

static void hand_on(struct sideband *s, const struct pending *p, sideband_fn fn, void *data)
{
	struct sideband_event event;

	if (sideband_decode(s->batch.data + p->offset, p->len, &event) < 0) {
		s->n_bad++;
		return;
	}
	if (event.kind == SIDEBAND_LOST)
		s->n_lost += event.n_lost;
	fn(&event, data);
}

/* Rings of CPUs that went, after their last records were taken. */
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

int sideband_drain(struct sideband *s, sideband_fn fn, void *data)
{
	uint64_t begun_ns = clock_mono_ns();
	int r, n = 0;

	if (s->tasks)
		return tasks_drain(s->tasks, fn, data);
	r = batch_begin(s);
	if (r == 0)
		r = batch_collect(s, begun_ns);
	if (r == 0)
		close_ended(s);
	if (s->n_pending)
		sort(s);
	for (size_t i = 0; i < s->n_pending; i++) {
		const struct pending *p = &s->pending[i];

		if (p->time_ns >= begun_ns && buf_append(&s->held, s->batch.data + p->offset, p->len) == 0)
			continue;
		if (ignore(s, p))
			continue;
		hand_on(s, p, fn, data);
		n++;
	}
	return r < 0 ? r : n;
}

uint64_t sideband_lost(const struct sideband *s)
{
	return s->tasks ? tasks_lost_total(s->tasks) : s->n_lost + s->n_bad;
}
