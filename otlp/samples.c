// SPDX-License-Identifier: Apache-2.0
#include "otlp/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "otlp/messages.h"
#include "otlp/wire.h"

#define SAMPLES_MAX (1u << 20)

struct otlp_sample_entry {
	struct map_node node;
	struct otlp_sample_entry *next;
	uint64_t *unix_ns; /* owned */
	size_t n, cap;
	uint64_t n_events;
	size_t key_len;
	int32_t key[]; /* stack, then attributes in ascending order */
};

struct key {
	const int32_t *ids;
	size_t len;
};

void otlp_samples_init(struct otlp_samples *s)
{
	*s = (struct otlp_samples){.min_unix_ns = UINT64_MAX};
	map_init(&s->by_identity, SAMPLES_MAX);
}

void otlp_samples_fini(struct otlp_samples *s)
{
	for (struct otlp_sample_entry *e = s->first, *next; e; e = next) {
		next = e->next;
		free(e->unix_ns);
		free(e);
	}
	map_fini(&s->by_identity);
	s->first = s->last = NULL;
}

size_t otlp_samples_entry_bound(size_t n_attrs)
{
	/* frame, stack index, frames of attributes and of timestamps or the value */
	return WIRE_FRAME_MAX + (1 + 5) + (WIRE_FRAME_MAX + 5 * n_attrs) + (WIRE_FRAME_MAX + WIRE_VARINT_MAX);
}

static bool sample_is(const struct map_node *node, const void *data)
{
	const struct otlp_sample_entry *e = container_of(node, struct otlp_sample_entry, node);
	const struct key *k = data;

	return e->key_len == k->len && !memcmp(e->key, k->ids, k->len * sizeof *k->ids);
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

static int entry_new(struct otlp_samples *s, const struct key *k, uint64_t hash,
		     struct otlp_sample_entry **ret)
{
	struct otlp_sample_entry *e = calloc(1, sizeof *e + k->len * sizeof *k->ids);
	int r;

	if (!e)
		return -ENOMEM;
	e->key_len = k->len;
	memcpy(e->key, k->ids, k->len * sizeof *k->ids);
	r = map_insert(&s->by_identity, &e->node, hash);
	if (r < 0) {
		free(e);
		return r;
	}
	if (s->last)
		s->last->next = e;
	else
		s->first = e;
	s->last = e;
	s->bound += otlp_samples_entry_bound(k->len - 1);
	*ret = e;
	return 0;
}

static int find_or_add(struct otlp_samples *s, int32_t stack, const int32_t *attrs, size_t n_attrs,
		       struct otlp_sample_entry **ret)
{
	_cleanup_free_ int32_t *ids = malloc((n_attrs + 1) * sizeof *ids);
	struct key k = {ids, n_attrs + 1};
	struct map_node *n;
	uint64_t hash;

	if (!ids)
		return -ENOMEM;
	ids[0] = stack;
	if (n_attrs)
		memcpy(ids + 1, attrs, n_attrs * sizeof *attrs);
	hash = hash_bytes(ids, k.len * sizeof *ids);
	n = map_find(&s->by_identity, hash, sample_is, &k);
	if (!n)
		return entry_new(s, &k, hash, ret);
	*ret = container_of(n, struct otlp_sample_entry, node);
	return 0;
}

static int keep_timestamps(struct otlp_sample_entry *e, const uint64_t *unix_ns, size_t n)
{
	size_t cap = e->cap ? e->cap : 4;
	uint64_t *grown;

	if (e->n + n > e->cap) {
		while (cap < e->n + n)
			cap *= 2;
		grown = realloc(e->unix_ns, cap * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		e->unix_ns = grown;
		e->cap = cap;
	}
	memcpy(e->unix_ns + e->n, unix_ns, n * sizeof *unix_ns);
	e->n += n;
	return 0;
}

int otlp_samples_add(struct otlp_samples *s, int32_t stack, int32_t *attrs, size_t n_attrs,
		     const uint64_t *unix_ns, size_t n, bool aggregate)
{
	struct otlp_sample_entry *e;
	int r;

	if (!n)
		return 0;
	sort(attrs, n_attrs);
	r = find_or_add(s, stack, attrs, n_attrs, &e);
	if (r < 0)
		return r;
	if (!aggregate) {
		r = keep_timestamps(e, unix_ns, n);
		if (r < 0)
			return r;
		s->bound += n * OTLP_TIMESTAMP_BYTES;
	}
	e->n_events += n;
	s->n_events += n;
	for (size_t i = 0; i < n; i++) {
		if (unix_ns[i] < s->min_unix_ns)
			s->min_unix_ns = unix_ns[i];
		if (unix_ns[i] > s->max_unix_ns)
			s->max_unix_ns = unix_ns[i];
	}
	return 0;
}

int otlp_samples_encode(const struct otlp_samples *s, struct buf *b, bool aggregate)
{
	int r;

	for (const struct otlp_sample_entry *e = s->first; e; e = e->next) {
		otlp_sample m = OTLP_SAMPLE_INIT;
		int64_t value = (int64_t)e->n_events;

		if (!e->n_events)
			continue; /* its timestamps found no memory: a sample without any is malformed */
		m.stack_index = e->key[0];
		m.n_attribute_indices = e->key_len - 1;
		m.attribute_indices = (int32_t *)e->key + 1;
		m.n_values = aggregate ? 1 : 0;
		m.values = &value;
		m.n_timestamps_unix_nano = e->n;
		m.timestamps_unix_nano = e->unix_ns;
		r = wire_put_message(b, 2, &m.base);
		if (r < 0)
			return r;
	}
	return 0;
}
