// SPDX-License-Identifier: Apache-2.0
/*
 * What processes and threads are called: command names, the workload (container, pod or unit) that a process
 * belongs to, and the service name in its environment. A sample is named as things were at its time.
 * Workload and service name are read from /proc once per image, and dropped where a later event shows that
 * the pid belonged to another process by then. Main loop only.
 */
#ifndef PROFLET_TRACK_PROCESS_NAMES_H
#define PROFLET_TRACK_PROCESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/image.h"
#include "agent/sample/decode.h"
#include "agent/track/gaps.h"
#include "agent/track/requests.h"
#include "cgroup/meta.h"

struct process;
struct process_names;
struct sideband_event;

struct process_names_options {
	const struct track_host *host;
	struct requests *requests;
	struct gaps *gaps;
	const struct cgroup_observer *cgroup_from; /* cgroup/path.h; borrowed; NULL: from outside of all */
	/* Called whenever the workload of a process was read. May be NULL. */
	void (*workload)(const struct cgroup_meta *m, void *data);
	void *workload_data;
};

struct process_names_stats {
	struct cgroup_meta_stats workloads;
	uint64_t suspicious;		/* times that cgroup_identity.suspicious was read */
	uint64_t threads, threads_full; /* threads whose names are held; refused at the maximum */
};

/* Everything in `options` is borrowed. 0 or -errno. */
int process_names_new(struct process_names **ret, const struct process_names_options *options);
/* After the last process is gone. NULL is fine. */
void process_names_free(struct process_names *n);

/* --- events, in the order in which they happened */

/* A task has a new name; not by execve. */
void process_names_renamed(struct process_names *n, struct process *p, const struct sideband_event *comm);
/* The process runs another program. execve ends all threads but the caller, which becomes the main one. */
void process_names_exec(struct process_names *n, struct process *p, const struct sideband_event *exec);
/* `child` was forked: it is called as the thread that forked it. */
void process_names_forked(struct process_names *n, struct process *child, struct process *parent,
			  const struct sideband_event *fork);
void process_names_thread_begin(struct process_names *n, struct process *p,
				const struct sideband_event *fork);
/* A task has ended; p is NULL where its process is not known. True: it was the last of its process. */
bool process_names_task_end(struct process_names *n, struct process *p, const struct sideband_event *exit);

/* --- from /proc */

/* Reads the workload of the image that runs now; it stays as it was when the process is gone. */
void process_names_read_workload(struct process_names *n, struct process *p);
/* Reads it again, as it may have moved to another cgroup. True: it has. */
bool process_names_reread_workload(struct process_names *n, struct process *p);

/*
 * Fills in image and thread name of ret->process at the sample's time, and reads what is not known yet and
 * changes without an event: the workload every few seconds, the service name once.
 */
void process_names_of_sample(struct process_names *n, const struct sample_view *v, struct sampled_task *ret);

/* --- forgetting */

/* Samples taken before this time have all been seen: names that ended before may be forgotten. */
void process_names_drained(struct process_names *n, uint64_t time_ns);
/* Call now and then. Drop names that samples no longer need: of a process; of threads that have ended. */
void process_names_forget(struct process_names *n, struct process *p);
void process_names_forget_threads(struct process_names *n);
/* /proc is about to be read because events were lost: threads get the names that it shows. */
void process_names_rescan(struct process_names *n);
/*
 * Whether the process has ended although no event said so, because the exit of some thread was lost: the main
 * thread has ended, and /proc shows no other.
 */
bool process_names_ended(struct process_names *n, const struct process *p);
void process_names_stats(const struct process_names *n, struct process_names_stats *ret);

#endif
