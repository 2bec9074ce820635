// SPDX-License-Identifier: Apache-2.0
#include "agent/report/jit_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/frame.h"
#include "agent/base/log.h"
#include "agent/binary/registry.h"
#include "agent/sample/frames.h"
#include "agent/symbol/jit.h"
#include "agent/symbol/jitname.h"
#include "agent/proc/table.h"

#define JIT_BYTES_MAX (32u << 20)
#define JIT_REWRITTEN_OFTEN 8u /* before the log says so */

struct jit_names {
	struct binary_registry *binaries;
	struct symbol_jit *jit;
	/* the last answer of is_code_memory; reset by each sweep, since an index may get another binary */
	uint32_t last_file;
	bool last_file_is;
	/* the last answer of runtime, NULL: none */
	const struct process *last;
	const char *last_runtime;
	uint64_t logged_full;		     /* number that the log has reported */
	bool logged_refused[JIT_REFUSALS_N]; /* the log has said so */
	bool logged_no_answer, logged_harmful, logged_rewritten;
};

int jit_names_new(struct jit_names **ret, struct binary_registry *binaries)
{
	_cleanup_free_ struct jit_names *n = calloc(1, sizeof *n);
	int r;

	if (!n)
		return -ENOMEM;
	n->binaries = binaries;
	r = symbol_jit_new(&n->jit, JIT_BYTES_MAX);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(n);
	return 0;
}

void jit_names_stop(struct jit_names *n)
{
	symbol_jit_stop(n->jit);
}

void jit_names_free(struct jit_names *n)
{
	if (!n)
		return;
	symbol_jit_free(n->jit);
	free(n);
}

/* Whether a file is memory that code is written to by one mapping and executed by another: it is not ELF. */
static bool is_code_memory(struct jit_names *n, uint32_t file)
{
	const struct binary *f;

	if (n->last_file == file)
		return n->last_file_is;
	f = binary_registry_get(n->binaries, file);
	n->last_file = file;
	n->last_file_is = f && !f->n_segments;
	return n->last_file_is;
}

bool jit_names_wants(struct jit_names *n, const struct stack_frame *f)
{
	return f->kind == STACK_FRAME_ANONYMOUS ||
	       (f->kind == STACK_FRAME_NATIVE && is_code_memory(n, frame_file(f->word)));
}

/* The jitdump file of the process, which maps it so that profilers find it. Borrowed; -1: none. */
static int dump_of(const struct jit_names *n, const struct process *p)
{
	struct proc_maps_cursor c = {.maps = p->maps};
	const struct proc_mapping *m;

	while ((m = proc_maps_next(&c))) {
		const struct binary *f = binary_registry_get(n->binaries, m->file);

		if (f && f->fd >= 0 && jit_name_is_dump(f->module.name))
			return f->fd;
	}
	return -1;
}

struct worker_job *jit_names_job(struct jit_names *n, struct process *p)
{
	struct symbol_jit_job *job;

	n->last = NULL; /* its mappings may have changed */
	if (!symbol_jit_idle(n->jit, p))
		return NULL;
	if (symbol_jit_job_new(&job, n->jit, p, dump_of(n, p), clock_mono_ns()) < 0)
		return NULL; /* no memory, or later: its new code stays without names */
	return symbol_jit_job_work(job);
}

struct worker_job *jit_names_note(struct jit_names *n, struct process *p, uint64_t now_ns)
{
	return symbol_jit_note(n->jit, p, now_ns) > 0 ? jit_names_job(n, p) : NULL;
}

static const char *runtime_of(const struct jit_names *n, const struct process *p)
{
	struct proc_maps_cursor c = {.maps = p->maps};
	const struct proc_mapping *m;
	const char *runtime = NULL;

	while (!runtime && (m = proc_maps_next(&c))) {
		const struct binary *f = binary_registry_get(n->binaries, m->file);

		runtime = f ? jit_name_runtime(f->module.name) : NULL;
	}
	return runtime;
}

/* Whether the frame's index stands for the generated code of its process. */
static bool is_generated(const struct jit_names *n, const struct stack_frame *f)
{
	const struct binary *b =
		f->kind == STACK_FRAME_NATIVE ? binary_registry_get(n->binaries, frame_file(f->word)) : NULL;

	return b && b->generated;
}

/* The process address of a frame; 0: the mapping of its file is unknown. */
static uint64_t address_of(const struct jit_names *n, const struct process *p, const struct stack_frame *f)
{
	struct proc_maps_cursor c = {.maps = p->maps};
	uint32_t file = frame_file(f->word);
	uint64_t va = frame_va(f->word);
	const struct proc_mapping *m;

	if (f->kind == STACK_FRAME_ANONYMOUS || is_generated(n, f))
		return va;
	while ((m = proc_maps_next(&c)))
		if (m->file == file && va - m->offset < m->end - m->start)
			return m->start + (va - m->offset);
	return 0;
}

uint64_t jit_names_id(struct jit_names *n, const struct process *p, const struct stack_frame *f)
{
	struct jit_symbol s;
	uint64_t address;
	int slot;

	if (!jit_names_wants(n, f))
		return f->word;
	slot = symbol_jit_slot(n->jit, p);
	address = address_of(n, p, f);
	if (slot < 0 || !address || !symbol_jit_find(n->jit, (unsigned)slot, address, &s))
		return is_generated(n, f) ? frame_anonymous(frame_va(f->word)) : f->word;
	return frame_native(FRAME_TAG_PROCESS + (unsigned)slot, address);
}

static const char *runtime(struct jit_names *n, const struct process *p)
{
	if (n->last != p) {
		n->last = p;
		n->last_runtime = runtime_of(n, p);
	}
	return n->last_runtime;
}

/* HotSpot's interpreter is one piece of generated code, whose frames all have rbp. */
static bool keeps_frame_pointer(struct jit_names *n, const struct process *p, const char *name)
{
	const char *of = strcmp(name, "Interpreter") == 0 ? runtime(n, p) : NULL;

	return of && strcmp(of, "jvm") == 0;
}

int jit_names_code(struct jit_names *n, const struct process *p, uint64_t address, uint64_t since_ns,
		   struct symbol_jit_code *ret)
{
	int slot = symbol_jit_slot(n->jit, p);
	struct jit_symbol s;

	if (slot < 0)
		return -ENOENT;
	if (!symbol_jit_idle(n->jit, p))
		return -EAGAIN;
	if (symbol_jit_find(n->jit, (unsigned)slot, address, &s)) {
		*ret = (struct symbol_jit_code){s.start, s.end, keeps_frame_pointer(n, p, s.name)};
		return 0;
	}
	return symbol_jit_read_ns(n->jit, p) < since_ns ? -ESTALE : -ENOENT;
}

bool jit_names_frame(struct jit_names *n, uint64_t id, struct frame *ret)
{
	unsigned slot = frame_tag(id) - FRAME_TAG_PROCESS;
	struct jit_symbol s;

	if (slot >= SYMBOL_JIT_PROCESSES_MAX)
		return false;
	*ret = (struct frame){.address = frame_va(id), .kind = FRAME_NATIVE};
	if (!symbol_jit_find(n->jit, slot, ret->address, &s))
		return true;
	ret->function = jit_name_readable(s.name);
	ret->tier = jit_name_tier(s.name);
	/* a function has one name in all tiers: the complete one differs between them */
	ret->system_name = ret->function == s.name || ret->tier ? NULL : s.name;
	ret->runtime = jit_name_language(s.name) ?: runtime(n, symbol_jit_process(n->jit, slot));
	return true;
}

static void log_once(bool *logged, uint64_t n, const char *why)
{
	if (n && !*logged)
		log_warn("a list of generated code (perf map, jitdump) is not read: %s; counted from now on",
			 why);
	*logged |= n != 0;
}

/* Logs what has happened since the last call. */
static void log_news(struct jit_names *n)
{
	struct symbol_jit_stats s;

	symbol_jit_get_stats(n->jit, &s);
	if (s.n_full > n->logged_full)
		log_warn("code made at run time has names in %u processes at a time: %lu times there was no "
			 "room",
			 SYMBOL_JIT_PROCESSES_MAX, (unsigned long)(s.n_full - n->logged_full));
	for (int i = 0; i < JIT_REFUSALS_N; i++)
		log_once(&n->logged_refused[i], s.n_refused[i], jit_refusal_text((enum jit_refusal)i));
	log_once(&n->logged_no_answer, s.n_no_answer, "a file system does not answer");
	log_once(&n->logged_harmful, s.n_harmful, "who read it crashed, or took too long");
	log_once(&n->logged_rewritten, s.n_rewritten > JIT_REWRITTEN_OFTEN ? s.n_rewritten : 0,
		 "it is written anew again and again, and waits for longer each time");
	n->logged_full = s.n_full;
}

void jit_names_sweep(struct jit_names *n, uint64_t before_ns)
{
	n->last = NULL;
	n->last_file = 0;
	n->last_file_is = false;
	log_news(n);
	symbol_jit_sweep(n->jit, before_ns);
}

void jit_names_stats(const struct jit_names *n, struct symbol_jit_stats *ret)
{
	symbol_jit_get_stats(n->jit, ret);
}
