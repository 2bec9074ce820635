// SPDX-License-Identifier: Apache-2.0
#include "otlp/intern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/map.h"
#include "agent/base/pool.h"
#include "otlp/messages.h"
#include "otlp/utf8.h"
#include "otlp/wire.h"

#define TABLE_MAX (1u << 20)	    /* entries; a request reaches its size limit long before */
#define TABLE_MAX_BYTES (64u << 20) /* encoded */

/* Indexed by the order of fields in ProfilesDictionary: the field's number is the table's plus one. */
enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, N_TABLES };

struct entry {
	struct map_node node;
	int32_t index;
	uint32_t len;
	uint8_t key[];
};

struct interned {
	struct map entries; /* allocated from the pool; entry 0 is only in `wire` */
	struct buf wire;    /* encoded entries with their tags, by index */
	int32_t n;
};

struct otlp_dict {
	struct interned tables[N_TABLES];
	struct pool pool; /* of the entries of all tables */
	struct buf scratch, key;
};

struct lookup {
	const void *key;
	size_t len;
};

static bool entry_is(const struct map_node *node, const void *data)
{
	const struct entry *e = container_of(node, struct entry, node);
	const struct lookup *l = data;

	return e->len == l->len && !memcmp(e->key, l->key, l->len);
}

static void forget_entries(struct interned *t)
{
	map_fini(&t->entries);
	buf_clear(&t->wire);
	t->n = 0;
}

int otlp_dict_reset(struct otlp_dict *d)
{
	int r;

	pool_fini(&d->pool);
	for (size_t i = 0; i < N_TABLES; i++) {
		struct interned *t = &d->tables[i];

		forget_entries(t);
		r = wire_put_bytes(&t->wire, (uint32_t)i + 1, NULL, 0);
		if (r < 0)
			return r;
		t->n = 1;
	}
	return 0;
}

int otlp_dict_new(struct otlp_dict **ret)
{
	_cleanup_dict_ struct otlp_dict *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return -ENOMEM;
	for (size_t i = 0; i < N_TABLES; i++) {
		map_init(&d->tables[i].entries, TABLE_MAX);
		buf_init(&d->tables[i].wire, TABLE_MAX_BYTES);
	}
	r = otlp_dict_reset(d);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(d);
	return 0;
}

void otlp_dict_free(struct otlp_dict *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < N_TABLES; i++) {
		forget_entries(&d->tables[i]);
		buf_fini(&d->tables[i].wire);
	}
	pool_fini(&d->pool);
	buf_fini(&d->scratch);
	buf_fini(&d->key);
	free(d);
}

_Static_assert(sizeof(struct otlp_dict_mapping) == 48, "no hidden padding in a key");
_Static_assert(sizeof(struct otlp_dict_location) == 24, "no hidden padding in a key");

/* A mapping, location or function whose key is all zeros is the zero value. */
static bool is_zero_value(enum table table, const struct lookup *l)
{
	static const uint8_t zeros[sizeof(struct otlp_dict_mapping)];

	return table < LINKS && l->len <= sizeof zeros && !memcmp(l->key, zeros, l->len);
}

/* Looks a key up. True and its index, or false and the hash for insert(). */
static bool find(struct otlp_dict *d, enum table table, const struct lookup *l, uint64_t *ret_hash,
		 int32_t *ret)
{
	struct map_node *n;

	if (is_zero_value(table, l)) {
		*ret = 0;
		return true;
	}
	*ret_hash = hash_bytes(l->key, l->len);
	n = map_find(&d->tables[table].entries, *ret_hash, entry_is, l);
	if (n)
		*ret = container_of(n, struct entry, node)->index;
	return n != NULL;
}

/* Adds the entry that the caller has just encoded and gives it an index; on failure, removes its bytes. */
static int insert(struct otlp_dict *d, enum table table, const struct lookup *l, uint64_t hash,
		  size_t wire_len_before, int32_t *ret)
{
	struct interned *t = &d->tables[table];
	struct entry *e = pool_take(&d->pool, sizeof *e + l->len);
	int r = -ENOMEM;

	if (e) {
		e->index = t->n;
		e->len = (uint32_t)l->len;
		memcpy(e->key, l->key, l->len);
		r = map_insert(&t->entries, &e->node, hash);
	}
	if (r < 0) {
		t->wire.len = wire_len_before;
		return r;
	}
	*ret = t->n++;
	return 0;
}

static int intern_message(struct otlp_dict *d, enum table table, const struct lookup *l, uint64_t hash,
			  const ProtobufCMessage *m, int32_t *ret)
{
	struct interned *t = &d->tables[table];
	size_t before = t->wire.len;
	int r;

	r = wire_put_message(&t->wire, (uint32_t)table + 1, m);
	return r < 0 ? r : insert(d, table, l, hash, before, ret);
}

const char *otlp_clean_string(struct buf *scratch, const char *s, size_t *ret_len)
{
	size_t len = strlen(s);

	if (len <= OTLP_STRING_MAX && utf8_valid(s, len)) {
		*ret_len = len;
		return s;
	}
	buf_clear(scratch);
	if (buf_reserve(scratch, OTLP_STRING_MAX + 1) < 0 ||
	    utf8_sanitize(scratch, s, len, OTLP_STRING_MAX) < 0)
		return NULL;
	*ret_len = scratch->len;
	return buf_str(scratch);
}

int otlp_dict_string(struct otlp_dict *d, const char *s, int32_t *ret)
{
	struct interned *t = &d->tables[STRINGS];
	size_t before = t->wire.len;
	struct lookup l;
	uint64_t hash;
	int r;

	if (!s || !*s) {
		*ret = 0;
		return 0;
	}
	l.key = otlp_clean_string(&d->scratch, s, &l.len);
	if (!l.key)
		return -ENOMEM;
	if (find(d, STRINGS, &l, &hash, ret))
		return 0;
	r = wire_put_bytes(&t->wire, STRINGS + 1, l.key, l.len);
	return r < 0 ? r : insert(d, STRINGS, &l, hash, before, ret);
}

/* The key of an attribute: index of its name, type, bytes of its value. */
static int intern_attr(struct otlp_dict *d, int32_t key, otlp_any_value *value, const void *bytes, size_t len,
		       int32_t *ret)
{
	otlp_key_value_and_unit m = OTLP_KEY_VALUE_AND_UNIT_INIT;
	char type = (char)value->value_case;
	struct lookup l;
	uint64_t hash;

	buf_clear(&d->key);
	if (buf_append(&d->key, &key, sizeof key) < 0 || buf_putc(&d->key, type) < 0 ||
	    buf_append(&d->key, bytes, len) < 0)
		return -ENOMEM;
	l = (struct lookup){d->key.data, d->key.len};
	if (find(d, ATTRIBUTES, &l, &hash, ret))
		return 0;
	m.key_strindex = key;
	m.value = value;
	return intern_message(d, ATTRIBUTES, &l, hash, &m.base, ret);
}

int otlp_dict_attr_string(struct otlp_dict *d, int32_t key, const char *value, int32_t *ret)
{
	otlp_any_value any = OTLP_ANY_VALUE_INIT;
	const char *clean;
	size_t len;

	clean = otlp_clean_string(&d->scratch, value, &len);
	if (!clean)
		return -ENOMEM;
	any.value_case = OTLP_ANY_VALUE_STRING;
	any.string_value = (char *)clean;
	return intern_attr(d, key, &any, clean, len, ret);
}

int otlp_dict_attr_int(struct otlp_dict *d, int32_t key, int64_t value, int32_t *ret)
{
	otlp_any_value any = OTLP_ANY_VALUE_INIT;

	any.value_case = OTLP_ANY_VALUE_INT;
	any.int_value = value;
	return intern_attr(d, key, &any, &value, sizeof value, ret);
}

int otlp_dict_function(struct otlp_dict *d, const struct otlp_dict_function *key, int32_t *ret)
{
	otlp_function m = OTLP_FUNCTION_INIT;
	struct lookup l = {key, sizeof *key};
	uint64_t hash;

	if (find(d, FUNCTIONS, &l, &hash, ret))
		return 0;
	m.name_strindex = key->name;
	m.system_name_strindex = key->system_name;
	m.filename_strindex = key->filename;
	m.start_line = key->start_line;
	return intern_message(d, FUNCTIONS, &l, hash, &m.base, ret);
}

int otlp_dict_mapping(struct otlp_dict *d, const struct otlp_dict_mapping *key, int32_t *ret)
{
	struct lookup l = {key, sizeof *key};
	otlp_mapping m = OTLP_MAPPING_INIT;
	uint64_t hash;

	if (find(d, MAPPINGS, &l, &hash, ret))
		return 0;
	m.memory_start = key->start;
	m.memory_limit = key->limit;
	m.file_offset = key->file_offset;
	m.filename_strindex = key->filename;
	m.n_attribute_indices = key->n_attrs;
	m.attribute_indices = (int32_t *)key->attrs;
	return intern_message(d, MAPPINGS, &l, hash, &m.base, ret);
}

static int intern_location(struct otlp_dict *d, const struct otlp_dict_location *key,
			   const struct otlp_dict_line *lines, size_t n, const struct lookup *l, int32_t *ret)
{
	otlp_line line[OTLP_LINES_MAX], *pointers[OTLP_LINES_MAX];
	otlp_location m = OTLP_LOCATION_INIT;
	int32_t attrs[OTLP_LOCATION_ATTRS];
	size_t n_attrs = 0;
	uint64_t hash;

	if (find(d, LOCATIONS, l, &hash, ret))
		return 0;
	for (size_t i = 0; i < n; i++) {
		line[i] = (otlp_line)OTLP_LINE_INIT;
		line[i].function_index = lines[i].function;
		line[i].line = lines[i].line;
		pointers[i] = &line[i];
	}
	m.mapping_index = key->mapping;
	m.address = key->address;
	m.n_lines = n;
	m.lines = pointers;
	for (size_t i = 0; i < OTLP_LOCATION_ATTRS; i++)
		if (key->attrs[i])
			attrs[n_attrs++] = key->attrs[i];
	m.n_attribute_indices = n_attrs;
	m.attribute_indices = attrs;
	return intern_message(d, LOCATIONS, l, hash, &m.base, ret);
}

int otlp_dict_location(struct otlp_dict *d, const struct otlp_dict_location *key, int32_t *ret)
{
	const struct otlp_dict_line line = {.function = key->function};
	struct lookup l = {key, sizeof *key};

	return intern_location(d, key, &line, key->function ? 1 : 0, &l, ret);
}

int otlp_dict_location_lines(struct otlp_dict *d, const struct otlp_dict_location *key,
			     const struct otlp_dict_line *lines, size_t n, int32_t *ret)
{
	struct lookup l;

	if (n > OTLP_LINES_MAX)
		return -EINVAL;
	buf_clear(&d->key);
	if (buf_append(&d->key, key, sizeof *key) < 0 || buf_append(&d->key, lines, n * sizeof *lines) < 0)
		return -ENOMEM;
	l = (struct lookup){d->key.data, d->key.len};
	return intern_location(d, key, lines, n, &l, ret);
}

static int put_stack(struct buf *b, const int32_t *locations, size_t n)
{
	size_t packed = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		packed += wire_varint_size((uint64_t)locations[i]);
	if ((r = buf_reserve(b, wire_bytes_size(wire_bytes_size(packed)))) < 0 ||
	    (r = wire_put_frame(b, STACKS + 1, wire_bytes_size(packed))) < 0 ||
	    (r = wire_put_frame(b, 1, packed)) < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = wire_put_varint(b, (uint64_t)locations[i]);
	return r;
}

int otlp_dict_stack(struct otlp_dict *d, const int32_t *locations, size_t n, int32_t *ret)
{
	struct buf *wire = &d->tables[STACKS].wire;
	struct lookup l = {locations, n * sizeof *locations};
	size_t before = wire->len;
	uint64_t hash;
	int r;

	if (!n) {
		*ret = 0;
		return 0;
	}
	if (find(d, STACKS, &l, &hash, ret))
		return 0;
	r = put_stack(wire, locations, n);
	if (r < 0)
		wire->len = before;
	return r < 0 ? r : insert(d, STACKS, &l, hash, before, ret);
}

size_t otlp_dict_size(const struct otlp_dict *d)
{
	size_t size = 0;

	for (size_t i = 0; i < N_TABLES; i++)
		size += d->tables[i].wire.len;
	return size;
}

int otlp_dict_encode(const struct otlp_dict *d, struct buf *b)
{
	int r;

	for (size_t i = 0; i < N_TABLES; i++) {
		r = buf_append(b, d->tables[i].wire.data, d->tables[i].wire.len);
		if (r < 0)
			return r;
	}
	return 0;
}
