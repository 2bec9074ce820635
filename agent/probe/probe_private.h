// SPDX-License-Identifier: Apache-2.0
/* What probe.c and loading.c share. */
#ifndef PROFLET_PROBE_PROBE_PRIVATE_H
#define PROFLET_PROBE_PROBE_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/probe/online.h"
#include "agent/probe/probe.h"

#define TASK_PROGRAMS 4

struct bpf_link;
struct profiler_bpf;
struct ring_buffer;

struct probe {
	struct profiler_bpf *skel;
	struct ring_buffer *ring;
	struct probe_options options;
	size_t ring_bytes;
	uint32_t n_cpus;      /* possible ones: areas */
	int *area_fds;	      /* n_cpus of them */
	struct online online; /* CPUs that have an event */
	int *event_fds;	      /* n_event_fds of them, by CPU, -1: none */
	int n_event_fds;
	bool cycles, tick;
	const char *event_name;
	struct bpf_link *tick_link, *task_links[TASK_PROGRAMS];
	void **segments;     /* max_segments of them, NULL where not made */
	uint32_t n_segments; /* that were asked for */
	probe_sample_fn fn;
	void *fn_data;
	/* of the maps of maps, which are ours: they are filled while the program is verified */
	int segments_fd, areas_fd, first_segment_fd;
	pthread_t loader, filler;
	bool loading, filling;
	int begin_cpu;		      /* that the caller ran on */
	int load_result, fill_result; /* 0 or -errno, of the threads */
	char *words;		      /* libbpf's, of a load that failed; owned */
};

/*
 * Opens the program, makes the maps of maps and starts the threads. 0 or -errno, with libbpf's words (owned,
 * may be NULL).
 */
int loading_begin(struct probe *p, char **ret_words);
/* Waits for the threads; what they came to, the first time. 0 or -errno with p->words. */
int loading_end(struct probe *p);
/* Makes and maps a segment, not yet in the map of segments: *ret_fd is the caller's. 0 or -errno. */
int segment_make(struct probe *p, uint32_t index, int *ret_fd);

#endif
