// SPDX-License-Identifier: Apache-2.0
/*
 * Whose a sample is. Everything that events tell of up to the sample's time, and a little more, is known when
 * it is looked at, so it is asked for by time. What has to be read from /proc (workload, service name) is
 * read once for an image, and taken back where a later event says that the pid was another's by then.
 */
#include <string.h>

#include "agent/base/clock.h"
#include "agent/probe/sideband.h"
#include "agent/proc/stat.h"
#include "agent/track/track_private.h"
#include "cgroup/id.h"
#include "cgroup/meta.h"

#define WORKLOAD_AGE_NS (5 * NS_PER_SEC) /* a process may be moved to another cgroup at any time */

static void meta_ref(void *data)
{
	cgroup_meta_ref(data);
}

static void meta_unref(void *data)
{
	cgroup_meta_unref(data);
}

/* One reference on *ret. */
static int workload_read(struct track *t, const struct process *p, struct cgroup_meta **ret)
{
	struct cgroup_identity id;
	int r = cgroup_id_read(t->proc_fd, (pid_t)p->pid, t->options.cgroup_base ?: "", &id);

	if (r == 0)
		r = cgroup_meta_get(t->workloads, &id, ret);
	if (r == 0 && t->options.workload)
		t->options.workload(*ret, t->options.workload_data);
	return r;
}

static void workload_set(struct proc_image *i, struct cgroup_meta *meta)
{
	proc_image_set_context(i, (struct proc_context){meta, meta_ref, meta_unref}, clock_mono_ns());
}

void track_read_workload(struct track *t, struct process *p)
{
	struct cgroup_meta *meta;

	if (workload_read(t, p, &meta) == 0)
		workload_set(p->image, meta);
}

/* Its workload as it is now; true when that has changed. */
static bool workload_again(struct track *t, struct process *p)
{
	struct proc_image *i = p->image;
	bool inherited = !i->context_ns;
	struct cgroup_meta *meta;

	i->context_ns = clock_mono_ns(); /* also when it fails: not again for every sample */
	if (workload_read(t, p, &meta) < 0)
		return false;
	if (meta == i->context.data || (!inherited && proc_image_begin(p, i->context_ns, &i) < 0)) {
		cgroup_meta_unref(meta);
		return false;
	}
	workload_set(i, meta);
	return true;
}

/*
 * Nobody tells when a process is moved to another cgroup. What it has from its parent is looked at when its
 * first sample is: a container's first process is forked by the runtime, into the container's cgroup or soon
 * moved there.
 */
static void workload_refresh(struct track *t, struct process *p, uint64_t time_ns)
{
	if (!p->end_ns && !p->kernel_thread && time_ns >= p->image->context_ns + WORKLOAD_AGE_NS)
		(void)workload_again(t, p);
}

static void reselect(struct process *p, void *data)
{
	struct track *t = data;
	bool before = p->image->selected;

	if (p->end_ns || p->kernel_thread)
		return;
	(void)workload_again(t, p);
	track_select(t, p, before);
	if (p->image->selected != before)
		track_mark_dirty(t, p->pid);
}

void track_reselect(struct track *t)
{
	proc_table_each(t->table, reselect, t);
	track_publish(t);
}

static void service_read(struct track *t, struct process *p, struct proc_image *i)
{
	if (i->program->environ_ns || i != p->image || p->end_ns || p->kernel_thread)
		return;
	proc_program_set_service(i->program, NULL, p->pid, clock_mono_ns()); /* asked for once */
	track_read_environ(t, p, i);
}

bool track_attribute(struct track *t, const struct sample_view *v, struct sampled_task *ret)
{
	struct process *p = track_process(t, v->pid, v->time_ns);

	if (!p)
		return false;
	track_miss(t, p, v);
	workload_refresh(t, p, v->time_ns);
	ret->process = p;
	ret->image = proc_image_at(p, v->time_ns);
	track_thread_name(t, p, v->tid, v->time_ns, ret->thread);
	service_read(t, p, ret->image);
	return true;
}

void track_comm_set(struct proc_image *i, const char *comm)
{
	memset(i->comm, 0, sizeof i->comm);
	memcpy(i->comm, comm, strnlen(comm, sizeof i->comm - 1));
}

void track_renamed(struct track *t, struct process *p, const struct sideband_event *comm)
{
	struct proc_image *i = p->image;

	if (comm->tid != comm->pid) {
		if (!proc_threads_known(t->threads, p->pid, comm->tid)) /* it was there before us */
			proc_threads_set(t->threads, p->pid, comm->tid, 0, i->comm);
		proc_threads_set(t->threads, p->pid, comm->tid, comm->time_ns, comm->name);
	} else if (strncmp(i->comm, comm->name, sizeof i->comm - 1) != 0) {
		proc_images_forget(p, t->drained_ns);
		if (proc_image_begin(p, comm->time_ns, &i) == 0)
			track_comm_set(i, comm->name);
	}
}
