// SPDX-License-Identifier: Apache-2.0
#include "window_host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/report/report.h"
#include "agent/sample/decode.h"
#include "cgroup/meta.h"

#define PROGRAMS 20
#define CONTAINERS 40
#define FILES_MAX 64
#define CALLS 600      /* call sites of a program */
#define DEPTH_LEAST 18 /* user frames */
#define DEPTH_MOST 48
#define KERNEL_SYMBOLS 400
#define KERNEL_PERCENT 15 /* of samples are taken in the kernel */

struct host {
	struct binary_registry *binaries;
	uint32_t indices[FILES_MAX]; /* there */
	size_t n_files;
	struct proc_table *table;
	struct process *processes[HOST_PROCESSES]; /* the table's */
	struct cgroup_meta_cache *workloads;
	uint64_t kernel[KERNEL_SYMBOLS];
	size_t n_kernel;
	uint64_t random;
};

static uint64_t next(struct host *h)
{
	return hash_u64(++h->random);
}

/* Small values more often than large ones, as in call counts. */
static uint64_t skewed(struct host *h, uint64_t n)
{
	uint64_t a = next(h) % n, b = next(h) % n;

	return a < b ? a : b;
}

static int open_file(struct host *h, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t *index = &h->indices[h->n_files];
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = binary_registry_add(h->binaries, TAKE_FD(fd), &st, path, index);
	if (r < 0)
		return r;
	h->n_files++;
	binary_registry_set_htlhash(h->binaries, *index, "0123456789abcdef0123456789abcdef");
	return 0;
}

/* Some functions of the kernel; none where it hides its addresses. */
static void read_kernel(struct host *h)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], type;
	uint64_t address;
	size_t seen = 0;

	while (f && h->n_kernel < KERNEL_SYMBOLS && fgets(line, sizeof line, f))
		if (sscanf(line, "%" SCNx64 " %c", &address, &type) == 2 && address && (type | 0x20) == 't' &&
		    ++seen % 97 == 0)
			h->kernel[h->n_kernel++] = address + 4;
}

static void meta_ref(void *data)
{
	cgroup_meta_ref(data);
}

static void meta_unref(void *data)
{
	cgroup_meta_unref(data);
}

static int add_process(struct host *h, size_t i)
{
	struct cgroup_identity id = {0};
	struct cgroup_meta *m;
	struct process *p;
	int r = proc_table_add(h->table, 1000 + 7 * (uint32_t)i, 0, &p);

	if (r < 0)
		return r;
	h->processes[i] = p;
	p->image->selected = p->scanned = true;
	snprintf(p->image->comm, sizeof p->image->comm, "program-%zu", i % PROGRAMS);
	if (asprintf(&p->image->program->exe, "/usr/bin/program-%zu", i % PROGRAMS) < 0) {
		p->image->program->exe = NULL;
		return -ENOMEM;
	}
	if (i % 2 == 0) {
		uint64_t container = i / 2 % CONTAINERS;

		for (size_t k = 0; k < 4; k++)
			snprintf(id.container_id + 16 * k, 17, "%016" PRIx64, hash_u64(container * 4 + k));
	}
	if (cgroup_meta_get(h->workloads, &id, &m) < 0)
		return -ENOMEM;
	proc_image_set_context(p->image, (struct proc_context){m, meta_ref, meta_unref, 0}, 0);
	return 0;
}

int host_new(struct host **ret, const char *const *paths, size_t n_paths)
{
	struct host *h = calloc(1, sizeof *h);
	int r = h ? cgroup_meta_cache_new(&h->workloads, CONTAINERS + 1) : -ENOMEM;

	if (r == 0)
		r = binary_registry_new(&h->binaries, FILES_MAX, NULL);
	if (r == 0)
		r = proc_table_new(&h->table, HOST_PROCESSES, NULL);
	for (size_t i = 0; i < n_paths && i < FILES_MAX && r == 0; i++)
		r = open_file(h, paths[i]);
	for (size_t i = 0; i < HOST_PROCESSES && r == 0; i++)
		r = add_process(h, i);
	if (r == 0 && h->n_files < 3)
		r = -ENOENT;
	if (r < 0) {
		host_free(h);
		return r;
	}
	read_kernel(h);
	*ret = h;
	return 0;
}

void host_free(struct host *h)
{
	if (!h)
		return;
	proc_table_free(h->table);
	binary_registry_free(h->binaries);
	cgroup_meta_cache_free(h->workloads);
	free(h);
}

/* The frame of a node of the program's call tree: one of its call sites, in its executable or a library. */
static uint64_t frame_of(const struct host *h, uint64_t program, uint64_t node)
{
	uint64_t call = hash_u64(program << 32 ^ hash_u64(node) % CALLS), part = call % 10;
	size_t file = part < 3 ? 0 : part < 5 ? 1 : 2 + program % (h->n_files - 2);
	const struct frame_module *m = &binary_registry_get(h->binaries, h->indices[file])->module;

	return (uint64_t)h->indices[file] << FRAME_VA_BITS |
	       (m->start + hash_u64(call) % (m->limit - m->start));
}

/* Most functions on a path call one other; some two, some four. */
static uint64_t step_down(struct host *h, uint64_t node)
{
	uint64_t kind = hash_u64(node ^ 1) % 100, n = kind < 88 ? 1 : kind < 97 ? 2 : 4;

	return hash_u64(node + 1 + (n == 1 ? 0 : skewed(h, n)));
}

static uint16_t kernel_frames(struct host *h, uint64_t *frames)
{
	uint64_t path = skewed(h, 60);
	uint16_t n = (uint16_t)(4 + hash_u64(path) % 8);

	for (uint16_t i = 0; i < n; i++)
		frames[i] = h->kernel[hash_u64(path << 8 | i) % h->n_kernel];
	return n;
}

size_t host_sample(struct host *h, uint64_t time_ns, void *record)
{
	uint64_t i = skewed(h, HOST_PROCESSES), program = i % PROGRAMS, node = program;
	struct sample_record *r = record;
	uint64_t *frames = (uint64_t *)(r + 1), down[DEPTH_MOST];
	uint16_t n = 0;

	*r = (struct sample_record){
		.time_ns = time_ns, .pid = h->processes[i]->pid, .ending = ENDING_ROOT, .generation = 1};
	r->tid = r->pid + (uint32_t)skewed(h, HOST_THREADS);
	while (n < DEPTH_MOST) {
		down[n++] = frame_of(h, program, node);
		if (n > DEPTH_LEAST && hash_u64(node ^ 2) % 10 == 0)
			break;
		node = step_down(h, node);
	}
	if (h->n_kernel && next(h) % 100 < KERNEL_PERCENT) {
		r->n_kernel = kernel_frames(h, frames);
		r->flags = SAMPLE_KERNEL_MODE;
	}
	r->n_user = n;
	for (uint16_t k = 0; k < n; k++)
		frames[r->n_kernel + k] = down[n - 1 - k];
	return sizeof *r + (size_t)(r->n_kernel + n) * 8;
}

void host_report(struct host *h, struct report *to, const void *record, size_t len)
{
	static const char names[HOST_THREADS][PROC_TASK_COMM_LEN] = {"main", "worker-1", "worker-2", "io"};
	struct sampled_task task = {0};
	struct sample_view v;

	(void)sample_decode(record, len, &v); /* host_sample has made it */
	task.process = h->processes[(v.pid - 1000) / 7];
	task.image = task.process->image;
	memcpy(task.thread, names[v.tid - v.pid], sizeof task.thread);
	report_add(to, &task, &v);
}

struct binary_registry *host_binaries(const struct host *h)
{
	return h->binaries;
}
