// SPDX-License-Identifier: Apache-2.0
/*
 * Some addresses never get a name: gaps between sections, code of programs that hide. They must not make the
 * agent read all symbols every minute. So a small ring remembers the addresses that the present table does
 * not have. Those that are still missing after a reload become `hopeless` and trigger no further one.
 */
#include "agent/symbol/kernel_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define MISSES_MAX 64

struct misses {
	uint64_t addrs[MISSES_MAX];
	size_t n, next; /* if the ring is full, `next` is overwritten next */
};

struct symbol_kernel {
	char *path;		/* owned */
	struct kallsyms *table; /* owned; NULL: none */
	int status;
	bool wanted, under_way, tried;
	uint64_t last_ns; /* time of the last job */
	struct misses missed, hopeless;
};

static bool misses_have(const struct misses *m, uint64_t addr)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->addrs[i] == addr)
			return true;
	return false;
}

static void misses_add(struct misses *m, uint64_t addr)
{
	if (misses_have(m, addr))
		return;
	m->addrs[m->next] = addr;
	m->next = (m->next + 1) % MISSES_MAX;
	if (m->n < MISSES_MAX)
		m->n++;
}

int symbol_kernel_new(struct symbol_kernel **ret, const char *path)
{
	_cleanup_free_ struct symbol_kernel *k = calloc(1, sizeof *k);

	if (!k)
		return -ENOMEM;
	k->path = strdup(path ? path : "/proc/kallsyms");
	if (!k->path)
		return -ENOMEM;
	k->status = -EAGAIN;
	*ret = TAKE_PTR(k);
	return 0;
}

void symbol_kernel_free(struct symbol_kernel *k)
{
	if (!k)
		return;
	kallsyms_free(k->table);
	free(k->path);
	free(k);
}

bool symbol_kernel_find(struct symbol_kernel *k, uint64_t addr, struct kallsyms_symbol *ret)
{
	if (k->table && kallsyms_lookup(k->table, addr, ret) == 0)
		return true;
	if (k->status != -EPERM && !misses_have(&k->hopeless, addr)) {
		misses_add(&k->missed, addr);
		k->wanted = true;
	}
	return false;
}

static void job_run(struct worker_job *work)
{
	struct symbol_kernel_job *job = container_of(work, struct symbol_kernel_job, work);
	_cleanup_close_ int fd = open(job->path, O_RDONLY | O_CLOEXEC);

	job->status = fd < 0 ? -errno : kallsyms_read(&job->table, fd);
	/* -EACCES by the file's mode has the same effect as kptr_restrict: no addresses for this user */
	if (job->status == -EACCES)
		job->status = -EPERM;
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_kernel_job *job = container_of(work, struct symbol_kernel_job, work);

	(void)cancelled; /* job->status is -ECANCELED then */
	symbol_kernel_complete(job->kernel, job);
}

int symbol_kernel_job_new(struct symbol_kernel_job **ret, struct symbol_kernel *k, uint64_t now_ns)
{
	_cleanup_free_ struct symbol_kernel_job *job = NULL;

	if (!k->wanted || k->under_way || (k->tried && now_ns - k->last_ns < SYMBOL_KERNEL_RELOAD_NS))
		return -EAGAIN;
	job = calloc(1, sizeof *job);
	if (!job)
		return -ENOMEM;
	job->path = strdup(k->path);
	if (!job->path)
		return -ENOMEM;
	job->work = (struct worker_job){.run = job_run, .done = job_done};
	job->kernel = k;
	job->status = -ECANCELED;
	k->under_way = k->tried = true;
	k->last_ns = now_ns;
	*ret = TAKE_PTR(job);
	return 0;
}

/* Addresses missed before become hopeless if the new table does not have them either. */
static void settle_misses(struct symbol_kernel *k)
{
	struct misses missed = k->missed;
	struct kallsyms_symbol s;

	for (size_t i = 0; i < k->hopeless.n; i++)
		misses_add(&missed, k->hopeless.addrs[i]);
	k->hopeless = k->missed = (struct misses){0};
	for (size_t i = 0; i < missed.n; i++)
		if (kallsyms_lookup(k->table, missed.addrs[i], &s) < 0)
			misses_add(&k->hopeless, missed.addrs[i]);
}

void symbol_kernel_complete(struct symbol_kernel *k, struct symbol_kernel_job *job)
{
	k->under_way = false;
	if (job->status == -ECANCELED)
		k->tried = false; /* names are still wanted: the next job is due at once */
	else
		k->wanted = false;
	if (job->status == 0) {
		kallsyms_free(k->table);
		k->table = TAKE_PTR(job->table);
		k->status = 0;
		settle_misses(k);
	} else if (job->status != -ECANCELED && !k->table) {
		k->status = job->status;
	}
	kallsyms_free(job->table);
	free(job->path);
	free(job);
}

int symbol_kernel_status(const struct symbol_kernel *k)
{
	return k->status;
}

const struct kallsyms *symbol_kernel_table(const struct symbol_kernel *k)
{
	return k->table;
}
