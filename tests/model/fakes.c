// SPDX-License-Identifier: Apache-2.0
#include "tests/model/fakes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/elf/runtime/facts.h"
#include "agent/unwind/build.h"
#include "agent/unwind/generated.h"
#include "bpf/abi.h"

uint64_t fake_now_ns;
struct binary_registry fake_registry;
bool fake_workers_full;

uint64_t clock_mono_ns(void)
{
	return fake_now_ns;
}

/* --- agent/binary/registry.h */

struct binary *binary_registry_get(const struct binary_registry *r, uint32_t index)
{
	if (!index || index > FILES || !r->files[index].present)
		return NULL;
	return (struct binary *)&r->files[index].binary;
}

uint32_t binary_registry_max(const struct binary_registry *r)
{
	(void)r;
	return FILES;
}

void binary_registry_searched(struct binary_registry *r, uint32_t index, struct binary_debug *found)
{
	(void)r, (void)index, (void)found;
}

bool binary_registry_changed(struct binary_registry *r, uint32_t index)
{
	(void)r, (void)index;
	return false;
}

bool binary_registry_quarantine(struct binary_registry *r, uint32_t index, enum binary_use use, int error)
{
	(void)r, (void)index, (void)use, (void)error;
	return false;
}

uint64_t binary_registry_held_until_ns(uint64_t tenant, const void *registry)
{
	(void)tenant, (void)registry;
	return 0;
}

void binary_registry_set_htlhash(struct binary_registry *r, uint32_t index, const char *htlhash)
{
	(void)r, (void)index, (void)htlhash;
}

bool binary_registry_hold(struct binary_registry *r, uint32_t index)
{
	if (!binary_registry_get(r, index))
		return false;
	r->files[index].refs++;
	return true;
}

void binary_registry_release(struct binary_registry *r, uint32_t index)
{
	if (binary_registry_get(r, index) && !r->files[index].refs--)
		abort();
}

static void file_hold(uint32_t file, void *data)
{
	(void)binary_registry_hold(data, file);
}

static void file_release(uint32_t file, void *data)
{
	binary_registry_release(data, file);
}

const struct proc_files fake_files = {file_hold, file_release, &fake_registry};

/* --- agent/base/worker.h, agent/unwind/build.h */

void worker_urge(struct worker *w, struct worker_job *job)
{
	(void)w;
	job->urgent = true;
}

int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority)
{
	struct build_job *j = container_of(job, struct build_job, job);

	(void)w, (void)priority;
	if (fake_workers_full)
		return -ENOSPC;
	fake_registry.files[j->file].job = j;
	return 0;
}

int build_job_new(struct build_job **ret, const struct binary *f, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled),
		  void (*overdue)(struct worker_job *job))
{
	struct build_job *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	j->job.done = done;
	j->job.overdue = overdue;
	j->owner = owner;
	j->file = f->index;
	j->debug.fd = j->names.fd = -1;
	*ret = j;
	return 0;
}

void build_job_free(struct build_job *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->blocks.n; i++)
		free(j->blocks.blocks[i].bytes);
	free(j->blocks.blocks);
	free(j);
}

void fake_job_fill(struct build_job *j)
{
	const struct fake_file *f = &fake_registry.files[j->file];

	j->blocks.blocks = calloc(f->n_blocks, sizeof *j->blocks.blocks);
	for (uint32_t i = 0; j->blocks.blocks && i < f->n_blocks; i++) {
		struct unwind_block *b = &j->blocks.blocks[i];
		struct fake_mark mark = {f->serial, j->file, i};
		struct unwind_table *t = malloc(f->blocks[i].len);

		if (!t)
			abort();
		*t = (struct unwind_table){
			.va = f->blocks[i].va,
			.n_pages = (uint32_t)((f->blocks[i].end - f->blocks[i].va) >> PAGE_SHIFT_ROWS)};
		memcpy(t + 1, &mark, sizeof mark);
		*b = (struct unwind_block){f->blocks[i].va, f->blocks[i].end, (uint8_t *)t, f->blocks[i].len};
		j->blocks.n++;
		j->blocks.bytes += b->len;
	}
	j->n_rows = 1;
}

/* --- agent/unwind/generated.h: the model's processes generate no code */

int generated_new(struct generated **ret, uint32_t pid)
{
	(void)ret, (void)pid;
	return -ENOMEM;
}

void generated_free(struct generated *g)
{
	if (g)
		abort();
}

bool generated_request(struct generated *g, const struct generated_request *request)
{
	(void)g, (void)request;
	abort();
}

bool generated_request_line(struct generated *g, const struct v8_layout *layout,
			    const struct v8_line_wish *wish)
{
	(void)g, (void)layout, (void)wish;
	abort();
}

bool generated_request_v8_code(struct generated *g, const struct v8_process *process,
			       const struct vm_wanted *wanted)
{
	(void)g, (void)process, (void)wanted;
	abort();
}

bool generated_requested(const struct generated *g)
{
	(void)g;
	abort();
}

size_t generated_begin(struct generated *g, bool check)
{
	(void)g, (void)check;
	abort();
}

uint32_t generated_pid(const struct generated *g)
{
	(void)g;
	return 0;
}

const struct buf *generated_found(const struct generated *g)
{
	(void)g;
	return NULL;
}

const struct code_heaps *generated_heaps(const struct generated *g)
{
	(void)g;
	return NULL;
}

const struct code_span *generated_spans(const struct generated *g, size_t *ret_n)
{
	(void)g, (void)ret_n;
	abort();
}

const uint64_t *generated_empty(const struct generated *g, size_t *ret_n)
{
	(void)g, (void)ret_n;
	abort();
}

uint64_t generated_look(const struct generated *g)
{
	(void)g;
	abort();
}

uint64_t generated_began_ns(const struct generated *g)
{
	(void)g;
	abort();
}

void generated_stats(const struct generated *g, struct generated_stats *ret)
{
	(void)g, (void)ret;
	abort();
}

int build_job_generated(struct build_job **ret, uint32_t file, struct generated *generated, void *owner,
			void (*done)(struct worker_job *job, bool cancelled),
			void (*overdue)(struct worker_job *job))
{
	(void)ret, (void)file, (void)generated, (void)owner, (void)done, (void)overdue;
	abort();
}

/* --- agent/elf/runtime/facts.h: the model has no names */

bool runtime_facts_likely(const char *name)
{
	(void)name;
	return false;
}
