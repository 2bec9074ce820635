// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"

struct version {
	uint64_t until_ns;
	uint32_t generation;
	uint32_t mappings;	/* that it does not share with the version before it */
	struct proc_maps *maps; /* one reference; NULL: the version was forgotten */
};

struct proc_history {
	uint32_t n, mappings;
	size_t cap;
	struct version forgotten; /* the last version that was forgotten */
	struct version *versions; /* oldest first */
};

/* Compares generations, which wrap around. */
static bool up_to(uint32_t generation, uint32_t last)
{
	return (int32_t)(generation - last) <= 0;
}

static bool made_before(uint32_t generation, const struct version *v)
{
	return up_to(generation, v->generation);
}

static void drop_oldest(struct proc_history *h)
{
	h->mappings -= h->versions[0].mappings;
	proc_maps_unref(h->versions[0].maps);
	memmove(h->versions, h->versions + 1, --h->n * sizeof h->versions[0]);
}

int proc_history_add(struct process *p, uint64_t until_ns, uint32_t generation)
{
	struct proc_history *h = p->history;
	uint32_t mappings = proc_maps_private(p->maps);

	if (!h)
		h = p->history = calloc(1, sizeof *h);
	if (!h)
		return -ENOMEM;
	while (h->n == PROC_HISTORY_MAX || (h->n && h->mappings + mappings > PROC_HISTORY_MAPPINGS)) {
		h->forgotten = (struct version){.until_ns = h->versions[0].until_ns,
						.generation = h->versions[0].generation};
		drop_oldest(h);
	}
	if (array_reserve(&h->versions, &h->cap, h->n + 1, sizeof *h->versions) < 0) {
		h->forgotten = (struct version){.until_ns = until_ns, .generation = generation};
		return -ENOMEM;
	}
	h->versions[h->n++] = (struct version){until_ns, generation, mappings, proc_maps_ref(p->maps)};
	h->mappings += mappings;
	return 0;
}

const struct proc_maps *proc_history_at(const struct process *p, uint64_t time_ns)
{
	const struct proc_history *h = p->history;

	if (!h)
		return p->maps;
	if (time_ns < h->forgotten.until_ns)
		return NULL;
	for (uint32_t i = 0; i < h->n; i++)
		if (time_ns < h->versions[i].until_ns)
			return h->versions[i].maps;
	return p->maps;
}

void proc_history_begin(struct process *p, uint32_t generation, uint32_t inherited)
{
	p->born_generation = generation;
	p->inherited_generation = inherited;
}

bool proc_history_outdated(const struct process *p, uint64_t time_ns, uint32_t generation,
			   const struct proc_maps **ret)
{
	const struct proc_history *h = p->history;

	if (p->born_generation && generation != p->inherited_generation &&
	    up_to(generation, p->born_generation)) {
		*ret = NULL;
		return true;
	}
	if (!h)
		return false;
	if (h->forgotten.until_ns && made_before(generation, &h->forgotten)) {
		*ret = NULL;
		return true;
	}
	for (uint32_t i = 0; i < h->n && h->versions[i].until_ns <= time_ns; i++)
		if (made_before(generation, &h->versions[i])) {
			*ret = h->versions[i].maps;
			return true;
		}
	return false;
}

void proc_history_each(const struct process *p, void (*fn)(const struct proc_maps *m, void *data), void *data)
{
	for (uint32_t i = 0; p->history && i < p->history->n; i++)
		fn(p->history->versions[i].maps, data);
}

void proc_history_opened(struct process *p, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; p->history && i < p->history->n; i++)
		(void)proc_maps_opened(p->history->versions[i].maps, from, to);
}

void proc_history_set_code(struct process *p, uint32_t code)
{
	for (uint32_t i = 0; p->history && i < p->history->n; i++)
		proc_maps_set_code(p->history->versions[i].maps, code);
}

void proc_history_forget(struct process *p, uint64_t time_ns)
{
	struct proc_history *h = p->history;

	if (!h)
		return;
	while (h->n && h->versions[0].until_ns < time_ns)
		drop_oldest(h);
	if (!h->n && h->forgotten.until_ns < time_ns)
		proc_history_fini(p);
}

void proc_history_fini(struct process *p)
{
	while (p->history && p->history->n)
		drop_oldest(p->history);
	if (p->history)
		free(p->history->versions);
	free(p->history);
	p->history = NULL;
}
