// SPDX-License-Identifier: Apache-2.0
/*
 * Names come in two steps: a window that closes asks for what its stacks need and the caches do not have (one
 * job a file), and is sent when the jobs are back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/base/memo.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/config/config.h"
#include "agent/report/report_jit.h"
#include "agent/report/report_kernel.h"
#include "agent/report/report_private.h"
#include "agent/symbol/kernel.h"
#include "agent/symbol/resolve.h"
#include "agent/unwind/tables.h"

#define NAMES_BYTES_MAX (16u << 20)
#define LINES_BYTES_MAX (128u << 20)  /* of a recording */
#define JIT_KEEP_NS (60 * NS_PER_SEC) /* longer than a window waits */

struct names {
	struct binary_registry *binaries;
	const struct unwind_tables *tables;
	struct worker *worker;
	bool want_kernel, want_native;
	bool kernel_said;
	struct symbol_cache *cache;
	struct symbol_cache
		*lines; /* of debug information, which takes longer than names; NULL: not wanted */
	struct symbol_kernel *kernel;
	struct kernel_modules *modules;
	struct jit_names *jit;
	struct memo asked; /* frames of the window at work */
	size_t n_jobs;	   /* with the workers */
};

/* A job of symbol/ on its way, with the way back to us. */
struct names_job {
	struct worker_job job;
	struct worker_job *inner;
	struct names *names;
	bool given_up; /* the window does not wait for it any more */
};

int names_new(struct names **ret, const struct report_options *options)
{
	struct names *n = calloc(1, sizeof *n);
	int r;

	if (!n)
		return -ENOMEM;
	n->binaries = options->binaries;
	n->tables = options->tables;
	n->worker = options->worker;
	n->want_kernel = options->config->symbols.kernel;
	n->want_native = options->config->symbols.native;
	r = symbol_cache_new(&n->cache, NAMES_BYTES_MAX);
	if (r == 0 && options->source_lines)
		r = symbol_cache_new(&n->lines, LINES_BYTES_MAX);
	if (r == 0)
		r = symbol_kernel_new(&n->kernel, NULL);
	if (r == 0)
		r = kernel_modules_new(&n->modules);
	if (r == 0)
		r = jit_names_new(&n->jit, options->binaries);
	if (r < 0) {
		names_free(n);
		return r;
	}
	*ret = n;
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	symbol_cache_free(n->cache);
	symbol_cache_free(n->lines);
	symbol_kernel_free(n->kernel);
	kernel_modules_free(n->modules);
	jit_names_free(n->jit);
	memo_fini(&n->asked);
	free(n);
}

static void job_run(struct worker_job *job)
{
	struct names_job *j = container_of(job, struct names_job, job);

	j->inner->run(j->inner);
}

static void job_done(struct worker_job *job, bool cancelled)
{
	struct names_job *j = container_of(job, struct names_job, job);
	struct names *n = j->names;

	j->inner->done(j->inner, cancelled);
	n->n_jobs -= !j->given_up;
	free(j);
}

static void job_overdue(struct worker_job *job)
{
	struct names_job *j = container_of(job, struct names_job, job);

	j->given_up = true;
	j->names->n_jobs--;
}

/* Hands a job to the workers; where that fails it comes back at once as one that was not run. */
static void submit(struct names *n, struct worker_job *inner, enum worker_priority priority)
{
	struct names_job *j = calloc(1, sizeof *j);

	if (j) {
		*j = (struct names_job){.job = {.run = job_run, .done = job_done, .overdue = job_overdue},
					.inner = inner,
					.names = n};
		if (worker_submit(n->worker, &j->job, priority) == 0) {
			n->n_jobs++;
			return;
		}
		free(j);
	}
	inner->done(inner, true);
}

static void submit_files(struct names *n, struct symbol_cache *cache)
{
	bool lines = cache == n->lines;
	uint32_t file;

	while (symbol_cache_next_wanted(cache, &file)) {
		const struct binary *f = binary_registry_get(n->binaries, file);
		struct symbol_job *job;

		if (!f || f->fd < 0) {
			symbol_cache_give_up(cache, file);
			continue;
		}
		const struct symbol_files files = {f->fd, f->names_fd, f->names_delta, lines};

		if (symbol_job_new(&job, cache, file, &files) < 0)
			return; /* no memory or descriptor: the addresses stay wanted, the window goes without
				 */
		submit(n, &job->work, lines ? WORKER_LOW : WORKER_HIGH);
	}
}

static void submit_kernel(struct names *n)
{
	struct symbol_kernel_job *job;

	if (symbol_kernel_job_new(&job, n->kernel, clock_mono_ns()) == 0)
		submit(n, &job->work, WORKER_HIGH);
}

/* The kernel's names take long to read, and the first window needs them. */
void names_prepare(struct names *n)
{
	struct kallsyms_symbol none;

	if (!n->want_kernel)
		return;
	(void)symbol_kernel_find(n->kernel, 0, &none); /* missed: they are wanted */
	submit_kernel(n);
}

/* Where its debug file is still to be looked for, which comes with its table: names that are found now would
 * be kept. */
static bool is_early(struct names *n, uint32_t file)
{
	const struct binary_table *f = n->tables ? unwind_tables_get(n->tables, file) : NULL;

	return f && f->binary->root && binary_table_pending(f);
}

static void want(struct symbol_cache *cache, uint32_t file, uint64_t va)
{
	struct symbol_name name;

	if (!symbol_cache_find(cache, file, va, &name))
		(void)symbol_cache_want(cache, file, va); /* refusals are counted there */
}

static void request(struct names *n, const struct stack_frame *f)
{
	uint32_t file = frame_file(f->word);
	struct kallsyms_symbol symbol;

	if (f->kind == STACK_FRAME_KERNEL) {
		(void)symbol_kernel_find(n->kernel, f->word, &symbol);
		return;
	}
	if (is_early(n, file))
		return;
	want(n->cache, file, frame_va(f->word));
	if (n->lines)
		want(n->lines, file, frame_va(f->word));
}

/* Whether a frame can have a name in a binary or in the kernel. */
static bool wanted(const struct names *n, const struct stack_frame *f)
{
	return (f->kind == STACK_FRAME_KERNEL && n->want_kernel) ||
	       (f->kind == STACK_FRAME_NATIVE && n->want_native);
}

static void submit_jit(struct names *n, struct worker_job *job)
{
	if (job)
		submit(n, job, WORKER_HIGH);
}

void names_sample(struct names *n, struct process *p, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (n->want_native && stack_frames_next(&frames, &f))
		if (f.kind == STACK_FRAME_ANONYMOUS) {
			submit_jit(n, jit_names_note(n->jit, p, v->time_ns));
			return;
		}
}

static void request_stack(struct names *n, struct process *p, const struct sample_stack *s)
{
	struct stack_frames frames = STACK_FRAMES(s);
	struct stack_frame f;
	bool jit = false;
	int32_t known;

	while (stack_frames_next(&frames, &f)) {
		if (n->want_native && jit_names_wants(n->jit, &f)) {
			jit = true;
			continue;
		}
		if (!wanted(n, &f) || memo_get(&n->asked, f.word, &known))
			continue;
		memo_put(&n->asked, f.word, 0);
		request(n, &f);
	}
	if (!jit)
		return;
	submit_jit(n, jit_names_note(n->jit, p, clock_mono_ns()));
	submit_jit(n, jit_names_job(n->jit, p)); /* one at a time */
}

void names_request(struct names *n, const struct sample_aggregate *samples)
{
	uint64_t now = clock_mono_ns();

	memo_clear(&n->asked);
	jit_names_sweep(n->jit, now > JIT_KEEP_NS ? now - JIT_KEEP_NS : 0);
	for (const struct sample_entry *e = sample_aggregate_entries(samples); e; e = e->next)
		request_stack(n, ((const struct proc_image *)e->owner)->process, e->stack);
	submit_files(n, n->cache);
	submit_kernel(n);
	if (n->lines)
		submit_files(n, n->lines);
}

bool names_complete(const struct names *n)
{
	return n->n_jobs == 0;
}

uint64_t names_frame_id(struct names *n, const struct process *p, const struct stack_frame *f)
{
	return n->want_native ? jit_names_id(n->jit, p, f) : f->word;
}

static bool find_name(struct names *n, uint32_t file, uint64_t va, struct symbol_name *ret)
{
	if (n->lines && symbol_cache_find(n->lines, file, va, ret) && ret->lines)
		return true;
	return symbol_cache_find(n->cache, file, va, ret);
}

void names_user_frame(struct names *n, uint64_t frame, struct frame *ret)
{
	uint32_t file = frame_file(frame);
	const struct binary *f = binary_registry_get(n->binaries, file);
	struct symbol_name name;

	if (jit_names_frame(n->jit, frame, ret))
		return;
	*ret = (struct frame){
		.module = f ? &f->module : NULL, .address = frame_va(frame), .kind = FRAME_NATIVE};
	if (f && n->want_native && find_name(n, file, ret->address, &name)) {
		ret->function = name.function;
		ret->system_name = name.system_name;
		ret->lines = name.lines;
		ret->n_lines = name.n_lines;
		ret->unnamed_start = name.unnamed ? name.start : 0;
	}
}

/* Once, why the kernel's functions have no names. */
static void say_kernel(struct names *n)
{
	int status = n->want_kernel ? symbol_kernel_status(n->kernel) : 0;

	if (n->kernel_said || status == 0 || status == -EAGAIN)
		return;
	n->kernel_said = true;
	if (status == -EPERM)
		log_warn("the kernel hides its symbols (kernel.kptr_restrict, or CAP_SYSLOG is missing): "
			 "kernel frames have addresses only");
	else
		log_warn("/proc/kallsyms cannot be used (%s): kernel frames have addresses only",
			 strerror(-status));
}

void names_kernel_frame(struct names *n, uint64_t address, struct frame *ret)
{
	struct kallsyms_symbol s;
	size_t module = 0;

	*ret = (struct frame){.address = address, .kind = FRAME_KERNEL};
	if (n->want_kernel && symbol_kernel_find(n->kernel, address, &s)) {
		ret->function = s.name;
		module = s.module_index;
	}
	ret->module = kernel_modules_get(n->modules, symbol_kernel_table(n->kernel), module);
	say_kernel(n);
}

void names_forget(struct names *n, uint32_t file)
{
	symbol_cache_forget(n->cache, file);
	if (n->lines)
		symbol_cache_forget(n->lines, file);
}

size_t names_bytes(const struct names *n)
{
	struct symbol_cache_stats s, lines = {0};
	struct kallsyms_stats k = {0};

	symbol_cache_get_stats(n->cache, &s);
	if (n->lines)
		symbol_cache_get_stats(n->lines, &lines);
	if (symbol_kernel_table(n->kernel))
		kallsyms_table_stats(symbol_kernel_table(n->kernel), &k);
	return s.bytes + lines.bytes + k.bytes + jit_names_bytes(n->jit);
}

uint64_t names_lines_left(const struct names *n)
{
	struct symbol_cache_stats s = {0};

	if (n->lines)
		symbol_cache_get_stats(n->lines, &s);
	return s.n_lines_left + s.n_wanted + s.n_in_jobs;
}
