// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/binary/binary.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/cfi/rows.h"
#include "agent/proc/root.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/row_repair.h"

#define NAMES ".symtab"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)
DEFINE_CLEANUP(struct build_job *, build_job_free)

/*
 * Finds the debug file that has the names. Names are wanted later, but the search is made now: the binary's
 * reference to the root of the file system ends with this job.
 */
static void find_names(struct build_job *j, struct elf_image *img, const struct debug_place *place)
{
	if (!j->root || elf_image_has(img, NAMES))
		return;
	if (j->debug.img && elf_image_has(j->debug.img, NAMES)) {
		j->names.fd = fcntl(j->debug.fd, F_DUPFD_CLOEXEC, 3);
		j->names.delta = j->debug.delta;
		j->names.version = j->debug.version;
		return;
	}
	(void)debug_file_find(&j->names, img, place, NAMES); /* most have none */
}

static int make_table(struct build_job *j, struct elf_image *img, const struct debug_place *place)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	int r;

	if (j->debug_fd >= 0)
		(void)debug_file_reopen(&j->debug, img, j->debug_fd); /* on failure, search anew */
	if (elf_image_htlhash(img, j->htlhash) < 0)
		j->htlhash[0] = '\0';
	r = debug_file_rows(&rows, img, place, &j->debug);
	if (r < 0)
		return r == -ENOTSUP ? -ENODATA : r;
	r = unwind_rows_repair(rows, img);
	if (r < 0)
		return r;
	j->n_rows = rows->n_rows;
	j->n_skipped = rows->n_skipped;
	j->build_ns = rows->build_ns;
	return unwind_blocks_encode(&j->blocks, rows, elf_image_machine(img));
}

static int build(struct build_job *j)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct debug_place place = {j->root, j->path};
	const struct elf_version *version = j->any_version ? NULL : &j->version;
	int r = elf_version_open(&img, j->fd, version), still;

	if (r < 0)
		return r == -ENOEXEC ? -ENODATA : r;
	r = make_table(j, img, &place);
	if (r == 0 && j->debug.img)
		r = elf_version_still(&j->debug.version, j->debug.img);
	find_names(j, img, &place);
	still = elf_version_still(version, img);
	return still < 0 ? still : r;
}

static void run(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);

	j->error = build(j);
	/* closed here because closing may block; the main loop gets descriptors that only name files */
	elf_image_free(TAKE_PTR(j->debug.img));
	elf_image_free(TAKE_PTR(j->names.img));
}

int build_job_new(struct build_job **ret, const struct binary *f, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled),
		  void (*overdue)(struct worker_job *job))
{
	_cleanup_(build_job_free_p) struct build_job *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	*j = (struct build_job){
		.job = {.run = run, .done = done, .overdue = overdue}, .owner = owner, .file = f->index};
	j->debug = j->names = DEBUG_FILE_NONE;
	j->debug_fd = -1;
	j->version = f->version;
	j->any_version = !binary_version(f);
	j->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0)
		return -errno;
	if (f->debug_fd >= 0)
		j->debug_fd = fcntl(f->debug_fd, F_DUPFD_CLOEXEC, 3);
	j->root = f->root ? proc_root_ref(f->root) : NULL;
	j->path = strdup(f->module.path);
	if (!j->path)
		return -ENOMEM;
	*ret = TAKE_PTR(j);
	return 0;
}

static void run_generated(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);
	uint64_t begin_ns = clock_thread_cpu_ns();

	j->error = generated_build(j->generated, &j->blocks, &j->n_rows);
	j->build_ns = clock_thread_cpu_ns() - begin_ns;
}

int build_job_generated(struct build_job **ret, uint32_t file, struct generated *generated, void *owner,
			void (*done)(struct worker_job *job, bool cancelled),
			void (*overdue)(struct worker_job *job))
{
	struct build_job *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	*j = (struct build_job){.job = {.run = run_generated, .done = done, .overdue = overdue},
				.owner = owner,
				.file = file,
				.fd = -1,
				.debug_fd = -1,
				.generated = generated,
				.debug = DEBUG_FILE_NONE,
				.names = DEBUG_FILE_NONE};
	*ret = j;
	return 0;
}

void build_job_free(struct build_job *j)
{
	if (!j)
		return;
	if (j->fd >= 0)
		close(j->fd);
	if (j->debug_fd >= 0)
		close(j->debug_fd);
	debug_file_fini(&j->debug);
	debug_file_fini(&j->names);
	proc_root_unref(j->root);
	unwind_blocks_fini(&j->blocks);
	free(j->path);
	free(j);
}
