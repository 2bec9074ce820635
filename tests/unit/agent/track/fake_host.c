// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/track/fake_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/fs.h"
#include "agent/proc/table.h"

#define SLOTS (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS)
#define TICK_NS 10000000ull

uint64_t fake_now_ns, fake_cpu_ns, fake_cpu_step_ns, fake_now_step_ns;
int64_t fake_real_offset_ns;

/* --- clock */

static uint64_t mono_ns(void)
{
	return fake_now_ns += fake_now_step_ns;
}

static uint64_t thread_cpu_ns(void)
{
	return fake_cpu_ns += fake_cpu_step_ns;
}

static uint64_t boot_offset_ns(void)
{
	return 0;
}

static int64_t real_offset_ns(void)
{
	return fake_real_offset_ns;
}

/* --- workers */

static int pool_submit(void *data, struct worker_job *job, enum worker_priority priority)
{
	struct fake_pool *p = data;

	(void)priority;
	if (p->full)
		return -ENOSPC;
	p->n_submitted++;
	job->next = NULL;
	*p->tail = job;
	p->tail = &job->next;
	return 0;
}

static void pool_remove(struct fake_pool *p, const struct worker_job *job)
{
	struct worker_job **at = &p->first;

	while (*at && *at != job)
		at = &(*at)->next;
	cr_assert_not_null(*at, "waits for a job that was not submitted");
	*at = job->next;
	if (!*at)
		p->tail = at;
}

static bool comes_late(const struct fake_pool *p, struct worker_job *job)
{
	if (p->answer == FAKE_NOW || !p->late_kind)
		return p->answer != FAKE_NOW;
	return strcmp(container_of(job, struct request, job)->kind->what, p->late_kind) == 0;
}

static bool pool_await(void *data, struct worker_job *job, uint64_t timeout_ns)
{
	struct fake_pool *p = data;

	p->n_waits++;
	fake_now_ns += p->answer_ns < timeout_ns ? p->answer_ns : timeout_ns;
	if (comes_late(p, job) || p->answer_ns > timeout_ns)
		return false;
	pool_remove(p, job);
	job->run(job);
	return true;
}

static bool has_begun(const struct worker_job *job)
{
	return container_of(job, const struct request, job)->began_ns;
}

static void pool_check(void *data, uint64_t bound_ns)
{
	struct fake_pool *p = data;

	p->n_checks++;
	if (p->stuck_since_ns && fake_now_ns - p->stuck_since_ns > bound_ns)
		for (struct worker_job *job = p->first; job; job = job->next)
			if (has_begun(job))
				job->overdue(job);
}

static uint64_t pool_blocked_ns(void *data, const struct worker_job *job)
{
	const struct fake_pool *p = data;

	return p->stuck_since_ns && (p->all_stuck || has_begun(job)) ? fake_now_ns - p->stuck_since_ns : 0;
}

unsigned fake_pool_work(struct fake_pool *p)
{
	unsigned n = 0;

	while (p->first) {
		struct worker_job *job = p->first;

		pool_remove(p, job);
		job->run(job);
		job->done(job, false);
		n++;
	}
	return n;
}

static void pool_drain(void *data, uint64_t timeout_ns)
{
	struct fake_pool *p = data;

	if (p->answer != FAKE_NEVER)
		(void)fake_pool_work(p);
	if (p->others)
		worker_drain(p->others, 10 * NS_PER_SEC);
	fake_now_ns += timeout_ns;
}

void fake_pool_stick(struct fake_pool *p)
{
	p->stuck_since_ns = fake_now_ns;
	for (struct worker_job *job = p->first; job; job = job->next)
		container_of(job, struct request, job)->began_ns = fake_now_ns;
}

void fake_pool_cancel(struct fake_pool *p)
{
	while (p->first) {
		struct worker_job *job = p->first;

		pool_remove(p, job);
		job->done(job, true);
	}
}

static struct job_pool pool_of(struct fake_pool *p)
{
	p->tail = &p->first;
	return (struct job_pool){pool_submit, pool_await, pool_check, pool_drain, pool_blocked_ns, p};
}

/* --- events */

static int events_drain(void *data, sideband_fn fn, void *fn_data)
{
	struct fake_host *h = data;
	int n = (int)h->n_events;

	if (h->drain_error)
		return h->drain_error;
	for (size_t i = 0; i < h->n_events; i++) {
		struct sideband_event e = h->events[i].event;

		e.name = h->events[i].name;
		if (h->ignored.pid == e.pid && e.kind == SIDEBAND_MMAP && strcmp(e.name, "//anon") == 0 &&
		    e.mmap.start >= h->ignored.start && e.mmap.start + e.mmap.len <= h->ignored.end)
			continue;
		fn(&e, fn_data);
	}
	h->n_events = 0;
	return n;
}

static bool events_have_mappings(void *data)
{
	return ((struct fake_host *)data)->mappings;
}

static void events_ignore(void *data, uint32_t pid, uint64_t start, uint64_t end)
{
	struct fake_host *h = data;

	h->ignored.pid = pid;
	h->ignored.start = start;
	h->ignored.end = end;
	h->ignored.n++;
}

static void events_lost(void *data, uint64_t ret[SIDEBAND_LOSSES_N])
{
	memcpy(ret, ((struct fake_host *)data)->lost, SIDEBAND_LOSSES_N * sizeof *ret);
}

static void event_add(struct fake_host *h, struct sideband_event e, const char *name)
{
	struct fake_event *slot = &h->events[h->n_events++];

	cr_assert_leq(h->n_events, FAKE_EVENTS_MAX);
	cr_assert_lt(strlen(name), sizeof slot->name);
	fake_now_ns += 1000;
	slot->event = e;
	slot->event.time_ns = fake_now_ns;
	strcpy(slot->name, name);
}

void fake_fork(struct fake_host *h, uint32_t parent, uint32_t child)
{
	event_add(h,
		  (struct sideband_event){
			  .kind = SIDEBAND_FORK, .pid = child, .tid = child, .ppid = parent, .ptid = parent},
		  "");
}

void fake_thread(struct fake_host *h, uint32_t pid, uint32_t tid)
{
	event_add(h,
		  (struct sideband_event){
			  .kind = SIDEBAND_FORK, .pid = pid, .tid = tid, .ppid = pid, .ptid = pid},
		  "");
}

void fake_exec(struct fake_host *h, uint32_t pid, uint32_t tid, const char *comm)
{
	event_add(h, (struct sideband_event){.kind = SIDEBAND_COMM, .pid = pid, .tid = tid, .exec = true},
		  comm);
}

void fake_comm(struct fake_host *h, uint32_t pid, uint32_t tid, const char *comm)
{
	event_add(h, (struct sideband_event){.kind = SIDEBAND_COMM, .pid = pid, .tid = tid}, comm);
}

static const struct fake_file *file_of(const struct fake_host *h, const char *path)
{
	for (size_t i = 0; i < h->n_files; i++)
		if (strcmp(h->files[i].path, path) == 0)
			return &h->files[i];
	return NULL;
}

void fake_mmap(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
	       const char *path)
{
	const struct fake_file *f = path ? file_of(h, path) : NULL;
	struct sideband_event e = {.kind = SIDEBAND_MMAP, .pid = pid, .tid = pid};

	e.mmap.start = start;
	e.mmap.len = pages * FAKE_PAGE;
	e.mmap.offset = offset;
	e.mmap.executable = true;
	if (f) {
		e.mmap.inode = f->inode;
		e.mmap.generation = f->generation;
		e.mmap.dev_major = f->dev_major;
		e.mmap.dev_minor = f->dev_minor;
	}
	event_add(h, e, path ?: "//anon");
}

void fake_exit(struct fake_host *h, uint32_t pid, uint32_t tid)
{
	event_add(h, (struct sideband_event){.kind = SIDEBAND_EXIT, .pid = pid, .tid = tid}, "");
}

void fake_lost(struct fake_host *h, enum sideband_loss reason, uint64_t n)
{
	h->lost[reason] += n;
	event_add(h, (struct sideband_event){.kind = SIDEBAND_LOST, .loss = reason, .n_lost = n}, "");
}

/* --- /proc */

static struct fake_process *process_of(struct fake_host *h, uint32_t pid)
{
	for (size_t i = 0; i < FAKE_PROCESSES_MAX; i++)
		if (h->processes[i].pid == pid)
			return &h->processes[i];
	return NULL;
}

struct fake_process *fake_process_add(struct fake_host *h, uint32_t pid, uint32_t ppid, const char *comm)
{
	struct fake_process *p;

	cr_assert_null(process_of(h, pid), "pid %u is there already", pid);
	p = process_of(h, 0);
	cr_assert_not_null(p);
	*p = (struct fake_process){
		.pid = pid, .ppid = ppid, .start_ns = fake_now_ns, .n_threads = 1, .mount_namespace = 1};
	strncpy(p->comm, comm, sizeof p->comm - 1);
	return p;
}

void fake_process_remove(struct fake_host *h, uint32_t pid)
{
	struct fake_process *p = process_of(h, pid);

	cr_assert_not_null(p);
	p->pid = 0;
}

void fake_process_map_kind(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
			   const char *path, const char *kind)
{
	struct fake_process *p = process_of(h, pid);
	const struct fake_file *f = path ? file_of(h, path) : NULL;
	struct fake_line *l;

	cr_assert_not_null(p);
	l = &p->lines[p->n_lines++];
	cr_assert_leq(p->n_lines, FAKE_LINES_MAX);
	*l = (struct fake_line){.line = {.start = start,
					 .end = start + pages * FAKE_PAGE,
					 .offset = offset,
					 .inode = f ? f->inode : 0,
					 .readable = kind[0] == 'r',
					 .writable = kind[1] == 'w',
					 .executable = kind[2] == 'x',
					 .shared = kind[3] == 's'}};
	if (path)
		strncpy(l->path, path, sizeof l->path - 1);
}

void fake_process_map(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
		      const char *path)
{
	fake_process_map_kind(h, pid, start, pages, offset, path, "r-xp");
}

static int elf_new(uint8_t id)
{
	static const uint8_t note[] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
	_cleanup_buf_ struct buf elf = {0};
	int fd = memfd_create("elf", MFD_CLOEXEC);
	uint8_t *at;

	cr_assert_eq(fs_read_file("/bin/true", 64u << 20, &elf), 0);
	at = memmem(elf.data, elf.len, note, sizeof note);
	cr_assert_not_null(at, "/bin/true has a build id");
	at[sizeof note] ^= id;
	cr_assert_eq(write(fd, elf.data, elf.len), (ssize_t)elf.len);
	return fd;
}

struct fake_file *fake_file_add(struct fake_host *h, const char *path, bool elf)
{
	struct fake_file *f = &h->files[h->n_files++];
	struct stat st;

	cr_assert_leq(h->n_files, FAKE_FILES_MAX);
	strncpy(f->path, path, sizeof f->path - 1);
	f->fd = elf ? elf_new((uint8_t)h->n_files) : memfd_create("file", MFD_CLOEXEC);
	cr_assert_geq(f->fd, 0);
	if (!elf)
		cr_assert_eq(write(f->fd, path, strlen(path)), (ssize_t)strlen(path));
	cr_assert_eq(fstat(f->fd, &st), 0);
	f->inode = st.st_ino;
	f->dev_major = major(st.st_dev);
	f->dev_minor = minor(st.st_dev);
	return f;
}

static int view_scan(void *data, proc_scan_fn fn, void *fn_data)
{
	struct fake_host *h = data;

	h->n_scans++;
	if (h->scan_error)
		return h->scan_error;
	for (size_t i = 0; i < FAKE_PROCESSES_MAX; i++)
		if (h->processes[i].pid && !h->processes[i].hidden) {
			int r = fn(h->processes[i].pid, fn_data);

			if (r < 0)
				return r;
		}
	return 0;
}

static int view_stat(void *data, uint32_t pid, struct proc_stat *ret)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, pid);

	h->n_stats++;
	if (!p)
		return -ESRCH;
	*ret = (struct proc_stat){.ppid = p->ppid,
				  .num_threads = p->n_threads,
				  .state = 'S',
				  .kernel_thread = p->kernel_thread,
				  .start_time_ticks = p->start_ns / TICK_NS};
	strcpy(ret->comm, p->comm);
	return 0;
}

static int view_comm(void *data, uint32_t pid, uint32_t tid, char ret[PROC_TASK_COMM_LEN])
{
	const struct fake_process *p = process_of(data, pid);

	if (!p || (tid != pid && !p->thread_comm[0]))
		return -ESRCH;
	memcpy(ret, tid == pid ? p->comm : p->thread_comm, PROC_TASK_COMM_LEN);
	return 0;
}

static int view_exe(void *data, uint32_t pid, char **ret)
{
	const struct fake_process *p = process_of(data, pid);

	if (!p)
		return -ESRCH;
	if (!p->exe[0])
		return -ENOENT;
	*ret = strdup(p->exe);
	return *ret ? 0 : -ENOMEM;
}

static int view_cgroup(void *data, uint32_t pid, const struct cgroup_observer *from,
		       struct cgroup_identity *ret)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, pid);

	(void)from;
	h->n_cgroups++;
	if (!p)
		return -ESRCH;
	*ret = (struct cgroup_identity){.runtime = CGROUP_RUNTIME_UNKNOWN};
	strcpy(ret->container_id, p->container);
	return 0;
}

static int view_mount_namespace(void *data, uint32_t pid, uint64_t *ret)
{
	const struct fake_process *p = process_of(data, pid);

	if (!p)
		return -ESRCH;
	*ret = p->mount_namespace;
	return 0;
}

static int view_maps(void *data, uint32_t pid, proc_maps_fn fn, void *fn_data)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, pid);
	int r = 0;

	h->n_maps++;
	if (!p)
		return -ESRCH;
	for (size_t i = 0; i < p->n_lines && r == 0; i++) {
		struct proc_maps_line line = p->lines[i].line;

		line.path = p->lines[i].path[0] ? p->lines[i].path : NULL;
		line.path_len = strlen(p->lines[i].path);
		r = fn(&line, fn_data);
	}
	return r;
}

static int view_environ(void *data, uint32_t pid, const char *name, char **ret)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, pid);

	h->n_environs++;
	cr_expect_str_eq(name, "OTEL_SERVICE_NAME");
	if (!p)
		return -ESRCH;
	if (!p->service[0])
		return -ENOENT;
	*ret = strdup(p->service);
	return *ret ? 0 : -ENOMEM;
}

static int file_open(struct fake_host *h, const char *path, enum proc_open_way way, struct proc_opened *ret)
{
	const struct fake_file *f = path ? file_of(h, path) : NULL;
	char name[40];

	if (h->open_error < 0)
		return h->open_error;
	if (!f)
		return -ENOENT;
	if (f->fd < 0)
		return -EACCES;
	snprintf(name, sizeof name, "/proc/self/fd/%d", f->fd);
	*ret = (struct proc_opened){.fd = open(name, O_PATH | O_CLOEXEC), .way = way};
	cr_assert_geq(ret->fd, 0);
	cr_assert_eq(fstat(ret->fd, &ret->st), 0);
	return 0;
}

/* The mapping must be one that the process has. */
static int view_open_mapping(void *data, const struct proc_open_request *req, struct proc_opened *ret)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, req->pid);

	h->n_opens++;
	if (!p)
		return -ESRCH;
	return file_open(h, req->path, PROC_OPEN_MAP_FILES, ret);
}

static int view_open_other(void *data, uint32_t other_pid, const struct proc_open_request *req,
			   struct proc_opened *ret)
{
	struct fake_host *h = data;

	h->n_opens_other++;
	return process_of(h, other_pid) ? file_open(h, req->path, PROC_OPEN_OTHER, ret) : -ESRCH;
}

static int view_open_root(void *data, uint32_t pid, struct proc_root **ret)
{
	struct fake_host *h = data;

	h->n_roots++;
	return process_of(h, pid) ? proc_root_of_folder(ret, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC))
				  : -ESRCH;
}

static enum proc_text view_compare(void *data, uint32_t pid, uint64_t start, uint64_t len, int fd,
				   uint64_t offset)
{
	struct fake_host *h = data;
	const struct fake_process *p = process_of(h, pid);

	(void)start, (void)len, (void)offset;
	cr_expect_geq(fd, 0);
	h->n_compares++;
	return p ? p->text : PROC_TEXT_UNKNOWN;
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

/* --- all of it */

static struct fake_host *current; /* for what has no context */

static void grace_wait(void)
{
	current->n_graces++;
}

static int segment_new(void *data, uint32_t index, void **ret)
{
	struct fake_host *h = data;

	cr_assert_lt(index, FAKE_SEGMENTS_MAX);
	if (index >= h->n_segments_max)
		return -ENOMEM;
	h->segments[index] = calloc(1, SEGMENT_VALUE);
	*ret = h->segments[index];
	return *ret ? 0 : -ENOMEM;
}

void fake_host_init(struct fake_host *h)
{
	memset(h, 0, sizeof *h); /* it is larger than the stack */
	h->mappings = true;
	h->n_segments_max = FAKE_SEGMENTS_MAX;
	fake_now_ns = FAKE_START_NS;
	fake_cpu_ns = fake_cpu_step_ns = fake_now_step_ns = 0;
	fake_real_offset_ns = (int64_t)(clock_real_ns() + NS_PER_SEC - FAKE_START_NS);
	current = h;
	h->host = (struct track_host){
		.events = {events_drain, events_have_mappings, events_ignore, events_lost, h},
		.proc = {&view_ops, h},
		.clock = {mono_ns, thread_cpu_ns, boot_offset_ns, real_offset_ns},
		.readers = pool_of(&h->readers),
		.workers = pool_of(&h->workers),
		.grace_wait = grace_wait,
		.segment = segment_new,
		.segment_data = h,
	};
	cr_assert_eq(worker_new(&h->host.tables, 1, 64, "tables"), 0);
	h->workers.others = h->host.tables;
}

void fake_host_fini(struct fake_host *h)
{
	for (size_t i = 0; i < h->n_files; i++)
		if (h->files[i].fd >= 0)
			close(h->files[i].fd);
	for (size_t i = 0; i < FAKE_SEGMENTS_MAX; i++)
		free(h->segments[i]);
}

/* --- the process flow */

static void on_workload(const struct cgroup_meta *m, void *data)
{
	struct flow *f = data;

	(void)m;
	f->n_workloads++;
}

struct flow *flow_prepare(void)
{
	struct flow *f = calloc(1, sizeof *f);

	cr_assert_not_null(f);
	fake_host_init(&f->host);
	f->options = (struct track_options){
		.table_bytes = 4 * SEGMENT_BYTES,
		.max_processes = FAKE_PROCESSES_MAX,
		.max_files = FAKE_FILES_MAX,
		.workload = on_workload,
		.workload_data = f,
	};
	return f;
}

void flow_start(struct flow *f)
{
	f->options.host = f->host.host;
	cr_assert_eq(track_new(&f->track, &f->options), 0);
	cr_assert_eq(track_scan(f->track), 0);
}

struct flow *flow_new(void)
{
	struct flow *f = flow_prepare();

	flow_start(f);
	return f;
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	fake_pool_cancel(&f->host.readers);
	fake_pool_cancel(&f->host.workers);
	worker_free(f->host.host.tables);
	track_free(f->track);
	fake_host_fini(&f->host);
	free(f);
}

void flow_add_shell(struct flow *f)
{
	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_process_add(&f->host, FLOW_SHELL, 1, "sh");
	fake_process_map(&f->host, FLOW_SHELL, FLOW_SHELL_CODE, 4, 0, "/bin/sh");
	flow_wait(f, NS_PER_SEC);
}

void flow_wait(struct flow *f, uint64_t ns)
{
	(void)f;
	fake_now_ns += ns;
}

static struct sampled_task sample(struct flow *f, const struct sample_view *v)
{
	struct sampled_task task = {0};

	if (!track_attribute(f->track, v, &task))
		task.process = NULL;
	return task;
}

struct sampled_task flow_sample_at(struct flow *f, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	return sample(
		f, &(struct sample_view){.pid = pid, .tid = tid, .time_ns = time_ns, .ending = ENDING_ROOT});
}

struct sampled_task flow_sample(struct flow *f, uint32_t pid, uint32_t tid)
{
	return flow_sample_at(f, pid, tid, fake_now_ns);
}

struct sampled_task flow_sample_ending(struct flow *f, uint32_t pid, enum unwind_ending ending)
{
	return sample(
		f, &(struct sample_view){.pid = pid, .tid = pid, .time_ns = fake_now_ns, .ending = ending});
}

struct process *flow_process(struct flow *f, uint32_t pid)
{
	return flow_sample(f, pid, pid).process;
}

struct track_stats flow_stats(const struct flow *f)
{
	struct track_stats s;

	track_stats(f->track, &s);
	return s;
}

const char *flow_path_at(struct flow *f, const struct proc_maps *maps, uint64_t address)
{
	const struct proc_mapping *m = maps ? proc_maps_find(maps, address) : NULL;
	const struct binary *b;

	if (!m)
		return "";
	if (m->file & PROC_FILE_OPENING)
		return "?";
	b = binary_registry_get(unwind_tables_binaries(track_tables(f->track)), m->file);
	return b ? b->module.path : "-";
}

const char *flow_path(struct flow *f, uint32_t pid, uint64_t address)
{
	const struct process *p = flow_process(f, pid);

	return p ? flow_path_at(f, p->maps, address) : "";
}

static const struct process_slot *slot_of(const struct flow *f, uint32_t pid)
{
	const struct process_slot *slots = arena_process_table(track_arena(f->track));

	for (size_t i = 0; i < SLOTS; i++)
		if (slots[i].pid == pid)
			return &slots[i];
	return NULL;
}

const struct mapping_list *flow_list(struct flow *f, uint32_t pid)
{
	const struct process_slot *s = slot_of(f, pid);
	uint32_t ref = s ? s->list & SLOT_LIST_MASK : 0;

	return ref ? arena_at(track_arena(f->track), ref) : NULL;
}

enum flow_slot flow_slot(struct flow *f, uint32_t pid)
{
	const struct mapping_list *list = flow_list(f, pid);

	if (!list)
		return slot_of(f, pid) ? SLOT_EMPTY : SLOT_ABSENT;
	return list->flags & LIST_SKIP ? SLOT_SKIP : SLOT_LIST;
}

bool flow_sends_stack(struct flow *f, uint32_t pid)
{
	const struct process_slot *s = slot_of(f, pid);

	return s && s->list & PROCESS_STACK;
}

void flow_settle(struct flow *f)
{
	for (int i = 0; i < 1000 && unwind_tables_pending(track_tables(f->track)); i++) {
		worker_drain(f->host.host.tables, 10 * NS_PER_SEC);
		track_progress(f->track);
		(void)fake_pool_work(&f->host.workers);
	}
	cr_assert_eq(unwind_tables_pending(track_tables(f->track)), 0);
	track_progress(f->track);
}
