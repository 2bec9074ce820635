// SPDX-License-Identifier: Apache-2.0
/*
 * A window has tens of thousands of samples of one or two events, so a sample has no allocation of its own:
 * its entry has the positions of its attributes and of a chain of runs of timestamps, in arrays that all
 * samples share.
 */
#include "otlp/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "otlp/messages.h"
#include "otlp/wire.h"

#define SAMPLES_MAX (1u << 20)
#define FIRST_INDEX 128u
#define NONE UINT32_MAX

struct otlp_sample_entry {
	uint64_t hash, sum; /* sum of the values */
	int32_t stack;
	uint32_t attrs, n_attrs; /* position in `attrs`; the attributes ascend */
	uint32_t first_run, last_run;
	uint32_t n_unix_ns;
};

struct otlp_sample_run {
	uint32_t unix_ns, n; /* position in `unix_ns` */
	uint32_t next;
};

struct key {
	int32_t stack;
	const int32_t *attrs;
	size_t n_attrs;
	uint64_t hash;
};

void otlp_samples_clear(struct otlp_samples *s)
{
	if (s->n_entries)
		memset(s->index, 0, s->n_index * sizeof *s->index);
	s->n_entries = s->n_runs = s->n_attrs = s->n_unix_ns = 0;
	s->has_values = false;
	s->bound = 0;
	s->n_events = s->max_unix_ns = 0;
	s->min_unix_ns = UINT64_MAX;
}

void otlp_samples_init(struct otlp_samples *s)
{
	*s = (struct otlp_samples){.min_unix_ns = UINT64_MAX};
}

void otlp_samples_fini(struct otlp_samples *s)
{
	free(s->entries);
	free(s->runs);
	free(s->attrs);
	free(s->unix_ns);
	free(s->values);
	free(s->index);
	*s = (struct otlp_samples){0};
}

size_t otlp_samples_entry_bound(size_t n_attrs)
{
	/* Framing of the sample, stack index, framing of attributes and of timestamps or value. */
	return WIRE_FRAME_MAX + (1 + 5) + (WIRE_FRAME_MAX + 5 * n_attrs) + (WIRE_FRAME_MAX + WIRE_VARINT_MAX);
}

size_t otlp_samples_values_bound(const struct otlp_samples *s)
{
	size_t before =
		s->has_values ? 0 : s->n_unix_ns * OTLP_VALUE_BYTES_MAX + s->n_entries * WIRE_FRAME_MAX;

	return before + WIRE_FRAME_MAX;
}

static void sort(int32_t *ids, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		int32_t id = ids[i];
		size_t j = i;

		for (; j && ids[j - 1] > id; j--)
			ids[j] = ids[j - 1];
		ids[j] = id;
	}
}

static bool entry_is(const struct otlp_samples *s, const struct otlp_sample_entry *e, const struct key *k)
{
	return e->hash == k->hash && e->stack == k->stack && e->n_attrs == k->n_attrs &&
	       (!k->n_attrs || !memcmp(s->attrs + e->attrs, k->attrs, k->n_attrs * sizeof *k->attrs));
}

/* The slot of this identity in the index, or the free slot where it belongs. */
static uint32_t *slot_of(const struct otlp_samples *s, const struct key *k)
{
	size_t i = k->hash & (s->n_index - 1);

	while (s->index[i] && !entry_is(s, &s->entries[s->index[i] - 1], k))
		i = (i + 1) & (s->n_index - 1);
	return &s->index[i];
}

/* Grows the index so that at most half of it is used. */
static int grow_index(struct otlp_samples *s)
{
	size_t n = s->n_index ? s->n_index * 2 : FIRST_INDEX;
	uint32_t *index;

	if (s->n_entries < s->n_index / 2)
		return 0;
	index = calloc(n, sizeof *index);
	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_entries; i++) {
		size_t at = s->entries[i].hash & (n - 1);

		while (index[at])
			at = (at + 1) & (n - 1);
		index[at] = (uint32_t)i + 1;
	}
	free(s->index);
	s->index = index;
	s->n_index = n;
	return 0;
}

static int entry_new(struct otlp_samples *s, const struct key *k, struct otlp_sample_entry **ret)
{
	if (s->n_entries >= SAMPLES_MAX)
		return -ENOSPC;
	if (array_reserve(&s->entries, &s->cap_entries, s->n_entries + 1, sizeof *s->entries) < 0 ||
	    array_reserve(&s->attrs, &s->cap_attrs, s->n_attrs + k->n_attrs, sizeof *s->attrs) < 0)
		return -ENOMEM;
	*slot_of(s, k) = (uint32_t)s->n_entries + 1;
	*ret = &s->entries[s->n_entries++];
	**ret = (struct otlp_sample_entry){.hash = k->hash,
					   .stack = k->stack,
					   .attrs = (uint32_t)s->n_attrs,
					   .n_attrs = (uint32_t)k->n_attrs,
					   .first_run = NONE,
					   .last_run = NONE};
	if (k->n_attrs)
		memcpy(s->attrs + s->n_attrs, k->attrs, k->n_attrs * sizeof *k->attrs);
	s->n_attrs += k->n_attrs;
	s->bound += otlp_samples_entry_bound(k->n_attrs) + (s->has_values ? WIRE_FRAME_MAX : 0);
	return 0;
}

static int find_or_add(struct otlp_samples *s, const struct key *k, struct otlp_sample_entry **ret)
{
	int r = grow_index(s);
	uint32_t found;

	if (r < 0)
		return r;
	found = *slot_of(s, k);
	if (!found)
		return entry_new(s, k, ret);
	*ret = &s->entries[found - 1];
	return 0;
}

/* Makes room for values besides the timestamps; the previous timestamps have a value of 1. */
static int reserve_values(struct otlp_samples *s, size_t n)
{
	if (array_reserve(&s->values, &s->cap_values, s->n_unix_ns + n, sizeof *s->values) < 0)
		return -ENOMEM;
	if (s->has_values)
		return 0;
	for (size_t i = 0; i < s->n_unix_ns; i++)
		s->values[i] = 1;
	s->bound += otlp_samples_values_bound(s) - WIRE_FRAME_MAX;
	s->has_values = true;
	return 0;
}

/* Reserves memory first, so that no sample exists without its timestamps. */
static int reserve_events(struct otlp_samples *s, const struct otlp_samples_add *add)
{
	if (add->n > UINT32_MAX - s->n_unix_ns)
		return -ENOSPC;
	if (array_reserve(&s->runs, &s->cap_runs, s->n_runs + 1, sizeof *s->runs) < 0 ||
	    array_reserve(&s->unix_ns, &s->cap_unix_ns, s->n_unix_ns + add->n, sizeof *s->unix_ns) < 0)
		return -ENOMEM;
	return add->values || s->has_values ? reserve_values(s, add->n) : 0;
}

static int64_t value_of(const struct otlp_samples_add *add, size_t i)
{
	if (!add->values)
		return 1;
	return add->values[i] > INT64_MAX ? INT64_MAX : (int64_t)add->values[i];
}

static void keep_events(struct otlp_samples *s, struct otlp_sample_entry *e,
			const struct otlp_samples_add *add)
{
	uint32_t run = (uint32_t)s->n_runs++;

	s->runs[run] = (struct otlp_sample_run){(uint32_t)s->n_unix_ns, (uint32_t)add->n, NONE};
	if (e->last_run == NONE)
		e->first_run = run;
	else
		s->runs[e->last_run].next = run;
	e->last_run = run;
	e->n_unix_ns += (uint32_t)add->n;
	memcpy(s->unix_ns + s->n_unix_ns, add->unix_ns, add->n * sizeof *add->unix_ns);
	for (size_t i = 0; s->has_values && i < add->n; i++)
		s->values[s->n_unix_ns + i] = value_of(add, i);
	s->n_unix_ns += add->n;
	s->bound += add->n * (OTLP_TIMESTAMP_BYTES + (s->has_values ? OTLP_VALUE_BYTES_MAX : 0));
}

static void note_times(struct otlp_samples *s, const uint64_t *unix_ns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (unix_ns[i] < s->min_unix_ns)
			s->min_unix_ns = unix_ns[i];
		if (unix_ns[i] > s->max_unix_ns)
			s->max_unix_ns = unix_ns[i];
	}
}

int otlp_samples_add(struct otlp_samples *s, const struct otlp_samples_add *add, bool aggregate)
{
	struct key k = {.stack = add->stack, .attrs = add->attrs, .n_attrs = add->n_attrs};
	struct otlp_sample_entry *e;
	int r;

	if (!add->n)
		return 0;
	sort(add->attrs, add->n_attrs);
	k.hash = hash_u64((uint64_t)(uint32_t)add->stack ^
			  hash_bytes(add->attrs, add->n_attrs * sizeof *add->attrs));
	r = aggregate ? 0 : reserve_events(s, add);
	if (r == 0)
		r = find_or_add(s, &k, &e);
	if (r < 0)
		return r;
	if (!aggregate)
		keep_events(s, e, add);
	for (size_t i = 0; i < add->n; i++)
		e->sum += (uint64_t)value_of(add, i);
	s->n_events += add->n;
	note_times(s, add->unix_ns, add->n);
	return 0;
}

/*
 * Gives the items of an entry from `items`, an array parallel to the timestamps, in one piece: in place, or
 * copied to `scratch`. NULL: out of memory.
 */
static void *pieces(const struct otlp_samples *s, const struct otlp_sample_entry *e, void *items,
		    struct buf *scratch)
{
	uint64_t *words = items; /* int64_t has the same size */

	if (e->first_run == e->last_run)
		return e->first_run == NONE ? words : words + s->runs[e->first_run].unix_ns;
	buf_clear(scratch);
	for (uint32_t i = e->first_run; i != NONE; i = s->runs[i].next)
		if (buf_append(scratch, words + s->runs[i].unix_ns, s->runs[i].n * sizeof *words) < 0)
			return NULL;
	return scratch->data;
}

int otlp_samples_encode(const struct otlp_samples *s, struct buf *b, bool aggregate)
{
	_cleanup_buf_ struct buf times = {0}, values = {0};

	for (size_t i = 0; i < s->n_entries; i++) {
		const struct otlp_sample_entry *e = &s->entries[i];
		otlp_sample m = OTLP_SAMPLE_INIT;
		int64_t sum = e->sum > INT64_MAX ? INT64_MAX : (int64_t)e->sum;
		int r;

		m.stack_index = e->stack;
		m.n_attribute_indices = e->n_attrs;
		m.attribute_indices = e->n_attrs ? s->attrs + e->attrs : NULL;
		if (aggregate) {
			m.n_values = 1;
			m.values = &sum;
		} else {
			m.n_timestamps_unix_nano = e->n_unix_ns;
			m.timestamps_unix_nano = pieces(s, e, s->unix_ns, &times);
			m.n_values = s->has_values ? e->n_unix_ns : 0;
			m.values = s->has_values ? pieces(s, e, s->values, &values) : NULL;
		}
		if ((m.n_timestamps_unix_nano && !m.timestamps_unix_nano) || (m.n_values && !m.values))
			return -ENOMEM;
		r = wire_put_message(b, 2, &m.base);
		if (r < 0)
			return r;
	}
	return 0;
}
