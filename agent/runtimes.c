// SPDX-License-Identifier: Apache-2.0
#include "agent/runtimes.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/log.h"
#include "agent/elf/runtime/facts.h"
#include "agent/probe/probe.h"
#include "agent/track/track.h"
#include "agent/unwind/tables.h"

struct runtimes {
	struct runtimes_options options;
	struct code_names *names;
	struct splice splice;
	uint64_t bad_reports, unknown;
	uint64_t missed; /* names, at the last check */
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

/* The layout that was assumed is not that of the objects: the file's processes are no longer walked. */
static void refuse(struct runtimes *r, struct binary_table *t)
{
	const struct frame_module *m = &t->binary->module;
	char version[RUNTIME_VERSION_TEXT];

	if (t->runtime_refused)
		return;
	log_warn("%s (build id %s): %s has another layout than is known of this version: its functions are "
		 "not shown",
		 m->path, m->build_id_gnu ?: "none", runtime_facts_version(t->runtime, version));
	unwind_tables_refuse_runtime(track_tables(r->options.track), t->binary->index);
}

static int add_code(struct runtimes *r, const struct runtime_code *report, size_t len,
		    const struct runtime_facts *facts)
{
	const struct cpython_facts *f = &facts->cpython;

	if (facts->kind == RUNTIME_FILE_PHP)
		return code_names_add_php(r->names, report, len);
	return code_names_add(r->names, report, len, &f->layout,
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
	r->bad_reports += e < 0;
	if (e == -ENOTSUP)
		refuse(r, t);
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
	*ret = (struct runtimes_stats){
		.splice = r->splice.stats, .bad_reports = r->bad_reports, .unknown = r->unknown};
	code_names_stats(r->names, &ret->names);
}
