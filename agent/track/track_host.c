// SPDX-License-Identifier: Apache-2.0
/*
 * Grace periods are based on membarrier(MEMBARRIER_CMD_GLOBAL). It returns when every CPU has passed a
 * context switch; BPF programs of perf events run with preemption disabled, so all that ran when it was
 * called have ended by then. Where the kernel refuses it (nohz_full CPUs), we wait far longer than any
 * program runs.
 */
#include "agent/track/track_host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/probe.h"

#define GRACE_FALLBACK_SECONDS 2

static int events_drain(void *data, sideband_fn fn, void *fn_data)
{
	return sideband_drain(data, fn, fn_data);
}

static bool events_have_mappings(void *data)
{
	return sideband_has_mappings(data);
}

static void events_ignore(void *data, uint32_t pid, uint64_t start, uint64_t end)
{
	sideband_ignore(data, pid, start, end);
}

static void events_lost(void *data, uint64_t ret[SIDEBAND_LOSSES_N])
{
	sideband_lost(data, ret);
}

/* The descriptor of /proc is the context itself: a stuck thread has nothing else that it could outlive. */
static int fd_of(void *data)
{
	return (int)(intptr_t)data;
}

static int view_scan(void *data, proc_scan_fn fn, void *fn_data)
{
	return proc_scan(fd_of(data), fn, fn_data);
}

static int view_stat(void *data, uint32_t pid, struct proc_stat *ret)
{
	return proc_stat_read(fd_of(data), pid, ret);
}

static int view_comm(void *data, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN])
{
	return proc_comm_read(fd_of(data), pid, tid, ret);
}

static int view_exe(void *data, uint32_t pid, char **ret)
{
	return proc_exe_read(fd_of(data), pid, ret);
}

static int view_cgroup(void *data, uint32_t pid, const struct cgroup_observer *from,
		       struct cgroup_identity *ret)
{
	return cgroup_id_read(fd_of(data), (pid_t)pid, from, ret);
}

static int view_mount_namespace(void *data, uint32_t pid, uint64_t *ret)
{
	return proc_mount_namespace(fd_of(data), pid, ret);
}

static int view_maps(void *data, uint32_t pid, proc_maps_fn fn, void *fn_data)
{
	return proc_maps_read_all(fd_of(data), pid, fn, fn_data);
}

static int view_environ(void *data, uint32_t pid, const char *name, char **ret)
{
	return proc_environ_find(fd_of(data), pid, name, ret);
}

static int view_open_mapping(void *data, const struct proc_open_request *req, struct proc_opened *ret)
{
	return proc_open_mapping(fd_of(data), req, ret);
}

static int view_open_other(void *data, uint32_t other_pid, const struct proc_open_request *req,
			   struct proc_opened *ret)
{
	return proc_open_other(fd_of(data), other_pid, req, ret);
}

static int view_open_root(void *data, uint32_t pid, struct proc_root **ret)
{
	return proc_root_open(ret, fd_of(data), pid);
}

static enum proc_text view_compare(void *data, uint32_t pid, uint64_t start, uint64_t len, int fd,
				   uint64_t offset)
{
	return proc_text_compare(fd_of(data), pid, start, len, fd, offset);
}

static const struct proc_view_ops view_ops = {
	.scan = view_scan,
	.stat = view_stat,
	.comm = view_comm,
	.exe = view_exe,
	.cgroup = view_cgroup,
	.mount_namespace = view_mount_namespace,
	.maps = view_maps,
	.environ = view_environ,
	.open_mapping = view_open_mapping,
	.open_other = view_open_other,
	.open_root = view_open_root,
	.compare = view_compare,
};

static int pool_submit(void *data, struct worker_job *job, enum worker_priority priority)
{
	return worker_submit(data, job, priority);
}

static bool pool_await(void *data, struct worker_job *job, uint64_t timeout_ns)
{
	return worker_await(data, job, timeout_ns);
}

static void pool_check(void *data, uint64_t bound_ns)
{
	worker_check(data, bound_ns);
}

static void pool_drain(void *data, uint64_t timeout_ns)
{
	worker_drain(data, timeout_ns);
}

static uint64_t pool_blocked_ns(void *data, const struct worker_job *job)
{
	return worker_blocked_ns(data, job);
}

static struct job_pool pool_of(struct worker *w)
{
	return (struct job_pool){pool_submit, pool_await, pool_check, pool_drain, pool_blocked_ns, w};
}

static void grace_wait(void)
{
	struct timespec wait = {.tv_sec = GRACE_FALLBACK_SECONDS};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&wait, NULL);
}

static int segment_new(void *data, uint32_t index, void **ret)
{
	return probe_segment_new(data, index, ret);
}

int track_host_open(struct track_host *ret, struct probe *probe, struct sideband *sideband,
		    struct worker *workers, struct worker *readers)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret = (struct track_host){
		.events = {events_drain, events_have_mappings, events_ignore, events_lost, sideband},
		.proc = {&view_ops, (void *)(intptr_t)fd},
		.clock = {clock_mono_ns, clock_thread_cpu_ns, proc_boot_offset_ns, clock_real_offset_ns},
		.readers = pool_of(readers),
		.workers = pool_of(workers),
		.tables = workers,
		.grace_wait = grace_wait,
		.segment = segment_new,
		.segment_data = probe,
	};
	return 0;
}

void track_host_close(struct track_host *h)
{
	if (h->proc.ops)
		close(fd_of(h->proc.data));
	h->proc.ops = NULL;
}
