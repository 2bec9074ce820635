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
	struct pool pool; /* memory of stacks, entries and their times */
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
	map_init(&a->stacks, SIZE_MAX); /* max_bytes limits it, not the number of stacks */
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
	       s->ending_detail == v->ending_detail &&
	       memcmp(s->frames, v->frames, (size_t)(v->n_kernel + v->n_user) * 8) == 0;
}

/* Reserves `bytes` of the budget. False: less is left. */
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
	uint64_t ending = (uint64_t)v->ending_detail << 8 | (uint64_t)v->ending;
	uint64_t hash = hash_bytes(v->frames, bytes) ^ hash_u64(v->n_kernel) ^ ending;
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
	*s = (struct sample_stack){.ending = v->ending,
				   .ending_detail = v->ending_detail,
				   .n_kernel = v->n_kernel,
				   .n_user = v->n_user};
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
	const struct sample_context *context; /* NULL: none */
	const char *task;		      /* NULL: none */
	uint32_t tid;
	uint16_t cpu, origin;
	union {
		char name[SAMPLE_THREAD_NAME_LEN];
		uint64_t words[SAMPLE_THREAD_NAME_LEN / 8];
	} thread;
};

static bool same_context(const struct sample_context *a, const struct sample_context *b)
{
	return a == b || (a && b && memcmp(a, b, sizeof *a) == 0);
}

static bool same_task(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool entry_is(const struct map_node *node, const void *key)
{
	const struct sample_entry *e = container_of(node, struct sample_entry, node);
	const struct entry_key *k = key;

	return e->owner == k->owner && e->stack == k->stack && e->tid == k->tid && e->cpu == k->cpu &&
	       e->origin == k->origin && memcmp(e->thread, k->thread.name, sizeof e->thread) == 0 &&
	       same_context(e->context, k->context) && same_task(e->task, k->task);
}

static uint64_t entry_hash(const struct entry_key *k)
{
	uint64_t number = (uint64_t)k->tid << 24 ^ k->cpu ^ (uint64_t)k->origin << 48;
	uint64_t name = hash_u64(k->thread.words[0] ^ k->thread.words[1] << 1);
	uint64_t context = k->context ? hash_bytes(k->context, sizeof *k->context) : 0;

	if (k->task)
		context ^= hash_bytes(k->task, strlen(k->task));
	return hash_u64((uintptr_t)k->owner ^ context ^ hash_u64((uintptr_t)k->stack ^ number ^ name));
}

static int entry_find(struct sample_aggregate *a, const struct entry_key *k, struct sample_entry **ret)
{
	const size_t context = k->context ? sizeof *k->context : 0, task = k->task ? strlen(k->task) + 1 : 0;
	const size_t bytes = sizeof **ret + context + task;
	uint64_t hash = entry_hash(k);
	struct map_node *n = map_find(&a->entries, hash, entry_is, k);
	struct sample_entry *e;
	int r;

	if (n) {
		*ret = container_of(n, struct sample_entry, node);
		return 0;
	}
	r = charge(a, bytes);
	if (r < 0)
		return r;
	e = pool_take(&a->pool, bytes);
	if (!e)
		return -ENOMEM;
	*e = (struct sample_entry){.owner = (void *)k->owner,
				   .stack = k->stack,
				   .tid = k->tid,
				   .cpu = k->cpu,
				   .origin = k->origin};
	if (k->context)
		e->context = memcpy(e + 1, k->context, sizeof *k->context);
	if (k->task)
		e->task = memcpy((char *)(e + 1) + context, k->task, task);
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

/*
 * Returns an array of `cap` numbers that begins with the first `n` of `old`. Outgrown arrays remain in the
 * pool: together they are no larger than those in use. NULL and *r: no memory, or none left in the budget.
 */
static uint64_t *regrow(struct sample_aggregate *a, const uint64_t *old, uint32_t n, uint32_t cap, int *r)
{
	uint64_t *more;

	*r = charge(a, cap * sizeof *more);
	if (*r < 0)
		return NULL;
	more = pool_take(&a->pool, cap * sizeof *more);
	*r = more ? 0 : -ENOMEM;
	if (more && n)
		memcpy(more, old, n * sizeof *more);
	return more;
}

/* Makes room for one more sample of the entry. */
static int entry_grow(struct sample_aggregate *a, struct sample_entry *e)
{
	uint32_t cap = e->cap ? e->cap * 2 : FIRST_TIMES;
	uint64_t *times, *values = NULL;
	int r;

	if (e->n < e->cap)
		return 0;
	times = regrow(a, e->times_ns, e->n, cap, &r);
	if (times && e->values)
		values = regrow(a, e->values, e->n, cap, &r);
	if (r < 0)
		return r;
	e->times_ns = times;
	e->values = values;
	e->cap = cap;
	return 0;
}

/* Gives the entry, whose samples had the value 1 so far, an array of values. */
static int values_begin(struct sample_aggregate *a, struct sample_entry *e)
{
	int r;

	e->values = regrow(a, NULL, 0, e->cap, &r);
	for (uint32_t i = 0; r == 0 && i < e->n; i++)
		e->values[i] = 1;
	return r;
}

static int sample_append(struct sample_aggregate *a, struct sample_entry *e, uint64_t time_ns, uint64_t value)
{
	int r = entry_grow(a, e);

	if (r == 0 && value != 1 && !e->values)
		r = values_begin(a, e);
	if (r < 0)
		return r;
	if (e->values)
		e->values[e->n] = value;
	e->times_ns[e->n++] = time_ns;
	e->value += value;
	return 0;
}

/* Interns a stack with omitted frames: how many they are makes no other stack of it. */
static int stack_intern_omitted(struct sample_aggregate *a, const struct sample_view *v,
				const struct sample_stack **ret)
{
	uint64_t words[KERNEL_FRAMES_MAX + USER_FRAMES_MAX];
	struct sample_view any = *v;

	memcpy(words, v->frames, (size_t)(v->n_kernel + v->n_user) * sizeof *words);
	words[v->omitted] = frame_omitted(0);
	any.frames = words;
	return stack_intern(a, &any, ret);
}

int sample_aggregate_add(struct sample_aggregate *a, void *owner, const char *thread,
			 const struct sample_view *v)
{
	struct entry_key key = {.owner = owner,
				.context = v->context,
				.task = v->task_name,
				.tid = v->tid,
				.cpu = a->by_cpu ? v->cpu : 0,
				.origin = v->origin};
	struct sample_entry *e;
	int r = v->omitted ? stack_intern_omitted(a, v, &key.stack) : stack_intern(a, v, &key.stack);

	memcpy(key.thread.name, thread, strnlen(thread, sizeof key.thread.name - 1));
	if (r == 0)
		r = entry_find(a, &key, &e);
	if (r == 0)
		r = sample_append(a, e, v->time_ns, v->value);
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

size_t sample_aggregate_bytes(const struct sample_aggregate *a)
{
	return a->bytes;
}

size_t sample_aggregate_stacks(const struct sample_aggregate *a)
{
	return a->stacks.len;
}
