// SPDX-License-Identifier: Apache-2.0
/*
 * The perf ring of one CPU's side-band events (perf_event_open(2), "MMAP layout"), read in place. Inside
 * probe/ only.
 */
#ifndef PROFLET_PROBE_SIDEBAND_RING_H
#define PROFLET_PROBE_SIDEBAND_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_mmap_page;

#define SIDEBAND_RECORD_MAX (UINT16_MAX + 1u) /* bytes */

struct sideband_ring {
	int fd, cpu;
	bool ended;   /* its CPU went: what it holds is the last of it */
	size_t bytes; /* of data, a power of two */
	struct perf_event_mmap_page *page;
	const uint8_t *data; /* behind that page */
	uint64_t taken;	     /* the reader's: up to there */
};

/* 0, -EAGAIN: the CPU went offline again; or -errno. */
int sideband_ring_open(struct sideband_ring *ret, int cpu);
void sideband_ring_close(struct sideband_ring *ring);

/* What waits lies from the tail to the head. */
uint64_t sideband_ring_head(const struct sideband_ring *ring);
uint64_t sideband_ring_tail(const struct sideband_ring *ring);
/*
 * The record at position `at`, with its header, and its bytes. It lies in the ring, or, where it goes over
 * the ring's end, in `whole` (SIDEBAND_RECORD_MAX bytes). NULL: what lies there, up to `taken`, is none.
 */
const uint8_t *sideband_ring_record(const struct sideband_ring *ring, uint64_t at, uint8_t *whole,
				    size_t *ret_len);
/* Gives all before `taken` back to the kernel. */
void sideband_ring_release(struct sideband_ring *ring);

#endif
