// SPDX-License-Identifier: Apache-2.0
/*
 * For each half, the message is decoded once into memory that is freed as a whole, so everything may be moved
 * and cut in place.
 */
#include "otlp/halve.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/map.h"
#include "agent/base/pool.h"
#include "otlp/compress.h"
#include "otlp/messages.h"

/* --- the dictionary of a half */

/*
 * The tables refer to one another without cycles. So one walk over them, referring tables first, finds the
 * entries in use, and a second walk renumbers them.
 */
enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, N_TABLES };

struct work {
	otlp_export_request *request;
	struct {
		void **items;
		size_t *n;
		int32_t *map; /* owned; by index of an entry: -1 unused, else its new number */
	} tables[N_TABLES];
	int (*on)(struct work *w, enum table table, int32_t *index);
};

static void work_fini(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++)
		free(w->tables[t].map);
}

static int mark(struct work *w, enum table table, int32_t *index)
{
	if (*index < 0 || (size_t)*index >= *w->tables[table].n)
		return -EBADMSG;
	w->tables[table].map[*index] = 0;
	return 0;
}

static int renumber(struct work *w, enum table table, int32_t *index)
{
	*index = w->tables[table].map[*index];
	return 0;
}

static int visit_each(struct work *w, enum table table, int32_t *indices, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = w->on(w, table, &indices[i]);
	return r;
}

static int visit_sample(struct work *w, otlp_sample *s)
{
	int r = w->on(w, STACKS, &s->stack_index);

	if (r == 0)
		r = w->on(w, LINKS, &s->link_index);
	return r < 0 ? r : visit_each(w, ATTRIBUTES, s->attribute_indices, s->n_attribute_indices);
}

static int visit_type(struct work *w, otlp_value_type *t)
{
	int r = t ? w->on(w, STRINGS, &t->type_strindex) : 0;

	return r < 0 || !t ? r : w->on(w, STRINGS, &t->unit_strindex);
}

static int visit_profile(struct work *w, otlp_profile *p)
{
	int r = visit_type(w, p->sample_type);

	if (r == 0)
		r = visit_type(w, p->period_type);
	if (r == 0)
		r = visit_each(w, ATTRIBUTES, p->attribute_indices, p->n_attribute_indices);
	for (size_t i = 0; i < p->n_samples && r == 0; i++)
		r = visit_sample(w, p->samples[i]);
	return r;
}

static int visit_profiles(struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->request->n_resource_profiles; i++) {
		otlp_resource_profiles *rp = w->request->resource_profiles[i];

		for (size_t k = 0; k < rp->n_scope_profiles; k++)
			for (size_t m = 0; m < rp->scope_profiles[k]->n_profiles && r == 0; m++)
				r = visit_profile(w, rp->scope_profiles[k]->profiles[m]);
	}
	return r;
}

static int visit_stack(struct work *w, void *item)
{
	otlp_stack *s = item;

	return visit_each(w, LOCATIONS, s->location_indices, s->n_location_indices);
}

static int visit_location(struct work *w, void *item)
{
	otlp_location *l = item;
	int r = w->on(w, MAPPINGS, &l->mapping_index);

	for (size_t i = 0; i < l->n_lines && r == 0; i++)
		r = w->on(w, FUNCTIONS, &l->lines[i]->function_index);
	return r < 0 ? r : visit_each(w, ATTRIBUTES, l->attribute_indices, l->n_attribute_indices);
}

static int visit_mapping(struct work *w, void *item)
{
	otlp_mapping *m = item;
	int r = w->on(w, STRINGS, &m->filename_strindex);

	return r < 0 ? r : visit_each(w, ATTRIBUTES, m->attribute_indices, m->n_attribute_indices);
}

static int visit_function(struct work *w, void *item)
{
	otlp_function *f = item;
	int r = w->on(w, STRINGS, &f->name_strindex);

	if (r == 0)
		r = w->on(w, STRINGS, &f->system_name_strindex);
	return r < 0 ? r : w->on(w, STRINGS, &f->filename_strindex);
}

static int visit_attribute(struct work *w, void *item)
{
	otlp_key_value_and_unit *a = item;
	int r = w->on(w, STRINGS, &a->key_strindex);

	return r < 0 ? r : w->on(w, STRINGS, &a->unit_strindex);
}

/*
 * Visits every index in the profiles and in the entries in use; tables that refer come before those they
 * refer to.
 */
static int visit_all(struct work *w)
{
	static const struct {
		enum table table;
		int (*visit)(struct work *w, void *item);
	} order[] = {
		{STACKS, visit_stack},	     {LOCATIONS, visit_location},   {MAPPINGS, visit_mapping},
		{FUNCTIONS, visit_function}, {ATTRIBUTES, visit_attribute},
	};
	int r = visit_profiles(w);

	for (size_t i = 0; i < ARRAY_SIZE(order) && r == 0; i++) {
		enum table t = order[i].table;

		for (size_t k = 0; k < *w->tables[t].n && r == 0; k++)
			if (w->tables[t].map[k] >= 0)
				r = order[i].visit(w, w->tables[t].items[k]);
	}
	return r;
}

static int tables_init(struct work *w)
{
	otlp_dictionary *d = w->request->dictionary;

	if (!d)
		return -EBADMSG;
#define TABLE(t, field)                                 \
	w->tables[t].items = (void **)d->field##_table; \
	w->tables[t].n = &d->n_##field##_table
	TABLE(MAPPINGS, mapping);
	TABLE(LOCATIONS, location);
	TABLE(FUNCTIONS, function);
	TABLE(LINKS, link);
	TABLE(STRINGS, string);
	TABLE(ATTRIBUTES, attribute);
	TABLE(STACKS, stack);
#undef TABLE
	for (int t = 0; t < N_TABLES; t++) {
		if (!*w->tables[t].n)
			return -EBADMSG;
		w->tables[t].map = malloc(*w->tables[t].n * sizeof *w->tables[t].map);
		if (!w->tables[t].map)
			return -ENOMEM;
		memset(w->tables[t].map, 0xff, *w->tables[t].n * sizeof *w->tables[t].map);
		w->tables[t].map[0] = 0; /* the zero value is always in use */
	}
	return 0;
}

/* Numbers the entries in use. */
static void tables_number(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++) {
		int32_t n = 0;

		for (size_t i = 0; i < *w->tables[t].n; i++)
			if (w->tables[t].map[i] >= 0)
				w->tables[t].map[i] = n++;
	}
}

static void tables_close_up(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++) {
		size_t n = 0;

		for (size_t i = 0; i < *w->tables[t].n; i++)
			if (w->tables[t].map[i] >= 0)
				w->tables[t].items[n++] = w->tables[t].items[i];
		*w->tables[t].n = n;
	}
}

/*
 * Removes and renumbers in place; entry 0 of each table stays. What is removed is no longer reachable, so the
 * message must lie in memory that is freed as a whole. 0, -ENOMEM, or -EBADMSG: an index without entry, or a
 * table without any.
 */
static int compact(otlp_export_request *request)
{
	_cleanup_(work_fini) struct work w = {.request = request, .on = mark};
	int r = tables_init(&w);

	if (r == 0)
		r = visit_all(&w);
	if (r < 0)
		return r;
	tables_number(&w);
	w.on = renumber;
	(void)visit_all(&w);
	tables_close_up(&w);
	return 0;
}

/* --- the samples of a half */

#define REQUEST(verb) \
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__##verb

static void *message_take(void *data, size_t size)
{
	return pool_take(data, size);
}

static void message_ignore(void *data, void *pointer)
{
	(void)data;
	(void)pointer;
}

/* The range of one half, and the position in the request. */
struct part {
	otlp_export_request *request;
	uint64_t from, to; /* the range, in events counted over the whole request */
	uint64_t n_samples, n_profiles;
	bool counts; /* the values of the current profile are numbers of events */
	bool sums;   /* there were sums in other units, so the number of their events is unknown */
};

/* How many events a sample stands for. A sum in a unit other than the number of events counts as one. */
static uint64_t weight(struct part *p, const otlp_sample *s)
{
	uint64_t sum = 0;

	if (s->n_timestamps_unix_nano)
		return s->n_timestamps_unix_nano;
	if (!p->counts) {
		p->sums |= s->n_values > 0;
		return s->n_values > 0;
	}
	for (size_t i = 0; i < s->n_values; i++)
		sum += s->values[i] > 0 ? (uint64_t)s->values[i] : 0;
	return sum;
}

/*
 * Reduces a sample that begins at `at` to its events in [from, to). A sample with timestamps can be cut; a
 * sum belongs to the half in which it begins. False: nothing is left.
 */
static bool cut_sample(const struct part *p, otlp_sample *s, uint64_t at)
{
	uint64_t n = s->n_timestamps_unix_nano, first, end;

	if (!n)
		return at >= p->from && at < p->to;
	if (at >= p->to || at + n <= p->from)
		return false;
	first = p->from > at ? p->from - at : 0;
	end = p->to - at < n ? p->to - at : n;
	s->timestamps_unix_nano += first;
	s->n_timestamps_unix_nano = end - first;
	if (s->n_values == n) {
		s->values += first;
		s->n_values = end - first;
	}
	return true;
}

/*
 * The halves of a profile get different ids: a backend may otherwise regard the second one as a repetition.
 */
static void renew_id(const struct part *p, otlp_profile *profile)
{
	uint64_t id[2];

	if (profile->profile_id.len != sizeof id)
		return;
	memcpy(id, profile->profile_id.data, sizeof id);
	id[0] = hash_u64(id[0] ^ hash_u64(p->from + 1)) | htole64(1); /* an id must not be all zeros */
	id[1] = hash_u64(id[1] ^ id[0]);
	memcpy(profile->profile_id.data, id, sizeof id);
}

static bool unit_is_count(const otlp_dictionary *d, const otlp_value_type *type)
{
	size_t i = type && type->unit_strindex > 0 ? (size_t)type->unit_strindex : SIZE_MAX;

	return d && i < d->n_string_table && strcmp(d->string_table[i], "count") == 0;
}

/*
 * Reduces a profile that begins at `at` to its samples in the range. Returns the position after the profile.
 */
static uint64_t cut_profile(struct part *p, otlp_profile *profile, uint64_t at)
{
	uint64_t kept = p->n_samples, from = at;
	size_t n = 0;

	p->counts = unit_is_count(p->request->dictionary, profile->sample_type);
	for (size_t i = 0; i < profile->n_samples; i++) {
		otlp_sample *s = profile->samples[i];
		uint64_t next = at + weight(p, s);

		if (cut_sample(p, s, at)) {
			profile->samples[n++] = s;
			p->n_samples += weight(p, s);
		}
		at = next;
	}
	profile->n_samples = n;
	if (p->n_samples - kept != at - from)
		renew_id(p, profile);
	return at;
}

/* Removes the profiles that have no samples in the range. */
static uint64_t cut_profiles(struct part *p, otlp_scope_profiles *sp, uint64_t at)
{
	size_t n = 0;

	for (size_t i = 0; i < sp->n_profiles; i++) {
		at = cut_profile(p, sp->profiles[i], at);
		if (sp->profiles[i]->n_samples)
			sp->profiles[n++] = sp->profiles[i];
	}
	sp->n_profiles = n;
	p->n_profiles += n;
	return at;
}

/* Reduces the whole request. Returns how many events it had. */
static uint64_t cut_request(struct part *p)
{
	size_t n_resources = 0;
	uint64_t at = 0;

	for (size_t i = 0; i < p->request->n_resource_profiles; i++) {
		otlp_resource_profiles *rp = p->request->resource_profiles[i];
		size_t n = 0;

		for (size_t k = 0; k < rp->n_scope_profiles; k++) {
			at = cut_profiles(p, rp->scope_profiles[k], at);
			if (rp->scope_profiles[k]->n_profiles)
				rp->scope_profiles[n++] = rp->scope_profiles[k];
		}
		rp->n_scope_profiles = n;
		if (n)
			p->request->resource_profiles[n_resources++] = rp;
	}
	p->request->n_resource_profiles = n_resources;
	return at;
}

static int encode(const struct part *p, const struct otlp_request *whole, struct otlp_request **ret)
{
	_cleanup_request_ struct otlp_request *half = calloc(1, sizeof *half);
	_cleanup_buf_ struct buf raw = {0};
	int r;

	if (!half)
		return -ENOMEM;
	r = buf_reserve(&raw, REQUEST(get_packed_size)(p->request));
	if (r < 0)
		return r;
	raw.len = REQUEST(pack)(p->request, raw.data);
	half->raw_bytes = raw.len;
	half->n_samples = p->n_samples;
	half->n_profiles = p->n_profiles;
	half->start_unix_ns = whole->start_unix_ns;
	half->end_unix_ns = whole->end_unix_ns;
	half->coding = whole->coding;
	r = whole->coding == OTLP_IDENTITY ? buf_append(&half->data, raw.data, raw.len)
					   : otlp_compress(whole->coding, raw.data, raw.len, &half->data);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(half);
	return 0;
}

/* Decodes the request into memory of the pool. NULL: the bytes are not a request, or there is no memory. */
static otlp_export_request *unpack(struct pool *pool, const struct buf *raw)
{
	ProtobufCAllocator allocator = {message_take, message_ignore, pool};

	return REQUEST(unpack)(&allocator, raw->len, raw->data);
}

/* The number of events in the request, as far as weight() can tell; *ret_sums is `sums` of struct part. */
static int measure(const struct buf *raw, uint64_t *ret_total, bool *ret_sums)
{
	_cleanup_(pool_fini) struct pool pool = {0};
	struct part p = {.to = UINT64_MAX, .request = unpack(&pool, raw)};

	if (!p.request)
		return -EBADMSG;
	*ret_total = cut_request(&p);
	*ret_sums = p.sums;
	return 0;
}

static int make_half(const struct buf *raw, const struct otlp_request *whole, uint64_t from, uint64_t to,
		     struct otlp_request **ret)
{
	_cleanup_(pool_fini) struct pool pool = {0};
	struct part p = {.from = from, .to = to, .request = unpack(&pool, raw)};
	int r;

	if (!p.request)
		return -EBADMSG;
	cut_request(&p);
	if (!p.n_profiles)
		return -ENODATA; /* the request is a single sum, which cannot be cut */
	r = compact(p.request);
	return r < 0 ? r : encode(&p, whole, ret);
}

static int make_halves(const struct buf *raw, const struct otlp_request *whole, struct otlp_request *ret[2])
{
	_cleanup_request_ struct otlp_request *first = NULL, *second = NULL;
	uint64_t total, middle;
	bool sums;
	int r = measure(raw, &total, &sums);

	if (r < 0)
		return r;
	if (!sums && total != whole->n_samples)
		return -EBADMSG;
	middle = total / 2;
	if (!middle)
		return -ENODATA;
	r = make_half(raw, whole, 0, middle, &first);
	if (r == 0)
		r = make_half(raw, whole, middle, total, &second);
	if (r < 0)
		return r;
	if (sums) { /* the totals are exact, although the events of a sum may be in the other half */
		first->n_samples = (uint64_t)((double)whole->n_samples * (double)middle / (double)total);
		if (!first->n_samples) /* a third of two; neither half is empty */
			first->n_samples = 1;
		second->n_samples = whole->n_samples - first->n_samples;
	}
	ret[0] = TAKE_PTR(first);
	ret[1] = TAKE_PTR(second);
	return 0;
}

int otlp_request_halve(const struct otlp_request *r, struct otlp_request *ret[2])
{
	_cleanup_buf_ struct buf raw = {.max = OTLP_HALVE_RAW_MAX};
	int result;

	if (r->n_samples < 2)
		return -ENODATA;
	result = r->coding == OTLP_IDENTITY ? buf_append(&raw, r->data.data, r->data.len)
					    : otlp_decompress(r->coding, r->data.data, r->data.len, &raw);
	if (result < 0)
		return result == -EOVERFLOW ? -EFBIG : result;
	return make_halves(&raw, r, ret);
}
