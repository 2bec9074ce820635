// SPDX-License-Identifier: Apache-2.0
/* The real machine, of which a test may look at its own process without any right. */
#include "agent/track/track_host.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/sideband_ring.h"

#define NO_PID 0x7ffffffeu
#define RING_BYTES 65536u
#define RING_PAGE 4096u

struct machine {
	struct track_host host;
	struct worker *workers, *readers;
	struct sideband *sideband;
	struct perf_event_mmap_page *ring;
	uint32_t pid;
};

static struct sideband *sideband_of_memory(struct perf_event_mmap_page **ret_page)
{
	struct sideband_ring ring = {.fd = -1, .bytes = RING_BYTES};
	struct sideband *s = NULL;

	ring.page = mmap(NULL, RING_BYTES + RING_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	cr_assert_neq(ring.page, MAP_FAILED);
	ring.data = (const uint8_t *)ring.page + RING_PAGE;
	cr_assert_eq(sideband_new_of_rings(&s, &ring, 1), 0);
	*ret_page = ring.page;
	return s;
}

static struct machine machine_open(void)
{
	struct machine m = {.pid = (uint32_t)getpid()};

	cr_assert_eq(worker_new(&m.workers, 1, 8, "workers"), 0);
	cr_assert_eq(worker_new(&m.readers, 1, 8, "readers"), 0);
	m.sideband = sideband_of_memory(&m.ring);
	cr_assert_eq(track_host_open(&m.host, NULL, m.sideband, m.workers, m.readers), 0);
	return m;
}

static void machine_close(struct machine *m)
{
	worker_free(m->readers);
	worker_free(m->workers);
	sideband_free(m->sideband);
	track_host_close(&m->host);
	track_host_close(&m->host); /* twice is fine */
	cr_expect_null(m->host.proc.ops);
}

static int find_pid(uint32_t pid, void *data)
{
	uint32_t *wanted = data;

	if (pid == *wanted)
		*wanted = 0;
	return 0;
}

Test(track_host, attributes_of_this_process)
{
	struct machine m = machine_open();
	const struct proc_view *v = &m.host.proc;
	struct cgroup_identity id;
	struct proc_stat task;
	uint32_t wanted = m.pid;
	char comm[PROC_TASK_COMM_LEN], self[4096] = "";
	_cleanup_free_ char *exe = NULL;
	uint64_t namespace = 0;
	struct stat ns;

	cr_expect_eq(v->ops->scan(v->data, find_pid, &wanted), 0);
	cr_expect_eq(wanted, 0, "it is among all processes");
	cr_assert_eq(v->ops->stat(v->data, m.pid, &task), 0);
	cr_expect_eq(task.ppid, (uint32_t)getppid());
	cr_expect_not(task.kernel_thread);
	cr_assert_eq(v->ops->comm(v->data, m.pid, m.pid, comm), 0);
	cr_expect_str_eq(comm, task.comm);
	cr_assert_eq(v->ops->exe(v->data, m.pid, &exe), 0);
	cr_assert_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
	cr_expect_str_eq(exe, self);
	cr_expect_eq(v->ops->cgroup(v->data, m.pid, &(struct cgroup_observer){0}, &id), 0);
	cr_assert_eq(v->ops->mount_namespace(v->data, m.pid, &namespace), 0);
	cr_assert_eq(stat("/proc/self/ns/mnt", &ns), 0);
	cr_expect_eq(namespace, ns.st_ino);
	machine_close(&m);
}

Test(track_host, process_that_does_not_exist)
{
	struct machine m = machine_open();
	const struct proc_view *v = &m.host.proc;
	struct cgroup_identity id;
	struct proc_stat stat;
	char comm[PROC_TASK_COMM_LEN];
	struct proc_root *root = NULL;
	uint64_t namespace;
	char *text = NULL;

	cr_expect_lt(v->ops->stat(v->data, NO_PID, &stat), 0);
	cr_expect_lt(v->ops->comm(v->data, NO_PID, NO_PID, comm), 0);
	cr_expect_lt(v->ops->exe(v->data, NO_PID, &text), 0);
	cr_expect_lt(v->ops->cgroup(v->data, NO_PID, &(struct cgroup_observer){0}, &id), 0);
	cr_expect_lt(v->ops->mount_namespace(v->data, NO_PID, &namespace), 0);
	cr_expect_lt(v->ops->environ(v->data, NO_PID, "PATH", &text), 0);
	cr_expect_lt(v->ops->open_root(v->data, NO_PID, &root), 0);
	cr_expect(!text && !root, "written on success only");
	machine_close(&m);
}

Test(track_host, environment_as_it_was_at_the_start)
{
	struct machine m = machine_open();
	const struct proc_view *v = &m.host.proc;
	const char *path = getenv("PATH");
	_cleanup_free_ char *value = NULL, *missing = NULL;

	if (path) {
		cr_assert_eq(v->ops->environ(v->data, m.pid, "PATH", &value), 0);
		cr_expect_str_eq(value, path);
	}
	cr_expect_lt(v->ops->environ(v->data, m.pid, "PROFLET_NO_SUCH_NAME", &missing), 0);
	cr_expect_null(missing);
	machine_close(&m);
}

/* The mapping of this test's own code. */
struct own_code {
	uint64_t address;
	struct proc_maps_line line;
	char path[4096];
};

static int find_code(const struct proc_maps_line *line, void *data)
{
	struct own_code *c = data;

	if (c->address < line->start || c->address >= line->end)
		return 0;
	c->line = *line;
	memcpy(c->path, line->path, line->path_len);
	return 0;
}

Test(track_host, file_of_a_mapping)
{
	struct own_code c = {.address = (uint64_t)(uintptr_t)find_code};
	struct machine m = machine_open();
	const struct proc_view *v = &m.host.proc;
	struct proc_open_request find = {.pid = m.pid, .path = c.path, .has_inode = true};
	struct proc_opened opened = {.fd = -1}, other = {.fd = -1};
	struct proc_root *root = NULL;

	cr_assert_geq(v->ops->maps(v->data, m.pid, find_code, &c), 0);
	cr_assert(c.line.executable && c.line.inode);
	find.start = c.line.start;
	find.end = c.line.end;
	find.inode = c.line.inode;
	find.dev_major = c.line.dev_major;
	find.dev_minor = c.line.dev_minor;
	cr_assert_eq(v->ops->open_mapping(v->data, &find, &opened), 0);
	cr_expect_eq(opened.st.st_ino, c.line.inode);
	cr_assert_eq(v->ops->open_other(v->data, m.pid, &find, &other), 0);
	cr_expect_eq(other.way, PROC_OPEN_OTHER);
	cr_expect(other.st.st_ino == opened.st.st_ino && other.st.st_dev == opened.st.st_dev);
	cr_expect_eq(v->ops->compare(v->data, m.pid, c.line.start, c.line.end - c.line.start, opened.fd,
				     c.line.offset),
		     PROC_TEXT_SAME);
	cr_expect_eq(v->ops->open_root(v->data, m.pid, &root), 0);
	cr_expect_not_null(root);
	proc_root_unref(root);
	close(opened.fd);
	close(other.fd);
	machine_close(&m);
}

/* --- events */

struct exit_record {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
	uint32_t by_pid, by_tid;
	uint64_t time_ns;
};

static void on_event(const struct sideband_event *e, void *data)
{
	struct sideband_event *last = data;

	*last = *e;
}

static void put(struct machine *m, const struct exit_record *e)
{
	memcpy((uint8_t *)m->ring + RING_PAGE + m->ring->data_head % RING_BYTES, e, sizeof *e);
	m->ring->data_head += sizeof *e;
}

Test(track_host, events_of_the_side_band)
{
	struct machine m = machine_open();
	const struct event_source *events = &m.host.events;
	struct exit_record e = {
		.header = {.type = PERF_RECORD_EXIT, .size = sizeof e}, .pid = 77, .tid = 78, .time_ns = 1};
	struct sideband_event last = {.kind = SIDEBAND_OTHER};
	uint64_t lost[SIDEBAND_LOSSES_N];

	cr_expect(events->has_mappings(events->data));
	cr_expect_eq(events->drain(events->data, on_event, &last), 0);
	put(&m, &e);
	events->ignore(events->data, 79, 0x1000, 0x2000); /* of another process */
	cr_expect_eq(events->drain(events->data, on_event, &last), 1);
	cr_expect(last.kind == SIDEBAND_EXIT && last.pid == 77 && last.tid == 78);
	events->lost(events->data, lost);
	for (unsigned i = 0; i < SIDEBAND_LOSSES_N; i++)
		cr_expect_eq(lost[i], 0);
	e.header.size = 4; /* less than its header */
	put(&m, &e);
	(void)events->drain(events->data, on_event, &last);
	events->lost(events->data, lost);
	cr_expect_gt(lost[SIDEBAND_LOSS_BAD_RECORD], 0);
	machine_close(&m);
}

/* --- worker threads */

struct count_job {
	struct worker_job job;
	unsigned n_run, n_done;
};

static void count_run(struct worker_job *job)
{
	container_of(job, struct count_job, job)->n_run++;
}

static void count_done(struct worker_job *job, bool cancelled)
{
	container_of(job, struct count_job, job)->n_done += !cancelled;
}

static void pool_works(const struct job_pool *pool)
{
	struct count_job waited = {.job = {.run = count_run, .done = count_done}}, collected = waited;

	cr_assert_eq(pool->submit(pool->data, &waited.job, WORKER_HIGH), 0);
	cr_assert(pool->await(pool->data, &waited.job, 10 * NS_PER_SEC));
	cr_expect(waited.n_run == 1 && waited.n_done == 0, "the job is the caller's again");
	cr_assert_eq(pool->submit(pool->data, &collected.job, WORKER_LOW), 0);
	pool->drain(pool->data, 10 * NS_PER_SEC);
	pool->check(pool->data, 10 * NS_PER_SEC);
	cr_expect(collected.n_run == 1 && collected.n_done == 1);
	cr_expect_eq(pool->blocked_ns(pool->data, &collected.job), 0);
}

Test(track_host, pools)
{
	struct machine m = machine_open();

	pool_works(&m.host.readers);
	pool_works(&m.host.workers);
	cr_expect_eq(m.host.tables, m.workers);
	machine_close(&m);
}

Test(track_host, clocks_and_grace_periods)
{
	struct machine m = machine_open();
	const struct host_clock *c = &m.host.clock;
	uint64_t before = c->mono_ns(), cpu = c->thread_cpu_ns();

	m.host.grace_wait();
	cr_expect_geq(c->mono_ns(), before);
	cr_expect_leq(c->mono_ns() - before, 30 * NS_PER_SEC);
	cr_expect_geq(c->thread_cpu_ns(), cpu);
	cr_expect_eq(c->boot_offset_ns() / NS_PER_SEC, proc_boot_offset_ns() / NS_PER_SEC);
	cr_expect_leq(llabs((int64_t)(clock_real_ns() - c->mono_ns()) - c->real_offset_ns()),
		      (int64_t)NS_PER_SEC);
	machine_close(&m);
}

/* No descriptor for /proc can be had. */
Test(track_host, no_descriptor_left)
{
	struct track_host h = {.segment_data = NULL};
	struct rlimit before, none;
	int r;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = track_host_open(&h, NULL, NULL, NULL, NULL);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect_eq(r, -EMFILE);
	cr_expect_null(h.proc.ops);
}
