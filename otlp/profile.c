// SPDX-License-Identifier: Apache-2.0
/*
 * An open request exists in pieces: complete resources are encoded; the current one is an encoded Resource
 * and a table of samples for each profile type; the dictionary encodes itself as it grows. So the size is
 * known before a sample is added: the worst case follows from the lengths of its strings, and the request is
 * closed first if the sample might not fit. Nothing has to be removed again.
 */
#include "otlp/profile.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/sha2.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "otlp/frames.h"
#include "otlp/intern.h"
#include "otlp/messages.h"
#include "otlp/samples.h"
#include "otlp/wire.h"

#define PROFILE_ID_BYTES 16
/* Encoded bytes of an attribute without its strings, in the table and in the sample. */
#define ATTR_BOUND_FIXED 40
/* A Profile without samples, and the framing of profile, scope and resource. */
#define PROFILE_BOUND_FIXED 160
#define STRING_BOUND_FIXED 8 /* encoded bytes of a string without its characters */

enum { TYPE, UNIT, PERIOD_TYPE, PERIOD_UNIT, TYPE_STRINGS };

/* The samples of one type in the current resource. Remains, empty, for the next resource or request. */
struct open_profile {
	struct otlp_profile_type type;
	bool interned; /* in the dictionary of this request */
	int32_t strings[TYPE_STRINGS];
	struct otlp_samples samples;
};

struct otlp_batch {
	struct otlp_batch_options opt;
	struct otlp_dict *dict;
	struct otlp_frames frames;
	struct otlp_frames_stack stack; /* the stack that is being added */
	struct memo stacks;		/* of this request: index in the dictionary by the caller's number */
	struct buf done;		/* encoded ResourceProfiles */
	struct buf resource;		/* the current one, an encoded Resource */
	struct buf scope;		/* the same for all profiles */
	struct open_profile *profiles;	/* owned, in the order in which their types appeared */
	size_t n_profile_types, cap_profile_types;
	bool has_resource, broken; /* broken: the dictionary could not be reset */
	uint64_t n_samples, n_profiles, start_unix_ns, end_unix_ns; /* of `done` */
	uint64_t n_ids;						    /* profiles since the batch began */
};

/* Starts the next request. */
static int begin_request(struct otlp_batch *b)
{
	int r;

	buf_clear(&b->done);
	otlp_frames_reset(&b->frames);
	memo_clear(&b->stacks);
	b->n_samples = b->n_profiles = 0;
	b->start_unix_ns = UINT64_MAX;
	b->end_unix_ns = 0;
	for (size_t i = 0; i < b->n_profile_types; i++)
		b->profiles[i].interned = false;
	r = otlp_dict_reset(b->dict);
	b->broken = r < 0;
	return r;
}

static int encode_scope(struct otlp_batch *b)
{
	otlp_scope scope = OTLP_SCOPE_INIT;

	/* Without the version: a backend includes the scope's name in the type of the profile. */
	scope.name = "proflet";
	if (b->opt.scope_version)
		scope.version = (char *)b->opt.scope_version;
	return wire_pack(&b->scope, &scope.base);
}

int otlp_batch_new(struct otlp_batch **ret, const struct otlp_batch_options *opt)
{
	_cleanup_batch_ struct otlp_batch *b = NULL;
	int r;

	if (!opt->frame)
		return -EINVAL;
	b = calloc(1, sizeof *b);
	if (!b)
		return -ENOMEM;
	b->opt = *opt;
	if (!b->opt.max_bytes)
		b->opt.max_bytes = OTLP_BATCH_MAX_BYTES;
	b->frames.bare = opt->bare;
	b->frames.resolve = opt->frame;
	b->frames.data = opt->frame_data;
	r = otlp_dict_new(&b->dict);
	if (r < 0)
		return r;
	r = begin_request(b);
	if (r < 0)
		return r;
	r = encode_scope(b);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(b);
	return 0;
}

void otlp_batch_free(struct otlp_batch *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n_profile_types; i++)
		otlp_samples_fini(&b->profiles[i].samples);
	free(b->profiles);
	otlp_dict_free(b->dict);
	otlp_frames_fini(&b->frames);
	memo_fini(&b->stacks);
	buf_fini(&b->done);
	buf_fini(&b->resource);
	buf_fini(&b->scope);
	free(b);
}

static bool attr_usable(const struct otlp_attr *a)
{
	return a->key && *a->key && (a->type == OTLP_INT || a->string);
}

static bool key_seen(const struct otlp_attr *attrs, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (attr_usable(&attrs[j]) && !strcmp(attrs[j].key, attrs[i].key))
			return true;
	return false;
}

/* Resource attributes are plain strings: receivers lose references to the dictionary there. */
static int put_resource_attr(struct buf *b, const struct otlp_attr *a)
{
	_cleanup_buf_ struct buf key_scratch = {0}, value_scratch = {0};
	otlp_key_value kv = OTLP_KEY_VALUE_INIT;
	otlp_any_value value = OTLP_ANY_VALUE_INIT;
	size_t len;

	kv.key = (char *)otlp_clean_string(&key_scratch, a->key, &len);
	if (!kv.key)
		return -ENOMEM;
	kv.value = &value;
	if (a->type == OTLP_INT) {
		value.value_case = OTLP_ANY_VALUE_INT;
		value.int_value = a->integer;
	} else {
		value.value_case = OTLP_ANY_VALUE_STRING;
		value.string_value = (char *)otlp_clean_string(&value_scratch, a->string, &len);
		if (!value.string_value)
			return -ENOMEM;
	}
	return wire_put_message(b, 1, &kv.base);
}

/*
 * An id that is unique across hosts. Equal input gives equal bytes, so that a receiver can tell a repetition
 * from a new profile.
 */
static int profile_id(struct otlp_batch *b, uint64_t start, uint64_t end, uint8_t ret[PROFILE_ID_BYTES])
{
	uint64_t numbers[] = {htole64(start), htole64(end), htole64(b->n_ids)};
	_cleanup_buf_ struct buf content = {0};
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	int r;

	if ((r = buf_append(&content, numbers, sizeof numbers)) < 0 ||
	    (r = buf_append(&content, b->resource.data, b->resource.len)) < 0)
		return r;
	sha256_init(&ctx);
	sha256_update(&ctx, content.len, (const uint8_t *)content.data);
	sha256_digest(&ctx, sizeof digest, digest);
	memcpy(ret, digest, PROFILE_ID_BYTES);
	ret[0] |= 1; /* an id of all zeros is invalid */
	b->n_ids++;
	return 0;
}

/* --- profile types */

static void type_strings(const struct otlp_profile_type *t, const char *ret[TYPE_STRINGS])
{
	ret[TYPE] = t->type;
	ret[UNIT] = t->unit;
	ret[PERIOD_TYPE] = t->period_type;
	ret[PERIOD_UNIT] = t->period_unit;
}

static bool same_string(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_type(const struct otlp_profile_type *a, const struct otlp_profile_type *b)
{
	const char *x[TYPE_STRINGS], *y[TYPE_STRINGS];

	type_strings(a, x);
	type_strings(b, y);
	for (size_t i = 0; i < TYPE_STRINGS; i++)
		if (!same_string(x[i], y[i]))
			return false;
	return a->period == b->period;
}

/* Finds or adds the profile of this type in the current resource. NULL: out of memory. */
static struct open_profile *profile_find(struct otlp_batch *b, const struct otlp_profile_type *type)
{
	struct open_profile *p;

	for (size_t i = 0; i < b->n_profile_types; i++)
		if (same_type(&b->profiles[i].type, type))
			return &b->profiles[i];
	if (array_reserve(&b->profiles, &b->cap_profile_types, b->n_profile_types + 1, sizeof *b->profiles) <
	    0)
		return NULL;
	p = &b->profiles[b->n_profile_types++];
	*p = (struct open_profile){.type = *type};
	otlp_samples_init(&p->samples);
	return p;
}

/* Upper bound of what the profile adds to the request, except what the first profile has added already. */
static size_t profile_bound(const struct otlp_batch *b, const struct open_profile *p)
{
	const char *strings[TYPE_STRINGS];
	size_t bound = 0;

	type_strings(&p->type, strings);
	for (size_t i = 0; i < TYPE_STRINGS && !p->interned; i++)
		bound += strings[i] ? STRING_BOUND_FIXED + 3 * strlen(strings[i]) : 0;
	return bound + (p != b->profiles && !p->samples.n_events ? PROFILE_BOUND_FIXED : 0);
}

static int profile_intern(struct otlp_batch *b, struct open_profile *p)
{
	const char *strings[TYPE_STRINGS];
	int r = 0;

	if (p->interned)
		return 0;
	type_strings(&p->type, strings);
	for (size_t i = 0; i < TYPE_STRINGS && r >= 0; i++)
		r = otlp_dict_string(b->dict, strings[i], &p->strings[i]);
	p->interned = r >= 0;
	return r;
}

/* The number of events in the current resource, of all types. */
static uint64_t open_events(const struct otlp_batch *b)
{
	uint64_t n = 0;

	for (size_t i = 0; i < b->n_profile_types; i++)
		n += b->profiles[i].samples.n_events;
	return n;
}

/* --- encoding */

/* Appends the Profile's own fields, then its samples. */
static int encode_profile(struct otlp_batch *b, const struct open_profile *p, uint64_t start, uint64_t end,
			  struct buf *out)
{
	otlp_profile m = OTLP_PROFILE_INIT;
	otlp_value_type sample_type = OTLP_VALUE_TYPE_INIT, period_type = OTLP_VALUE_TYPE_INIT;
	uint8_t id[PROFILE_ID_BYTES];
	int r = profile_id(b, start, end, id);

	if (r < 0)
		return r;
	sample_type.type_strindex = p->strings[TYPE];
	sample_type.unit_strindex = p->strings[UNIT];
	period_type.type_strindex = p->strings[PERIOD_TYPE];
	period_type.unit_strindex = p->strings[PERIOD_UNIT];
	m.sample_type = &sample_type;
	if (p->type.period_type) {
		m.period_type = &period_type;
		m.period = p->type.period;
	}
	m.time_unix_nano = start;
	m.duration_nano = end - start;
	m.profile_id = (ProtobufCBinaryData){sizeof id, id};
	r = wire_pack(out, &m.base);
	return r < 0 ? r : otlp_samples_encode(&p->samples, out, b->opt.aggregate);
}

/* The window, widened so that every timestamp is inside [start, end). */
static void covered_window(const struct otlp_batch *b, const struct otlp_samples *s, uint64_t *ret_start,
			   uint64_t *ret_end)
{
	uint64_t start = b->opt.start_unix_ns, end = start + b->opt.duration_ns;

	if (s->min_unix_ns < start)
		start = s->min_unix_ns;
	if (s->max_unix_ns >= end)
		end = s->max_unix_ns + 1;
	*ret_start = start;
	*ret_end = end;
}

/* Appends an encoded ResourceProfiles to those that are complete. */
static int put_done(struct otlp_batch *b, const struct buf *profiles)
{
	_cleanup_buf_ struct buf framed = {0};
	int r;

	if (!b->opt.spill)
		return wire_put_bytes(&b->done, 1, profiles->data, profiles->len);
	r = wire_put_bytes(&framed, 1, profiles->data, profiles->len);
	if (r == 0)
		r = b->opt.spill(b->opt.data, framed.data, framed.len);
	return r < 0 ? r : 0;
}

/* Appends a Profile to the ScopeProfiles, and widens the request's times to include it. */
static int close_profile(struct otlp_batch *b, const struct open_profile *p, struct buf *scoped)
{
	_cleanup_buf_ struct buf profile = {0};
	uint64_t start, end;
	int r;

	if (!p->samples.n_events)
		return 0;
	covered_window(b, &p->samples, &start, &end);
	r = encode_profile(b, p, start, end, &profile);
	if (r < 0)
		return r;
	if (start < b->start_unix_ns)
		b->start_unix_ns = start;
	if (end > b->end_unix_ns)
		b->end_unix_ns = end;
	return wire_put_bytes(scoped, 2, profile.data, profile.len);
}

/* Encodes the current resource and its profiles, if it has any, and appends it to those that are complete. */
static int close_resource(struct otlp_batch *b)
{
	_cleanup_buf_ struct buf scoped = {0}, whole = {0};
	int r;

	if (!open_events(b))
		return 0;
	r = wire_put_bytes(&scoped, 1, b->scope.data, b->scope.len);
	for (size_t i = 0; i < b->n_profile_types && r >= 0; i++)
		r = close_profile(b, &b->profiles[i], &scoped);
	if (r < 0)
		return r;
	if ((r = wire_put_bytes(&whole, 1, b->resource.data, b->resource.len)) < 0 ||
	    (r = wire_put_bytes(&whole, 2, scoped.data, scoped.len)) < 0)
		return r;
	buf_fini(&scoped);
	r = put_done(b, &whole);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n_profile_types; i++) {
		b->n_profiles += b->profiles[i].samples.n_events > 0;
		b->n_samples += b->profiles[i].samples.n_events;
		otlp_samples_clear(&b->profiles[i].samples);
	}
	return 0;
}

int otlp_batch_resource(struct otlp_batch *b, const struct otlp_attr *attrs, size_t n)
{
	_cleanup_buf_ struct buf resource = {0};
	int r;

	for (size_t i = 0; i < n && i < OTLP_ATTRS_MAX; i++) {
		if (!attr_usable(&attrs[i]) || key_seen(attrs, i))
			continue;
		r = put_resource_attr(&resource, &attrs[i]);
		if (r < 0)
			return r;
	}
	if (resource.len > b->opt.max_bytes / 2)
		return -E2BIG;
	r = close_resource(b);
	if (r < 0)
		return r;
	buf_fini(&b->resource);
	b->resource = resource;
	resource = (struct buf){0};
	b->has_resource = true;
	return 0;
}

int otlp_batch_window(struct otlp_batch *b, uint64_t start_unix_ns, uint64_t duration_ns)
{
	int r = close_resource(b);

	if (r < 0)
		return r;
	b->opt.start_unix_ns = start_unix_ns;
	b->opt.duration_ns = duration_ns;
	b->has_resource = false;
	otlp_frames_reset(&b->frames);
	memo_clear(&b->stacks);
	return 0;
}

size_t otlp_batch_size(const struct otlp_batch *b)
{
	size_t size = WIRE_FRAME_MAX + otlp_dict_size(b->dict) + b->done.len;

	if (!b->has_resource)
		return size;
	size += PROFILE_BOUND_FIXED + b->scope.len + b->resource.len;
	for (size_t i = 0; i < b->n_profile_types; i++)
		size += b->profiles[i].samples.bound +
			(i > 0 && b->profiles[i].samples.n_events ? PROFILE_BOUND_FIXED : 0);
	return size;
}

int otlp_batch_finish(struct otlp_batch *b, struct otlp_request **ret)
{
	_cleanup_request_ struct otlp_request *request = NULL;
	_cleanup_buf_ struct buf dict = {0};
	int r;

	r = close_resource(b);
	if (r < 0)
		return r;
	if (!b->n_samples) {
		*ret = NULL;
		return 0;
	}
	request = calloc(1, sizeof *request);
	if (!request)
		return -ENOMEM;
	if ((r = buf_reserve(&dict, otlp_dict_size(b->dict))) < 0 ||
	    (r = otlp_dict_encode(b->dict, &dict)) < 0 ||
	    (r = wire_put_bytes(&b->done, 2, dict.data, dict.len)) < 0)
		return r;
	request->data = b->done;
	b->done = (struct buf){0};
	request->raw_bytes = request->data.len;
	request->n_samples = b->n_samples;
	request->n_profiles = b->n_profiles;
	request->start_unix_ns = b->start_unix_ns;
	request->end_unix_ns = b->end_unix_ns;
	(void)begin_request(b); /* this request is complete; the next sample reports the failure */
	*ret = TAKE_PTR(request);
	return 0;
}

static int emit(struct otlp_batch *b)
{
	struct otlp_request *request;
	int r;

	if (!b->opt.emit)
		return -ENOBUFS;
	r = otlp_batch_finish(b, &request);
	if (r < 0 || !request)
		return r;
	return b->opt.emit(b->opt.data, request);
}

/* Upper bound of what the attributes of one sample add to the dictionary. */
static size_t attrs_bound(const struct otlp_attr *attrs, size_t n)
{
	size_t bound = 0;

	for (size_t i = 0; i < n; i++) {
		if (!attr_usable(&attrs[i]))
			continue;
		bound += ATTR_BOUND_FIXED + 3 * strlen(attrs[i].key);
		if (attrs[i].type == OTLP_STRING)
			bound += 3 * strlen(attrs[i].string);
	}
	return bound;
}

static int intern_attrs(struct otlp_batch *b, const struct otlp_attr *attrs, size_t n, int32_t *ids,
			size_t *ret_n)
{
	size_t n_ids = 0;
	int32_t key;
	int r;

	for (size_t i = 0; i < n; i++) {
		if (!attr_usable(&attrs[i]) || key_seen(attrs, i))
			continue;
		r = otlp_dict_string(b->dict, attrs[i].key, &key);
		if (r < 0)
			return r;
		if (attrs[i].type == OTLP_INT)
			r = otlp_dict_attr_int(b->dict, key, attrs[i].integer, &ids[n_ids]);
		else
			r = otlp_dict_attr_string(b->dict, key, attrs[i].string, &ids[n_ids]);
		if (r < 0)
			return r;
		n_ids++;
	}
	*ret_n = n_ids;
	return 0;
}

/* The index of the stack in the dictionary; stack_find was called before. */
static int stack_intern(struct otlp_batch *b, const struct otlp_stack_view *stack, int32_t *index)
{
	int r;

	if (*index >= 0)
		return 0;
	r = otlp_frames_intern(&b->frames, b->dict, &b->stack, index);
	if (r == 0 && stack->id)
		memo_put(&b->stacks, stack->id, *index);
	return r;
}

/* Upper bound of what the stack adds to the dictionary; *ret_index is its index there, or -1. */
static size_t stack_find(struct otlp_batch *b, const struct otlp_stack_view *stack, int32_t *ret_index)
{
	if (stack->id && memo_get(&b->stacks, stack->id, ret_index))
		return 0;
	*ret_index = -1;
	otlp_frames_find(&b->frames, stack->frames, stack->n, &b->stack);
	return b->stack.bound;
}

/* The bytes that each event adds to the request. */
static size_t event_bytes(const struct otlp_batch *b, const struct otlp_sample_events *e)
{
	if (b->opt.aggregate)
		return 0;
	return OTLP_TIMESTAMP_BYTES + (e->values ? OTLP_VALUE_BYTES_MAX : 0);
}

/* Adds as many of the events from `at` on as fit; *ret_n is 0 when the request must be closed first. */
static int add_some(struct otlp_batch *b, const struct otlp_sample_events *e, size_t at, size_t *ret_n)
{
	size_t per_event = event_bytes(b, e), bound, n_attrs = e->n_attrs;
	struct open_profile *p = profile_find(b, e->type);
	int32_t ids[OTLP_ATTRS_MAX];
	struct otlp_samples_add add = {.attrs = ids,
				       .unix_ns = e->unix_ns + at,
				       .values = e->values ? e->values + at : NULL,
				       .n = e->n - at};
	int r;

	if (!p)
		return -ENOMEM;
	if (n_attrs > OTLP_ATTRS_MAX)
		n_attrs = OTLP_ATTRS_MAX;
	bound = otlp_batch_size(b) + profile_bound(b, p) + stack_find(b, &e->stack, &add.stack) +
		attrs_bound(e->attrs, n_attrs) + otlp_samples_entry_bound(n_attrs);
	if (e->values && !b->opt.aggregate)
		bound += otlp_samples_values_bound(&p->samples);
	*ret_n = 0;
	if (bound + per_event > b->opt.max_bytes)
		return 0;
	if (per_event && add.n > (b->opt.max_bytes - bound) / per_event)
		add.n = (b->opt.max_bytes - bound) / per_event;
	r = profile_intern(b, p);
	if (r == 0)
		r = stack_intern(b, &e->stack, &add.stack);
	if (r == 0)
		r = intern_attrs(b, e->attrs, n_attrs, ids, &add.n_attrs);
	if (r == 0)
		r = otlp_samples_add(&p->samples, &add, b->opt.aggregate);
	*ret_n = r == 0 ? add.n : 0;
	return r;
}

int otlp_batch_sample(struct otlp_batch *b, const struct otlp_sample_events *events, size_t *ret_added)
{
	size_t added = 0, ignored, n;
	int r = 0;

	if (!ret_added)
		ret_added = &ignored;
	*ret_added = 0;
	if (!b->has_resource || !events->type || !events->type->type || !events->type->unit)
		return -EINVAL;
	if (b->broken && (r = begin_request(b)) < 0)
		return r;
	while (added < events->n) {
		r = add_some(b, events, added, &n);
		if (r < 0)
			break;
		added += n;
		if (added == events->n)
			break;
		if (!n && !open_events(b) && !b->n_samples) {
			r = -E2BIG;
			break;
		}
		r = emit(b);
		if (r < 0)
			break;
	}
	*ret_added = added;
	return r;
}
