// SPDX-License-Identifier: Apache-2.0
#include "agent/command/top_recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/command/record_files.h"
#include "agent/config/config_types.h"
#include "agent/output/live.h"
#include "agent/output/profile.h"
#include "otlp/profile.h"
#include "version.h"

#define MAX_PROPOSALS 1000

struct writing {
	const struct top_recording *top;
	struct output_profile *profile;
	struct record_growing growing;
	struct otlp_batch *batch;
	struct config_list containers; /* ids that occur; "": the host */
	const char *container;	       /* whose stacks go into the batch now */
	uint64_t start_unix_ns, duration_ns;
};

static void writing_fini(struct writing *w)
{
	output_profile_free(w->profile);
	record_otlp_free(w->growing.otlp);
	record_perf_free(w->growing.perf);
	otlp_batch_free(w->batch);
	config_list_free(&w->containers);
}

/* --- the OTLP file: one resource for each container */

static int spill(void *data, const void *bytes, size_t len)
{
	const struct writing *w = data;

	record_otlp_append(w->growing.otlp, bytes, len);
	return 0;
}

static int emit(void *data, struct otlp_request *request)
{
	const struct writing *w = data;

	record_otlp_finish(w->growing.otlp, request);
	return 0;
}

static void describe(void *data, uint64_t number, struct frame *ret)
{
	(void)data;
	*ret = output_live_frame(number);
}

static const char *truncated(const struct output_stack *s)
{
	const struct frame *root = s->n_frames ? &s->frames[s->n_frames - 1] : NULL;

	return s->complete					      ? NULL
	       : root && root->kind == FRAME_ENDING && root->function ? root->function
								      : "unknown";
}

static int add_to_batch(const struct output_stack *s, const uint64_t *numbers, void *data)
{
	struct writing *w = data;
	const struct otlp_profile_type type = otlp_cpu_profile(w->top->frequency_hz);
	const struct otlp_attr attrs[] = {
		{.key = "process.pid", .type = OTLP_INT, .integer = s->pid},
		{.key = "process.executable.name", .string = s->process},
		{.key = s->thread ? "thread.name" : "", .string = s->thread},
		{.key = s->tid ? "thread.id" : "", .type = OTLP_INT, .integer = s->tid},
		{.key = "cpu.logical_number", .type = OTLP_INT, .integer = s->cpu},
		{.key = "proflet.stack.truncated", .string = truncated(s)},
	};
	const struct otlp_sample_events events = {
		.type = &type,
		.stack = {.frames = numbers, .n = s->n_frames},
		.attrs = attrs,
		.n_attrs = ARRAY_SIZE(attrs),
		.unix_ns = s->times,
		.n = s->count,
	};

	if (!s->times || strcmp(s->container ? s->container : "", w->container) != 0)
		return 0;
	return otlp_batch_sample(w->batch, &events, NULL);
}

static int add_resource(struct writing *w)
{
	const struct otlp_attr attrs[] = {
		{.key = "container.id", .string = w->container[0] ? w->container : NULL},
		{.key = "host.name", .string = w->top->hostname},
		{.key = "os.type", .string = "linux"},
	};
	int r = otlp_batch_resource(w->batch, attrs, ARRAY_SIZE(attrs));

	return r < 0 ? r : output_live_stacks(w->top->live, w->top->query, add_to_batch, w);
}

static int make_request(struct writing *w)
{
	const struct otlp_batch_options o = {
		.scope_version = PROFLET_VERSION,
		.start_unix_ns = w->start_unix_ns,
		.duration_ns = w->duration_ns,
		.frame = describe,
		.emit = emit,
		.spill = spill,
		.data = w,
	};
	struct otlp_request *last = NULL;
	int r = otlp_batch_new(&w->batch, &o);

	for (size_t i = 0; i < w->containers.n && r == 0; i++) {
		w->container = w->containers.items[i];
		r = add_resource(w);
	}
	if (r == 0)
		r = otlp_batch_finish(w->batch, &last);
	return r == 0 && last ? emit(w, last) : r;
}

/* --- the other files */

static int note_container(struct config_list *ids, const char *id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (strcmp(ids->items[i], id) == 0)
			return 0;
	return config_list_append(ids, id);
}

static int add_to_files(const struct output_stack *s, const uint64_t *numbers, void *data)
{
	struct writing *w = data;

	(void)numbers;
	(void)output_profile_add(w->profile, s); /* beyond a maximum it is in [other] */
	if (s->mono_ns)
		record_perf_add(w->growing.perf, s, w->top->frequency_hz);
	return note_container(&w->containers, s->container ? s->container : "");
}

static int collect(struct writing *w)
{
	struct output_info info = {
		.start_unix_ns = w->start_unix_ns,
		.duration_ns = w->duration_ns,
		.frequency_hz = w->top->frequency_hz,
		.hostname = w->top->hostname,
		.version = PROFLET_VERSION,
	};
	int r = output_profile_new(&w->profile, &info);

	if (r == 0)
		r = output_live_stacks(w->top->live, w->top->query, add_to_files, w);
	info.n_taken = r == 0 ? output_profile_samples(w->profile) : 0;
	if (r == 0 && !info.n_taken)
		return -ENODATA;
	return r < 0 ? r : output_profile_set_info(w->profile, &info);
}

static int write_files(struct writing *w, const struct record_files *files, char **ret_failed)
{
	int r = record_files_check(files, false, ret_failed);

	if (r == 0)
		r = record_otlp_new(&w->growing.otlp, files, ret_failed);
	if (r == 0)
		r = record_perf_new(&w->growing.perf, files, ret_failed);
	if (r == 0)
		r = collect(w);
	if (r == 0 && w->growing.otlp)
		r = make_request(w);
	return r < 0 ? r : record_files_write(files, w->profile, &w->growing, ret_failed);
}

/* The names of the files as one line. */
static void say_written(const struct writing *w, const char *names, char *ret, size_t size)
{
	size_t n = (size_t)snprintf(
		ret, size, "wrote %lu samples of %.0f s:", (unsigned long)output_profile_samples(w->profile),
		(double)w->duration_ns / (double)NS_PER_SEC);

	for (const char *s = names; *s && n < size;) {
		size_t len = strcspn(s, "\n");

		n += (size_t)snprintf(ret + n, size - n, " %.*s", (int)len, s);
		s += len + (s[len] == '\n');
	}
}

static void say_failed(int r, const char *failed, char *ret, size_t size)
{
	if (r == -ENODATA)
		snprintf(ret, size, "nothing is written: no samples here");
	else if (r == -EEXIST && failed)
		snprintf(ret, size, "%s is there already: please type another name", failed);
	else
		snprintf(ret, size, "%s: %s", failed ? failed : "the recording cannot be written",
			 strerror(-r));
}

int top_recording_write(const struct top_recording *t, const char *path, char *ret_said, size_t size,
			char **ret_names)
{
	_cleanup_(writing_fini) struct writing w = {.top = t};
	_cleanup_free_ char *names = NULL, *failed = NULL, *base = NULL;
	size_t len, names_len;
	const char *format = record_files_format(path, &len);
	char *one[] = {(char *)format};
	const struct config_list formats = {.items = one, .n = format ? 1 : 0};
	struct record_files files = {.formats = &formats};
	struct output_live_sums sums;
	int r = -ENOMEM;

	*ret_names = NULL;
	output_live_sums(t->live, false, &sums);
	w.duration_ns = sums.duration_ns;
	w.start_unix_ns = clock_real_ns() - sums.duration_ns;
	files.path = base = strndup(path, len);
	files.names = open_memstream(&names, &names_len);
	if (base && files.names)
		r = write_files(&w, &files, &failed);
	if (files.names && fclose(files.names) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		say_written(&w, names, ret_said, size);
	else
		say_failed(r, failed, ret_said, size);
	*ret_names = TAKE_PTR(names);
	return r;
}

void top_recording_propose(char *ret, size_t size)
{
	const struct config_list formats = {0};
	const struct record_files files = {.path = ret, .formats = &formats};

	snprintf(ret, size, "proflet-top");
	for (int i = 2; i < MAX_PROPOSALS; i++) {
		_cleanup_free_ char *failed = NULL;

		if (record_files_check(&files, false, &failed) != -EEXIST)
			return;
		snprintf(ret, size, "proflet-top-%d", i);
	}
}
