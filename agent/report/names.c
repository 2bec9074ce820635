// SPDX-License-Identifier: Apache-2.0
#include "agent/report/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/frame.h"
#include "agent/base/log.h"
#include "agent/base/memo.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/proc/process.h"
#include "agent/report/file_check.h"
#include "agent/report/jit_names.h"
#include "agent/report/kernel_modules.h"
#include "agent/report/language_names.h"
#include "agent/sample/endings.h"
#include "agent/sample/frames.h"
#include "agent/symbol/batch.h"
#include "agent/symbol/kernel_names.h"
#include "agent/symbol/symbol_cache.h"
#include "agent/unwind/tables.h"

#define NAMES_BYTES_MAX (16u << 20)
#define LINES_BYTES_MAX (128u << 20) /* of a recording */
#define READERS_MAX 16u /* jobs with the workers that read names of binaries; the others wait in fair order */

struct names {
	struct names_options options;
	bool kernel_reported;
	struct symbol_cache *cache;
	struct symbol_cache *lines; /* source lines, which take longer to read than names; NULL: off */
	struct symbol_kernel *kernel;
	struct kernel_modules *modules;
	struct jit_names *jit;
	struct language_names *languages;
	struct memo requested;	/* frames of the closed window that were looked at */
	struct memo files_seen; /* binaries of these frames */
	uint32_t *files;	/* the same; owned */
	size_t n_files, cap_files;
	struct memo unnamed_seen; /* frames of the closed window that get no name, with their numbers */
	uint64_t *unnamed;	  /* the same, by number; owned */
	size_t n_unnamed, cap_unnamed;
	struct stack_frame *early; /* frames that wait for the search for a debug file; owned */
	size_t n_early, cap_early;
	size_t n_jobs;	  /* with the workers */
	size_t n_readers; /* of these, those that read names of binaries */
};

/* Wraps a job of agent/symbol, to count those that are not done. */
struct names_job {
	struct worker_job job;
	struct worker_job *inner;
	struct names *names;
	struct symbol_cache *reads; /* `inner` reads names of a binary for it; NULL: another job */
	bool left; /* it has ended, or is stuck: the window does not wait for it; what it finds is used */
};

static uint64_t tenant_of(uint32_t file, void *data)
{
	const struct binary *b = binary_registry_get(((struct names *)data)->options.binaries, file);

	return b ? b->tenant : 0;
}

static void be_fair(struct names *n, struct symbol_cache *cache)
{
	symbol_cache_on_tenant(cache, tenant_of, n);
	symbol_cache_on_held(cache, binary_registry_held_until_ns, n->options.binaries);
}

int names_new(struct names **ret, const struct names_options *options)
{
	struct names *n = calloc(1, sizeof *n);
	int r;

	if (!n)
		return -ENOMEM;
	n->options = *options;
	r = symbol_cache_new(&n->cache, NAMES_BYTES_MAX);
	if (r == 0 && options->source_lines)
		r = symbol_cache_new(&n->lines, LINES_BYTES_MAX);
	if (r == 0)
		r = symbol_kernel_new(&n->kernel, options->kallsyms);
	if (r == 0)
		r = kernel_modules_new(&n->modules, NULL);
	if (r == 0)
		r = jit_names_new(&n->jit, options->binaries);
	if (r == 0)
		r = language_names_new(&n->languages, options->code);
	if (r < 0) {
		names_free(n);
		return r;
	}
	be_fair(n, n->cache);
	if (n->lines)
		be_fair(n, n->lines);
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
	language_names_free(n->languages);
	memo_fini(&n->requested);
	memo_fini(&n->files_seen);
	memo_fini(&n->unnamed_seen);
	free(n->files);
	free(n->unnamed);
	free(n->early);
	free(n);
}

void names_stop(struct names *n)
{
	if (n)
		jit_names_stop(n->jit);
}

static void submit_readers(struct names *n);

static void job_run(struct worker_job *job)
{
	struct names_job *j = container_of(job, struct names_job, job);

	j->inner->run(j->inner);
}

/* The window does not wait for the job any longer. */
static void job_leave(struct names_job *j)
{
	if (j->left)
		return;
	j->left = true;
	j->names->n_jobs--;
	j->names->n_readers -= j->reads != NULL;
}

/* It has read names of a binary. */
static void look_at_outcome(const struct names_job *j)
{
	const struct symbol_job *job = container_of(j->inner, struct symbol_job, work);

	if (symbol_cache_expects(j->reads, job))
		(void)binary_registry_quarantine(j->names->options.binaries, job->batch->file_id,
						 BINARY_FOR_NAMES, job->batch->status);
}

static void job_done(struct worker_job *job, bool cancelled)
{
	struct names_job *j = container_of(job, struct names_job, job);
	struct names *n = j->names;

	if (j->reads && !cancelled)
		look_at_outcome(j);
	j->inner->done(j->inner, cancelled);
	job_leave(j);
	if (j->reads && !cancelled)
		submit_readers(n);
	free(j);
}

static void job_overdue(struct worker_job *job)
{
	struct names_job *j = container_of(job, struct names_job, job);

	job_leave(j);
	if (!j->reads)
		return;
	symbol_cache_overdue(j->reads, container_of(j->inner, struct symbol_job, work));
	submit_readers(j->names);
}

/* Gives a job to the workers. False: it cannot run now, and its names are to be requested again. */
static bool submit_to(struct names *n, struct worker *worker, struct worker_job *inner,
		      struct symbol_cache *reads)
{
	struct names_job *j = calloc(1, sizeof *j);

	if (j) {
		*j = (struct names_job){.job = {.run = job_run, .done = job_done, .overdue = job_overdue},
					.inner = inner,
					.names = n,
					.reads = reads};
		if (worker_submit(worker, &j->job, reads && reads == n->lines ? WORKER_LOW : WORKER_HIGH) ==
		    0) {
			n->n_jobs++;
			n->n_readers += reads != NULL;
			return true;
		}
		free(j);
	}
	inner->done(inner, true);
	return false;
}

static bool submit(struct names *n, struct worker_job *inner)
{
	return submit_to(n, n->options.worker, inner, NULL);
}

/* As many as may be with the workers: each that ends makes room for the next. */
static void submit_files(struct names *n, struct symbol_cache *cache)
{
	bool lines = cache == n->lines;
	uint32_t file;

	while (n->n_readers < READERS_MAX && symbol_cache_next_wanted(cache, &file)) {
		const struct binary *f = binary_registry_get(n->options.binaries, file);
		struct symbol_job *job;

		if (!f || f->fd < 0 || (f->quarantined & BINARY_FOR_NAMES)) {
			symbol_cache_give_up(cache, file);
			continue;
		}
		const struct symbol_files files = {.fd = f->fd,
						   .debug_fd = f->names_fd,
						   .debug_delta = f->names_delta,
						   .version = binary_version(f),
						   .debug_version = &f->names_version,
						   .of_system = f->of_system && f->names_fd < 0,
						   .source_lines = lines};

		if (symbol_job_new(&job, cache, file, &files) < 0 ||
		    !submit_to(n, n->options.worker, &job->work, cache))
			return; /* the addresses stay wanted; this window is sent without their names */
	}
}

static void submit_readers(struct names *n)
{
	submit_files(n, n->cache);
	if (n->lines)
		submit_files(n, n->lines);
}

static void submit_kernel(struct names *n)
{
	struct symbol_kernel_job *job;

	if (symbol_kernel_job_new(&job, n->kernel, clock_mono_ns()) == 0)
		(void)submit(n, &job->work);
}

/* The kernel's names take long to read, and the first window needs them. */
void names_prepare(struct names *n)
{
	struct kallsyms_symbol none;

	if (!n->options.kernel)
		return;
	(void)symbol_kernel_find(n->kernel, 0, &none); /* not found, which makes a job due */
	submit_kernel(n);
}

/*
 * Whether the separate debug file of a binary is still to be searched for, which happens while its unwind
 * table is built. Names that were read before would stay in the cache, and those of the debug file unread.
 */
static bool is_early(const struct names *n, uint32_t file)
{
	const struct binary_table *t = n->options.tables ? unwind_tables_get(n->options.tables, file) : NULL;

	return t && t->binary->root && binary_table_pending(t) && !t->stuck && !t->put_off;
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
	if (is_early(n, file)) {
		/* without memory the frame stays without a name */
		if (array_reserve(&n->early, &n->cap_early, n->n_early + 1, sizeof *n->early) == 0)
			n->early[n->n_early++] = *f;
		return;
	}
	want(n->cache, file, frame_va(f->word));
	if (n->lines)
		want(n->lines, file, frame_va(f->word));
}

/* Whether a frame can have a name in a binary or in the kernel. */
static bool wanted(const struct names *n, const struct stack_frame *f)
{
	return (f->kind == STACK_FRAME_KERNEL && n->options.kernel) ||
	       (f->kind == STACK_FRAME_NATIVE && n->options.native);
}

static bool submit_jit(struct names *n, struct worker_job *job)
{
	return job && submit_to(n, n->options.lists ?: n->options.worker, job, NULL);
}

void names_note(struct names *n, struct process *p, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (n->options.native && stack_frames_next(&frames, &f))
		if (jit_names_wants(n->jit, &f)) {
			(void)submit_jit(n, jit_names_note(n->jit, p, v->time_ns));
			return;
		}
}

int names_code(struct names *n, struct process *p, uint64_t address, uint64_t since_ns,
	       struct symbol_jit_code *ret)
{
	struct worker_job *job = jit_names_note(n->jit, p, clock_mono_ns());
	int r = job ? -EAGAIN : jit_names_code(n->jit, p, address, since_ns, ret);

	if (r == -ESTALE) {
		job = jit_names_job(n->jit, p);
		r = job ? -EAGAIN : -ENOENT;
	}
	if (job && !submit_jit(n, job))
		r = -ENOENT;
	return r;
}

/* Without memory the file is not checked. */
static void note_file(struct names *n, uint32_t file)
{
	int32_t known;

	if (memo_get(&n->files_seen, file, &known) ||
	    array_reserve(&n->files, &n->cap_files, n->n_files + 1, sizeof *n->files) < 0)
		return;
	memo_put(&n->files_seen, file, 0);
	n->files[n->n_files++] = file;
}

static void check_files(struct names *n)
{
	struct worker_job *job;

	if (!n->n_files)
		return;
	job = file_check_new(n->options.binaries, n->options.tables, n->files, n->n_files);
	if (job)
		(void)submit(n, job);
}

static void request_stack(struct names *n, struct process *p, const struct sample_stack *s)
{
	struct stack_frames frames = STACK_FRAMES(s);
	struct stack_frame f;
	bool jit = false;
	int32_t known;

	while (stack_frames_next(&frames, &f)) {
		if (f.kind == STACK_FRAME_NATIVE)
			note_file(n, frame_file(f.word));
		if (n->options.native && jit_names_wants(n->jit, &f)) {
			jit = true;
			continue;
		}
		if (!wanted(n, &f) || memo_get(&n->requested, f.word, &known))
			continue;
		memo_put(&n->requested, f.word, 0);
		request(n, &f);
	}
	if (!jit)
		return;
	(void)submit_jit(n, jit_names_note(n->jit, p, clock_mono_ns()));
	(void)submit_jit(n, jit_names_job(n->jit, p)); /* one at a time */
}

static void submit_all(struct names *n)
{
	submit_readers(n);
	submit_kernel(n);
}

void names_request(struct names *n, const struct sample_aggregate *samples, uint64_t since_ns)
{
	memo_clear(&n->requested);
	memo_clear(&n->files_seen);
	memo_clear(&n->unnamed_seen);
	language_names_clear(n->languages);
	n->n_files = n->n_unnamed = 0;
	n->n_early = 0;
	jit_names_sweep(n->jit, since_ns);
	symbol_cache_retry(n->cache);
	if (n->lines)
		symbol_cache_retry(n->lines);
	for (const struct sample_entry *e = sample_aggregate_entries(samples); e; e = e->next)
		request_stack(n, ((const struct proc_image *)e->owner)->process, e->stack);
	submit_all(n);
	check_files(n);
}

void names_progress(struct names *n)
{
	size_t before = n->n_early;

	n->n_early = 0;
	for (size_t i = 0; i < before; i++)
		request(n, &(struct stack_frame){.kind = n->early[i].kind, .word = n->early[i].word});
	if (n->n_early != before)
		submit_all(n);
}

bool names_complete(const struct names *n)
{
	return n->n_jobs == 0 && n->n_early == 0;
}

static bool find_name(struct names *n, uint32_t file, uint64_t va, struct symbol_name *ret)
{
	if (n->lines && symbol_cache_find(n->lines, file, va, ret) && ret->lines)
		return true;
	return symbol_cache_find(n->cache, file, va, ret);
}

static void user_frame(struct names *n, uint64_t frame, struct frame *ret)
{
	bool unnamed = frame_tag(frame) == FRAME_TAG_UNNAMED;
	uint64_t word = unnamed && frame_va(frame) < n->n_unnamed ? n->unnamed[frame_va(frame)] : frame;
	uint32_t file = frame_file(word);
	const struct binary *f = binary_registry_get(n->options.binaries, file);
	struct symbol_name name;

	if (jit_names_frame(n->jit, frame, ret))
		return;
	*ret = (struct frame){
		.module = f ? &f->module : NULL, .address = frame_va(word), .kind = FRAME_NATIVE};
	if (f && !unnamed && n->options.native && find_name(n, file, ret->address, &name)) {
		ret->function = name.function;
		ret->system_name = name.system_name;
		ret->lines = name.lines;
		ret->n_lines = name.n_lines;
		ret->start_line = name.n_lines ? name.lines[name.n_lines - 1].start_line : 0;
		ret->unnamed_start = name.unnamed ? name.start : 0;
	}
}

/* Logs once why the kernel's functions have no names. */
static void report_kernel_status(struct names *n)
{
	int status = n->options.kernel ? symbol_kernel_status(n->kernel) : 0;

	if (n->kernel_reported || status == 0 || status == -EAGAIN)
		return;
	n->kernel_reported = true;
	if (status == -EPERM)
		log_warn("the kernel hides its symbols (kernel.kptr_restrict, or CAP_SYSLOG is missing): "
			 "kernel frames have addresses only");
	else
		log_warn("/proc/kallsyms cannot be used (%s): kernel frames have addresses only",
			 strerror(-status));
}

static void kernel_frame(struct names *n, uint64_t address, struct frame *ret)
{
	struct kallsyms_symbol s;
	size_t module = 0;

	*ret = (struct frame){.address = address, .kind = FRAME_KERNEL};
	if (n->options.kernel && symbol_kernel_find(n->kernel, address, &s)) {
		ret->function = s.name;
		module = s.module_index;
	}
	ret->module = kernel_modules_get(n->modules, symbol_kernel_table(n->kernel), module);
	report_kernel_status(n);
}

/* --- stacks as numbers, and as frames */

/* The number of a user frame of p's. Generated code has another number in each process. */
static uint64_t number_of(struct names *n, const struct process *p, const struct stack_frame *f)
{
	return n->options.native ? jit_names_id(n->jit, p, f) : f->word;
}

/* The number of a frame that gets no name. Without memory, that of the stack's end alone is there. */
static bool unnamed_number(struct names *n, uint64_t word, uint64_t *ret)
{
	int32_t number;

	if (!memo_get(&n->unnamed_seen, word, &number)) {
		if (array_reserve(&n->unnamed, &n->cap_unnamed, n->n_unnamed + 1, sizeof *n->unnamed) < 0)
			return false;
		number = (int32_t)n->n_unnamed;
		memo_put(&n->unnamed_seen, word, number);
		n->unnamed[n->n_unnamed++] = word;
	}
	*ret = frame_native(FRAME_TAG_UNNAMED, (uint64_t)number);
	return true;
}

static bool is_doubtful(const struct names *n, const struct stack_frame *f, const struct sample_entry *e)
{
	return f->kind == STACK_FRAME_NATIVE &&
	       file_check_doubts(n->options.binaries, frame_file(f->word), e);
}

enum unwind_ending names_ending(struct names *n, const struct sample_entry *e, uint32_t *ret_detail)
{
	struct stack_frames frames = STACK_USER_FRAMES(e->stack);
	struct stack_frame f;

	*ret_detail = 0;
	while (stack_frames_next(&frames, &f))
		if (is_doubtful(n, &f, e))
			return ENDING_OUTDATED;
	*ret_detail = e->stack->ending_detail;
	return e->stack->ending;
}

size_t names_numbers(struct names *n, const struct sample_entry *e, uint64_t *ret, bool *ret_own)
{
	const struct sample_stack *stack = e->stack;
	const struct proc_image *image = e->owner;
	struct stack_frames frames = STACK_FRAMES(stack);
	struct stack_frame f;
	size_t k = 0;

	*ret_own = false;
	while (stack_frames_next(&frames, &f)) {
		if (is_doubtful(n, &f, e)) {
			*ret_own = true;
			k += unnamed_number(n, f.word, &ret[k]);
			ret[k++] = ending_frame(ENDING_OUTDATED, 0);
			return k;
		}
		if (f.kind == STACK_FRAME_KERNEL) {
			ret[k++] = frame_native(FRAME_TAG_KERNEL, f.word);
		} else if (f.kind == STACK_FRAME_OMITTED) {
			ret[k++] = frame_omitted(0);
		} else if (f.kind == STACK_FRAME_RUNTIME) {
			ret[k++] = language_names_number(n->languages, &f);
		} else {
			ret[k] = number_of(n, image->process, &f);
			*ret_own |= ret[k++] != f.word;
		}
	}
	if (!unwind_ending_complete(stack->ending))
		ret[k++] = ending_frame(stack->ending, stack->ending_detail);
	return k;
}

void names_frame(void *names, uint64_t number, struct frame *ret)
{
	struct names *n = names;
	const char *ending = ending_frame_text(number);

	if (ending)
		*ret = (struct frame){.kind = FRAME_ENDING, .function = ending};
	else if (frame_tag(number) == FRAME_TAG_OMITTED)
		*ret = (struct frame){.kind = FRAME_ENDING, .function = "[frames omitted]"};
	else if (frame_tag(number) == FRAME_TAG_KERNEL)
		kernel_frame(n, number, ret);
	else if (!language_names_frame(n->languages, number, ret))
		user_frame(n, number, ret);
}

/*
 * Writes a frame; its inlined calls become frames of their own at the same address, if they fit into `room`,
 * else only the outermost one remains. Returns how many frames there are.
 */
static size_t expand(const struct frame *frame, size_t room, struct frame *ret)
{
	if (frame->n_lines < 2 || frame->n_lines > room) {
		*ret = *frame;
		if (frame->n_lines > room) {
			ret->lines += frame->n_lines - 1;
			ret->n_lines = 1;
		}
		return 1;
	}
	for (size_t i = 0; i < frame->n_lines; i++) {
		ret[i] = *frame;
		ret[i].function = frame->lines[i].function;
		if (i + 1 < frame->n_lines) {
			ret[i].system_name = NULL;
			ret[i].inlined = true;
			ret[i].start_line = frame->lines[i].start_line;
		}
		ret[i].lines = &frame->lines[i];
		ret[i].n_lines = 1;
	}
	return frame->n_lines;
}

size_t names_frames(struct names *n, const struct sample_entry *e, struct frame *ret)
{
	uint64_t numbers[NAMES_FRAMES_MAX];
	size_t k, filled = 0;
	struct frame frame;
	bool own;

	k = names_numbers(n, e, numbers, &own);
	for (size_t i = 0; i < k; i++) {
		names_frame(n, numbers[i], &frame);
		filled += expand(&frame, NAMES_FRAMES_MAX - filled - (k - i - 1), ret + filled);
	}
	return filled;
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
	struct symbol_jit_stats jit;

	jit_names_stats(n->jit, &jit);
	symbol_cache_get_stats(n->cache, &s);
	if (n->lines)
		symbol_cache_get_stats(n->lines, &lines);
	if (symbol_kernel_table(n->kernel))
		kallsyms_table_stats(symbol_kernel_table(n->kernel), &k);
	return s.bytes + lines.bytes + k.bytes + jit.bytes + language_names_bytes(n->languages);
}

void names_jit_stats(const struct names *n, struct symbol_jit_stats *ret)
{
	jit_names_stats(n->jit, ret);
}

uint64_t names_changed(const struct names *n)
{
	struct symbol_cache_stats s;

	symbol_cache_get_stats(n->cache, &s);
	return s.n_changed;
}

uint64_t names_unknown_code(const struct names *n)
{
	return language_names_unknown(n->languages);
}

uint64_t names_lines_left(const struct names *n)
{
	struct symbol_cache_stats s = {0};

	if (n->lines)
		symbol_cache_get_stats(n->lines, &s);
	return s.n_lines_left + s.n_wanted + s.n_in_jobs;
}
