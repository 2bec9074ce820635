// SPDX-License-Identifier: Apache-2.0
/*
 * A window becomes export requests and, for a recording, weighted stacks. Every sample of it ends in a
 * request or in the counter of those that could not be encoded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/config/config.h"
#include "agent/output/profile.h"
#include "agent/report/report_private.h"
#include "cgroup/meta.h"
#include "version.h"

struct sender {
	struct report *r;
	const struct window *w;
	struct otlp_batch *batch;
	uint64_t ids[REPORT_FRAMES_MAX];
	struct frame frames[REPORT_FRAMES_MAX]; /* for `stack` */
	uint64_t *times;			/* Unix time, of the entry at work */
	size_t cap_unix;
};

static int emit(void *data, struct otlp_request *request)
{
	struct report *r = data;

	r->stats.emitted += request->n_samples;
	r->options.emit(request, r->options.emit_data);
	return 0;
}

static uint64_t unix_ns(const struct sender *s, uint64_t mono_ns)
{
	return clock_steps_unix_ns(&s->r->clock, mono_ns);
}

/* By the wall clock, as its times are: suspended time counts. A clock set back leaves the time that passed.
 */
static uint64_t duration_ns(const struct sender *s)
{
	uint64_t start = unix_ns(s, s->w->start_ns), end = unix_ns(s, s->w->end_ns);

	return end > start ? end - start : s->w->end_ns - s->w->start_ns;
}

static int batch_new(struct sender *s)
{
	const struct config *c = s->r->options.config;
	struct otlp_batch_options o = {
		.scope_version = PROFLET_VERSION,
		.start_unix_ns = unix_ns(s, s->w->start_ns),
		.duration_ns = duration_ns(s),
		.bare = c->symbols.unresolved == CONFIG_UNRESOLVED_BARE,
		.aggregate = c->samples == CONFIG_SAMPLES_AGGREGATE,
		.max_bytes = s->r->options.max_request_bytes,
		.frame = report_frame,
		.frame_data = s->r->names,
		.emit = emit,
		.data = s->r,
	};

	return otlp_batch_new(&s->batch, &o);
}

static size_t sample_attrs(struct sender *s, const struct sample_entry *e, struct otlp_attr *ret)
{
	const struct config_list *wanted = &s->r->options.config->attributes.sample;
	const struct proc_image *i = e->owner;
	const struct otlp_attr all[] = {
		{.key = "process.pid", .type = OTLP_INT, .integer = i->pid},
		{.key = "process.executable.name", .string = proc_image_executable(i)},
		{.key = "process.executable.path", .string = i->program->exe},
		{.key = "thread.name", .string = e->thread},
		{.key = "thread.id", .type = OTLP_INT, .integer = e->tid},
		{.key = "cpu.logical_number", .type = OTLP_INT, .integer = e->cpu},
	};
	size_t n = 0;

	for (size_t w = 0; w < wanted->n; w++)
		for (size_t k = 0; k < ARRAY_SIZE(all); k++)
			if (strcmp(wanted->items[w], all[k].key) == 0)
				ret[n++] = all[k];
	if (!unwind_ending_complete(e->stack->ending))
		ret[n++] = (struct otlp_attr){
			.key = "proflet.stack.truncated",
			.string = unwind_ending_reason(e->stack->ending, e->stack->ending_detail)};
	return n;
}

/* The entry's times as Unix time. */
static int times_convert(struct sender *s, const struct sample_entry *e)
{
	if (e->n > s->cap_unix) {
		uint64_t *more = realloc(s->times, e->n * sizeof *more);

		if (!more)
			return -ENOMEM;
		s->times = more;
		s->cap_unix = e->n;
	}
	for (uint32_t i = 0; i < e->n; i++)
		s->times[i] = unix_ns(s, e->times_ns[i]);
	return 0;
}

/* What the values of an origin's samples are. */
static struct otlp_profile_type profile_type(const struct sender *s, uint16_t origin)
{
	if (origin == ORIGIN_CPU)
		return otlp_cpu_profile(s->w->frequency_hz);
	if (origin == ORIGIN_OFF_CPU)
		return (struct otlp_profile_type){.type = "off_cpu", .unit = "nanoseconds"};
	return (struct otlp_profile_type){.type = "events", .unit = "count"};
}

static void send_otlp(struct sender *s, const struct sample_entry *e)
{
	const struct otlp_profile_type type = profile_type(s, e->origin);
	struct otlp_attr attrs[16];
	struct otlp_sample_events events = {.type = &type, .attrs = attrs, .values = e->values, .n = e->n};
	bool own;

	events.stack.frames = s->ids;
	events.stack.n = report_frame_ids(s->r->names, e, s->ids, &own);
	events.stack.id = own ? (uintptr_t)e : (uintptr_t)e->stack;
	events.n_attrs = sample_attrs(s, e, attrs);
	if (times_convert(s, e) < 0)
		return;
	events.unix_ns = s->times;
	(void)otlp_batch_sample(s->batch, &events, NULL);
}

static void send_stack(struct sender *s, const struct sample_entry *e)
{
	const struct proc_image *i = e->owner;
	const struct cgroup_meta *m = resource_workload(i);
	const struct output_stack stack = {
		.process = i->comm,
		.pid = i->pid,
		.thread = e->thread,
		.container = m && m->identity.container_id[0] ? m->identity.container_id : NULL,
		.container_name = resource_container_name(s->r->host, i),
		.frames = s->frames,
		.n_frames = report_frames(s->r->names, e, s->frames),
		.count = e->n,
		.complete = unwind_ending_complete(e->stack->ending),
	};

	s->r->options.stack(&stack, s->r->options.stack_data);
}

static int send_resource(struct sender *s, const struct sample_entry *e)
{
	struct otlp_attr attrs[RESOURCE_ATTRS_MAX];
	size_t n = resource_attrs(s->r->host, e->owner, attrs);

	return otlp_batch_resource(s->batch, attrs, n);
}

static void send_entries(struct sender *s, const struct sample_entry **order, size_t n)
{
	int resource = -EINVAL;

	for (size_t i = 0; i < n; i++) {
		const struct sample_entry *e = order[i];

		if (s->batch && (i == 0 || !resource_same(s->r, order[i - 1], e)))
			resource = send_resource(s, e);
		if (resource == 0)
			send_otlp(s, e);
		if (s->r->options.stack && e->origin == ORIGIN_CPU)
			send_stack(s, e);
	}
}

static void send_all(struct sender *s, const struct sample_entry **order, size_t n)
{
	struct otlp_request *last = NULL;

	send_entries(s, order, n);
	if (!s->batch) {
		s->r->stats.emitted += sample_aggregate_samples(s->w->samples);
		return;
	}
	if (otlp_batch_finish(s->batch, &last) == 0 && last)
		emit(s->r, last);
	otlp_batch_free(s->batch);
}

void report_send(struct report *r, struct window *w)
{
	_cleanup_free_ struct sender *s = calloc(1, sizeof *s);
	_cleanup_free_ const struct sample_entry **order = NULL;
	uint64_t emitted = r->stats.emitted;
	size_t n = 0;

	if (!sample_aggregate_samples(w->samples))
		return;
	order = resource_order(r, w->samples, &n);
	if (s && order) {
		s->r = r;
		s->w = w;
		if (!r->options.emit || batch_new(s) == 0)
			send_all(s, order, n);
		free(s->times);
	}
	/* whatever the cause: what is in no request is lost, and counted */
	r->stats.dropped[REPORT_DROP_ENCODE] +=
		sample_aggregate_samples(w->samples) - (r->stats.emitted - emitted);
}
