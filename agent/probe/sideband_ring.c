// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/sideband_ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/probe/perf.h"
#include "agent/probe/sideband_layout.h"

#define RING_PAGES 128u /* a power of two; 512 KiB per CPU hold the events of 400 execs */
#define RING_PAGES_MIN 4u

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
	};

	/*
	 * Without build_id: it would replace the device, inode and generation, which prove which file
	 * was mapped.
	 */
	return perf_open(&attr, cpu);
}

void sideband_ring_close(struct sideband_ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->bytes + perf_page_bytes());
	if (ring->fd >= 0)
		close(ring->fd); /* takes it out of the epoll */
}

/* Without CAP_IPC_LOCK all perf buffers of a user share kernel.perf_event_mlock_kb: a small ring is better
 * than none. */
static int ring_map(struct sideband_ring *ring)
{
	size_t page_bytes = perf_page_bytes();
	void *page = MAP_FAILED;

	for (size_t pages = RING_PAGES; pages >= RING_PAGES_MIN; pages /= 2) {
		ring->bytes = pages * page_bytes;
		page = mmap(NULL, ring->bytes + page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
		if (page != MAP_FAILED || errno != EPERM)
			break;
	}
	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	ring->data = (const uint8_t *)page + page_bytes;
	return 0;
}

int sideband_ring_open(struct sideband_ring *ret, int cpu)
{
	_cleanup_(sideband_ring_close) struct sideband_ring ring = {.fd = event_open(cpu), .cpu = cpu};
	int r;

	if (ring.fd < 0)
		return ring.fd == -ENODEV ? -EAGAIN : ring.fd;
	r = ring_map(&ring);
	if (r < 0)
		return r;
	*ret = ring;
	ring = (struct sideband_ring){.fd = -1};
	return 0;
}

uint64_t sideband_ring_head(const struct sideband_ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

uint64_t sideband_ring_tail(const struct sideband_ring *ring)
{
	return ring->page->data_tail;
}

/* Records are multiples of eight bytes, so a header never wraps around the end of the ring. */
const uint8_t *sideband_ring_record(const struct sideband_ring *ring, uint64_t at, uint8_t *whole,
				    size_t *ret_len)
{
	size_t from = at & (ring->bytes - 1), first = ring->bytes - from;
	struct perf_event_header header;

	if (ring->taken - at < sizeof header || first < sizeof header)
		return NULL;
	memcpy(&header, ring->data + from, sizeof header);
	if (header.size < sizeof header || header.size > ring->taken - at)
		return NULL;
	*ret_len = header.size;
	if (header.size <= first)
		return ring->data + from;
	memcpy(whole, ring->data + from, first);
	memcpy(whole + first, ring->data, header.size - first);
	return whole;
}

void sideband_ring_release(struct sideband_ring *ring)
{
	__atomic_store_n(&ring->page->data_tail, ring->taken, __ATOMIC_RELEASE);
}
