// SPDX-License-Identifier: Apache-2.0
#include "agent/track/generated_code.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/binary/registry.h"
#include "agent/proc/history.h"
#include "agent/proc/image.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"
#include "agent/track/publication.h"
#include "agent/unwind/tables.h"

#define MACHINE_NS (1 * NS_PER_SEC)  /* between looks for a virtual machine */
#define CHANGING_NS (2 * NS_PER_SEC) /* that code is taken to change since it was seen to have changed */

/* The generated code of one program of a process: after an execve, another record takes its place. */
struct record {
	struct map_node node;
	struct process *process; /* one reference */
	uint64_t tenant;
	uint64_t exec_ns;
	uint32_t index;	     /* of the binary that stands for its code; held */
	uint64_t changes;    /* of code that may be given to other code */
	uint64_t guessed;    /* an address that was requested before a virtual machine was known; 0: none */
	uint64_t machine_ns; /* when one was looked for */
	unsigned n;
	struct {
		uint64_t address, time_ns;
		enum generated_wish wish;
	} addresses[GENERATED_ADDRESSES_MAX];
};

struct generated_code {
	struct generated_code_options options;
	struct map records;
	uint32_t refused; /* the binary that stands for code which is not analysed; held; 0: none yet */
	uint64_t full;
	uint64_t changing_until_ns;
};

/* Makes the binary that stands for the code of a process, and holds it. 0 or -errno. */
static int binary_make(struct generated_code *g, uint32_t pid, uint32_t *ret)
{
	struct binary *b;
	int r = binary_new_generated(&b, pid);

	if (r == 0)
		r = binary_registry_enter(g->options.binaries, b, 0, ret);
	if (r < 0)
		return r;
	(void)binary_registry_hold(g->options.binaries, *ret);
	r = unwind_tables_add_generated(g->options.tables, *ret, pid);
	if (r < 0)
		binary_registry_release(g->options.binaries, *ret);
	return r;
}

int generated_code_new(struct generated_code **ret, const struct generated_code_options *options)
{
	struct generated_code *g = calloc(1, sizeof *g);

	if (!g)
		return -ENOMEM;
	g->options = *options;
	map_init(&g->records, GENERATED_PROCESSES_MAX);
	*ret = g;
	return 0;
}

static bool record_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct record, node)->process == key;
}

static struct record *record_of(const struct generated_code *g, const struct process *p)
{
	struct map_node *n = map_find(&g->records, hash_u64((uintptr_t)p), record_is, p);

	return n ? container_of(n, struct record, node) : NULL;
}

static void record_free(struct generated_code *g, struct record *x)
{
	binary_registry_release(g->options.binaries, x->index);
	process_unref(x->process);
	free(x);
}

static void record_remove(struct generated_code *g, struct record *x)
{
	map_remove(&g->records, &x->node);
	record_free(g, x);
}

void generated_code_free(struct generated_code *g)
{
	struct map_node *n;

	if (!g)
		return;
	map_for_each (&g->records, n, it)
		record_free(g, container_of(n, struct record, node));
	map_fini(&g->records);
	if (g->refused)
		binary_registry_release(g->options.binaries, g->refused);
	free(g);
}

void generated_code_sweep(struct generated_code *g)
{
	struct map_node *n;

	map_for_each (&g->records, n, it) {
		struct record *x = container_of(n, struct record, node);

		if (x->process->end_ns || x->process->exec_ns != x->exec_ns)
			record_remove(g, x);
	}
}

/* Whether there is room for one more process of the tenant. */
static bool has_room(const struct generated_code *g, uint64_t tenant)
{
	unsigned same = 0;
	struct map_node *n;

	map_for_each (&g->records, n, it)
		same += container_of(n, struct record, node)->tenant == tenant;
	return g->records.len < GENERATED_PROCESSES_MAX && same < GENERATED_WORKLOAD_MAX;
}

/* The process's mappings name the binary from now on. */
static int mappings_set(struct generated_code *g, struct process *p, uint32_t index)
{
	int r = proc_maps_own(p);

	if (r < 0)
		return r;
	proc_maps_set_code(p->maps, index);
	proc_history_set_code(p, index);
	if (!p->end_ns)
		publication_mark(g->options.publication, p->pid);
	publication_changed(g->options.publication);
	return 0;
}

/* The code of the process is not analysed, so that its stacks end there. */
static void refuse(struct generated_code *g, struct process *p)
{
	if (!g->refused) {
		if (binary_make(g, 0, &g->refused) < 0)
			return; /* its samples wait until their deadline */
		unwind_tables_refuse(g->options.tables, g->refused);
	}
	if (p->maps->code != g->refused)
		(void)mappings_set(g, p, g->refused);
}

/* 0; -ENOSPC (counted): there are too many; -errno. */
static int record_new(struct generated_code *g, struct process *p, struct record **ret)
{
	const uint64_t tenant = p->image->context.tenant;
	struct record *x;
	int r;

	if (!has_room(g, tenant)) {
		g->full++;
		return -ENOSPC;
	}
	x = calloc(1, sizeof *x);
	r = x ? binary_make(g, p->pid, &x->index) : -ENOMEM;
	if (r == 0 && map_insert(&g->records, &x->node, hash_u64((uintptr_t)p)) < 0)
		r = -ENOMEM;
	if (r < 0) {
		if (x && x->index)
			binary_registry_release(g->options.binaries, x->index);
		free(x);
		return r;
	}
	x->process = process_ref(p);
	x->tenant = tenant;
	x->exec_ns = p->exec_ns;
	*ret = x;
	return 0;
}

/* The record of the process's present program, made when it has none. NULL: its code is not analysed. */
static struct record *record_get(struct generated_code *g, struct process *p)
{
	struct record *x = record_of(g, p);

	if (x && x->exec_ns != p->exec_ns) {
		record_remove(g, x);
		x = NULL;
	}
	/* of a process that has ended, no byte can be read any more */
	if (!x && (p->end_ns || record_new(g, p, &x) < 0)) {
		refuse(g, p);
		return NULL;
	}
	if (p->maps->code != x->index) /* none yet; or a fork shares the mappings of another process */
		(void)mappings_set(g, p, x->index);
	return x;
}

void generated_code_hit(struct generated_code *g, struct process *p, uint64_t address,
			enum generated_wish wish)
{
	struct record *x = record_get(g, p);

	if (!x || x->n == GENERATED_ADDRESSES_MAX)
		return;
	for (unsigned i = 0; i < x->n; i++)
		if (x->addresses[i].address == address) {
			if (wish == GENERATED_OTHER)
				x->addresses[i].wish = wish;
			return;
		}
	x->addresses[x->n].address = address;
	x->addresses[x->n].wish = wish;
	x->addresses[x->n++].time_ns = g->options.mono_ns();
}

void generated_code_begin(struct generated_code *g, struct process *p)
{
	(void)record_get(g, p);
}

bool generated_code_waits(const struct generated_code *g, const struct process *p)
{
	const struct record *x = record_of(g, p);

	return x && x->n > 0;
}

/* False: the runtime's list is being read. */
static bool request(struct generated_code *g, struct record *x, unsigned i)
{
	const struct generated_code_options *o = &g->options;
	const uint64_t address = x->addresses[i].address, time_ns = x->addresses[i].time_ns;
	const struct proc_mapping *m = proc_maps_find(x->process->maps, address);
	struct generated_request q = {.address = address, .wish = x->addresses[i].wish};
	int r = 0;

	if (!m)
		return true;
	q.low = m->start;
	q.high = m->end;
	if (o->function)
		r = o->function(x->process, time_ns, &q, o->data);
	if (r != -EAGAIN && r != -ENOTSUP)
		unwind_tables_request(o->tables, x->index, &q);
	if (r != -EAGAIN)
		x->guessed = q.vm.kind == VM_NONE ? address : 0;
	return r != -EAGAIN;
}

/*
 * A virtual machine may become known only after code of it was analysed by its bytes: nothing is missing
 * there then, so that no sample would lead to the machine.
 */
static void machine_find(struct generated_code *g, struct record *x)
{
	const struct generated_code_options *o = &g->options;
	struct generated_request q = {.address = x->guessed};
	const uint64_t now_ns = o->mono_ns();

	if (!x->guessed || !o->machine || now_ns < x->machine_ns + MACHINE_NS || x->process->end_ns)
		return;
	x->machine_ns = now_ns;
	if (!o->machine(x->process, &q, o->data))
		return;
	unwind_tables_request(o->tables, x->index, &q);
	x->guessed = 0;
}

/* While code changes, what samples have hit is looked at without delay. */
static void changes_see(struct generated_code *g, struct record *x)
{
	const struct binary_table *t = unwind_tables_get(g->options.tables, x->index);
	const uint64_t gone = t && t->times ? t->counted.replaced + t->counted.unloads : 0;
	const uint64_t changes = gone ? gone + t->counted.analysed : 0; /* new code is in the place of old */

	if (changes == x->changes || x->process->end_ns || x->process->exec_ns != x->exec_ns)
		return;
	x->changes = changes;
	g->changing_until_ns = g->options.mono_ns() + CHANGING_NS;
}

bool generated_code_changes(const struct generated_code *g)
{
	return g->options.mono_ns() < g->changing_until_ns;
}

void generated_code_run(struct generated_code *g)
{
	struct map_node *n;

	map_for_each (&g->records, n, it) {
		struct record *x = container_of(n, struct record, node);
		unsigned left = 0;

		changes_see(g, x);
		machine_find(g, x);
		for (unsigned i = 0; i < x->n; i++)
			if (!request(g, x, i))
				x->addresses[left++] = x->addresses[i];
		x->n = left;
	}
}

void generated_code_stats(const struct generated_code *g, struct generated_code_stats *ret)
{
	*ret = (struct generated_code_stats){g->records.len, g->full};
}
