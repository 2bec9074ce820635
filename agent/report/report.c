// SPDX-License-Identifier: Apache-2.0
/*
 * When a window closes, the names that its stacks need are requested, and a second window takes the samples
 * meanwhile. The closed one is sent when the worker threads are done, or when the next one closes: late names
 * are better left out than memory filled.
 */
#include "agent/report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "agent/report/report_private.h"
#include "agent/proc/sampled_task.h"

static const char *const drop_texts[REPORT_DROPS_N] = {
#define X(name, text) [REPORT_DROP_##name] = text,
	REPORT_DROPS(X)
#undef X
};

const char *report_drop_text(enum report_drop reason)
{
	return drop_texts[reason];
}

_Static_assert(SAMPLE_THREAD_NAME_LEN == PROC_TASK_COMM_LEN, "thread names");

static void owner_hold(void *owner)
{
	proc_image_ref(owner);
}

static void owner_release(void *owner)
{
	proc_image_unref(owner);
}

static bool wants_cpu(const struct config *c)
{
	for (size_t i = 0; i < c->attributes.sample.n; i++)
		if (strcmp(c->attributes.sample.items[i], "cpu.logical_number") == 0)
			return true;
	return false;
}

static int window_new(struct window *w, const struct report_options *o)
{
	return sample_aggregate_new(&w->samples, o->window_bytes, wants_cpu(o->config), owner_hold,
				    owner_release);
}

int64_t report_clock_set(struct report *r)
{
	uint64_t now = clock_mono_ns();

	return clock_steps_note(&r->clock, now, clock_real_offset_ns());
}

static void window_begin(struct report *r)
{
	(void)report_clock_set(r); /* where nobody tells us of steps */
	r->open.start_ns = clock_mono_ns();
	r->open.frequency_hz = r->frequency_hz;
}

void report_set_frequency(struct report *r, uint32_t frequency_hz)
{
	r->frequency_hz = r->open.frequency_hz = frequency_hz;
}

int report_new(struct report **ret, const struct report_options *options)
{
	struct report *r = calloc(1, sizeof *r);
	int e;

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->frequency_hz = options->config->sampling.frequency;
	e = window_new(&r->open, options);
	if (e == 0)
		e = window_new(&r->closed, options);
	if (e == 0)
		e = names_new(&r->names, options);
	if (e == 0)
		e = host_attrs_new(&r->host, options);
	if (e < 0) {
		report_free(r);
		return e;
	}
	names_prepare(r->names);
	window_begin(r);
	*ret = r;
	return 0;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	sample_aggregate_free(r->open.samples);
	sample_aggregate_free(r->closed.samples);
	names_free(r->names);
	host_attrs_free(r->host);
	free(r);
}

void report_add(struct report *r, const struct sampled_task *task, const struct sample_view *v)
{
	r->stats.added++;
	r->stats.by_ending[v->ending]++;
	if (!r->stats.first_sample_ns)
		r->stats.first_sample_ns = v->time_ns;
	names_sample(r->names, task->process, v);
	if (sample_aggregate_add(r->open.samples, task->image, task->thread, v) < 0)
		r->stats.dropped[REPORT_DROP_WINDOW_FULL]++;
}

static void send_closed(struct report *r)
{
	uint64_t before;

	if (!r->closing)
		return;
	before = clock_thread_cpu_ns();
	report_send(r, &r->closed);
	sample_aggregate_clear(r->closed.samples);
	r->closing = false;
	r->stats.windows_cpu_ns += clock_thread_cpu_ns() - before;
}

void report_hurry(struct report *r)
{
	r->stats.windows_late += r->closing;
	send_closed(r);
}

void report_close_window(struct report *r)
{
	struct window w = r->open;

	report_hurry(r);
	r->open = r->closed;
	r->closed = w;
	r->closed.end_ns = clock_mono_ns();
	window_begin(r);
	r->closing = true;
	r->stats.windows++;
	names_request(r->names, r->closed.samples);
	report_progress(r);
}

bool report_closing(const struct report *r)
{
	return r->closing;
}

bool report_sendable(const struct report *r)
{
	return r->closing && names_complete(r->names);
}

void report_progress(struct report *r)
{
	if (report_sendable(r))
		send_closed(r);
}

void report_forget_file(struct report *r, uint32_t index)
{
	names_forget(r->names, index);
}

void report_stats(const struct report *r, struct report_stats *ret)
{
	*ret = r->stats;
	ret->waiting =
		sample_aggregate_samples(r->open.samples) + sample_aggregate_samples(r->closed.samples);
	ret->names_bytes = names_bytes(r->names);
	ret->lines_left = names_lines_left(r->names);
}
