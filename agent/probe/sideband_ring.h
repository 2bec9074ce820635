// SPDX-License-Identifier: Apache-2.0
/*
 * The perf ring of one CPU's side-band events (perf_event_open(2), "MMAP layout"), read in place. Private
 * to agent/probe.
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
	bool ended;   /* its CPU went offline: it holds the last records */
	size_t bytes; /* of data, a power of two */
	struct perf_event_mmap_page *page;
	const uint8_t *data; /* follows that page */
	uint64_t taken;	     /* the reader has read up to there */
};

/* 0, -EAGAIN: the CPU went offline again; or -errno. */
int sideband_ring_open(struct sideband_ring *ret, int cpu);
void sideband_ring_close(struct sideband_ring *ring);

struct sideband;
/* A side-band over rings that exist already; takes them over on success. For tests. 0 or -ENOMEM. */
int sideband_new_of_rings(struct sideband **ret, const struct sideband_ring *rings, unsigned n);

/* The waiting records lie from the tail to the head. */
uint64_t sideband_ring_head(const struct sideband_ring *ring);
uint64_t sideband_ring_tail(const struct sideband_ring *ring);
/*
 * The record at position `at`, header included. It is read in place; one that wraps around the end of the
 * ring is copied to `whole` (SIDEBAND_RECORD_MAX bytes). NULL: the bytes from there to `taken` are no record.
 */
const uint8_t *sideband_ring_record(const struct sideband_ring *ring, uint64_t at, uint8_t *whole,
				    size_t *ret_len);
/* Gives everything before `taken` back to the kernel. */
void sideband_ring_release(struct sideband_ring *ring);

#endif
