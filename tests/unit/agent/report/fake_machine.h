// SPDX-License-Identifier: Apache-2.0
/*
 * A machine for agent/report: processes that a test makes up, a clock that stands still, a file in place of
 * /proc/kallsyms, and one binary with functions, which is the test program itself. What the report sends is
 * decoded and kept for the test to look at. A pool without threads never answers; with threads,
 * machine_work waits for all answers.
 */
#ifndef TESTS_UNIT_AGENT_REPORT_FAKE_MACHINE_H
#define TESTS_UNIT_AGENT_REPORT_FAKE_MACHINE_H

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/config/config_types.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/report/report.h"
#include "agent/sample/decode.h"
#include "cgroup/meta.h"

#define MACHINE_START_NS (1000 * NS_PER_SEC)  /* what the clock says at first */
#define MACHINE_UNIX_NS 1700000000000000000ll /* what the wall clock says then */
#define MACHINE_KERNEL_FUNCTION 0xffffffff81000000ull
#define MACHINE_MODULE_FUNCTION 0xffffffffc0001000ull /* of the module "mod" */
#define MACHINE_WAIT_NS (60 * NS_PER_SEC)
#define SENT_MAX 512
#define SENT_TIMES_MAX 128

extern uint64_t machine_now_ns;	       /* what the clocks say */
extern int64_t machine_real_offset_ns; /* wall clock minus machine_now_ns */

/* One Sample of a request, decoded. Lists are joined by ";". */
struct sent {
	unsigned request;		/* which request it was in, from 0 */
	char resource[1024];		/* "key=value" in the order in which they were sent */
	char attributes[512];		/* likewise, of the sample */
	char frames[1024];		/* functions, leaf first; lines of one location are joined by "<" */
	char kinds[512];		/* profile.frame.type of each frame */
	char mappings[1024];		/* file name of each frame's mapping */
	char type[32], unit[32];	/* of the profile */
	int64_t period;			/* of the profile */
	uint64_t start_ns, duration_ns; /* of the profile */
	size_t n;			/* events */
	size_t n_times;
	uint64_t times_ns[SENT_TIMES_MAX];
	size_t n_values;
	int64_t values[SENT_TIMES_MAX];
};

/* One stack that was handed to report_options.stack. */
struct kept_stack {
	char process[32], thread[32], container[80], container_name[32], frames[1024];
	uint32_t pid;
	uint64_t count;
	bool complete;
};

struct machine {
	struct config config;
	struct worker *worker;
	struct binary_registry *binaries;
	struct proc_table *processes;
	struct cgroup_meta_cache *workloads;
	struct report_options options; /* for machine_report; a test may change them before */
	struct report *report;
	uint32_t program; /* the test program, with a reference */
	char dir[32], kallsyms[64];
	struct worker_job block;
	sem_t unblock;
	/* what the report has sent */
	struct buf spilled;
	unsigned n_requests;
	uint64_t n_events; /* of all requests, as their headers say */
	struct sent *sent;
	size_t n_sent;
	struct kept_stack *stacks;
	size_t n_stacks;
};

/* `threads`: of the worker pool; 0: nothing ever answers. */
void machine_init(struct machine *m, unsigned threads);
void machine_fini(struct machine *m);
#define _cleanup_machine_ __attribute__((cleanup(machine_fini)))

/* Makes the report from m->options. */
void machine_report(struct machine *m);
/* Waits until the workers have answered everything, and lets the report go on. */
void machine_work(struct machine *m);
/* Closes the window, waits for its names, sends it. */
void machine_flush(struct machine *m);
/* The only thread of the pool gets a job that ends with machine_unblock; what is submitted after it waits. */
void machine_block(struct machine *m);
void machine_unblock(struct machine *m);
/* Writes a file in the machine's folder. Its path, until the next call. */
const char *machine_write(const struct machine *m, const char *name, const void *bytes, size_t len);

/* A living process that is called "app" and runs /usr/bin/app. */
struct process *machine_process(struct machine *m, uint32_t pid);
/* Its workload: a container (64 digits), a pod's UID, a systemd unit; "": none. */
void machine_workload(struct machine *m, struct process *p, const char *container, const char *pod,
		      const char *unit);
/* Registers the file, without a reference. Its index. */
uint32_t machine_binary(struct machine *m, const char *path);

/* Frames in functions of the test program, which are called machine_alpha and machine_beta. */
uint64_t machine_alpha_frame(const struct machine *m);
uint64_t machine_beta_frame(const struct machine *m);

/* A view of a sample of p's main thread, taken now. The words are borrowed. */
struct sample_view machine_sample(const struct process *p, const uint64_t *words, uint16_t n_kernel,
				  uint16_t n_user);
/* Adds a sample, whose thread is called "worker". */
void machine_add(struct machine *m, struct process *p, const struct sample_view *v);
/* Adds a sample with one frame, machine_alpha, called from `caller`. */
void machine_add_alpha(struct machine *m, struct process *p, uint64_t caller);

struct report_stats machine_stats(const struct machine *m);
/* Events of all sent samples whose frames are these. */
size_t machine_sent(const struct machine *m, const char *frames);

#endif
