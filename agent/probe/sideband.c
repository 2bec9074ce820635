// SPDX-License-Identifier: Apache-2.0
/*
 * Each CPU has a ring of its own, and one process's story is spread over them: forked here, executed there.
 * So a drain first copies what all rings hold, then sorts by time and hands on. While the rings are read, one
 * after the other, CPUs go on writing: of a story that goes on then, the end could be read without its
 * middle. So what is younger than the drain is held back until the next one. (It woke us: the next one comes
 * at once.)
 */
#include "agent/probe/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/online.h"
#include "agent/probe/perf.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband_layout.h"
#include "agent/probe/tasks.h"

#define RING_PAGES 128u /* a power of two; 512 KiB a CPU hold what 400 execs leave */
#define RING_PAGES_MIN 4u

struct ring {
	int fd, cpu;
	bool ended;			   /* its CPU went: what it holds is the last of it */
	unsigned pages;			   /* of data, a power of two */
	struct perf_event_mmap_page *page; /* followed by them */
};

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
	struct ring *rings;
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
};

static int event_open(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof attr,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = SIDEBAND_SAMPLE_TYPE,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1, /* wakeup_events counts samples only */
		.wakeup_watermark = 1,
		.build_id = 1,
	};
	int fd = perf_open(&attr, cpu);

	if (fd == -EINVAL || fd == -E2BIG) {
		attr.build_id = 0; /* before 5.12 */
		fd = perf_open(&attr, cpu);
	}
	return fd;
}

static void ring_close(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, (ring->pages + 1) * perf_page_bytes());
	if (ring->fd >= 0)
		close(ring->fd); /* takes it out of the epoll */
}

/* Without CAP_IPC_LOCK all perf buffers of a user share kernel.perf_event_mlock_kb: a small ring is better
 * than none. */
static int ring_map(struct ring *ring)
{
	void *page = MAP_FAILED;

	for (ring->pages = RING_PAGES; ring->pages >= RING_PAGES_MIN; ring->pages /= 2) {
		page = mmap(NULL, (ring->pages + 1) * perf_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring->fd, 0);
		if (page != MAP_FAILED || errno != EPERM)
			break;
	}
	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	return 0;
}

static int ring_open(struct sideband *s, int cpu)
{
	_cleanup_(ring_close) struct ring ring = {.fd = event_open(cpu), .cpu = cpu};
	struct epoll_event ev = {.events = EPOLLIN};
	struct ring *more;
	int r;

	if (ring.fd < 0)
		return ring.fd == -ENODEV ? -EAGAIN : ring.fd; /* went offline again */
	r = ring_map(&ring);
	if (r < 0)
		return r;
	more = realloc(s->rings, (s->n_rings + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	s->rings = more;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, ring.fd, &ev) < 0)
		return -errno;
	s->rings[s->n_rings++] = ring;
	ring = (struct ring){.fd = -1};
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
		ring_close(&s->rings[i]);
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
		if (__atomic_load_n(&s->rings[i].page->data_head, __ATOMIC_ACQUIRE) !=
		    s->rings[i].page->data_tail)
			return true;
	return s->held.len;
}

/* Copies `len` ring bytes from position `tail` on to the batch. */
static int ring_copy(struct sideband *s, const struct ring *ring, uint64_t tail, size_t len)
{
	size_t size = ring->pages * perf_page_bytes(), at = tail & (size - 1);
	const uint8_t *data = (const uint8_t *)ring->page + perf_page_bytes();
	size_t first = len < size - at ? len : size - at;
	int r = buf_append(&s->batch, data + at, first);

	return r < 0 ? r : buf_append(&s->batch, data, len - first);
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
	*p = (struct pending){.offset = offset, .len = len};
	if (len >= sizeof(struct perf_event_header) + SIDEBAND_TRAILER_BYTES)
		memcpy(&p->time_ns, record + len - SIDEBAND_TRAILER_BYTES + SIDEBAND_TRAILER_TIME,
		       sizeof p->time_ns);
	s->disordered |= p > s->pending + run && p[-1].time_ns > p->time_ns;
	return 0;
}

/* Notes the records of the batch from `offset` on. */
static int records_find(struct sideband *s, size_t offset)
{
	size_t run = s->n_pending;
	int r = 0;

	while (r == 0 && offset < s->batch.len) {
		struct perf_event_header header;

		if (s->batch.len - offset < sizeof header)
			break;
		memcpy(&header, s->batch.data + offset, sizeof header);
		if (header.size < sizeof header || header.size > s->batch.len - offset)
			break;
		r = pending_add(s, run, offset, header.size);
		offset += header.size;
	}
	if (offset != s->batch.len)
		s->n_bad++;
	s->run_ends[s->n_runs++] = s->n_pending;
	return r;
}

/* Moves all records that the ring holds into the batch. */
static int ring_collect(struct sideband *s, const struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE),
		 tail = ring->page->data_tail;
	size_t offset = s->batch.len;
	int r;

	if (head == tail)
		return 0;
	r = ring_copy(s, ring, tail, head - tail);
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return r < 0 ? r : records_find(s, offset);
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
	return records_find(s, 0);
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

void sideband_ignore(struct sideband *s, uint32_t pid, uint64_t start, uint64_t end)
{
	s->ignored.pid = pid;
	s->ignored.start = start;
	s->ignored.end = end;
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

static bool of_process(uint32_t type)
{
	return type == PERF_RECORD_MMAP2 || type == PERF_RECORD_COMM || type == PERF_RECORD_FORK ||
	       type == PERF_RECORD_EXIT;
}

static bool ignore(struct sideband *s, const struct pending *p)
{
	const uint8_t *record = s->batch.data + p->offset;
	struct perf_event_header header;
	uint32_t pid;

	if (p->len < sizeof header + sizeof pid)
		return false;
	memcpy(&header, record, sizeof header);
	memcpy(&pid, record + sizeof header, sizeof pid);
	if (!of_process(header.type))
		return false;
	if (!pid || pid == UINT32_MAX)
		return true; /* outside of our PID namespace, or gone: it has no number here */
	if (pid != s->ignored.pid)
		return false;
	if (within_ignored(s, record, p->len))
		return true;
	s->ignored.pid = 0;
	return false;
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
			ring_close(&s->rings[i]);
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
	for (unsigned i = 0; i < s->n_rings && r == 0; i++)
		r = ring_collect(s, &s->rings[i]);
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
