// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/pool.h"

#define FIRST_TIMES 2u

struct sample_aggregate {
	void (*hold)(void *owner);
	void (*release)(void *owner);
	bool by_cpu;
	struct map stacks, entries;
	struct sample_entry *first, **tail;
	struct pool pool; /* of stacks, entries and their times */
	size_t bytes, max_bytes, n_samples;
};

int sample_aggregate_new(struct sample_aggregate **ret, size_t max_bytes, bool by_cpu,
			 void (*hold)(void *owner), void (*release)(void *owner))
{
	struct sample_aggregate *a = calloc(1, sizeof *a);

	if (!a)
		return -ENOMEM;
	a->hold = hold;
	a->release = release;
	a->max_bytes = max_bytes;
	a->by_cpu = by_cpu;
	a->tail = &a->first;
	map_init(&a->stacks, SIZE_MAX); /* the bytes are the bound */
	map_init(&a->entries, SIZE_MAX);
	*ret = a;
	return 0;
}

void sample_aggregate_free(struct sample_aggregate *a)
{
	if (!a)
		return;
	sample_aggregate_clear(a);
	free(a);
}

void sample_aggregate_clear(struct sample_aggregate *a)
{
	for (struct sample_entry *e = a->first; e; e = e->next)
		a->release(e->owner);
	pool_fini(&a->pool);
	map_fini(&a->stacks);
	map_fini(&a->entries);
	a->first = NULL;
	a->tail = &a->first;
	a->bytes = a->n_samples = 0;
}

static bool stack_is(const struct map_node *node, const void *key)
{
	const struct sample_stack *s = container_of(node, struct sample_stack, node);
	const struct sample_view *v = key;

	return s->n_kernel == v->n_kernel && s->n_user == v->n_user && s->ending == v->ending &&
	       memcmp(s->frames, v->frames, (size_t)(v->n_kernel + v->n_user) * 8) == 0;
}

/* Takes `bytes` of the budget. */
static int charge(struct sample_aggregate *a, size_t bytes)
{
	if (a->bytes + bytes > a->max_bytes)
		return -ENOSPC;
	a->bytes += bytes;
	return 0;
}

static int stack_intern(struct sample_aggregate *a, const struct sample_view *v,
			const struct sample_stack **ret)
{
	size_t bytes = (size_t)(v->n_kernel + v->n_user) * 8;
	uint64_t hash = hash_bytes(v->frames, bytes) ^ hash_u64(v->n_kernel) ^ (uint64_t)v->ending;
	struct map_node *n = map_find(&a->stacks, hash, stack_is, v);
	struct sample_stack *s;
	int r;

	if (n) {
		*ret = container_of(n, struct sample_stack, node);
		return 0;
	}
	r = charge(a, sizeof *s + bytes);
	if (r < 0)
		return r;
	s = pool_take(&a->pool, sizeof *s + bytes);
	if (!s)
		return -ENOMEM;
	*s = (struct sample_stack){.ending = v->ending, .n_kernel = v->n_kernel, .n_user = v->n_user};
	memcpy(s->frames, v->frames, bytes);
	r = map_insert(&a->stacks, &s->node, hash);
	if (r < 0)
		return r;
	*ret = s;
	return 0;
}

struct entry_key {
	const void *owner;
	const struct sample_stack *stack;
	uint32_t tid;
	uint16_t cpu;
	union {
		char name[SAMPLE_THREAD_NAME_LEN];
		uint64_t words[SAMPLE_THREAD_NAME_LEN / 8];
	} thread;
};

static bool entry_is(const struct map_node *node, const void *key)
{
	const struct sample_entry *e = container_of(node, struct sample_entry, node);
	const struct entry_key *k = key;

	return e->owner == k->owner && e->stack == k->stack && e->tid == k->tid && e->cpu == k->cpu &&
	       memcmp(e->thread, k->thread.name, sizeof e->thread) == 0;
}

static int entry_find(struct sample_aggregate *a, const struct entry_key *k, struct sample_entry **ret)
{
	uint64_t hash = hash_u64((uintptr_t)k->owner ^
				 hash_u64((uintptr_t)k->stack ^ (uint64_t)k->tid << 24 ^ k->cpu ^
					  hash_u64(k->thread.words[0] ^ k->thread.words[1] << 1)));
	struct map_node *n = map_find(&a->entries, hash, entry_is, k);
	struct sample_entry *e;
	int r;

	if (n) {
		*ret = container_of(n, struct sample_entry, node);
		return 0;
	}
	r = charge(a, sizeof *e);
	if (r < 0)
		return r;
	e = pool_take(&a->pool, sizeof *e);
	if (!e)
		return -ENOMEM;
	*e = (struct sample_entry){
		.owner = (void *)k->owner, .stack = k->stack, .tid = k->tid, .cpu = k->cpu};
	memcpy(e->thread, k->thread.name, sizeof e->thread);
	r = map_insert(&a->entries, &e->node, hash);
	if (r < 0)
		return r;
	a->hold(e->owner);
	*a->tail = e;
	a->tail = &e->next;
	*ret = e;
	return 0;
}

/* Times that are outgrown stay in the pool: together they are no more than those in use. */
static int time_append(struct sample_aggregate *a, struct sample_entry *e, uint64_t time_ns)
{
	if (e->n == e->cap) {
		uint32_t cap = e->cap ? e->cap * 2 : FIRST_TIMES;
		uint64_t *more;
		int r = charge(a, cap * sizeof *more);

		if (r < 0)
			return r;
		more = pool_take(&a->pool, cap * sizeof *more);
		if (!more)
			return -ENOMEM;
		if (e->n)
			memcpy(more, e->times_ns, e->n * sizeof *more);
		e->times_ns = more;
		e->cap = cap;
	}
	e->times_ns[e->n++] = time_ns;
	return 0;
}

int sample_aggregate_add(struct sample_aggregate *a, void *owner, const char *thread,
			 const struct sample_view *v)
{
	struct entry_key key = {.owner = owner, .tid = v->tid, .cpu = a->by_cpu ? v->cpu : 0};
	struct sample_entry *e;
	int r = stack_intern(a, v, &key.stack);

	memcpy(key.thread.name, thread, strnlen(thread, sizeof key.thread.name - 1));
	if (r == 0)
		r = entry_find(a, &key, &e);
	if (r == 0)
		r = time_append(a, e, v->time_ns);
	if (r == 0)
		a->n_samples++;
	return r;
}

const struct sample_entry *sample_aggregate_entries(const struct sample_aggregate *a)
{
	return a->first;
}

size_t sample_aggregate_samples(const struct sample_aggregate *a)
{
	return a->n_samples;
}

size_t sample_aggregate_stacks(const struct sample_aggregate *a)
{
	return a->stacks.len;
}
