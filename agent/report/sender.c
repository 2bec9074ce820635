// SPDX-License-Identifier: Apache-2.0
#include "agent/report/sender.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/frame.h"
#include "agent/config/config.h"
#include "agent/output/profile.h"
#include "agent/proc/image.h"
#include "agent/report/names.h"
#include "agent/report/pulls.h"
#include "agent/report/resource_attrs.h"
#include "agent/report/window.h"
#include "cgroup/meta.h"
#include "cgroup/pods.h"
#include "version.h"

#define SAMPLE_ATTRS_MAX 16

struct sender {
	struct sender_options options;
	struct otlp_batch *batch; /* NULL: none is open */
	struct sender_stats stats;
	/* buffers, for the entry that is being sent: */
	uint64_t numbers[NAMES_FRAMES_MAX];    /* its frames */
	struct frame frames[NAMES_FRAMES_MAX]; /* its frames with names, for options.stack */
	uint64_t *times;		       /* its times as Unix time; owned */
	size_t cap_times;
	char label[RESOURCE_LABEL_MAX]; /* of the container of the stack that is being sent */
};

int sender_new(struct sender **ret, const struct sender_options *options)
{
	struct sender *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->options = *options;
	*ret = s;
	return 0;
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	otlp_batch_free(s->batch);
	free(s->times);
	free(s);
}

void sender_stats(const struct sender *s, struct sender_stats *ret)
{
	*ret = s->stats;
}

/* --- the batch */

static int emit(void *data, struct otlp_request *request)
{
	struct sender *s = data;

	s->stats.emitted += request->n_samples;
	s->stats.pending -= request->n_samples;
	s->options.emit(request, s->options.emit_data);
	return 0;
}

static int spill(void *data, const void *bytes, size_t len)
{
	struct sender *s = data;

	s->options.spill(bytes, len, s->options.emit_data);
	return 0;
}

/*
 * The duration of the window by the wall clock, like the times of its samples: it includes suspended time. If
 * the wall clock was set back, the time that passed.
 */
static uint64_t duration_ns(const struct sender *s, const struct window *w)
{
	uint64_t start = clock_steps_unix_ns(s->options.clock, w->start_ns),
		 end = clock_steps_unix_ns(s->options.clock, w->end_ns);

	return end > start ? end - start : w->end_ns - w->start_ns;
}

/* Begins a batch for the window, or goes on in the open batch with it. */
static int batch_begin(struct sender *s, const struct window *w)
{
	const struct config *c = s->options.config;
	uint64_t start = clock_steps_unix_ns(s->options.clock, w->start_ns);
	struct otlp_batch_options o = {
		.scope_version = PROFLET_VERSION,
		.start_unix_ns = start,
		.duration_ns = duration_ns(s, w),
		.bare = c->symbols.unresolved == CONFIG_UNRESOLVED_BARE,
		.aggregate = c->samples == CONFIG_SAMPLES_AGGREGATE,
		.max_bytes = s->options.max_request_bytes,
		.frame = names_frame,
		.frame_data = s->options.names,
		.emit = emit,
		.spill = s->options.spill ? spill : NULL,
		.data = s,
	};

	if (s->batch)
		return otlp_batch_window(s->batch, o.start_unix_ns, o.duration_ns);
	return otlp_batch_new(&s->batch, &o);
}

/* Emits the last request of the batch. Samples that are still pending then are lost. */
static void batch_end(struct sender *s)
{
	struct otlp_request *last = NULL;

	if (s->batch && otlp_batch_finish(s->batch, &last) == 0 && last)
		(void)emit(s, last);
	otlp_batch_free(TAKE_PTR(s->batch));
	s->stats.failed += s->stats.pending;
	s->stats.pending = 0;
}

/* --- one entry */

static size_t sample_attrs(struct sender *s, const struct sample_entry *e, struct otlp_attr *ret)
{
	const struct config_list *wanted = &s->options.config->attributes.sample;
	const bool by_process = s->options.config->resource == CONFIG_RESOURCE_PROCESS;
	const struct proc_image *i = e->owner;
	const struct otlp_attr all[] = {
		{.key = "process.pid", .type = OTLP_INT, .integer = i->pid},
		{.key = "process.executable.name", .string = proc_image_executable(i)},
		{.key = "process.executable.path", .string = i->program->exe},
		{.key = "thread.name", .string = e->thread},
		{.key = "thread.id", .type = OTLP_INT, .integer = e->tid},
		{.key = "cpu.logical_number", .type = OTLP_INT, .integer = e->cpu},
	};
	uint32_t detail;
	enum unwind_ending ending = names_ending(s->options.names, e, &detail);
	size_t n = 0;

	for (size_t w = 0; w < wanted->n; w++) {
		if (by_process && strncmp(wanted->items[w], "process.", strlen("process.")) == 0)
			continue; /* the resource has it */
		for (size_t k = 0; k < ARRAY_SIZE(all) && n < SAMPLE_ATTRS_MAX - 2; k++)
			if (strcmp(wanted->items[w], all[k].key) == 0)
				ret[n++] = all[k];
	}
	if (e->task)
		ret[n++] = (struct otlp_attr){.key = "asyncio.task.name", .string = e->task};
	if (!unwind_ending_complete(ending))
		ret[n++] = (struct otlp_attr){.key = "proflet.stack.truncated",
					      .string = unwind_ending_reason(ending, detail)};
	return n;
}

/* The entry's times as Unix time, into s->times. */
static int times_convert(struct sender *s, const struct sample_entry *e)
{
	if (array_reserve(&s->times, &s->cap_times, e->n, sizeof *s->times) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->n; i++)
		s->times[i] = clock_steps_unix_ns(s->options.clock, e->times_ns[i]);
	return 0;
}

/* What samples of this origin count. */
static struct otlp_profile_type profile_type(uint16_t origin, uint32_t frequency_hz)
{
	if (origin == ORIGIN_CPU)
		return otlp_cpu_profile(frequency_hz);
	if (origin == ORIGIN_OFF_CPU)
		return (struct otlp_profile_type){.type = "off_cpu", .unit = "nanoseconds"};
	return (struct otlp_profile_type){.type = "events", .unit = "count"};
}

static void send_otlp(struct sender *s, const struct sample_entry *e, uint32_t frequency_hz)
{
	const struct otlp_profile_type type = profile_type(e->origin, frequency_hz);
	struct otlp_attr attrs[SAMPLE_ATTRS_MAX];
	struct otlp_sample_events events = {.type = &type, .attrs = attrs, .values = e->values, .n = e->n};
	size_t added = 0;
	bool own;

	events.stack.frames = s->numbers;
	events.stack.n = names_numbers(s->options.names, e, s->numbers, &own);
	events.stack.id = own ? (uintptr_t)e : (uintptr_t)e->stack;
	events.n_attrs = sample_attrs(s, e, attrs);
	s->stats.pending += e->n; /* before otlp_batch_sample, which may emit them */
	if (times_convert(s, e) == 0) {
		events.unix_ns = s->times;
		(void)otlp_batch_sample(s->batch, &events, &added);
	}
	s->stats.pending -= e->n - added;
	s->stats.failed += e->n - added;
}

static const char *container_id(const struct proc_image *i)
{
	const struct cgroup_meta *m = resource_workload(i);

	return m && m->identity.container_id[0] ? m->identity.container_id : NULL;
}

static struct output_stack stack_of(struct sender *s, const struct sample_entry *e)
{
	const struct proc_image *i = e->owner;
	const bool timed = s->options.stack && times_convert(s, e) == 0;
	uint32_t detail;

	return (struct output_stack){
		.process = proc_image_name(i),
		.pid = i->pid,
		.thread = e->thread,
		.tid = e->tid,
		.cpu = e->cpu,
		.container = container_id(i),
		.container_name =
			resource_container_label(s->options.resources, i, s->label, sizeof s->label),
		.frames = s->frames,
		.n_frames = names_frames(s->options.names, e, s->frames),
		.count = e->n,
		.times = timed ? s->times : NULL,
		.mono_ns = e->times_ns,
		.complete = unwind_ending_complete(names_ending(s->options.names, e, &detail)),
	};
}

static bool is_pulled(struct sender *s, const struct sample_entry *e)
{
	const struct proc_image *i = e->owner;
	struct pull_identity who = {.pid = i->pid, .container_id = container_id(i)};
	const struct pod *pod = resource_pod(s->options.resources, i, &who.container_name);

	if (pod) {
		who.pod = pod->name;
		who.namespace = pod->namespace;
	}
	return pulls_select(s->options.pulls, &who, e->times_ns, e->n);
}

/* To whoever wants stacks with names. */
static void send_stack(struct sender *s, const struct sample_entry *e, uint32_t frequency_hz)
{
	const bool pulled = s->options.pulls && pulls_any(s->options.pulls) && is_pulled(s, e);
	struct output_stack stack;

	if (!pulled && !s->options.stack)
		return;
	stack = stack_of(s, e);
	if (s->options.stack)
		s->options.stack(&stack, s->options.stack_data);
	if (pulled)
		pulls_add(s->options.pulls, &stack, frequency_hz);
}

/* --- a window */

static int send_resource(struct sender *s, const struct sample_entry *e)
{
	struct otlp_attr attrs[RESOURCE_ATTRS_MAX];
	size_t n = resource_attrs(s->options.resources, e->owner, attrs);

	return otlp_batch_resource(s->batch, attrs, n);
}

static void send_entries(struct sender *s, const struct sample_entry **order, size_t n, uint32_t frequency_hz,
			 bool to_batch)
{
	int resource = -EINVAL;

	for (size_t i = 0; i < n; i++) {
		const struct sample_entry *e = order[i];
		uint32_t detail;

		s->stats.file_changed +=
			names_ending(s->options.names, e, &detail) != e->stack->ending ? e->n : 0;
		if (to_batch && (i == 0 || !resource_same(s->options.resources, order[i - 1], e)))
			resource = send_resource(s, e);
		if (resource == 0)
			send_otlp(s, e, frequency_hz);
		else if (s->options.emit)
			s->stats.failed += e->n;
		else
			s->stats.emitted += e->n;
		if (e->origin == ORIGIN_CPU)
			send_stack(s, e, frequency_hz);
	}
}

void sender_send(struct sender *s, const struct window *w)
{
	_cleanup_free_ const struct sample_entry **order = NULL;
	bool to_batch;
	size_t n = 0;

	if (!window_samples(w))
		return;
	order = resource_order(s->options.resources, w->samples, &n);
	if (!order) {
		s->stats.failed += window_samples(w);
		return;
	}
	to_batch = s->options.emit && batch_begin(s, w) == 0;
	send_entries(s, order, n, w->frequency_hz, to_batch);
	if (!s->options.one_request)
		batch_end(s);
}

void sender_finish(struct sender *s)
{
	batch_end(s);
}
