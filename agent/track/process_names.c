// SPDX-License-Identifier: Apache-2.0
/*
 * A process ends with its last thread, so its threads are counted. Where the main thread ends first
 * (pthread_exit in main, or execve in another thread, which takes the main thread's place), the process goes
 * on. Where an exit was lost, the count is wrong, so /proc is read now and then.
 */
#include "agent/track/process_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/probe/sideband.h"
#include "agent/proc/image.h"
#include "agent/proc/process.h"
#include "agent/proc/threads.h"

#define WORKLOADS_MAX 4096u
#define THREADS_MAX 65536u
#define WORKLOAD_AGE_NS (5 * NS_PER_SEC) /* no event tells that a process was moved to another cgroup */

struct process_names {
	struct process_names_options options;
	struct cgroup_meta_cache *workloads;
	struct proc_threads *threads; /* names of all but main threads */
	uint64_t drained_ns;
	uint64_t n_suspicious;
};

int process_names_new(struct process_names **ret, const struct process_names_options *options)
{
	struct process_names *n = calloc(1, sizeof *n);
	int r;

	if (!n)
		return -ENOMEM;
	n->options = *options;
	r = cgroup_meta_cache_new(&n->workloads, WORKLOADS_MAX);
	if (r == 0)
		r = proc_threads_new(&n->threads, THREADS_MAX);
	if (r < 0) {
		process_names_free(n);
		return r;
	}
	*ret = n;
	return 0;
}

void process_names_free(struct process_names *n)
{
	if (!n)
		return;
	cgroup_meta_cache_free(n->workloads);
	proc_threads_free(n->threads);
	free(n);
}

static uint64_t now_ns(const struct process_names *n)
{
	return n->options.host->clock.mono_ns();
}

/* --- the service name: reading an environment is reading the memory of the process, so a thread does it */

struct environ_request {
	struct request request;
	struct process *process;  /* one reference */
	struct proc_image *image; /* whose environment it is; one reference */
	uint64_t read_ns;	  /* when it had been read */
	char *value;		  /* owned; NULL: none */
};

static void environ_run(struct request *q)
{
	struct environ_request *e = container_of(q, struct environ_request, request);

	(void)q->proc.ops->environ(q->proc.data, q->pid, "OTEL_SERVICE_NAME", &e->value);
	e->read_ns = q->clock.mono_ns();
}

/* Whether the pid still ran that program when the environment was read. */
static bool same_program(const struct environ_request *e)
{
	const struct process *p = e->process;

	return (!p->end_ns || p->end_ns > e->read_ns) &&
	       proc_image_at(p, e->read_ns)->program == e->image->program;
}

static void environ_take(struct request *q)
{
	struct environ_request *e = container_of(q, struct environ_request, request);

	if (same_program(e))
		proc_program_set_service(e->image->program, TAKE_PTR(e->value), e->process->pid, e->read_ns);
}

static void environ_free(struct request *q)
{
	struct environ_request *e = container_of(q, struct environ_request, request);

	process_unref(e->process);
	proc_image_unref(e->image);
	free(e->value);
	free(e);
}

static const struct request_kind environ_kind = {
	.what = "reading its environment", .run = environ_run, .late = environ_take, .free = environ_free};

static void environ_read(struct process_names *n, struct process *p, struct proc_image *i)
{
	struct environ_request *e = calloc(1, sizeof *e);
	enum request_result result;

	if (!e)
		return;
	e->process = process_ref(p);
	e->image = proc_image_ref(i);
	result = requests_make(n->options.requests, &e->request, &environ_kind, p->pid);
	if (result == REQUEST_LATER)
		return;
	if (result == REQUEST_DONE)
		environ_take(&e->request);
	else
		i->program->environ_ns = 0; /* too many requests: the next sample may try again */
	environ_free(&e->request);
}

static void service_read(struct process_names *n, struct process *p, struct proc_image *i)
{
	if (i->program->environ_ns || i != p->image || p->end_ns || p->kernel_thread)
		return;
	proc_program_set_service(i->program, NULL, p->pid, now_ns(n)); /* it is requested only once */
	environ_read(n, p, i);
}

/* --- the workload */

static void meta_ref(void *data)
{
	cgroup_meta_ref(data);
}

static void meta_unref(void *data)
{
	cgroup_meta_unref(data);
}

/* One reference on *ret. */
static int workload_read(struct process_names *n, const struct process *p, struct cgroup_meta **ret)
{
	const struct process_names_options *o = &n->options;
	const struct proc_view *proc = &o->host->proc;
	static const struct cgroup_observer outside = {.base = NULL};
	struct cgroup_identity id;
	int r = proc->ops->cgroup(proc->data, p->pid, o->cgroup_from ?: &outside, &id);

	if (r < 0)
		return r;
	if (id.suspicious && n->n_suspicious++ == 0)
		log_warn("the control group of process %u is named like a container or pod, but is in one "
			 "that "
			 "is not root's alone: it is not taken for one; counted from now on",
			 p->pid);
	r = cgroup_meta_get(n->workloads, &id, ret);
	if (r == 0 && o->workload)
		o->workload(*ret, o->workload_data);
	return r;
}

static void workload_set(struct process_names *n, struct proc_image *i, struct cgroup_meta *meta)
{
	proc_image_set_context(i, (struct proc_context){meta, meta_ref, meta_unref, meta->identity.tenant},
			       now_ns(n));
}

void process_names_read_workload(struct process_names *n, struct process *p)
{
	struct cgroup_meta *meta;

	if (workload_read(n, p, &meta) == 0)
		workload_set(n, p->image, meta);
}

bool process_names_reread_workload(struct process_names *n, struct process *p)
{
	struct proc_image *i = p->image;
	bool inherited = !i->context_ns;
	struct cgroup_meta *meta = NULL;

	i->context_ns = now_ns(n); /* also when it fails: not again for every sample */
	if (workload_read(n, p, &meta) < 0)
		return false;
	if (meta == i->context.data || (!inherited && proc_image_begin(p, i->context_ns, &i) < 0)) {
		cgroup_meta_unref(meta);
		return false;
	}
	workload_set(n, i, meta);
	return true;
}

/*
 * What a process has inherited from its parent is read again at its first sample: a container's first process
 * is forked by the runtime into the container's cgroup, or moved there soon after.
 */
static void workload_refresh(struct process_names *n, struct process *p, uint64_t time_ns)
{
	if (!p->end_ns && !p->kernel_thread && time_ns >= p->image->context_ns + WORKLOAD_AGE_NS)
		(void)process_names_reread_workload(n, p);
}

/* --- command names */

static void comm_set(struct proc_image *i, const char *comm)
{
	memset(i->comm, 0, sizeof i->comm);
	memcpy(i->comm, comm, strnlen(comm, sizeof i->comm - 1));
}

/* What the thread was called at that time. */
static void thread_name(struct process_names *n, struct process *p, uint32_t tid, uint64_t time_ns,
			char ret[PROC_TASK_COMM_LEN])
{
	const struct proc_view *proc = &n->options.host->proc;
	char name[PROC_TASK_COMM_LEN];

	memcpy(ret, proc_image_at(p, time_ns)->comm, PROC_TASK_COMM_LEN);
	if (tid == p->pid || proc_threads_at(n->threads, p->pid, tid, time_ns, ret))
		return;
	/* a thread that is older than we are */
	if (p->end_ns || proc_threads_known(n->threads, p->pid, tid) ||
	    proc->ops->comm(proc->data, p->pid, tid, name) < 0)
		return;
	proc_threads_set(n->threads, p->pid, tid, 0, name);
	memcpy(ret, name, PROC_TASK_COMM_LEN);
}

void process_names_renamed(struct process_names *n, struct process *p, const struct sideband_event *comm)
{
	struct proc_image *i = p->image;

	if (comm->tid != comm->pid) {
		if (!proc_threads_known(n->threads, p->pid, comm->tid)) /* it is older than we are */
			proc_threads_set(n->threads, p->pid, comm->tid, 0, i->comm);
		proc_threads_set(n->threads, p->pid, comm->tid, comm->time_ns, comm->name);
		return;
	}
	if (strncmp(i->comm, comm->name, sizeof i->comm - 1) == 0)
		return;
	proc_images_forget(p, n->drained_ns);
	if (proc_image_begin(p, comm->time_ns, &i) == 0)
		comm_set(i, comm->name);
	else
		gap_note(n->options.gaps, GAP_NO_MEMORY);
}

void process_names_exec(struct process_names *n, struct process *p, const struct sideband_event *exec)
{
	struct proc_image *image;

	if (p->n_threads)
		proc_threads_end_all(n->threads, p->pid, exec->time_ns);
	p->n_threads = 0;
	p->main_over = false;
	proc_images_forget(p, n->drained_ns);
	if (proc_image_exec(p, exec->time_ns, &image) == 0) {
		comm_set(image, exec->name);
		memcpy(image->program->comm, image->comm, sizeof image->program->comm);
	} else {
		gap_note(n->options.gaps, GAP_NO_MEMORY);
	}
}

void process_names_forked(struct process_names *n, struct process *child, struct process *parent,
			  const struct sideband_event *fork)
{
	proc_image_inherit(child, parent);
	thread_name(n, parent, fork->ptid, fork->time_ns, child->image->comm);
}

void process_names_thread_begin(struct process_names *n, struct process *p, const struct sideband_event *fork)
{
	char name[PROC_TASK_COMM_LEN];

	p->n_threads++;
	thread_name(n, p, fork->ptid, fork->time_ns, name);
	proc_threads_set(n->threads, p->pid, fork->tid, fork->time_ns, name);
}

bool process_names_task_end(struct process_names *n, struct process *p, const struct sideband_event *exit)
{
	if (exit->tid != exit->pid)
		proc_threads_end(n->threads, exit->tid, exit->time_ns);
	if (!p)
		return false;
	if (exit->tid != exit->pid)
		p->n_threads -= p->n_threads > 0;
	else
		p->main_over = true;
	return p->main_over && !p->n_threads;
}

bool process_names_ended(struct process_names *n, const struct process *p)
{
	const struct proc_view *proc = &n->options.host->proc;
	struct proc_stat stat;

	if (!p->main_over)
		return false;
	/* /proc counts a main thread that has ended */
	return proc->ops->stat(proc->data, p->pid, &stat) < 0 || stat.num_threads <= 1;
}

void process_names_of_sample(struct process_names *n, const struct sample_view *v, struct sampled_task *ret)
{
	struct process *p = ret->process;

	workload_refresh(n, p, v->time_ns);
	ret->image = proc_image_at(p, v->time_ns);
	thread_name(n, p, v->tid, v->time_ns, ret->thread);
	service_read(n, p, ret->image);
}

/* --- forgetting */

void process_names_drained(struct process_names *n, uint64_t time_ns)
{
	n->drained_ns = time_ns;
}

void process_names_forget(struct process_names *n, struct process *p)
{
	proc_images_forget(p, n->drained_ns);
}

void process_names_forget_threads(struct process_names *n)
{
	proc_threads_forget(n->threads, n->drained_ns);
}

void process_names_rescan(struct process_names *n)
{
	proc_threads_forget_running(n->threads);
}

void process_names_stats(const struct process_names *n, struct process_names_stats *ret)
{
	cgroup_meta_cache_stats(n->workloads, &ret->workloads);
	ret->suspicious = n->n_suspicious;
	ret->threads = proc_threads_len(n->threads);
	ret->threads_full = proc_threads_full(n->threads);
}
