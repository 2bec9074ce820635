// SPDX-License-Identifier: Apache-2.0
/* What report.c and its parts share: report_names.c, report_frames.c, report_resource.c, report_send.c.
 */
#ifndef PROFLET_REPORT_PRIVATE_H
#define PROFLET_REPORT_PRIVATE_H

#include "agent/base/clock.h"
#include "agent/base/frame.h"
#include "agent/proc/image.h"
#include "agent/report/report.h"
#include "agent/sample/aggregate.h"
#include "otlp/profile.h"

struct cgroup_meta;
struct names;
struct process;

/* The samples between two closings. */
struct window {
	struct sample_aggregate *samples;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	uint32_t frequency_hz;	   /* that its samples were taken at */
};

struct report {
	struct report_options options;
	struct window open, closed; /* closed.samples is empty unless it waits for names */
	uint32_t frequency_hz;
	bool closing;
	struct clock_steps clock; /* that times are told by */
	uint64_t closed_at_ns;
	struct names *names;
	struct host_attrs *host;
	struct report_stats stats;
};

/* --- report_names.c: names of functions, asked for in batches, found by worker threads */
int names_new(struct names **ret, const struct report_options *options);
void names_free(struct names *n);
/* Begins with what every window needs. */
void names_prepare(struct names *n);
/* A sample that goes into the window: what names it may be gone when that closes. */
void names_sample(struct names *n, struct process *p, const struct sample_view *v);
/* Asks for what the window's stacks need and the caches do not have. */
void names_request(struct names *n, const struct sample_aggregate *samples);
/* Nothing that was asked for is outstanding. */
bool names_complete(const struct names *n);
/* Fills a frame of a user or kernel address. Borrowed until the next names_request or worker_collect. */
void names_user_frame(struct names *n, uint64_t frame, struct frame *ret);
void names_kernel_frame(struct names *n, uint64_t address, struct frame *ret);
/* A user frame of p's, told apart from those of other processes where the same address is other code there;
 * it means something to names_user_frame, until the next names_request or names_sample. */
uint64_t names_frame_id(struct names *n, const struct process *p, const struct stack_frame *f);
void names_forget(struct names *n, uint32_t file);
size_t names_bytes(const struct names *n);
/* Addresses whose source lines are missing, for want of time. */
uint64_t names_lines_left(const struct names *n);

/* --- report_frames.c */
#define REPORT_FRAMES_MAX (KERNEL_FRAMES_MAX + USER_FRAMES_MAX + 1u)
/* The entry's stack as named frames, leaf first, the reason of an early end last. Returns their number. */
size_t report_frames(struct names *n, const struct sample_entry *e, struct frame *ret);
/* The same as numbers, equal ones for equal frames; at most REPORT_FRAMES_MAX. Returns how many; *ret_own:
 * some are of the entry's process alone, other entries with this stack have others. */
size_t report_frame_ids(struct names *n, const struct sample_entry *e, uint64_t *ret, bool *ret_own);
/* What a number means; an otlp_frame_fn. */
void report_frame(void *names, uint64_t id, struct frame *ret);

/* --- report_resource.c: what the samples belong to */
struct host_attrs;
int host_attrs_new(struct host_attrs **ret, const struct report_options *options); /* borrowed */
void host_attrs_free(struct host_attrs *h);

#define RESOURCE_ATTRS_MAX 64

/* The control group that the image's process ran in; NULL: not known. Borrowed from the image. */
static inline const struct cgroup_meta *resource_workload(const struct proc_image *i)
{
	return i->context.data;
}
/* The attributes of the resource that a process belongs to. Borrowed from image, workload, pods and host,
 * until the loop goes on. */
size_t resource_attrs(const struct host_attrs *h, const struct proc_image *i, struct otlp_attr *ret);
/* What the kubelet calls the container of a process; NULL: not known. Borrowed as above. */
const char *resource_container_name(const struct host_attrs *h, const struct proc_image *i);
/* Entries ordered so that those of one resource stand together; owned by the caller. NULL: no memory. */
const struct sample_entry **resource_order(const struct report *r, const struct sample_aggregate *samples,
					   size_t *ret_n);
bool resource_same(const struct report *r, const struct sample_entry *a, const struct sample_entry *b);

/* --- report_send.c: the window becomes requests, and stacks of the recording */
void report_send(struct report *r, struct window *w);

#endif
