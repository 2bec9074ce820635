// SPDX-License-Identifier: Apache-2.0
/*
 * A slot is free, holds an answer, or a question that is to be asked or is with a worker. A job takes all
 * questions about one file, because finding them is one pass over its call-frame section; `serial` tells an
 * answer whose slot has meanwhile been given to another file.
 */
#include "agent/unwind/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/elf/rule_lookup.h"
#include "agent/elf/file/elf_image.h"

#define QUESTIONS_MAX 32u /* of one job */
#define JOBS_MAX 4u

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

enum slot_state { SLOT_FREE, SLOT_QUESTION, SLOT_ASKED, SLOT_FOUND, SLOT_NONE };

struct slot {
	enum slot_state state;
	uint32_t file;
	uint64_t va, used, serial;
	struct frame_rule rule;
};

struct rules {
	struct binary_registry *binaries;
	struct worker *worker;
	void (*ready)(void *data);
	void *data;
	uint64_t clock, serial;
	unsigned n_jobs, n_questions;
	struct rules_stats stats;
	struct slot slots[RULES_MAX];
};

struct rules_job {
	struct worker_job job;
	struct rules *rules;
	int fd;
	int error;
	bool given_up;
	size_t n;
	uint64_t serials[QUESTIONS_MAX];
	uint16_t slots[QUESTIONS_MAX];
	struct frame_query query[QUESTIONS_MAX];
};

int rules_new(struct rules **ret, struct binary_registry *binaries, struct worker *worker,
	      void (*ready)(void *data), void *data)
{
	struct rules *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	*r = (struct rules){.binaries = binaries, .worker = worker, .ready = ready, .data = data};
	*ret = r;
	return 0;
}

void rules_free(struct rules *r)
{
	free(r);
}

static bool holds(const struct slot *s, uint32_t file, uint64_t va)
{
	if (s->state == SLOT_FREE || s->file != file)
		return false;
	return s->state == SLOT_FOUND ? va >= s->rule.start && va < s->rule.end : va == s->va;
}

/* A free slot, or the answer unused for longest; NULL: all are questions. */
static struct slot *slot_take(struct rules *r)
{
	struct slot *oldest = NULL;

	for (size_t i = 0; i < RULES_MAX; i++) {
		struct slot *s = &r->slots[i];

		if (s->state == SLOT_FREE)
			return s;
		if (s->state >= SLOT_FOUND && (!oldest || s->used < oldest->used))
			oldest = s;
	}
	return oldest;
}

static void question_add(struct rules *r, uint32_t file, uint64_t va)
{
	struct slot *s = slot_take(r);

	if (!s) {
		r->stats.full++;
		return;
	}
	s->state = SLOT_QUESTION;
	s->file = file;
	s->va = va;
	s->serial = ++r->serial;
	r->n_questions++;
}

enum rules_answer rules_get(struct rules *r, uint32_t file, uint64_t va, const struct frame_rule **ret)
{
	for (size_t i = 0; i < RULES_MAX; i++) {
		struct slot *s = &r->slots[i];

		if (!holds(s, file, va))
			continue;
		s->used = ++r->clock;
		*ret = &s->rule;
		return s->state == SLOT_FOUND  ? RULES_FOUND
		       : s->state == SLOT_NONE ? RULES_NONE
					       : RULES_PENDING;
	}
	question_add(r, file, va);
	return RULES_PENDING;
}

static int find(struct rules_job *j)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	int e = elf_image_open(&img, j->fd);

	return e < 0 ? e : frame_rules_find(img, j->query, j->n);
}

static void job_run(struct worker_job *job)
{
	struct rules_job *j = container_of(job, struct rules_job, job);

	j->error = find(j);
}

static void slot_answer(struct rules *r, struct slot *s, int error, const struct frame_rule *rule)
{
	s->used = ++r->clock;
	s->state = error == 0 ? SLOT_FOUND : SLOT_NONE;
	if (error == 0)
		s->rule = *rule;
	r->stats.found += error == 0;
	r->stats.none += error != 0;
	r->stats.failed += error != 0 && error != -ENOENT;
}

static void job_free(struct rules_job *j)
{
	close(j->fd);
	free(j);
}

static void answers_take(struct rules *r, struct rules_job *j, int error)
{
	for (size_t i = 0; i < j->n; i++) {
		struct slot *s = &r->slots[j->slots[i]];

		if (s->state == SLOT_ASKED && s->serial == j->serials[i])
			slot_answer(r, s, error ?: j->query[i].error, &j->query[i].rule);
	}
	r->n_jobs--;
	rules_ask(r);
	r->ready(r->data);
}

static void job_done(struct worker_job *job, bool cancelled)
{
	struct rules_job *j = container_of(job, struct rules_job, job);

	if (!cancelled && !j->given_up)
		answers_take(j->rules, j, j->error);
	job_free(j);
}

static void job_overdue(struct worker_job *job)
{
	struct rules_job *j = container_of(job, struct rules_job, job);

	j->given_up = true;
	answers_take(j->rules, j, -ETIMEDOUT);
}

static struct rules_job *job_new(struct rules *r, uint32_t file)
{
	const struct binary *f = binary_registry_get(r->binaries, file);
	struct rules_job *j = f && f->fd >= 0 ? malloc(sizeof *j) : NULL;

	if (!j)
		return NULL;
	j->job = (struct worker_job){.run = job_run, .done = job_done, .overdue = job_overdue};
	j->given_up = false;
	j->rules = r;
	j->n = 0;
	j->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0) {
		free(j);
		return NULL;
	}
	return j;
}

/* Puts the questions about the file into the job; with no job they are answered: the file cannot be read. */
static void questions_move(struct rules *r, uint32_t file, struct rules_job *j)
{
	for (uint16_t i = 0; i < RULES_MAX && (!j || j->n < QUESTIONS_MAX); i++) {
		struct slot *s = &r->slots[i];

		if (s->state != SLOT_QUESTION || s->file != file)
			continue;
		r->n_questions--;
		if (!j) {
			slot_answer(r, s, -EBADF, NULL);
			continue;
		}
		s->state = SLOT_ASKED;
		j->slots[j->n] = i;
		j->serials[j->n] = s->serial;
		j->query[j->n++].va = s->va;
	}
}

/* The worker's queue is full: they are asked the next time. */
static void questions_return(struct rules *r, const struct rules_job *j)
{
	for (size_t i = 0; i < j->n; i++)
		r->slots[j->slots[i]].state = SLOT_QUESTION;
	r->n_questions += (unsigned)j->n;
}

static int ask_file(struct rules *r, uint32_t file)
{
	struct rules_job *j = job_new(r, file);

	questions_move(r, file, j);
	if (!j) {
		r->ready(r->data);
		return 0;
	}
	if (worker_submit(r->worker, &j->job, WORKER_HIGH) < 0) {
		questions_return(r, j);
		job_free(j);
		return -ENOSPC;
	}
	r->n_jobs++;
	return 0;
}

void rules_ask(struct rules *r)
{
	for (size_t i = 0; i < RULES_MAX && r->n_questions && r->n_jobs < JOBS_MAX; i++) {
		const struct slot *s = &r->slots[i];

		if (s->state == SLOT_QUESTION && ask_file(r, s->file) < 0)
			return;
	}
}

void rules_forget(struct rules *r, uint32_t file)
{
	for (size_t i = 0; i < RULES_MAX; i++) {
		struct slot *s = &r->slots[i];

		if (s->file != file)
			continue;
		r->n_questions -= s->state == SLOT_QUESTION;
		s->state = SLOT_FREE;
	}
}

void rules_stats(const struct rules *r, struct rules_stats *ret)
{
	*ret = r->stats;
}
