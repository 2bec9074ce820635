// SPDX-License-Identifier: Apache-2.0
#include "agent/track/rescans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/track/process_reader.h"
#include "agent/track/publication.h"

#define RESCAN_EVERY_NS (3 * NS_PER_SEC)
#define RESCAN_MAX_NS (48 * NS_PER_SEC)
#define RESCAN_SHARE 200u /* at most 1/200 of the time goes into rescans */
#define AHEAD 32u	  /* processes whose mappings are read while those of another are entered */

struct rescans {
	struct rescans_options options;
	struct host_clock clock;
	struct proc_view proc;
	uint64_t last_ns; /* when the last one began */
	uint64_t wait_ns; /* from then to the next; 0: RESCAN_EVERY_NS */
	uint64_t cost_ns; /* of the last one: the time that it took, and the CPU time of late answers */
	uint32_t serial;
	uint64_t n;
};

int rescans_new(struct rescans **ret, const struct rescans_options *options)
{
	struct rescans *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->clock = options->host->clock;
	r->proc = options->host->proc;
	*ret = r;
	return 0;
}

void rescans_free(struct rescans *r)
{
	free(r);
}

uint64_t rescans_count(const struct rescans *r)
{
	return r->n;
}

struct scan {
	struct rescans *rescans;
	struct {
		struct process *process; /* one reference */
		struct map_lines_request *lines;
	} ahead[AHEAD];
	unsigned first, n;
};

static void take_first(struct scan *s)
{
	struct process *p = s->ahead[s->first].process;

	process_reader_end(s->rescans->options.reader, p, s->ahead[s->first].lines);
	process_unref(p);
	s->first = (s->first + 1) % AHEAD;
	s->n--;
}

static int scan_process(uint32_t pid, void *data)
{
	struct scan *s = data;
	struct rescans *r = s->rescans;
	struct map_lines_request *lines;
	struct process *p;
	int e;

	if (proc_table_get(r->options.processes, pid))
		return 0;
	e = proc_table_add(r->options.processes, pid, 0, &p);
	if (e < 0) { /* at the maximum: counted by the table */
		if (e == -ENOMEM)
			gap_note(r->options.gaps, GAP_NO_MEMORY);
		return 0;
	}
	p->scan_serial = r->serial;
	lines = process_reader_begin(r->options.reader, p);
	if (s->n == AHEAD)
		take_first(s);
	s->ahead[(s->first + s->n) % AHEAD].process = process_ref(p);
	s->ahead[(s->first + s->n++) % AHEAD].lines = lines;
	return 0;
}

static int scan(struct rescans *r, proc_scan_fn each)
{
	struct scan s = {.rescans = r};
	int e;

	process_reader_scan_begin(r->options.reader);
	e = r->proc.ops->scan(r->proc.data, each, &s);
	while (s.n)
		take_first(&s);
	process_reader_scan_end(r->options.reader);
	return e;
}

int rescans_first(struct rescans *r)
{
	return scan(r, scan_process);
}

/*
 * Reads a process again of which events may have been lost: what it runs, and what it has mapped. Until the
 * answer comes, it has the mappings that were known.
 */
static int rescan_process(uint32_t pid, void *data)
{
	struct scan *s = data;
	struct rescans *r = s->rescans;
	struct process *p = proc_table_get(r->options.processes, pid);
	struct proc_image *image;
	struct proc_stat stat;

	if (p && r->proc.ops->stat(r->proc.data, pid, &stat) == 0) {
		uint64_t start_ns = process_reader_start_ns(r->options.reader, &stat);

		if (start_ns > p->start_ns + PROC_START_TICK_NS) { /* another process by now */
			publication_end(r->options.publication, p, start_ns);
			p = NULL;
		}
	}
	if (!p)
		return scan_process(pid, s);
	p->scan_serial = r->serial;
	if (p->kernel_thread)
		return 0;
	if (proc_image_exec(p, r->clock.mono_ns(), &image) < 0) {
		gap_note(r->options.gaps, GAP_NO_MEMORY);
		return 0;
	}
	process_reader_read(r->options.reader, p);
	return 0;
}

static void end_unseen(struct process *p, void *data)
{
	struct rescans *r = data;

	if (p->scan_serial == r->serial || p->start_ns > r->last_ns)
		return;
	publication_end(r->options.publication, p, r->clock.mono_ns());
}

/* One process may have a hundred thousand mappings. */
static uint64_t wait_by_cost(const struct rescans *r)
{
	return r->cost_ns < RESCAN_MAX_NS / RESCAN_SHARE ? r->cost_ns * RESCAN_SHARE : RESCAN_MAX_NS;
}

void rescans_run(struct rescans *r)
{
	uint64_t now, since, wait = r->wait_ns ?: RESCAN_EVERY_NS, *former;
	int e;

	if (!r->options.gaps->open)
		return;
	now = r->clock.mono_ns();
	since = now - r->last_ns;
	if (since < wait || since < wait_by_cost(r))
		return;
	/* a gap again so soon: a host with more events than can be read would have /proc read all the time */
	r->wait_ns = since >= 2 * wait ? RESCAN_EVERY_NS : wait < RESCAN_MAX_NS ? wait * 2 : wait;
	r->options.gaps->open = false;
	r->last_ns = now;
	r->serial++;
	r->n++;
	r->cost_ns = 0;
	former = requests_charge(r->options.requests, &r->cost_ns);
	e = scan(r, rescan_process);
	if (e == 0) {
		proc_table_each(r->options.processes, end_unseen, r);
	} else {
		log_warn("/proc could not be read: %s; trying again", strerror(-e));
		r->options.gaps->open = true;
	}
	(void)requests_charge(r->options.requests, former);
	r->cost_ns += r->clock.mono_ns() - now;
}
