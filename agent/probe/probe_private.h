// SPDX-License-Identifier: Apache-2.0
/* The struct that probe.c and loading.c share: loading.c opens and loads the program, probe.c uses it. */
#ifndef PROFLET_PROBE_PROBE_PRIVATE_H
#define PROFLET_PROBE_PROBE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
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
	struct ring_buffer *ring, *reports;
	struct probe_options options;
	size_t ring_bytes;
	uint32_t n_cpus;      /* possible CPUs, each of which has an area */
	int *area_fds;	      /* n_cpus of them */
	struct online online; /* CPUs with an event */
	int *event_fds;	      /* n_event_fds of them, by CPU, -1: none */
	int n_event_fds;
	bool cycles, tick;
	const char *event_name;
	struct bpf_link *tick_link, *task_links[TASK_PROGRAMS];
	void **segments;     /* max_segments of them, NULL: not created */
	uint32_t n_segments; /* created by the caller */
	probe_sample_fn fn;
	void *fn_data;
	probe_sample_fn report_fn;
	void *report_data;
	/*
	 * The maps of maps. We create them ourselves, so that they can be filled while the program
	 * is verified.
	 */
	int segments_fd, areas_fd, first_segment_fd;
	pthread_t loader, filler;
	bool loading, filling;
	atomic_uint n_at_work;	      /* threads of these that have not ended */
	int begin_cpu;		      /* the CPU that the caller ran on */
	int load_result, fill_result; /* of the threads: 0 or -errno */
	char *message;		      /* from libbpf, after a failed load; owned */
};

/*
 * Opens the program, creates the maps of maps and starts the threads. 0, or -errno with libbpf's message
 * (owned, may be NULL).
 */
int loading_begin(struct probe *p, char **ret_message);
/* Waits for the threads and returns their result: 0, or -errno with p->message; 0 when called again. */
int loading_end(struct probe *p);
/* Creates and maps a segment, without adding it to the map of segments. *ret_fd is owned by the caller. 0 or
 * -errno. */
int segment_make(struct probe *p, uint32_t index, int *ret_fd);

/*
 * *ret: the inode of the agent's PID namespace, to which the program translates pids so that they match /proc
 * here; 0 for the initial one, which needs no translation. 0 or -errno.
 */
int probe_pid_namespace(uint32_t *ret);

#endif
