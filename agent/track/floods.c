// SPDX-License-Identifier: Apache-2.0
#include "agent/track/floods.h"

#include <stddef.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/proc/process.h"
#include "agent/proc/table.h"
#include "agent/track/process_reader.h"
#include "agent/track/publication.h"

static struct flood *slot_of(struct floods *f, uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->slots); i++)
		if (f->slots[i].pid == pid)
			return &f->slots[i];
	return NULL;
}

/* Whether the process has mapped more than FLOOD_EVENTS times within FLOOD_WINDOW_NS. */
static bool is_flood(struct process *p, uint64_t time_ns)
{
	if (time_ns - p->mapped_since_ns > FLOOD_WINDOW_NS) {
		p->mapped_since_ns = time_ns;
		p->n_mapped = 0;
	}
	return ++p->n_mapped > FLOOD_EVENTS;
}

/* The slot of the process; NULL: all are taken. */
static struct flood *slot_take(struct floods *f, const struct process *p)
{
	struct flood *s = slot_of(f, p->pid);

	if (s)
		return s;
	s = slot_of(f, 0);
	if (s)
		*s = (struct flood){.pid = p->pid, .read_ns = f->clock.mono_ns()};
	return s;
}

static void warn_once(struct process *p)
{
	if (!p->mappings_logged)
		log_warn("process %u maps memory thousands of times a second: from now on its mappings are "
			 "read from /proc now and then, and its own stacks may be incomplete",
			 p->pid);
	p->mappings_logged = true;
}

bool floods_take(struct floods *f, struct process *p, uint64_t time_ns)
{
	bool flood = is_flood(p, time_ns);

	if (!flood && !p->flooded)
		return false;
	if (!slot_take(f, p))
		return false;
	if (!p->flooded) { /* up to now, it had the mappings that are known */
		publication_replacing(f->publication, p, time_ns);
		warn_once(p);
	}
	p->flooded = true; /* what follows is part of what will be read */
	f->n_left++;
	return true;
}

void floods_inherit(struct floods *f, struct process *child)
{
	child->flooded = slot_take(f, child) != NULL;
}

static void read_mappings(struct floods *f, struct flood *s, struct process *p)
{
	uint64_t before = f->clock.thread_cpu_ns();

	s->cost_ns = 0;
	s->read_ns = f->clock.mono_ns();
	p->flooded = false;
	process_reader_reread(f->reader, p, &s->cost_ns);
	s->cost_ns += f->clock.thread_cpu_ns() - before;
}

void floods_read(struct floods *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->slots); i++) {
		struct flood *s = &f->slots[i];
		uint64_t wait = s->cost_ns * FLOOD_SHARE;
		struct process *p;

		if (!s->pid)
			continue;
		p = proc_table_get(f->processes, s->pid);
		if (f->clock.mono_ns() - s->read_ns < (wait > FLOOD_WINDOW_NS ? wait : FLOOD_WINDOW_NS))
			continue;
		if (p && p->n_reading)
			continue; /* the answer is charged to the slot */
		if (p && p->flooded)
			read_mappings(f, s, p);
		else
			s->pid = 0;
	}
}
