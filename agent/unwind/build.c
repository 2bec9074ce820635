// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/binary/binary.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/facts.h"
#include "agent/proc/root.h"
#include "agent/proc/system_file.h"
#include "agent/unwind/debug_search.h"
#include "agent/unwind/debugfile.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/table_job.h"

DEFINE_CLEANUP(struct build_job *, build_job_free)

/* The file that was found, as a descriptor that only names it: closing that one does not block. */
static int found_file(struct build_job *j, struct debug_search *search, const struct table_debug *found)
{
	if (!found->found)
		return -1;
	return found->number == DEBUG_FILE_GIVEN ? fcntl(j->debug_fd, F_DUPFD_CLOEXEC, 3)
						 : debug_search_take(search, found->number);
}

/*
 * Names are wanted later, but their file is searched for now: the binary's reference to the root of the file
 * system ends with this job. They may be in the file that the rows are from.
 */
static void take_debug_files(struct build_job *j, struct debug_search *search,
			     const struct table_result *result)
{
	const struct table_debug *debug = &result->debug, *names = &result->names;

	j->debug.fd = found_file(j, search, debug);
	if (names->found && debug->found && names->number == debug->number)
		j->names.fd = j->debug.fd >= 0 ? fcntl(j->debug.fd, F_DUPFD_CLOEXEC, 3) : -1;
	else
		j->names.fd = found_file(j, search, names);
	j->names.delta = names->delta;
	j->names.version = names->version;
}

/* A debug file may be gone, or not be readable any more: another one is searched for then. */
static int open_files(const struct build_job *j, struct table_request *request)
{
	request->fd = fs_reopen_parts(j->fd);
	request->debug_fd = j->debug_fd >= 0 ? fs_reopen_parts(j->debug_fd) : -1;
	return request->fd < 0 ? request->fd : 0;
}

static void close_files(const struct table_request *request)
{
	if (request->fd >= 0)
		close(request->fd);
	if (request->debug_fd >= 0)
		close(request->debug_fd);
}

/* Only the first one is kept: no process has a reason to say more. */
static void on_early(const struct runtime_facts *facts, void *data)
{
	struct build_job *j = data;
	struct runtime_facts *none = NULL, *copy = j->n_early ? malloc(sizeof *copy) : NULL;

	if (!copy)
		return;
	*copy = *facts;
	if (atomic_compare_exchange_strong(&j->early, &none, copy))
		(void)atomic_fetch_add(j->n_early, 1);
	else
		free(copy);
}

static int build(struct build_job *j)
{
	struct debug_search search;
	struct table_request request = {.version = j->any_version ? NULL : &j->version,
					.search = &search,
					.early = on_early,
					.data = j};
	struct table_result result = {0};
	int r;

	r = open_files(j, &request);
	debug_search_init(&search, j->root, request.fd, j->path);
	if (r == 0) {
		if (elf_file_htlhash(request.fd, j->htlhash) < 0)
			j->htlhash[0] = '\0';
		j->of_system |= proc_is_system_file(j->root, j->path, request.fd);
		request.of_system = j->of_system;
		r = table_job_run(&request, &result);
		take_debug_files(j, &search, &result);
		j->runtime = TAKE_PTR(result.runtime);
	}
	if (r == 0) {
		j->blocks = result.blocks;
		j->n_rows = result.n_rows;
		j->n_skipped = result.n_skipped;
		j->build_ns = result.build_ns;
	}
	close_files(&request); /* here, because it may block */
	debug_search_fini(&search);
	return r;
}

static void run(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);

	j->error = build(j);
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
	j->debug.fd = j->names.fd = -1;
	j->debug_fd = -1;
	j->version = f->version;
	j->any_version = !binary_version(f);
	j->of_system = f->of_system;
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
				.debug = {.fd = -1},
				.names = {.fd = -1}};
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
	if (j->debug.fd >= 0)
		close(j->debug.fd);
	if (j->names.fd >= 0)
		close(j->names.fd);
	proc_root_unref(j->root);
	unwind_blocks_fini(&j->blocks);
	free(j->runtime);
	free(atomic_load(&j->early));
	free(j->path);
	free(j);
}
