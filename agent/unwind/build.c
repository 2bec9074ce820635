// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/image.h"
#include "agent/elf/rows.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

static int build(struct build_job *j)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	int r = elf_image_open(&img, j->fd);

	if (r < 0)
		return r == -ENOEXEC ? -ENODATA : r;
	if (elf_image_htlhash(img, j->htlhash) < 0)
		j->htlhash[0] = '\0';
	r = elf_rows_build(&rows, img);
	if (r < 0)
		return r == -ENOTSUP ? -ENODATA : r;
	j->n_rows = rows->n_rows;
	j->n_skipped = rows->n_skipped;
	j->build_ns = rows->build_ns;
	return unwind_blocks_encode(&j->blocks, rows, elf_image_machine(img));
}

static void run(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);

	j->error = build(j);
}

int build_job_new(struct build_job **ret, uint32_t file, int fd, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled))
{
	struct build_job *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	*j = (struct build_job){.job = {.run = run, .done = done}, .owner = owner, .file = file};
	j->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0) {
		int r = -errno;

		free(j);
		return r;
	}
	*ret = j;
	return 0;
}

void build_job_free(struct build_job *j)
{
	if (!j)
		return;
	close(j->fd);
	unwind_blocks_fini(&j->blocks);
	free(j);
}
