// SPDX-License-Identifier: Apache-2.0
/*
 * Random interleavings of everything that the publisher, the tables, the arena and the process table are
 * notified of (README.md). A world has a dozen processes, ten binaries and an arena with little room; it ends
 * after ten thousand steps, all of its memory must come back, and the next one begins.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/unwind/build.h"
#include "agent/unwind/list.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"
#include "tests/model/fakes.h"
#include "tests/model/oracle.h"

#define SEGMENTS 2u
#define WORLD_STEPS 10000u
#define PLACES 6u /* addresses at which processes map something */
#define PLACE_BYTES 0x10000u
#define PLACE(i) (0x7f0000000000ull + (i) * 2ull * PLACE_BYTES)
#define TICKETS 4u

struct model_process {
	struct process *process; /* NULL: not alive */
	bool promised;		 /* room was made for its list */
	uint64_t promised_maps, promised_version;
	uint32_t promised_change;
	unsigned promised_since; /* grace periods that had begun then */
};

struct world {
	void *segments[SEGMENTS];
	bool ballast[SEGMENTS];
	uint32_t room[SEGMENTS]; /* bytes that blocks may have of it */
	bool segment_fails;
	struct arena *arena;
	struct unwind_tables *tables;
	struct publisher *publisher;
	struct proc_table *table;
	struct oracle *oracle;
	struct model_process processes[PIDS];
	struct known_process known[PIDS];
	bool in_grace;
	unsigned graces_begun, graces_ended;
	uint64_t last_serial;
	bool ready; /* tables came */
};

static uint64_t seed_now;

static uint32_t any(uint32_t n)
{
	seed_now ^= seed_now << 13;
	seed_now ^= seed_now >> 7;
	seed_now ^= seed_now << 17;
	return (uint32_t)((seed_now >> 32) * n >> 32);
}

static bool chance(uint32_t percent)
{
	return any(100) < percent;
}

/* --- the world */

static int segment_make(void *data, uint32_t index, void **ret)
{
	struct world *w = data;

	if (w->segment_fails && index)
		return -ENOMEM;
	w->segments[index] = calloc(1, SEGMENT_VALUE);
	if (!w->segments[index])
		abort();
	*ret = w->segments[index];
	return 0;
}

static void on_ready(void *data)
{
	((struct world *)data)->ready = true;
}

struct longest {
	uint32_t segment, len;
};

static void longest_free(const struct arena_extent *e, void *data)
{
	struct longest *l = data;

	if (e->segment == l->segment && e->state == ARENA_FREE && e->len > l->len)
		l->len = e->len;
}

/* Takes most of a new segment, so that what is left is always full. */
static void ballast_add(struct world *w)
{
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct longest l = {.segment = i};
		struct arena_block b;

		if (w->ballast[i] || !w->segments[i])
			continue;
		w->ballast[i] = true;
		arena_each(w->arena, longest_free, &l);
		if (l.len <= w->room[i] ||
		    arena_alloc(w->arena, l.len - w->room[i], (struct arena_owner){ARENA_LIST, 0}, &b) < 0)
			continue;
		oracle_add_ballast(w->oracle, b.ref);
	}
}

/* Pids whose slots share two buckets, at the end of the process table. */
static void pids_choose(struct world *w)
{
	unsigned n = 0;

	for (uint32_t pid = 1; n < PIDS; pid++)
		if (pid * 2654435761u >> 20 >= PROCESS_BUCKETS - 2)
			w->known[n++].pid = pid;
}

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof *w);

	if (!w)
		abort();
	memset(&fake_registry, 0, sizeof fake_registry);
	w->room[0] = (2 + any(22)) * 1024;
	w->room[1] = any(16) * 1024;
	w->segment_fails = chance(30);
	if (arena_new(&w->arena, (chance(70) ? 1 : (size_t)SEGMENTS) * SEGMENT_BYTES, segment_make, w) < 0 ||
	    unwind_tables_new(&w->tables, &fake_registry, w->arena, NULL, on_ready, w) < 0 ||
	    publisher_new(&w->publisher, w->arena, w->tables) < 0 ||
	    proc_table_new(&w->table, PIDS, &fake_files) < 0)
		abort();
	w->oracle = oracle_new(w->arena, w->tables);
	pids_choose(w);
	ballast_add(w);
	return w;
}

/* --- notifications of the oracle */

static unsigned index_of(const struct world *w, const struct process *p)
{
	for (unsigned i = 0; i < PIDS; i++)
		if (w->processes[i].process == p)
			return i;
	abort();
}

static void snapshot_take(struct snapshot *s, const struct proc_maps *m)
{
	s->n = m->n;
	for (uint32_t i = 0; i < m->n; i++) {
		s->maps[i] = *proc_maps_at(m, i);
		s->serials[i] = s->maps[i].file <= FILES ? fake_registry.files[s->maps[i].file].serial : 0;
	}
}

static void process_changed(struct world *w, unsigned i)
{
	struct known_process *k = &w->known[i];

	snapshot_take(&k->versions[k->n_versions++], w->processes[i].process->maps);
	k->settled = false;
}

/* Its slot is empty: what it mapped before does not count any more. */
static void slot_gone(struct world *w, unsigned i)
{
	struct known_process *k = &w->known[i];

	k->published = k->settled = false;
	k->n_versions = 0;
	w->processes[i].promised = false;
	if (w->processes[i].process)
		snapshot_take(&k->versions[k->n_versions++], w->processes[i].process->maps);
}

/* --- processes */

static struct process *living(const struct world *w)
{
	return w->processes[any(PIDS)].process;
}

static void do_fork(struct world *w)
{
	unsigned i = any(PIDS);
	struct process *parent = living(w), *p;

	if (w->processes[i].process || proc_table_add(w->table, w->known[i].pid, 0, &p) < 0)
		return;
	p->image->selected = parent ? parent->image->selected : chance(80);
	if (parent) {
		proc_maps_unref(p->maps);
		p->maps = proc_maps_ref(parent->maps);
		p->save_stack = chance(50);
		proc_history_begin(p, publisher_generation(w->publisher),
				   publisher_list_generation(w->publisher, p->maps));
	}
	w->processes[i].process = p;
	slot_gone(w, i);
}

static void do_exit(struct world *w, struct process *p)
{
	unsigned i = index_of(w, p);

	publisher_remove(w->publisher, p);
	proc_table_end(w->table, p, fake_now_ns);
	w->processes[i].process = NULL;
	slot_gone(w, i);
}

/* Other mappings take the place of all that there are, as after execve or when /proc was read again. */
static void maps_replace(struct world *w, struct process *p, bool remember)
{
	struct proc_maps *empty;

	if (remember)
		(void)proc_history_add(p, fake_now_ns, publisher_generation(w->publisher));
	if (proc_maps_new(&empty, &fake_files) < 0)
		abort();
	proc_maps_unref(p->maps);
	p->maps = empty;
}

static void do_exec(struct world *w, struct process *p)
{
	maps_replace(w, p, chance(80));
	publisher_remove(w->publisher, p);
	slot_gone(w, index_of(w, p));
}

/* A file that is there, memory without one, or a file that is being opened. */
static uint32_t any_file(void)
{
	uint32_t file = any(FILES + 4);

	if (file > FILES)
		return chance(50) ? PROC_FILE_OPENING | (1 + any(TICKETS)) : PROC_FILE_NONE;
	return fake_registry.files[file].present ? file : PROC_FILE_NONE;
}

static struct proc_mapping any_mapping(void)
{
	uint32_t from = any(8), pages = 1 + any(16 - from);
	uint64_t start = PLACE(any(PLACES)) + from * 4096ull;

	return (struct proc_mapping){start, start + pages * 4096ull, TEXT_OFFSET + any(17 - pages) * 4096ull,
				     any_file()};
}

static void do_map(struct world *w, struct process *p)
{
	struct known_process *k = &w->known[index_of(w, p)];

	if (k->n_versions > VERSIONS - 4) { /* it was not published for long */
		do_exec(w, p);
		return;
	}
	if (chance(40))
		(void)proc_history_add(p, fake_now_ns, publisher_generation(w->publisher));
	if (p->maps->n > MAPS_MAX - 4 || chance(10)) {
		maps_replace(w, p, false); /* read again */
		for (unsigned n = any(4); n; n--)
			(void)proc_maps_insert(p->maps, any_mapping());
	} else if (proc_maps_own(p) < 0 || proc_maps_insert(p->maps, any_mapping()) < 0) {
		abort();
	}
	process_changed(w, index_of(w, p));
}

/* The last of its mappings are gone: unmapped, and the kernel does not say so before /proc is read again. */
static void do_unmap(struct world *w, struct process *p)
{
	struct proc_maps *before = p->maps;

	if (!before->n || w->known[index_of(w, p)].n_versions > VERSIONS - 4)
		return;
	proc_maps_ref(before);
	maps_replace(w, p, chance(40));
	for (uint32_t i = 0, n = any(before->n); i < n; i++)
		if (proc_maps_insert(p->maps, *proc_maps_at(before, i)) < 0)
			abort();
	proc_maps_unref(before);
	process_changed(w, index_of(w, p));
}

/* A file that was being opened is there, or is not, in every list that waits for it. */
static void do_resolve(struct world *w, struct process *p)
{
	uint32_t ticket = PROC_FILE_OPENING | (1 + any(TICKETS)), file = any_file();
	uint64_t versions[PIDS];

	if (file & PROC_FILE_OPENING)
		return;
	for (unsigned i = 0; i < PIDS; i++) {
		if (w->known[i].n_versions > VERSIONS - 4)
			return;
		versions[i] = w->processes[i].process ? w->processes[i].process->maps->version : 0;
	}
	proc_history_opened(p, ticket, file);
	(void)proc_maps_opened(p->maps, ticket, file);
	for (unsigned i = 0; i < PIDS; i++) { /* others may share what it has, or had */
		struct process *other = w->processes[i].process;

		if (!other || other == p)
			continue;
		proc_history_opened(other, ticket, file);
		(void)proc_maps_opened(other->maps, ticket, file);
	}
	for (unsigned i = 0; i < PIDS; i++)
		if (w->processes[i].process && w->processes[i].process->maps->version != versions[i])
			process_changed(w, i);
}

/* --- publication */

static struct unwind_tables_stats tables_stats(const struct world *w)
{
	struct unwind_tables_stats s;

	unwind_tables_stats(w->tables, &s);
	return s;
}

static uint32_t list_len(const struct world *w, const struct process *p)
{
	_cleanup_(list_entries_fini) struct list_entries l = {0};

	if (list_entries_make(&l, p->maps, w->tables) < 0)
		abort();
	return l.n ? (uint32_t)((list_bytes(l.n) + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN) : 0;
}

/* It found no room: either none can be made, or it was made, and comes with the next grace period. */
static const char *refused(struct world *w, struct model_process *m, uint64_t no_room, uint64_t evicted)
{
	struct process *p = m->process;
	bool same = m->promised && m->promised_maps == p->maps->id &&
		    m->promised_version == p->maps->version &&
		    m->promised_change == unwind_tables_change(w->tables);
	struct publish_stats stats;

	publisher_stats(w->publisher, &stats);
	if (stats.no_room != no_room) {
		m->promised = false;
		if (tables_stats(w).evicted != evicted)
			return "tables were evicted for a list, and it got no room";
		return oracle_room_exists(w->oracle, list_len(w, p), UINT64_MAX)
			       ? "a list got no room although eviction can make it"
			       : NULL;
	}
	if (same && w->graces_ended > m->promised_since)
		return "a list got no room although a grace period has passed since it was made";
	if (!same) {
		m->promised = true;
		m->promised_maps = p->maps->id;
		m->promised_version = p->maps->version;
		m->promised_change = unwind_tables_change(w->tables);
		m->promised_since = w->graces_begun;
	}
	return NULL;
}

static const char *do_put(struct world *w, struct process *p)
{
	unsigned i = index_of(w, p);
	struct known_process *k = &w->known[i];
	uint64_t evicted = tables_stats(w).evicted;
	struct publish_stats before;
	int r;

	publisher_stats(w->publisher, &before);
	r = publisher_put(w->publisher, p);
	if (r == -ENOSPC)
		return refused(w, &w->processes[i], before.no_room, evicted);
	if (r < 0)
		return "publisher_put failed";
	w->processes[i].promised = false;
	k->published = k->settled = true;
	k->selected = p->image->selected;
	k->stack = p->save_stack;
	k->tables_change = unwind_tables_change(w->tables);
	return NULL;
}

/* The query of the module that completes stacks in user space. */
static const char *do_query(struct world *w, struct process *p)
{
	uint32_t ref = publisher_list(w->publisher, p->maps);
	struct snapshot now;

	snapshot_take(&now, p->maps);
	return ref && !oracle_list_is(w->oracle, ref, &now)
		       ? "publisher_list: the list does not say the mappings"
		       : NULL;
}

/* --- binaries and their tables */

static void file_cut(struct fake_file *f)
{
	uint64_t va = TEXT_VA;

	f->n_blocks = 1 + any(FILE_BLOCKS);
	for (unsigned i = 0; i < f->n_blocks; i++) {
		f->blocks[i].va = va + any(2) * 4096;
		va += TEXT_BYTES / FILE_BLOCKS / 4096 * 4096;
		f->blocks[i].end = va;
		f->blocks[i].len = 64 + any(chance(20) ? 12000 : 2000);
	}
}

static void do_file(struct world *w)
{
	uint32_t i = 1 + any(FILES);
	struct fake_file *f = &fake_registry.files[i];

	if (f->present)
		return;
	*f = (struct fake_file){.present = true, .serial = ++w->last_serial};
	f->segment = (struct elf_segment){.va = TEXT_VA,
					  .offset = TEXT_OFFSET,
					  .file_bytes = TEXT_BYTES,
					  .mem_bytes = TEXT_BYTES,
					  .executable = true};
	f->binary = (struct binary){.index = i, .dev = i % 2, .segments = &f->segment, .n_segments = 1};
	file_cut(f);
	unwind_tables_add(w->tables, i);
}

/* The registry gives the place of a file that nothing refers to any more to another. */
static void do_forget(struct world *w)
{
	uint32_t i = 1 + any(FILES);

	if (!fake_registry.files[i].present || fake_registry.files[i].refs)
		return;
	unwind_tables_forget(w->tables, i);
	fake_registry.files[i].present = false;
}

/* A table that found no room, although it is one block, and tables that it may drive out leave it some. */
static const char *table_refused(struct world *w, uint32_t i, const struct unwind_tables_stats *before)
{
	const struct fake_file *f = &fake_registry.files[i];
	uint64_t used_ns = unwind_tables_get(w->tables, i)->last_used_ns,
		 idle_ns = fake_now_ns - 60 * NS_PER_SEC;

	if (tables_stats(w).no_room == before->no_room || f->n_blocks != 1)
		return NULL;
	if (tables_stats(w).evicted != before->evicted)
		return "tables were evicted for another, and it got no room";
	return oracle_room_exists(w->oracle, (f->blocks[0].len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN,
				  used_ns > idle_ns ? used_ns : idle_ns)
		       ? "a table got no room although eviction can make it"
		       : NULL;
}

/* A file whose job is with the workers; any where there is none. */
static uint32_t any_job(void)
{
	uint32_t first = any(FILES), i = 0;

	while (i < FILES && !fake_registry.files[1 + (first + i) % FILES].job)
		i++;
	return 1 + (first + i) % FILES;
}

/* A job comes back. */
static const char *do_built(struct world *w)
{
	uint32_t i = any_job();
	struct fake_file *f = &fake_registry.files[i];
	struct build_job *j = f->job;
	struct unwind_tables_stats before = tables_stats(w);

	if (!j)
		return NULL;
	if (chance(3) && unwind_tables_get(w->tables, i)->state == TABLE_BUILDING) {
		j->job.overdue(&j->job);
		return NULL;
	}
	f->job = NULL;
	if (chance(5))
		j->error = chance(50) ? -ENODATA : -EIO;
	else
		fake_job_fill(j);
	f->placing_since = w->graces_begun;
	j->job.done(&j->job, false);
	f->placing = unwind_tables_get(w->tables, i)->state == TABLE_BUILDING;
	return table_refused(w, i, &before);
}

static void do_touch(struct world *w)
{
	unwind_tables_touch(w->tables, 1 + any(FILES), fake_now_ns);
}

/* A caller reserves room, and gives it up. */
static void do_evict(struct world *w)
{
	struct arena_hold hold = {0};

	if (unwind_tables_make_room(w->tables, 64 + any(8000), &hold) == 0)
		arena_unhold(w->arena, &hold);
}

/* --- grace periods */

static const char *do_grace_end(struct world *w)
{
	const char *wrong;

	if (!w->in_grace)
		return NULL;
	arena_grace_end(w->arena);
	w->in_grace = false;
	w->graces_ended = w->graces_begun;
	wrong = oracle_grace_ended(w->oracle);
	if (wrong)
		return wrong;
	unwind_tables_retry(w->tables);
	for (uint32_t i = 1; i <= FILES; i++) {
		struct fake_file *f = &fake_registry.files[i];

		f->placing = f->placing && unwind_tables_get(w->tables, i)->state == TABLE_BUILDING;
		if (f->placing && w->graces_ended > f->placing_since)
			return "a table has no place although a grace period has passed since room was made";
	}
	return NULL;
}

static const char *do_grace_begin(struct world *w)
{
	if (w->in_grace)
		return arena_grace_begin(w->arena) ? "a grace period began while another one ran" : NULL;
	w->in_grace = arena_grace_begin(w->arena);
	if (!w->in_grace)
		return NULL;
	w->graces_begun++;
	oracle_grace_begins(w->oracle);
	return NULL;
}

/* --- steps */

static const char *process_step(struct world *w, unsigned what)
{
	struct process *p = living(w);

	if (!p) {
		do_fork(w);
		return NULL;
	}
	if (what < 28)
		return do_put(w, p);
	if (what < 40)
		do_map(w, p);
	else if (what < 42)
		do_unmap(w, p);
	else if (what < 48)
		do_fork(w);
	else if (what < 51)
		do_exec(w, p);
	else if (what < 54)
		do_exit(w, p);
	else if (what < 57)
		do_resolve(w, p);
	else if (what < 59)
		proc_history_forget(p, fake_now_ns - any(20) * NS_PER_MS);
	else if (what < 61) {
		p->image->selected = !p->image->selected;
		w->known[index_of(w, p)].settled = false;
	} else if (what < 63) {
		p->save_stack = !p->save_stack;
		w->known[index_of(w, p)].settled = false;
	} else {
		return do_query(w, p);
	}
	return NULL;
}

static const char *world_step(struct world *w)
{
	unsigned what = any(100);

	fake_now_ns += any(2 * NS_PER_MS) + (chance(1) ? any(20) * NS_PER_SEC : 0);
	if (what < 65)
		return process_step(w, what);
	if (what < 72)
		return do_built(w);
	if (what < 78)
		do_touch(w);
	else if (what < 80)
		do_file(w);
	else if (what < 82)
		do_forget(w);
	else if (what < 85)
		unwind_tables_pump(w->tables);
	else if (what < 86)
		do_evict(w);
	else if (what < 92)
		return do_grace_begin(w);
	else if (what < 98)
		return do_grace_end(w);
	else if (what < 99)
		proc_table_reap(w->table, fake_now_ns - any(20) * NS_PER_MS);
	else if (chance(50))
		w->segment_fails = chance(30);
	else
		fake_workers_full = chance(10);
	return NULL;
}

static const char *checked_step(struct world *w, bool full)
{
	const char *wrong = world_step(w);

	ballast_add(w);
	return wrong ?: oracle_check(w->oracle, w->known, full);
}

/* Everybody goes: only the ballast stays in use. */
static const char *world_end(struct world *w)
{
	struct arena_stats s;
	size_t ballast = 0;
	const char *wrong = NULL;

	for (unsigned i = 0; i < PIDS && !wrong; i++) {
		if (w->processes[i].process)
			do_exit(w, w->processes[i].process);
		wrong = oracle_check(w->oracle, w->known, true);
	}
	proc_table_reap(w->table, UINT64_MAX);
	for (uint32_t i = 1; i <= FILES; i++) {
		struct build_job *j = TAKE_PTR(fake_registry.files[i].job);

		if (j)
			j->job.done(&j->job, true);
	}
	for (int i = 0; i < 3 && !wrong; i++) {
		wrong = do_grace_end(w) ?: do_grace_begin(w);
	}
	if (!wrong && w->in_grace)
		wrong = do_grace_end(w);
	for (uint32_t i = 1; i <= FILES; i++) {
		if (!wrong && fake_registry.files[i].refs)
			wrong = "a file is held, and nobody is there who may hold it";
		unwind_tables_forget(w->tables, i);
	}
	for (int i = 0; i < 2; i++) {
		(void)do_grace_begin(w);
		(void)do_grace_end(w);
	}
	arena_stats(w->arena, &s);
	for (uint32_t i = 0; i < SEGMENTS; i++)
		ballast += w->ballast[i];
	if (!wrong && (s.retired_bytes || s.held_bytes || (s.used_bytes > 0) != (ballast > 0)))
		wrong = "something is left in the arena";
	return wrong ?: oracle_check(w->oracle, w->known, true);
}

static void world_free(struct world *w)
{
	proc_table_free(w->table);
	publisher_free(w->publisher);
	unwind_tables_free(w->tables);
	arena_free(w->arena);
	oracle_free(w->oracle);
	for (uint32_t i = 0; i < SEGMENTS; i++)
		free(w->segments[i]);
	free(w);
}

struct totals {
	uint64_t lists, withdrawn, no_room, evicted, built;
};

static void totals_add(struct totals *t, const struct world *w)
{
	struct publish_stats p;
	struct unwind_tables_stats s;

	publisher_stats(w->publisher, &p);
	unwind_tables_stats(w->tables, &s);
	t->lists += p.lists;
	t->withdrawn += p.withdrawn;
	t->no_room += p.no_room;
	t->evicted += s.evicted;
	t->built += s.built;
}

static int run(uint64_t steps, uint64_t seed)
{
	struct totals t = {0};
	const char *wrong = NULL;
	uint64_t step = 0;

	seed_now = seed * 0x9e3779b97f4a7c15ull + 1;
	fake_now_ns = 1000 * NS_PER_SEC;
	while (step < steps && !wrong) {
		struct world *w = world_new();

		for (uint32_t i = 0; i < WORLD_STEPS && step < steps && !wrong; i++, step++)
			wrong = checked_step(w, i % 1024 == 0);
		if (!wrong)
			wrong = world_end(w);
		if (wrong) /* the text may be the oracle's */
			printf("seed %" PRIu64 ", step %" PRIu64 ": %s\n", seed, step, wrong);
		totals_add(&t, w);
		world_free(w);
	}
	printf("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " lists, %" PRIu64 " tables built, %" PRIu64
	       " evicted, %" PRIu64 " entries withdrawn, %" PRIu64 " lists without room\n",
	       seed, step, t.lists, t.built, t.evicted, t.withdrawn, t.no_room);
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	uint64_t steps = 1000000, seed = 1;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
			steps = strtoull(argv[i + 1], NULL, 10);
		} else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
			seed = strtoull(argv[i + 1], NULL, 10);
		} else {
			fprintf(stderr, "usage: publish_model [--steps N] [--seed S]\n");
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return run(steps, seed);
}
