// SPDX-License-Identifier: Apache-2.0
/*
 * Samples are added to the open window while the closed one waits for names. A window closes when its time is
 * over, or when it is half full: closing early loses nothing. The closed window is sent when its names are
 * there. If the open one has to close before that, the closed one is sent without them: names may be missing,
 * samples may not.
 */
#include "agent/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/report/cut_stacks.h"
#include "agent/report/names.h"
#include "agent/report/pulls.h"
#include "agent/report/resource_attrs.h"
#include "agent/report/sender.h"
#include "agent/report/window.h"

#define NAMES_WAIT_NS (60 * NS_PER_SEC) /* for names that take long, as on a node whose CPUs are all taken */
#define LATE_NS (15 * NS_PER_SEC)	/* longer than a sample waits for its stack to be completed */

struct report {
	struct report_options options;
	struct window open, closed; /* `closed` has samples while `closing` */
	bool closing;
	uint32_t frequency_hz;
	struct clock_steps clock; /* convert the times of samples to Unix time */
	struct names *names;
	struct resources *resources;
	struct pulls *pulls; /* NULL: there are none */
	struct sender *sender;
	struct cut_stacks cut;
	struct report_stats stats; /* the members that sender and names do not count */
};

static const char *const drop_texts[REPORT_DROPS_N] = {
#define X(name, text) [REPORT_DROP_##name] = text,
	REPORT_DROPS(X)
#undef X
};

const char *report_drop_text(enum report_drop reason)
{
	return drop_texts[reason];
}

static bool wants_cpu(const struct config *c)
{
	for (size_t i = 0; i < c->attributes.sample.n; i++)
		if (strcmp(c->attributes.sample.items[i], "cpu.logical_number") == 0)
			return true;
	return false;
}

int64_t report_clock_set(struct report *r)
{
	uint64_t now = r->options.clock.mono_ns();

	return clock_steps_note(&r->clock, now, r->options.clock.real_offset_ns());
}

static void window_begin(struct report *r)
{
	(void)report_clock_set(r); /* where nothing reports that the clock was set */
	r->open.start_ns = r->options.clock.mono_ns();
	r->open.frequency_hz = r->frequency_hz;
}

void report_set_frequency(struct report *r, uint32_t frequency_hz)
{
	r->frequency_hz = r->open.frequency_hz = frequency_hz;
}

static int open_sender(struct report *r)
{
	const struct report_options *o = &r->options;
	const struct sender_options sender = {
		.config = o->config,
		.clock = &r->clock,
		.names = r->names,
		.resources = r->resources,
		.max_request_bytes = o->max_request_bytes,
		.one_request = o->one_request,
		.spill = o->spill,
		.emit = o->emit,
		.emit_data = o->emit_data,
		.stack = o->stack,
		.stack_data = o->stack_data,
		.pulls = r->pulls,
	};

	return sender_new(&r->sender, &sender);
}

static int open_parts(struct report *r)
{
	const struct report_options *o = &r->options;
	const struct names_options names = {
		.binaries = o->binaries,
		.tables = o->tables,
		.worker = o->worker,
		.lists = o->lists,
		.kernel = o->config->symbols.kernel,
		.native = o->config->symbols.native,
		.source_lines = o->source_lines,
		.kallsyms = o->kallsyms,
		.code = o->code_names,
	};
	bool by_cpu = o->by_cpu || wants_cpu(o->config);
	int e = window_init(&r->open, o->binaries, o->window_bytes, by_cpu);

	if (e == 0)
		e = window_init(&r->closed, o->binaries, o->window_bytes, by_cpu);
	if (e == 0)
		e = names_new(&r->names, &names);
	if (e == 0)
		e = resources_new(&r->resources, o->config, o->pods);
	if (e == 0 && o->max_pulls)
		e = pulls_new(&r->pulls, o->max_pulls);
	if (e == 0)
		e = open_sender(r);
	return e;
}

int report_new(struct report **ret, const struct report_options *options)
{
	struct report *r = calloc(1, sizeof *r);
	int e;

	if (!r)
		return -ENOMEM;
	r->options = *options;
	if (!r->options.clock.mono_ns)
		r->options.clock.mono_ns = clock_mono_ns;
	if (!r->options.clock.real_offset_ns)
		r->options.clock.real_offset_ns = clock_real_offset_ns;
	r->frequency_hz = options->config->sampling.frequency;
	e = open_parts(r);
	if (e < 0) {
		report_free(r);
		return e;
	}
	names_prepare(r->names);
	window_begin(r);
	*ret = r;
	return 0;
}

void report_stop_reading(struct report *r)
{
	if (r)
		names_stop(r->names);
}

void report_free(struct report *r)
{
	if (!r)
		return;
	sender_free(r->sender);
	pulls_free(r->pulls);
	window_fini(&r->open);
	window_fini(&r->closed);
	names_free(r->names);
	resources_free(r->resources);
	free(r);
}

/* Whether the open window uses more than n quarters of its bytes. */
static bool uses_quarters(const struct report *r, unsigned n)
{
	return window_bytes(&r->open) > r->options.window_bytes / 4 * n;
}

static void close_early(struct report *r)
{
	r->stats.windows_early++;
	report_close_window(r);
}

/* Counts a stack that does not reach its root by the module of its last frame. */
static void count_cut(struct report *r, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f = {.kind = STACK_FRAME_ANONYMOUS};
	const struct binary *b = NULL;
	bool any = false;

	while (stack_frames_next(&frames, &f))
		any = true;
	if (f.kind == STACK_FRAME_NATIVE)
		b = binary_registry_get(r->options.binaries, frame_file(f.word));
	cut_stacks_add(&r->cut,
		       !any		    ? "[no frame]"
		       : b && !b->generated ? b->module.name
					    : "[generated code]",
		       v->ending);
}

size_t report_cut_stacks(const struct report *r, struct cut_stack *ret, size_t max)
{
	return cut_stacks_top(&r->cut, ret, max);
}

void report_add(struct report *r, const struct sampled_task *task, const struct sample_view *v)
{
	int e;

	r->stats.added++;
	r->stats.by_ending[v->ending]++;
	if (!unwind_ending_complete(v->ending))
		count_cut(r, v);
	if (v->omitted) {
		r->stats.shortened++;
		r->stats.omitted += frame_va(v->frames[v->omitted]);
	}
	if (!r->stats.first_sample_ns)
		r->stats.first_sample_ns = v->time_ns;
	names_note(r->names, task->process, v);
	e = window_add(&r->open, task, v);
	if (e == -ENOSPC && window_samples(&r->open)) {
		close_early(r);
		e = window_add(&r->open, task, v);
	}
	if (e < 0)
		r->stats.dropped[REPORT_DROP_WINDOW_FULL]++;
	else if (!r->closing && uses_quarters(r, 2))
		close_early(r);
}

void report_close_window(struct report *r)
{
	struct window w;

	report_send(r);
	w = r->open;
	r->open = r->closed;
	r->closed = w;
	r->closed.end_ns = r->options.clock.mono_ns();
	window_begin(r);
	r->closing = true;
	r->stats.windows++;
	names_request(r->names, r->closed.samples,
		      r->closed.start_ns > LATE_NS ? r->closed.start_ns - LATE_NS : 0);
}

bool report_end_window(struct report *r)
{
	const bool waits = r->closing && !report_sendable(r) &&
			   r->options.clock.mono_ns() - r->closed.end_ns < NAMES_WAIT_NS;

	if (!waits)
		report_close_window(r);
	return !waits;
}

bool report_closing(const struct report *r)
{
	return r->closing;
}

bool report_sendable(const struct report *r)
{
	return r->closing && (names_complete(r->names) || uses_quarters(r, 3));
}

void report_progress(struct report *r)
{
	if (r->closing)
		names_progress(r->names);
}

void report_send(struct report *r)
{
	uint64_t before;

	if (!r->closing)
		return;
	before = clock_thread_cpu_ns();
	r->stats.windows_late += !names_complete(r->names);
	sender_send(r->sender, &r->closed);
	window_clear(&r->closed);
	r->closing = false;
	if (r->pulls)
		pulls_sent(r->pulls, r->closed.end_ns);
	r->stats.windows_cpu_ns += clock_thread_cpu_ns() - before;
}

struct pulls *report_pulls(struct report *r)
{
	return r->pulls;
}

void report_finish(struct report *r)
{
	sender_finish(r->sender);
}

int report_code_at(struct report *r, struct process *p, uint64_t address, uint64_t since_ns,
		   struct symbol_jit_code *ret)
{
	return names_code(r->names, p, address, since_ns, ret);
}

void report_forget_file(struct report *r, uint32_t index)
{
	names_forget(r->names, index);
}

void report_stats(const struct report *r, struct report_stats *ret)
{
	struct sender_stats sent;

	sender_stats(r->sender, &sent);
	*ret = r->stats;
	ret->emitted = sent.emitted;
	ret->dropped[REPORT_DROP_ENCODE] = sent.failed;
	ret->waiting = window_samples(&r->open) + window_samples(&r->closed) + sent.pending;
	ret->names_bytes = names_bytes(r->names);
	names_jit_stats(r->names, &ret->jit);
	ret->names_changed = names_changed(r->names);
	if (r->options.code_names)
		code_names_stats(r->options.code_names, &ret->code);
	ret->unknown_code = names_unknown_code(r->names);
	ret->file_changed = sent.file_changed;
	ret->lines_left = names_lines_left(r->names);
}
