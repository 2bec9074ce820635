// SPDX-License-Identifier: Apache-2.0
#include "agent/report/file_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/sample/aggregate.h"
#include "agent/unwind/tables.h"

#define DELETED " (deleted)"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

struct checked_file {
	uint32_t index; /* held: it keeps its descriptor */
	int fd;
	struct elf_version version;
	bool touched; /* `version` is a new one, of the same content */
	bool written; /* though it may have had another meanwhile */
	int result;   /* 0; -ESTALE: it has other content; -errno: not known */
};

struct file_check {
	struct worker_job job;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	size_t n;
	struct checked_file files[];
};

/* Compares the content, and finds out what version it is by now. */
static int read_version(struct checked_file *f)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	struct elf_version now;
	int r = elf_version_open(&img, f->fd, &f->version);

	if (r == 0)
		r = elf_version_read(&now, img);
	if (r == 0)
		r = elf_version_still(&f->version, img);
	if (r < 0)
		return r;
	if (now.kind != f->version.kind) { /* it is not new any more: keep the mark that is better */
		now.kind = f->version.kind;
		now.mark = f->version.mark;
	}
	f->version = now;
	f->touched = true;
	return 0;
}

static void run(struct worker_job *job)
{
	struct file_check *c = container_of(job, struct file_check, job);
	struct stat now;

	c->begin_ns = clock_mono_ns();
	for (size_t i = 0; i < c->n; i++) {
		struct checked_file *f = &c->files[i];
		enum elf_version_change change = elf_version_look(&f->version, f->fd, &now);

		f->written = change == ELF_VERSION_MAYBE && !elf_version_only_touched(&f->version, &now);
		f->result = change == ELF_VERSION_SAME	  ? 0
			    : change == ELF_VERSION_OTHER ? -ESTALE
							  : read_version(f);
	}
}

static void take(const struct file_check *c, const struct checked_file *f)
{
	if (f->result == 0)
		binary_registry_confirmed(c->binaries, f->index, f->touched ? &f->version : NULL, f->written,
					  c->begin_ns);
	else if (f->result == -ESTALE && binary_registry_changed(c->binaries, f->index) && c->tables)
		unwind_tables_stale(c->tables, f->index);
}

static void done(struct worker_job *job, bool cancelled)
{
	struct file_check *c = container_of(job, struct file_check, job);

	for (size_t i = 0; i < c->n; i++) {
		if (!cancelled)
			take(c, &c->files[i]);
		binary_registry_release(c->binaries, c->files[i].index);
	}
	free(c);
}

struct worker_job *file_check_new(struct binary_registry *binaries, struct unwind_tables *tables,
				  const uint32_t *files, size_t n)
{
	struct file_check *c = calloc(1, sizeof *c + n * sizeof c->files[0]);

	if (!c)
		return NULL;
	c->job = (struct worker_job){.run = run, .done = done};
	c->binaries = binaries;
	c->tables = tables;
	for (size_t i = 0; i < n; i++) {
		const struct binary *b = binary_registry_get(binaries, files[i]);

		if (!b || !b->n_segments || b->fd < 0 || b->changed)
			continue;
		(void)binary_registry_hold(binaries, files[i]);
		c->files[c->n++] =
			(struct checked_file){.index = files[i], .fd = b->fd, .version = b->version};
	}
	if (!c->n) {
		free(c);
		return NULL;
	}
	return &c->job;
}

/* Whether the binary is the program that the process ran. */
static bool is_program(const struct binary *b, const struct proc_image *image)
{
	const char *exe = image->program->exe;
	size_t n = exe ? strlen(exe) : 0;

	return n && strncmp(b->module.path, exe, n) == 0 &&
	       (!b->module.path[n] || strcmp(b->module.path + n, DELETED) == 0);
}

bool file_check_doubts(const struct binary_registry *binaries, uint32_t file, const struct sample_entry *e)
{
	const struct binary *b = binary_registry_get(binaries, file);

	if (!b || !b->doubt_to_ns || is_program(b, e->owner))
		return false;
	for (uint32_t i = 0; i < e->n; i++)
		if (e->times_ns[i] > b->doubt_from_ns && e->times_ns[i] <= b->doubt_to_ns)
			return true;
	return false;
}
