// SPDX-License-Identifier: Apache-2.0
/*
 * The samples of one window, merged: samples of one thread under one name, from one origin, in one context,
 * of one task and with one stack are an entry, however many frames the stack omits. An entry has the time and the value
 * of each of its samples. The aggregate owns copies of everything and is bounded in bytes. The owner of a
 * sample (the names that its process had then) is opaque here; the aggregate holds a reference on it.
 */
#ifndef PROFLET_SAMPLE_AGGREGATE_H
#define PROFLET_SAMPLE_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"
#include "agent/sample/decode.h"

#define SAMPLE_THREAD_NAME_LEN 16u /* with the NUL: the kernel's TASK_COMM_LEN */

/* A distinct stack. */
struct sample_stack {
	struct map_node node;
	enum unwind_ending ending;
	uint32_t ending_detail;	   /* agent/sample/endings.h */
	uint16_t n_kernel, n_user; /* words */
	uint64_t frames[];	   /* n_kernel + n_user, each part leaf first */
};

struct sample_entry {
	struct map_node node;
	struct sample_entry *next; /* in the order of first appearance */
	void *owner;
	uint32_t tid;
	uint16_t cpu;			     /* 0 unless the samples of each CPU have entries of their own */
	uint16_t origin;		     /* enum sample_origin */
	char thread[SAMPLE_THREAD_NAME_LEN]; /* padded with zeros */
	const struct sample_stack *stack;
	const struct sample_context *context; /* NULL: none */
	const char *task;		      /* name of the event loop's task; NULL: none */
	uint64_t value;			      /* sum, in the unit of the origin */
	uint32_t n, cap;		      /* samples */
	uint64_t *times_ns;		      /* n, CLOCK_MONOTONIC */
	uint64_t *values;		      /* n; NULL: each is 1 */
};

struct sample_aggregate;

/*
 * `hold` and `release` take and give back a reference on an owner; each is called once per entry. by_cpu:
 * samples of different CPUs are different entries. 0 or -ENOMEM.
 */
int sample_aggregate_new(struct sample_aggregate **ret, size_t max_bytes, bool by_cpu,
			 void (*hold)(void *owner), void (*release)(void *owner));
void sample_aggregate_free(struct sample_aggregate *a);
/* Adds one sample of `owner`, whose thread had that name. 0; -ENOSPC or -ENOMEM: the sample was not added. */
int sample_aggregate_add(struct sample_aggregate *a, void *owner, const char *thread,
			 const struct sample_view *v);
/* The first entry; the others follow by ->next. NULL: there is none. Borrowed until the next add or clear. */
const struct sample_entry *sample_aggregate_entries(const struct sample_aggregate *a);
size_t sample_aggregate_samples(const struct sample_aggregate *a);
size_t sample_aggregate_bytes(const struct sample_aggregate *a); /* counted against max_bytes */
size_t sample_aggregate_stacks(const struct sample_aggregate *a);
void sample_aggregate_clear(struct sample_aggregate *a);

#endif
