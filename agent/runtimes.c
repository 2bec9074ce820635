// SPDX-License-Identifier: Apache-2.0
#include "agent/runtimes.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/log.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/probe/probe.h"
#include "agent/track/track.h"
#include "agent/unwind/tables.h"

struct runtimes {
	struct runtimes_options options;
	struct code_names *names;
	struct splice splice;
	uint64_t bad_reports, unknown, refused;
	uint64_t missed; /* names, at the last check */
};

static struct binary_table *table_of(const struct runtimes *r, uint32_t file)
{
	struct binary_table *t = unwind_tables_get(track_tables(r->options.track), file);

	return t && t->cpython ? t : NULL;
}

static bool is_loop(uint64_t word, void *data)
{
	const struct binary_table *t = table_of(data, frame_file(word));
	uint64_t va = frame_va(word);

	for (uint32_t i = 0; t && i < t->cpython->n_loops; i++)
		if (va >= t->cpython->loop_start[i] && va < t->cpython->loop_end[i])
			return true;
	return false;
}

int runtimes_new(struct runtimes **ret, const struct runtimes_options *options)
{
	struct runtimes *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->splice.options =
		(struct splice_options){.loop_frames = options->loop_frames, .is_loop = is_loop, .data = r};
	if (code_names_new(&r->names, options->max_bytes) < 0) {
		free(r);
		return -ENOMEM;
	}
	*ret = r;
	return 0;
}

void runtimes_free(struct runtimes *r)
{
	if (!r)
		return;
	code_names_free(r->names);
	free(r);
}

struct code_names *runtimes_names(struct runtimes *r)
{
	return r->names;
}

/*
 * The layout that was assumed is not that of the objects: the process is no longer walked. Others may be,
 * since the objects are what the process wrote.
 */
static void refuse(struct runtimes *r, struct binary_table *t, uint32_t pid)
{
	const struct frame_module *m = &t->binary->module;
	uint32_t version = t->cpython->version;

	r->refused++;
	track_refuse_runtime(r->options.track, pid);
	if (t->runtime_logged)
		return;
	t->runtime_logged = true;
	log_warn("process %u: the objects of Python %u.%u.%u (%s, build id %s) have another layout than is "
		 "known of this version: its functions are not shown",
		 pid, version >> 24, version >> 16 & 255, version >> 8 & 255, m->path,
		 m->build_id_gnu ?: "none");
}

static void on_code(struct runtimes *r, const struct runtime_code *report, size_t len)
{
	struct binary_table *t = len >= sizeof *report ? table_of(r, report->layout) : NULL;
	int e;

	if (!t) {
		r->unknown++;
		return;
	}
	e = code_names_add(r->names, track_tenant(r->options.track, report->pid), report, len,
			   &t->cpython->layout,
			   t->cpython->code_type ? t->cpython->code_type + report->bias : 0,
			   t->cpython->text_type ? t->cpython->text_type + report->bias : 0);
	r->bad_reports += e < 0;
	if (e == -ENOTSUP)
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
}

void runtimes_check(struct runtimes *r)
{
	struct code_names_stats s;

	code_names_stats(r->names, &s);
	if (s.missed != r->missed)
		probe_reports_again(r->options.probe);
	r->missed = s.missed;
}

void runtimes_splice(struct runtimes *r, const struct sample_view *v, struct sample_view *ret)
{
	sample_splice(&r->splice, v, ret);
}

void runtimes_stats(const struct runtimes *r, struct runtimes_stats *ret)
{
	*ret = (struct runtimes_stats){.splice = r->splice.stats,
				       .bad_reports = r->bad_reports,
				       .unknown = r->unknown,
				       .refused = r->refused};
	code_names_stats(r->names, &ret->names);
}
