// SPDX-License-Identifier: Apache-2.0
#include "agent/runtimes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/flat.h"
#include "agent/base/log.h"
#include "agent/elf/runtime/facts.h"
#include "agent/probe/probe.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/runtime/cpython_task.h"
#include "agent/track/track.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/hotspot_job.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/runtime_walk.h"
#include "agent/unwind/tables.h"

#define LINES_PENDING_MAX 2048u
#define LINES_WAIT_NS (20 * NS_PER_SEC) /* for the analysis of the process's code to begin */

/* The line of a function of V8 is wanted; its process's memory cannot be looked at yet. */
struct line_pending {
	struct v8_line_wish wish;
	uint64_t since_ns;
	uint32_t pid;
	uint16_t file; /* that has the V8 */
};

struct runtimes {
	struct runtimes_options options;
	struct code_names *names;
	struct splice splice;
	uint64_t bad_reports, unknown, refused;
	uint64_t missed;		 /* names, at the last check */
	const struct sampled_task *task; /* whose sample is spliced */
	struct buf task_name;		 /* of asyncio's task in it */
	uint64_t bad_tasks;
	struct vm_code *vm_code;
	struct line_pending lines[LINES_PENDING_MAX];
	size_t n_lines;
	uint64_t lines_missed;
	struct runtimes_native_stats v8, vm[VM_KINDS];
	uint64_t words[SPLICE_WORDS_MAX]; /* of a stack with frames of Java or V8 */
};

static struct binary_table *table_of(const struct runtimes *r, uint32_t file)
{
	struct binary_table *t = unwind_tables_get(track_tables(r->options.track), file);

	return t && t->runtime ? t : NULL;
}

static bool is_loop(uint64_t word, void *data)
{
	const struct binary_table *t = table_of(data, frame_file(word));

	return t && runtime_facts_is_loop(t->runtime, frame_va(word));
}

/* enum runtime_kind → enum frame_runtime */
static const uint32_t frames_of[RUNTIME_FILE_KINDS] = {
	[RUNTIME_FILE_CPYTHON] = RUNTIME_CPYTHON, [RUNTIME_FILE_PHP] = RUNTIME_PHP,
	[RUNTIME_FILE_RUBY] = RUNTIME_RUBY,	  [RUNTIME_FILE_PERL] = RUNTIME_PERL,
	[RUNTIME_FILE_LUA] = RUNTIME_LUA,	  [RUNTIME_FILE_HOTSPOT] = RUNTIME_JVM,
	[RUNTIME_FILE_V8] = RUNTIME_V8,		  [RUNTIME_FILE_BEAM] = RUNTIME_BEAM,
	[RUNTIME_FILE_DOTNET] = RUNTIME_DOTNET,	  [RUNTIME_FILE_LUAJIT] = RUNTIME_LUAJIT,
};

static const enum frame_runtime frames_of_vm[VM_KINDS] = {
	[VM_HOTSPOT] = RUNTIME_JVM, [VM_BEAM] = RUNTIME_BEAM, [VM_DOTNET] = RUNTIME_DOTNET};

/* Why a sample with a frame of a runtime's loop has none of the language's; see splice.h. */
static uint32_t missing(const struct sample_view *v, uint64_t word, void *data)
{
	const struct runtimes *r = data;
	const struct binary_table *t = table_of(r, frame_file(word));
	const struct publisher *publisher = track_publisher(r->options.track);
	uint32_t reason = RUNTIME_REASON_NO_THREAD;

	if (!t || !(r->options.kinds >> t->runtime->kind & 1))
		return 0;
	if (!runtime_facts_known(t->runtime) || r->task->image->program->runtime_refused)
		reason = RUNTIME_REASON_LAYOUT;
	else if (!v->generation ||
		 publisher_list_generation(publisher, r->task->process->maps) != v->generation ||
		 !publisher_walk(publisher, r->task->process->pid))
		reason = RUNTIME_REASON_NOT_KNOWN;
	if (!runtime_facts_is_loop(t->runtime, frame_va(word)) &&
	    (reason == RUNTIME_REASON_NO_THREAD || !runtime_facts_loop_is_elsewhere(t->runtime)))
		return 0;
	return ending_detail(frames_of[t->runtime->kind], reason);
}

static bool is_inner_loop(uint64_t word, void *data)
{
	const struct binary_table *t = table_of(data, frame_file(word));

	return t && runtime_facts_is_inner_loop(t->runtime, frame_va(word));
}

static bool calls_inner_loop(uint64_t word, void *data)
{
	const struct binary_table *t = table_of(data, frame_file(word));

	return t && runtime_facts_calls_inner_loop(t->runtime);
}

static enum pairing_role role_of(uint64_t word, void *data)
{
	const struct binary_table *t = table_of(data, frame_file(word));
	static const enum pairing_role roles[PERL_FUNCTIONS + 1] = {
		[PERL_RUNOPS] = PAIRING_LOOP,	 [PERL_RUNOPS_DEBUG] = PAIRING_LOOP,
		[PERL_CALL_SV] = PAIRING_CALL,	 [PERL_AMAGIC_CALL] = PAIRING_CALL,
		[PERL_EVAL_SV] = PAIRING_STRING, [PERL_RUN] = PAIRING_RUN,
		[PERL_PARSE] = PAIRING_PARSE,	 [PERL_FUNCTIONS] = PAIRING_OTHER,
	};

	if (!t || t->runtime->kind != RUNTIME_FILE_PERL)
		return PAIRING_OTHER;
	return roles[perl_function_at(&t->runtime->perl, frame_va(word))];
}

static void on_code(struct runtimes *r, const struct runtime_code *report, size_t len);

/* A job has looked at code of V8: the functions that are inlined, then where. */
static void take_v8_code(struct runtimes *r, uint32_t binary, const struct generated *g)
{
	const uint32_t pid = generated_pid(g);
	const struct buf *records, *reports;
	struct flat_reader from;

	generated_v8_code(g, &records, &reports);
	from = flat_read(reports->data, reports->len);
	while (from.at < from.end) {
		const uint64_t len = flat_u64(&from);
		const uint8_t *bytes = flat_bytes(&from, len);
		_cleanup_free_ struct runtime_code *report = bytes ? malloc(len) : NULL;

		if (!report)
			break;
		memcpy(report, bytes, len);
		report->pid = pid;
		on_code(r, report, len);
	}
	if (records->len)
		(void)vm_code_add(r->vm_code,
				  &(struct vm_code_records){.machine = binary,
							    .runtime = RUNTIME_V8,
							    .tenant = track_tenant(r->options.track, pid),
							    .began_ns = generated_began_ns(g),
							    .bytes = records->data,
							    .len = records->len});
}

/* A job has found something of a virtual machine, or lines of V8. */
static void on_found(uint32_t binary, const struct generated *g, void *data)
{
	struct runtimes *r = data;
	const struct buf *records = generated_found(g);
	const struct v8_line_wish *lines;
	const size_t n = generated_lines(g, &lines);
	uint64_t before, after;

	take_v8_code(r, binary, g);
	generated_unloaded(g, &before, &after);
	if (records)
		(void)vm_code_add(
			r->vm_code,
			&(struct vm_code_records){.machine = binary,
						  .runtime = frames_of_vm[generated_vm(g)],
						  .tenant = track_tenant(r->options.track, generated_pid(g)),
						  .began_ns = generated_began_ns(g),
						  .unloaded_before = before,
						  .unloaded_after = after,
						  .bytes = records->data,
						  .len = records->len});
	for (size_t i = 0; i < n; i++) {
		code_names_set_line(r->names, lines[i].number, lines[i].line);
		if (lines[i].member.class_name[0])
			(void)code_names_set_class(r->names, lines[i].number, &lines[i].member);
		r->lines_missed += !lines[i].line;
	}
}

int runtimes_new(struct runtimes **ret, const struct runtimes_options *options)
{
	struct runtimes *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->splice.options = (struct splice_options){.loop_frames = options->loop_frames,
						    .is_loop = is_loop,
						    .is_inner_loop = is_inner_loop,
						    .calls_inner_loop = calls_inner_loop,
						    .missing = missing,
						    .role = role_of,
						    .data = r};
	if (code_names_new(&r->names, options->max_bytes) < 0 ||
	    vm_code_new(&r->vm_code, r->names, options->max_bytes, clock_mono_ns) < 0) {
		runtimes_free(r);
		return -ENOMEM;
	}
	unwind_tables_set_found(track_tables(options->track), on_found, r);
	*ret = r;
	return 0;
}

void runtimes_free(struct runtimes *r)
{
	if (!r)
		return;
	vm_code_free(r->vm_code);
	code_names_free(r->names);
	buf_fini(&r->task_name);
	free(r);
}

struct code_names *runtimes_names(struct runtimes *r)
{
	return r->names;
}

/* "Python 3.11.2 (PATH, build id ID)". `java`: the version of the JDK; 0: not known. */
static int put_runtime(struct buf *b, const struct binary_table *t, uint32_t java)
{
	const struct frame_module *m = &t->binary->module;
	char version[RUNTIME_VERSION_TEXT];
	int r = buf_puts(b, runtime_facts_version(t->runtime, version));

	if (r == 0 && java)
		r = buf_printf(b, " of Java %u", java);
	return r == 0 ? buf_printf(b, " (%s, build id %s)", m->path, m->build_id_gnu ?: "none") : r;
}

/*
 * The layout that was assumed is not that of the objects: the process is no longer walked. Others may be,
 * since the objects are what the process wrote.
 */
static void refuse(struct runtimes *r, struct binary_table *t, uint32_t pid)
{
	_cleanup_buf_ struct buf text = {0};

	r->refused++;
	if (t->runtime_logged || put_runtime(&text, t, 0) < 0 || buf_putc(&text, '\0') < 0)
		return;
	t->runtime_logged = true;
	log_warn("process %u: the objects of %s have another layout than is known of this version: its "
		 "functions are not shown",
		 pid, (const char *)text.data);
}

/* --- lines of V8 */

/* 1: a job will find it; 0: it is too early; -ESRCH: it cannot be found. */
static int line_request(const struct runtimes *r, const struct line_pending *x)
{
	const struct process *p = track_process(r->options.track, x->pid);
	const struct binary_table *t = table_of(r, x->file);
	uint32_t index;

	if (!p || p->end_ns || !t || t->runtime->kind != RUNTIME_FILE_V8)
		return -ESRCH;
	index = track_generated_binary(r->options.track, x->pid);
	return index && unwind_tables_request_line(track_tables(r->options.track), index, x->pid,
						   &t->runtime->v8.layout, &x->wish);
}

/* Requests the lines that can be found by now. */
static void lines_run(struct runtimes *r)
{
	const uint64_t now_ns = r->n_lines ? clock_mono_ns() : 0;
	size_t left = 0;

	for (size_t i = 0; i < r->n_lines; i++) {
		const int e = line_request(r, &r->lines[i]);
		const bool late = e == 0 && now_ns - r->lines[i].since_ns > LINES_WAIT_NS;

		if (e == 0 && !late)
			r->lines[left++] = r->lines[i];
		r->lines_missed += e < 0 || late;
	}
	r->n_lines = left;
}

/* A function of V8 was reported. */
static void line_want(struct runtimes *r, const struct runtime_code *report)
{
	if (!report->first_line || !code_names_lacks_line(r->names, report->number))
		return;
	if (r->n_lines == LINES_PENDING_MAX) {
		r->lines_missed++;
		return;
	}
	r->lines[r->n_lines++] = (struct line_pending){
		.wish = {.number = report->number,
			 .script = {.address = report->name_type, .id = report->type},
			 .place = report->first_line - 1},
		.since_ns = clock_mono_ns(),
		.pid = report->pid,
		.file = report->layout,
	};
}

static int add_code(struct runtimes *r, const struct runtime_code *report, size_t len,
		    const struct runtime_facts *facts)
{
	const struct cpython_facts *f = &facts->cpython;
	const uint64_t tenant = track_tenant(r->options.track, report->pid);

	if (facts->kind == RUNTIME_FILE_PHP)
		return code_names_add_php(r->names, tenant, report, len);
	if (facts->kind == RUNTIME_FILE_RUBY)
		return code_names_add_ruby(r->names, tenant, report, len, facts->ruby.version);
	if (facts->kind == RUNTIME_FILE_PERL)
		return code_names_add_perl(r->names, tenant, report, len);
	if (facts->kind == RUNTIME_FILE_LUA || facts->kind == RUNTIME_FILE_LUAJIT)
		return code_names_add_lua(r->names, tenant, report, len, frames_of[facts->kind]);
	if (facts->kind == RUNTIME_FILE_V8)
		return code_names_add_v8(r->names, tenant, report, len);
	return code_names_add(r->names, tenant, report, len, &f->layout,
			      f->code_type ? f->code_type + report->bias : 0,
			      f->text_type ? f->text_type + report->bias : 0);
}

static void on_code(struct runtimes *r, const struct runtime_code *report, size_t len)
{
	struct binary_table *t = len >= sizeof *report ? table_of(r, report->layout) : NULL;
	int e;

	if (!t) {
		r->unknown++;
		return;
	}
	e = add_code(r, report, len, t->runtime);
	if (e == 0 && t->runtime->kind == RUNTIME_FILE_V8)
		line_want(r, report);
	r->bad_reports += e < 0;
	if ((e == 0 || e == -ENOTSUP) && !track_judge_runtime(r->options.track, report->pid, e == 0))
		refuse(r, t, report->pid);
}

static void on_report(const void *bytes, size_t len, void *data)
{
	struct runtimes *r = data;
	const uint32_t *kind = bytes;
	const struct runtime_slot *slot = bytes;

	if (len >= sizeof *slot && *kind == RUNTIME_REPORT_SLOT)
		track_thread_slot(r->options.track, slot->pid, slot->list, slot->slot);
	else if (len >= sizeof *kind && *kind == RUNTIME_REPORT_CODE)
		on_code(r, bytes, len);
	else
		r->bad_reports++;
}

void runtimes_drain(struct runtimes *r)
{
	(void)probe_reports_drain(r->options.probe, on_report, r);
	lines_run(r);
}

/* Files with a runtime, one after another: begin with 0. NULL: there are no more. */
static struct binary_table *next_runtime(const struct runtimes *r, uint32_t *file)
{
	while (++*file <= FRAME_FILE_MAX) {
		struct binary_table *t = table_of(r, *file);

		if (t)
			return t;
	}
	return NULL;
}

/* Logs once of each file that its version is not known. */
static void log_unknown(struct runtimes *r)
{
	struct binary_table *t;

	for (uint32_t file = 0; (t = next_runtime(r, &file));) {
		_cleanup_buf_ struct buf text = {0};

		if (runtime_facts_known(t->runtime) || t->runtime_logged || put_runtime(&text, t, 0) < 0 ||
		    buf_putc(&text, '\0') < 0)
			continue;
		t->runtime_logged = true;
		log_warn("%s: the layout of this version is not known: its functions are not shown",
			 (const char *)text.data);
	}
}

/* Whether functions are found by looking at the process's virtual machine: see agent/unwind/vm.h. */
static bool is_vm(const struct runtime_facts *f)
{
	return f->kind == RUNTIME_FILE_HOTSPOT || f->kind == RUNTIME_FILE_BEAM ||
	       f->kind == RUNTIME_FILE_DOTNET;
}

void runtimes_describe(const struct runtimes *r, struct buf *ret)
{
	const struct publisher *publisher = track_publisher(r->options.track);
	const struct binary_table *t;

	for (uint32_t file = 0; (t = next_runtime(r, &file));) {
		(void)put_runtime(ret, t, 0);
		if (t->runtime->kind == RUNTIME_FILE_HOTSPOT)
			(void)buf_puts(ret, ": methods are shown\n");
		else if (is_vm(t->runtime) && runtime_facts_known(t->runtime))
			(void)buf_puts(ret, ": functions are shown\n");
		else if (runtime_facts_known(t->runtime))
			(void)buf_printf(ret, ": functions are shown, processes: %zu%s\n",
					 publisher_count_walks(publisher, file),
					 t->runtime_logged ? "; not those of processes whose objects have "
							     "another layout"
							   : "");
		else
			(void)buf_puts(ret, ": functions are not shown, the layout is not known\n");
	}
}

/* What is known of the code that the process has generated. */
static struct generated_stats code_of(const struct runtimes *r, const struct process *p)
{
	const struct binary_table *t = unwind_tables_get(track_tables(r->options.track), p->maps->code);

	return t ? t->counted : (struct generated_stats){0};
}

/* NULL: functions of the process's virtual machine are shown. */
static const char *why_no_functions(const struct runtime_facts *f, const struct generated_stats *code)
{
	if (!runtime_facts_known(f))
		return f->kind == RUNTIME_FILE_BEAM ? "this release is not known, only OTP 25 to 29"
						    : "this version is not known, only .NET 8, 9 and 10";
	if (code->vm_refused)
		return "the virtual machine's own tables are not as expected, or cannot be read";
	return code->vm_known ? NULL : "no sample has hit its code yet";
}

/* NULL: its functions are shown. */
static const char *why_not_shown(const struct runtimes *r, const struct process *p,
				 const struct binary_table *t, const struct generated_stats *code)
{
	const uint32_t walk = publisher_walk(track_publisher(r->options.track), p->pid);

	if (!(r->options.kinds >> t->runtime->kind & 1))
		return "the configuration says off (runtimes)";
	if (is_vm(t->runtime))
		return why_no_functions(t->runtime, code);
	if (!runtime_facts_known(t->runtime))
		return t->runtime->kind == RUNTIME_FILE_V8 ? "the layout of this version is not known, only "
							     "that of V8 in Node.js 18, 20, "
							     "22, 24 and 26"
							   : "the layout of this version is not known";
	if (p->image->program->runtime_refused)
		return "the process's objects have another layout than is known of this version";
	if (walk == t->binary->index)
		return NULL;
	return walk ? "those of another runtime in the process are" : "its list of mappings is not published";
}

/* Goes through the files of a process that have a runtime. */
struct process_runtimes {
	struct proc_maps_cursor cursor;
	const struct binary_table *last;
};

static const struct binary_table *next_in_process(const struct runtimes *r, struct process_runtimes *i)
{
	const struct proc_mapping *m;

	while (i->cursor.maps && (m = proc_maps_next(&i->cursor))) {
		const struct binary_table *t = table_of(r, m->file);

		if (t && t != i->last)
			return i->last = t;
	}
	return NULL;
}

void runtimes_describe_process(const struct runtimes *r, const struct process *p, struct buf *ret)
{
	struct process_runtimes all = {.cursor = {.maps = p->maps}};
	const struct binary_table *t;
	size_t n = 0;

	for (; (t = next_in_process(r, &all)); n++) {
		const bool java = t->runtime->kind == RUNTIME_FILE_HOTSPOT;
		const struct generated_stats code = code_of(r, p);
		const char *why = why_not_shown(r, p, t, &code);

		(void)put_runtime(ret, t, java ? code.java_version : 0);
		(void)buf_printf(ret, ": functions are %s%s\n", why ? "not shown: " : "shown", why ?: "");
	}
	if (!n)
		(void)buf_puts(ret, "no language runtime was found in its files\n");
}

/* --- processes by version */

static const char *const runtime_texts[RUNTIMES] = {
#define X(name, text) [RUNTIME_##name] = (text),
	FRAME_RUNTIMES(X)
#undef X
};

static void count_version(struct runtimes_processes *c, const struct runtimes_version *v)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].runtime == v->runtime && c->v[i].shown == v->shown &&
		    strcmp(c->v[i].version, v->version) == 0) {
			c->v[i].processes++;
			return;
		}
	if (c->n == RUNTIMES_VERSIONS_MAX) {
		c->others++;
		return;
	}
	c->v[c->n] = *v;
	c->v[c->n++].processes = 1;
}

struct counting {
	const struct runtimes *r;
	struct runtimes_processes *ret;
};

static void count_process(struct process *p, void *data)
{
	struct process_runtimes all = {.cursor = {.maps = p->maps}};
	const struct counting *c = data;
	const struct binary_table *t;

	while ((t = next_in_process(c->r, &all))) {
		const struct generated_stats code = code_of(c->r, p);
		struct runtimes_version v = {.runtime = runtime_texts[frames_of[t->runtime->kind]],
					     .shown = !why_not_shown(c->r, p, t, &code)};
		char text[RUNTIME_VERSION_TEXT];
		const char *number = strchr(runtime_facts_version(t->runtime, text), ' ');

		if (t->runtime->kind == RUNTIME_FILE_HOTSPOT && code.java_version)
			(void)snprintf(v.version, sizeof v.version, "%u", code.java_version);
		else if (number)
			(void)snprintf(v.version, sizeof v.version, "%s", number + 1);
		count_version(c->ret, &v);
	}
}

void runtimes_count(const struct runtimes *r, struct runtimes_processes *ret)
{
	struct counting c = {r, ret};

	memset(ret, 0, sizeof *ret);
	track_each(r->options.track, count_process, &c);
}

void runtimes_check(struct runtimes *r)
{
	struct code_names_stats s;

	log_unknown(r);
	code_names_stats(r->names, &s);
	if (s.missed != r->missed)
		probe_reports_again(r->options.probe);
	r->missed = s.missed;
}

/* The name of the event loop's task; NULL: it has none. Valid until the next sample. */
static const char *task_name(struct runtimes *r, const struct sample_task *task)
{
	const struct binary_table *t = table_of(r, task->layout);

	r->task_name.len = 0;
	if (!t || t->runtime->kind != RUNTIME_FILE_CPYTHON ||
	    cpython_task_name(&r->task_name, &t->runtime->cpython, task) < 0) {
		r->bad_tasks++;
		return NULL;
	}
	return (const char *)r->task_name.data;
}

/* --- virtual machines */

int runtimes_find_vm(const struct runtimes *r, const struct process *p, struct generated_request *ret)
{
	if (!p->maps)
		return -ENOENT;
	return runtime_walk_find_vm(ret, p->maps, track_tables(r->options.track), r->options.kinds);
}

void runtimes_forget_file(struct runtimes *r, uint32_t index)
{
	vm_code_forget(r->vm_code, index);
}

static bool is_requested(uint32_t machine, void *data)
{
	const struct runtimes *r = data;

	return unwind_tables_requested(track_tables(r->options.track), machine);
}

bool runtimes_expects(const struct runtimes *r)
{
	return vm_code_expects(r->vm_code, is_requested, (void *)r);
}

/* The name of an interpreted method is wanted, of the process whose sample is spliced. */
static void request_method(struct runtimes *r, uint32_t machine, uint64_t method)
{
	struct generated_request q = {.address = method, .wish = GENERATED_METHOD};

	if (runtimes_find_vm(r, r->task->process, &q) == 0)
		unwind_tables_request(track_tables(r->options.track), machine, &q);
}

/* Code of the process whose sample is spliced is to be looked at again. */
static void request_look(struct runtimes *r, uint32_t machine, uint64_t address)
{
	struct generated_request q = {.address = address, .wish = GENERATED_LOOK};

	if (runtimes_find_vm(r, r->task->process, &q) == 0)
		unwind_tables_request(track_tables(r->options.track), machine, &q);
}

/* The machine that a frame is of; 0: none. */
static uint32_t machine_of(const struct runtimes *r, const struct stack_frame *f)
{
	const struct binary_table *t;

	if (f->kind == STACK_FRAME_NATIVE) {
		t = unwind_tables_get(track_tables(r->options.track), frame_file(f->word));
		return t && t->generated ? frame_file(f->word) : 0;
	}
	if (f->kind == STACK_FRAME_ANONYMOUS ||
	    (f->kind == STACK_FRAME_RUNTIME && frame_runtime_of(f->word) == RUNTIME_JVM && !f->n_following))
		return r->task->process->maps ? r->task->process->maps->code : 0;
	return 0;
}

/* Writes the words of a frame of compiled code, `max` at most. Returns their number. */
static size_t compiled_words(struct runtimes *r, const struct vm_code_frame *frame, uint64_t *words,
			     size_t max)
{
	struct vm_code_frame f = *frame;
	const size_t n = vm_code_frames(r->vm_code, &f, words, max);

	if (f.look)
		request_look(r, f.machine, f.look);
	return n;
}

/* Writes the words of a frame, `max` at most; `next` is the word behind it. Returns their number. */
static size_t java_words(struct runtimes *r, const struct sample_view *v, const struct stack_frame *f,
			 uint64_t next, uint32_t machine, uint64_t *words, size_t max)
{
	const uint64_t bytecode = frame_tag(next) == FRAME_TAG_BYTECODE ? frame_va(next) : 0;
	const uint64_t tenant = r->task->image->context.tenant;

	if (max < 2)
		return 0;
	if (f->kind != STACK_FRAME_RUNTIME)
		return compiled_words(r,
				      &(struct vm_code_frame){
					      .machine = machine,
					      .address = frame_va(f->word),
					      .time_ns = v->time_ns,
					      .code = frame_tag(next) == FRAME_TAG_CODE ? frame_va(next) : 0},
				      words, max);
	if (!vm_code_interpreted(
		    r->vm_code,
		    &(struct vm_code_method){machine, tenant, frame_va(f->word), v->time_ns, v->unloaded},
		    bytecode, words))
		request_method(r, machine, frame_va(f->word));
	return 2;
}

bool runtimes_named(struct runtimes *r, const struct sampled_task *task, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	bool named = true;
	struct stack_frame f;

	r->task = task;
	while (stack_frames_next(&frames, &f)) {
		const uint32_t machine = f.kind == STACK_FRAME_RUNTIME ? machine_of(r, &f) : 0;
		const struct vm_code_method m = {machine, task->image->context.tenant, frame_va(f.word),
						 v->time_ns, v->unloaded};

		if (!machine || vm_code_settled(r->vm_code, &m))
			continue;
		request_method(r, machine, frame_va(f.word));
		named = false;
	}
	return named;
}

/* A function of V8, as the BPF program has found it on the native stack, or put there by sample_splice. */
static bool is_v8(const struct stack_frame *f)
{
	return f->kind == STACK_FRAME_RUNTIME && frame_runtime_of(f->word) == RUNTIME_V8 &&
	       f->n_following <= 1;
}

/* What jobs need to know of a process with V8. False: that is not known now. */
static bool v8_process_of(const struct runtimes *r, const struct process *p, struct v8_process *ret)
{
	const struct binary_table *t;

	if (!p->maps || !runtime_walk_find(&ret->walk, p->maps, track_tables(r->options.track),
					   r->options.kinds, r->task->image->program->secret))
		return false;
	t = table_of(r, ret->walk.layout);
	if (ret->walk.runtime != RUNTIME_V8 || !t || t->runtime->kind != RUNTIME_FILE_V8 ||
	    !t->runtime->v8.layout.code.type)
		return false;
	ret->layout = t->runtime->v8.layout;
	return true;
}

static void request_v8_code(const struct runtimes *r, const struct vm_wanted *wanted)
{
	const struct process *p = r->task->process;
	struct v8_process process;

	if (v8_process_of(r, p, &process))
		(void)unwind_tables_request_v8_code(track_tables(r->options.track), p->maps->code, p->pid,
						    &process, wanted);
}

/*
 * Writes the words of compiled code of a function: what is inlined there, and the function itself. Returns
 * their number; 0: that is not known (yet), or the code there is another function's by now.
 */
static size_t v8_compiled_words(struct runtimes *r, uint64_t number, uint64_t address, uint64_t *words,
				size_t max)
{
	struct vm_code_frame f = {.machine = r->task->process->maps ? r->task->process->maps->code : 0,
				  .address = address,
				  .number = number};
	const size_t n = f.machine ? vm_code_frames(r->vm_code, &f, words, max) : 0;

	if (f.machine && !f.known && !f.full)
		request_v8_code(r, &(struct vm_wanted){.address = address, .wish = VM_WANT_CODE});
	else if (f.look)
		request_v8_code(r, &(struct vm_wanted){.address = f.look,
						       .end = f.look_end,
						       .wish = VM_WANT_CHECK,
						       .compile_id = f.look_id});
	return n;
}

/* Writes the words of a frame; `next` is the word behind it. Returns their number. */
static size_t v8_words(struct runtimes *r, const struct stack_frame *f, uint64_t next, uint64_t *words,
		       size_t max)
{
	const uint64_t place = f->n_following || frame_tag(next) == FRAME_TAG_BYTECODE ? frame_va(next) : 0;
	size_t n = 0;

	if (max < 2)
		return 0;
	if (place && !(place & FRAME_V8_BYTECODE))
		n = v8_compiled_words(r, frame_va(f->word), place, words, max);
	if (n)
		return n;
	words[0] = frame_runtime_head(RUNTIME_V8, 1, frame_va(f->word));
	words[1] = place;
	return 2;
}

/* What a sample has of Java and V8. */
struct compiled_frames {
	bool any, java, v8;
	bool anonymous; /* code without a file */
};

static struct compiled_frames look_for_compiled(const struct runtimes *r, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct compiled_frames ret = {0};
	struct stack_frame f;

	while (stack_frames_next(&frames, &f)) {
		ret.v8 |= is_v8(&f);
		ret.java |= f.kind == STACK_FRAME_RUNTIME && frame_runtime_of(f.word) == RUNTIME_JVM;
		ret.anonymous |= f.kind == STACK_FRAME_ANONYMOUS;
		ret.any |= is_v8(&f) || machine_of(r, &f);
	}
	return ret;
}

/* Of which virtual machine a sample is; VM_NONE: of none that is known. */
static enum vm_kind vm_of_sample(const struct runtimes *r, struct compiled_frames seen)
{
	const struct process *p = r->task->process;
	const struct generated_stats code = p->maps ? code_of(r, p) : (struct generated_stats){0};

	return code.vm_known && code.vm != VM_V8 ? code.vm : seen.java ? VM_HOTSPOT : VM_NONE;
}

/* Counts a sample. `unnamed`: code of which nothing is known is in it, if it is a virtual machine's. */
static void count_compiled(struct runtimes *r, const struct sample_view *v, struct compiled_frames seen,
			   bool unnamed)
{
	const struct process *p = r->task->process;
	const enum vm_kind vm = vm_of_sample(r, seen);
	const struct binary_table *walked;

	if (seen.v8) {
		r->v8.by_ending[v->ending]++;
		return;
	}
	if (vm != VM_NONE) {
		r->vm[vm].by_ending[v->ending]++;
		r->vm[vm].unnamed += unnamed;
		return;
	}
	if (!seen.anonymous)
		return;
	walked = table_of(r, publisher_walk(track_publisher(r->options.track), p->pid));
	r->v8.unnamed += walked && walked->runtime->kind == RUNTIME_FILE_V8;
}

/*
 * Puts the methods of Java in place of the code's addresses, and frames of V8 in the form that all others
 * have. Inlined methods are left out where there is no room for them.
 */
static void name_compiled(struct runtimes *r, struct sample_view *v)
{
	const struct compiled_frames seen = look_for_compiled(r, v);
	struct stack_frames frames = STACK_USER_FRAMES(v);
	const uint32_t all = (uint32_t)v->n_kernel + v->n_user;
	struct stack_frame f;
	size_t n = v->n_kernel;
	bool unnamed = false;

	if (!seen.any)
		return;
	memcpy(r->words, v->frames, n * sizeof r->words[0]);
	while (stack_frames_next(&frames, &f)) {
		const uint32_t machine = machine_of(r, &f);
		/* each frame that follows may need two words */
		const size_t left = SPLICE_WORDS_MAX - n, later = 2 * (all - f.index - 1 - f.n_following);
		const uint64_t next = f.index + 1 < all ? v->frames[f.index + 1] : 0;
		size_t put = 0;

		if (is_v8(&f) && left > later)
			put = v8_words(r, &f, next, r->words + n, left - later);
		else if (machine && left > later)
			put = java_words(r, v, &f, next, machine, r->words + n, left - later);
		unnamed |= machine && !put;
		if (!put) {
			put = 1 + f.n_following;
			memcpy(r->words + n, v->frames + f.index, put * sizeof r->words[0]);
		}
		n += put;
	}
	count_compiled(r, v, seen, unnamed);
	v->n_user = (uint16_t)(n - v->n_kernel);
	v->frames = r->words;
	v->omitted = v->omitted ? sample_find_omitted(v) : 0;
}

/*
 * Whether a sample that brought nothing of a runtime may need its functions all the same. Every frame of
 * every native stack passes here, and neighbours mostly are of one file: it is looked up once in a row.
 */
static bool concerns_runtime(const struct runtimes *r, const struct sample_view *v)
{
	const uint64_t *words = v->frames + v->n_kernel;
	const struct unwind_tables *tables = track_tables(r->options.track);
	uint32_t last = FRAME_TAG_OMITTED;

	for (uint32_t i = 0; i < v->n_user; i++) {
		const uint32_t tag = frame_tag(words[i]);
		const struct binary_table *t;

		if (tag == last || tag == FRAME_TAG_OMITTED)
			continue;
		if (tag - 1u >= FRAME_FILE_MAX)
			return true;
		t = unwind_tables_get(tables, tag);
		if (t && (t->runtime || t->generated))
			return true;
		last = tag;
	}
	return false;
}

void runtimes_splice(struct runtimes *r, const struct sampled_task *task, const struct sample_view *v,
		     struct sample_view *ret)
{
	if (!v->runtime && !v->task && !concerns_runtime(r, v)) {
		*ret = *v;
		return;
	}
	r->task = task;
	sample_splice(&r->splice, v, ret);
	if (v->task)
		ret->task_name = task_name(r, v->task);
	name_compiled(r, ret);
}

void runtimes_stats(const struct runtimes *r, struct runtimes_stats *ret)
{
	*ret = (struct runtimes_stats){.splice = r->splice.stats,
				       .bad_reports = r->bad_reports,
				       .unknown = r->unknown,
				       .bad_tasks = r->bad_tasks,
				       .lines_missed = r->lines_missed,
				       .v8 = r->v8,
				       .refused = r->refused};
	memcpy(ret->vm, r->vm, sizeof ret->vm);
	code_names_stats(r->names, &ret->names);
	vm_code_stats(r->vm_code, &ret->vm_code);
}
