// SPDX-License-Identifier: Apache-2.0
#include "tests/model/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/abi.h"
#include "tests/model/fakes.h"

#define EXTENTS_MAX 1024u
#define SEEN_MAX 1024u
#define SEEN_INDEX 2048u /* power of two */
#define GENERATIONS 1024u
#define SLOTS (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS)
#define HOME_FIRST (SLOTS - 2 * PROCESS_BUCKET_SLOTS) /* where the model's pids belong, round the end */
#define HOME_SLOTS (8 * PROCESS_BUCKET_SLOTS)

/* A block that a program may have reached. */
struct seen {
	uint32_t ref, len, generation;
	uint64_t serial; /* of the table's file; 0: a list */
	uint64_t last_step;
};

struct oracle {
	const struct arena *arena;
	const struct unwind_tables *tables;
	uint32_t ballast[8];
	unsigned n_ballast;
	struct arena_extent extents[EXTENTS_MAX];
	uint16_t uses[EXTENTS_MAX]; /* names that lead to it */
	size_t n_extents;
	uint64_t step;
	uint64_t begun, ended; /* steps: the grace period that runs began; the last that ended had begun */
	struct seen seen[SEEN_MAX];
	size_t n_seen;
	uint16_t seen_index[SEEN_INDEX]; /* by ref: place in seen[] + 1 */
	struct {
		uint32_t generation, ref;
		uint64_t step;
	} generations[GENERATIONS]; /* of the blocks reached last, by their low bits */
	char text[256];
};

#define WRONG(o, ...) (snprintf((o)->text, sizeof(o)->text, __VA_ARGS__), (o)->text)
#define CHECK(call)                      \
	do {                             \
		const char *w_ = (call); \
		if (w_)                  \
			return w_;       \
	} while (0)

struct oracle *oracle_new(const struct arena *arena, const struct unwind_tables *tables)
{
	struct oracle *o = calloc(1, sizeof *o);

	if (!o)
		abort();
	o->arena = arena;
	o->tables = tables;
	return o;
}

void oracle_free(struct oracle *o)
{
	free(o);
}

void oracle_add_ballast(struct oracle *o, uint32_t ref)
{
	o->ballast[o->n_ballast++] = ref;
}

void oracle_grace_begins(struct oracle *o)
{
	o->begun = o->step;
}

/* --- the account */

static void account_add(const struct arena_extent *e, void *data)
{
	struct oracle *o = data;

	if (o->n_extents == EXTENTS_MAX)
		abort();
	o->extents[o->n_extents++] = *e;
}

static const char *account_check(struct oracle *o)
{
	struct arena_stats s;
	size_t sums[3] = {0}, held = 0;
	uint32_t segment = 0, at = PROCESS_TABLE_BYTES;

	o->n_extents = 0;
	arena_each(o->arena, account_add, o);
	memset(o->uses, 0, o->n_extents * sizeof o->uses[0]);
	for (size_t i = 0; i < o->n_extents; i++) {
		const struct arena_extent *e = &o->extents[i];

		if (e->segment != segment && at == SEGMENT_BYTES) {
			segment++;
			at = 0;
		}
		if (e->segment != segment || e->offset != at || !e->len || e->len % REF_ALIGN)
			return WRONG(o, "account: segment %u is not covered at %#x", segment, at);
		at += e->len;
		sums[e->state] += e->len;
		held += e->held && e->state == ARENA_FREE ? e->len : 0;
	}
	arena_stats(o->arena, &s);
	if (at != SEGMENT_BYTES || sums[ARENA_USED] != s.used_bytes ||
	    sums[ARENA_RETIRED] != s.retired_bytes || sums[ARENA_FREE] != s.free_bytes ||
	    held != s.held_bytes || s.used_bytes + s.retired_bytes + s.free_bytes != s.total_bytes)
		return WRONG(o, "account: used %zu + retired %zu + free %zu, total %zu", s.used_bytes,
			     s.retired_bytes, s.free_bytes, s.total_bytes);
	return NULL;
}

/* The extent that begins with the block; NULL: none does. */
static const struct arena_extent *extent_of(const struct oracle *o, uint32_t ref)
{
	uint32_t segment = ref >> REF_OFFSET_BITS, offset = (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;
	size_t lo = 0, hi = o->n_extents;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct arena_extent *e = &o->extents[mid];

		if (e->segment < segment || (e->segment == segment && e->offset < offset))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == o->n_extents || o->extents[lo].segment != segment || o->extents[lo].offset != offset)
		return NULL;
	return &o->extents[lo];
}

/* --- blocks that programs may be reading */

static const uint8_t *memory_at(const struct oracle *o, uint32_t ref)
{
	const uint8_t *segment = arena_segment(o->arena, ref >> REF_OFFSET_BITS);

	return segment + (size_t)(ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;
}

static uint32_t generation_at(const struct oracle *o, uint32_t ref)
{
	uint32_t generation;

	memcpy(&generation, memory_at(o, ref) + BLOCK_GENERATION, sizeof generation);
	return generation;
}

static struct fake_mark mark_at(const struct oracle *o, uint32_t ref)
{
	struct fake_mark mark;

	memcpy(&mark, memory_at(o, ref) + sizeof(struct unwind_table), sizeof mark);
	return mark;
}

/* No two blocks that can be reached have the same generation. */
static const char *generation_check(struct oracle *o, uint32_t ref)
{
	uint32_t generation = generation_at(o, ref), i = generation % GENERATIONS;

	if (o->generations[i].step == o->step && o->generations[i].generation == generation &&
	    o->generations[i].ref != ref)
		return WRONG(o, "blocks %#x and %#x have the same generation", ref, o->generations[i].ref);
	o->generations[i].generation = generation;
	o->generations[i].ref = ref;
	o->generations[i].step = o->step;
	return NULL;
}

/* Where the ref's place in seen[] stands, or is to be put. */
static uint16_t *seen_place(struct oracle *o, uint32_t ref)
{
	uint32_t i = ref * 2654435761u >> 21;

	while (o->seen_index[i] && o->seen[o->seen_index[i] - 1].ref != ref)
		i = (i + 1) % SEEN_INDEX;
	return &o->seen_index[i];
}

static const char *see(struct oracle *o, const struct arena_extent *e, uint32_t ref, uint64_t serial)
{
	struct seen now = {ref, e->len, generation_at(o, ref), serial, o->step}, *s;
	uint16_t *place = seen_place(o, ref);

	CHECK(generation_check(o, ref));
	if (!*place) {
		if (o->n_seen == SEEN_MAX)
			abort();
		o->seen[o->n_seen] = now;
		*place = (uint16_t)++o->n_seen;
		return NULL;
	}
	s = &o->seen[*place - 1];
	if (s->last_step != o->step && s->last_step >= o->ended &&
	    (s->len != now.len || s->generation != now.generation || s->serial != serial))
		return WRONG(o, "block %#x was used again before a grace period had ended", ref);
	*s = now;
	return NULL;
}

/* What was reachable after the last ended grace period began is still as it was. */
static const char *seen_check(struct oracle *o)
{
	for (size_t i = 0; i < o->n_seen; i++) {
		const struct seen *s = &o->seen[i];
		const struct arena_extent *e;

		if (s->last_step == o->step || s->last_step < o->ended)
			continue;
		e = extent_of(o, s->ref);
		if (!e || e->len != s->len || e->state == ARENA_FREE ||
		    generation_at(o, s->ref) != s->generation ||
		    (s->serial && mark_at(o, s->ref).serial != s->serial))
			return WRONG(o, "block %#x has changed while programs may read it", s->ref);
	}
	return NULL;
}

/* Whether the block is part of a free stretch. */
static bool is_free(const struct oracle *o, uint32_t ref)
{
	uint32_t segment = ref >> REF_OFFSET_BITS, offset = (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;

	for (size_t i = 0; i < o->n_extents; i++) {
		const struct arena_extent *e = &o->extents[i];

		if (e->segment == segment && e->offset <= offset && offset < e->offset + e->len)
			return e->state == ARENA_FREE;
	}
	return false;
}

const char *oracle_grace_ended(struct oracle *o)
{
	size_t n = o->n_seen;

	CHECK(account_check(o));
	o->ended = o->begun;
	o->n_seen = 0;
	memset(o->seen_index, 0, sizeof o->seen_index);
	for (size_t i = 0; i < n; i++) {
		uint16_t *place;

		if (o->seen[i].last_step < o->ended) {
			if (is_free(o, o->seen[i].ref) &&
			    generation_at(o, o->seen[i].ref) == o->seen[i].generation)
				return WRONG(o, "block %#x is free, and has its generation still",
					     o->seen[i].ref);
			continue;
		}
		o->seen[o->n_seen] = o->seen[i];
		place = seen_place(o, o->seen[i].ref);
		*place = (uint16_t)++o->n_seen;
	}
	return NULL;
}

/* --- tables and lists */

static const char *table_check(struct oracle *o, const struct mapping_entry *m)
{
	const struct arena_extent *e = extent_of(o, m->table);
	const struct unwind_table *t;
	struct fake_mark mark;
	uint64_t from = m->start - m->bias, to = m->end - m->bias;

	if (!e || e->state != ARENA_USED)
		return WRONG(o, "an entry of file %u names table %#x, which is not in use", m->file,
			     m->table);
	if (e->owner.kind != ARENA_TABLE || e->owner.id != m->file)
		return WRONG(o, "an entry of file %u names block %#x of another owner", m->file, m->table);
	if ((uint16_t)generation_at(o, m->table) != m->generation)
		return WRONG(o, "an entry of file %u names table %#x with another generation", m->file,
			     m->table);
	t = (const struct unwind_table *)memory_at(o, m->table);
	mark = mark_at(o, m->table);
	if (mark.file != m->file || mark.serial != fake_registry.files[m->file].serial)
		return WRONG(o, "an entry of file %u names the table of another", m->file);
	if (from < t->va || to > t->va + ((uint64_t)t->n_pages << PAGE_SHIFT_ROWS))
		return WRONG(o, "an entry of file %u goes beyond its table", m->file);
	o->uses[e - o->extents]++;
	return see(o, e, m->table, mark.serial);
}

static const struct mapping_entry *entries_of(const struct mapping_list *l)
{
	return (const struct mapping_entry *)((const uint8_t *)l + l->entries);
}

/* Passes over the entries of one mapping; 0: they are not what it is. */
static uint32_t match_mapping(const struct mapping_entry *e, uint32_t n, const struct proc_mapping *m,
			      uint64_t serial)
{
	uint64_t at = m->start;
	uint32_t i = 0;

	if (m->file == PROC_FILE_NONE || m->file & PROC_FILE_OPENING)
		return n && e->start == m->start && e->end == m->end && !e->bias &&
		       e->file == FILE_ANONYMOUS &&
		       e->table == (m->file & PROC_FILE_OPENING ? TABLE_PENDING : TABLE_NEVER);
	if (fake_registry.files[m->file].serial != serial)
		return 0;
	for (; i < n && at < m->end; i++) {
		if (e[i].start != at || e[i].file != m->file || e[i].end > m->end ||
		    e[i].bias != m->start - m->offset - (TEXT_VA - TEXT_OFFSET))
			return 0;
		at = e[i].end;
	}
	return at == m->end ? i : 0;
}

static bool match_list(const struct mapping_entry *e, uint32_t n, const struct snapshot *s)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t used = match_mapping(e + at, n - at, &s->maps[i], s->serials[i]);

		if (!used)
			return false;
		at += used;
	}
	return at == n;
}

bool oracle_list_is(struct oracle *o, uint32_t ref, const struct snapshot *s)
{
	const struct mapping_list *l = ref ? (const struct mapping_list *)memory_at(o, ref) : NULL;

	return match_list(l ? entries_of(l) : NULL, l ? l->n : 0, s);
}

/* Does some entry of the list name the block? */
static bool names(const struct mapping_list *l, uint16_t file, uint32_t ref)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (entries_of(l)[i].file == file && entries_of(l)[i].table == ref)
			return true;
	return false;
}

/* Every table that is ready is named where its file is mapped. */
static const char *tables_named(struct oracle *o, const struct mapping_list *l, const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct proc_mapping *m = &s->maps[i];
		const struct binary_table *t = unwind_tables_get(o->tables, m->file);
		uint64_t from = m->offset + (TEXT_VA - TEXT_OFFSET), to = from + (m->end - m->start);

		for (size_t k = 0; t && t->state == TABLE_READY && k < t->n_placed; k++)
			if (t->placed[k].va < to && t->placed[k].end > from &&
			    !names(l, (uint16_t)m->file, t->placed[k].block.ref))
				return WRONG(o,
					     "a list lacks a table of file %u, although nothing has changed",
					     m->file);
	}
	return NULL;
}

static const char *list_check(struct oracle *o, uint32_t ref)
{
	const struct arena_extent *e = extent_of(o, ref);
	const struct mapping_list *l = (const struct mapping_list *)memory_at(o, ref);

	if (!e || e->state != ARENA_USED)
		return WRONG(o, "a slot names list %#x, which is not in use", ref);
	if (e->owner.kind != ARENA_LIST || !e->owner.id)
		return WRONG(o, "a slot names block %#x, which is no list", ref);
	if (o->uses[e - o->extents]++)
		return NULL; /* a fork's: looked at already */
	if (!l->n || l->n > l->top * 2 || l->entries + l->n * sizeof(struct mapping_entry) > e->len)
		return WRONG(o, "list %#x has a bad header", ref);
	CHECK(see(o, e, ref, 0));
	for (uint32_t i = 0; i < l->n; i++)
		if (entries_of(l)[i].table > TABLE_PENDING)
			CHECK(table_check(o, &entries_of(l)[i]));
	return NULL;
}

/* --- the process table */

static struct known_process *process_of(struct known_process *processes, uint32_t pid)
{
	for (unsigned i = 0; i < PIDS; i++)
		if (processes[i].pid == pid)
			return &processes[i];
	return NULL;
}

/* The list is one of those that the process may have; the ones before it are out. */
static const char *version_check(struct oracle *o, struct known_process *p, uint32_t ref)
{
	const struct mapping_list *l = ref ? (const struct mapping_list *)memory_at(o, ref) : NULL;
	const struct mapping_entry *e = l ? entries_of(l) : NULL;
	uint32_t i = 0;

	while (i < p->n_versions && !match_list(e, l ? l->n : 0, &p->versions[i]))
		i++;
	if (i == p->n_versions)
		return WRONG(o, "the list of pid %u says what it has not mapped since it was published",
			     p->pid);
	if (i) {
		p->n_versions -= i;
		memmove(p->versions, p->versions + i, p->n_versions * sizeof p->versions[0]);
	}
	return NULL;
}

static const char *settled_check(struct oracle *o, const struct known_process *p, uint32_t word)
{
	const struct snapshot *now = &p->versions[p->n_versions - 1];
	uint32_t ref = word & SLOT_LIST_MASK;
	const struct mapping_list *l = ref ? (const struct mapping_list *)memory_at(o, ref) : NULL;

	if (!oracle_list_is(o, ref, now))
		return WRONG(o, "the list of pid %u does not say what was just published", p->pid);
	if (!!(word & PROCESS_STACK) != p->stack || (l && !(l->flags & LIST_SKIP) != p->selected))
		return WRONG(o, "the slot of pid %u does not say what was just published", p->pid);
	return l && p->tables_change == unwind_tables_change(o->tables) ? tables_named(o, l, now) : NULL;
}

static const char *slot_check(struct oracle *o, struct known_process *processes,
			      const struct process_slot *slot, unsigned *n_slots)
{
	uint32_t word = slot->list, ref = word & SLOT_LIST_MASK;
	struct known_process *p;

	if (!slot->pid || slot->pid == PROCESS_PID_DELETED)
		return word ? WRONG(o, "an empty slot names a list") : NULL;
	p = process_of(processes, slot->pid);
	++*n_slots;
	if (!p || !p->published)
		return WRONG(o, "pid %u has a slot and should have none", slot->pid);
	if (ref) {
		CHECK(list_check(o, ref));
		if ((generation_at(o, ref) & SLOT_GENERATION_MASK) !=
		    (word >> SLOT_GENERATION_SHIFT & SLOT_GENERATION_MASK))
			return WRONG(o, "pid %u: another generation than its list's", slot->pid);
	}
	CHECK(version_check(o, p, ref));
	return p->settled ? settled_check(o, p, word) : NULL;
}

/* As the BPF program looks for it. */
static bool is_found(const struct process_slot *slots, uint32_t pid)
{
	uint32_t bucket = pid * 2654435761u >> 20;

	for (uint32_t i = 0; i < PROCESS_PROBES * PROCESS_BUCKET_SLOTS; i++) {
		const struct process_slot *s = &slots[(bucket * PROCESS_BUCKET_SLOTS + i) % SLOTS];

		if (s->pid == pid)
			return true;
		if (!s->pid)
			return false;
	}
	return false;
}

static const char *process_table_check(struct oracle *o, struct known_process *processes, bool full)
{
	const struct process_slot *slots = arena_process_table(o->arena);
	unsigned n_slots = 0, published = 0;

	for (uint32_t i = 0; i < (full ? SLOTS : HOME_SLOTS); i++)
		CHECK(slot_check(o, processes, &slots[(HOME_FIRST + i) % SLOTS], &n_slots));
	for (unsigned i = 0; i < PIDS; i++) {
		published += processes[i].published;
		if (processes[i].published && !is_found(slots, processes[i].pid))
			return WRONG(o, "pid %u is not found in the process table", processes[i].pid);
	}
	return n_slots == published ? NULL : WRONG(o, "%u slots for %u processes", n_slots, published);
}

/* --- owners */

static bool is_placed(const struct oracle *o, const struct arena_extent *e, uint32_t ref)
{
	const struct binary_table *t = unwind_tables_get(o->tables, (uint32_t)e->owner.id);

	if (t && fake_registry.files[e->owner.id].placing)
		return true; /* not published yet */
	for (size_t i = 0; t && t->state == TABLE_READY && i < t->n_placed; i++)
		if (t->placed[i].block.ref == ref && t->placed[i].block.len == e->len)
			return true;
	return false;
}

static const char *owners_check(struct oracle *o)
{
	for (size_t i = 0; i < o->n_extents; i++) {
		const struct arena_extent *e = &o->extents[i];
		uint32_t ref = e->segment << REF_OFFSET_BITS | e->offset / REF_ALIGN;
		bool owned = o->uses[i] > 0;

		if (e->state != ARENA_USED)
			continue;
		if (e->owner.kind == ARENA_TABLE)
			owned = is_placed(o, e, ref);
		for (unsigned k = 0; k < o->n_ballast && !owned; k++)
			owned = o->ballast[k] == ref;
		if (!owned)
			return WRONG(o, "block %#x of %s %lu is in use, and nobody's", ref,
				     e->owner.kind == ARENA_TABLE ? "file" : "list",
				     (unsigned long)e->owner.id);
	}
	for (uint32_t f = 1; f <= FILES; f++) {
		const struct binary_table *t = unwind_tables_get(o->tables, f);

		for (size_t k = 0; t && k < t->n_placed; k++) {
			const struct arena_extent *e = extent_of(o, t->placed[k].block.ref);

			if (!e || e->state != ARENA_USED || e->owner.kind != ARENA_TABLE || e->owner.id != f)
				return WRONG(o, "file %u has a table in block %#x, which is not its own", f,
					     t->placed[k].block.ref);
		}
	}
	return NULL;
}

bool oracle_room_exists(const struct oracle *o, uint32_t len, uint64_t before_ns)
{
	uint64_t run = 0;
	uint32_t segment = 0;

	for (size_t i = 0; i < o->n_extents; i++) {
		const struct arena_extent *e = &o->extents[i];
		bool usable = !e->held;

		if (e->state == ARENA_USED) {
			const struct binary_table *t =
				e->owner.kind == ARENA_TABLE
					? unwind_tables_get(o->tables, (uint32_t)e->owner.id)
					: NULL;

			usable = usable && t && t->state == TABLE_READY && t->last_used_ns < before_ns;
		}
		run = usable ? (e->segment == segment ? run : 0) + e->len : 0;
		segment = e->segment;
		if (run >= len)
			return true;
	}
	return false;
}

const char *oracle_check(struct oracle *o, struct known_process *processes, bool full)
{
	o->step++;
	CHECK(account_check(o));
	CHECK(process_table_check(o, processes, full));
	CHECK(seen_check(o));
	return owners_check(o);
}
