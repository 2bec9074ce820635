// SPDX-License-Identifier: Apache-2.0
/*
 * What agent/track needs from the machine, as structs of functions: process events, /proc, the clock, worker
 * threads. track_host_open gives the real ones; tests give fakes.
 */
#ifndef PROFLET_TRACK_HOST_H
#define PROFLET_TRACK_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/worker.h"
#include "agent/probe/sideband.h"
#include "agent/proc/maps.h"
#include "agent/proc/open.h"
#include "agent/proc/root.h"
#include "agent/proc/scan.h"
#include "agent/proc/stat.h"
#include "agent/proc/text.h"
#include "cgroup/id.h"

struct probe;

/* Where process events come from; as the functions of agent/probe/sideband.h. */
struct event_source {
	int (*drain)(void *data, sideband_fn fn, void *fn_data);
	bool (*has_mappings)(void *data);
	void (*ignore)(void *data, uint32_t pid, uint64_t start, uint64_t end);
	void (*lost)(void *data, uint64_t ret[SIDEBAND_LOSSES_N]);
	void *data;
};

/*
 * What /proc shows; as the functions of agent/proc that have these names. Those of the first group answer
 * at once and are called by the main loop. The others may block for as long as a foreign file system does, so
 * only worker threads call them (requests.h); `data` has to stay valid for a thread that never comes back.
 */
struct proc_view_ops {
	int (*scan)(void *data, proc_scan_fn fn, void *fn_data);
	int (*stat)(void *data, uint32_t pid, struct proc_stat *ret);
	int (*comm)(void *data, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN]);
	int (*exe)(void *data, uint32_t pid, char **ret);
	int (*cgroup)(void *data, uint32_t pid, const struct cgroup_observer *from,
		      struct cgroup_identity *ret);
	int (*mount_namespace)(void *data, uint32_t pid, uint64_t *ret);
	/* may block */
	int (*maps)(void *data, uint32_t pid, proc_maps_fn fn, void *fn_data); /* every mapping */
	int (*environ)(void *data, uint32_t pid, const char *name, char **ret);
	int (*open_mapping)(void *data, const struct proc_open_request *req, struct proc_opened *ret);
	int (*open_other)(void *data, uint32_t other_pid, const struct proc_open_request *req,
			  struct proc_opened *ret);
	int (*open_root)(void *data, uint32_t pid, struct proc_root **ret);
	enum proc_text (*compare)(void *data, uint32_t pid, uint64_t start, uint64_t len, int fd,
				  uint64_t offset);
};

struct proc_view {
	const struct proc_view_ops *ops;
	void *data;
};

/* The functions of agent/base/clock.h and proc_boot_offset_ns; any thread calls them. */
struct host_clock {
	uint64_t (*mono_ns)(void);
	uint64_t (*thread_cpu_ns)(void);
	uint64_t (*boot_offset_ns)(void);
	int64_t (*real_offset_ns)(void);
};

/* A pool of worker threads; as the functions of agent/base/worker.h. */
struct job_pool {
	int (*submit)(void *data, struct worker_job *job, enum worker_priority priority);
	bool (*await)(void *data, struct worker_job *job, uint64_t timeout_ns);
	void (*check)(void *data, uint64_t bound_ns);
	void (*drain)(void *data, uint64_t timeout_ns);
	uint64_t (*blocked_ns)(void *data, const struct worker_job *job);
	void *data;
};

struct track_host {
	struct event_source events;
	struct proc_view proc;
	struct host_clock clock;
	struct job_pool readers; /* for what may never come back */
	struct job_pool workers; /* for all other jobs */
	struct worker *tables;	 /* builds unwind tables */
	/* Blocks, on a worker thread, until every BPF program that runs now has ended. */
	void (*grace_wait)(void);
	/* Makes segments of the arena; an arena_segment_fn. */
	int (*segment)(void *data, uint32_t index, void **ret);
	void *segment_data;
};

/* The machine that we run on. Everything given is borrowed. 0 or -errno. */
int track_host_open(struct track_host *ret, struct probe *probe, struct sideband *sideband,
		    struct worker *workers, struct worker *readers);
/* After the worker threads have ended. */
void track_host_close(struct track_host *h);

#endif
