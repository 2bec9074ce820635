// SPDX-License-Identifier: Apache-2.0
/*
 * Each message of the profile is built in one small buffer and goes straight into the gzip stream, so the
 * encoded profile is never in memory as a whole. Ids of the profile's tables serve as ids in the file: both
 * start at 1. The file's string table is "", the profile's strings, then the strings of `fixed_strings` and
 * of the comments.
 */
#include "agent/output/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/profile_private.h"

/* --- a gzip stream (RFC 1952) into a stdio file */

#define WINDOW_BITS (15 + 16) /* 16: gzip header and trailer */

struct gzip {
	FILE *f; /* borrowed */
	z_stream z;
	uint8_t out[16384];
};

static int gzip_init(struct gzip *g, FILE *f)
{
	g->f = f;
	g->z = (z_stream){0};
	return deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) ==
			       Z_OK
		       ? 0
		       : -ENOMEM;
}

static void gzip_fini(struct gzip *g)
{
	deflateEnd(&g->z);
}

static int gzip_run(struct gzip *g, int flush)
{
	int r;

	do {
		size_t n;

		g->z.next_out = g->out;
		g->z.avail_out = sizeof g->out;
		r = deflate(&g->z, flush);
		n = sizeof g->out - g->z.avail_out;
		if (r == Z_STREAM_ERROR || fwrite(g->out, 1, n, g->f) != n)
			return -EIO;
	} while (g->z.avail_out == 0 || (flush == Z_FINISH && r != Z_STREAM_END));
	return 0;
}

static int gzip_write(struct gzip *g, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		uInt n = len > (1u << 30) ? 1u << 30 : (uInt)len;
		int r;

		g->z.next_in = (Bytef *)p;
		g->z.avail_in = n;
		r = gzip_run(g, Z_NO_FLUSH);
		if (r < 0)
			return r;
		p += n;
		len -= n;
	}
	return 0;
}

/* Writes the trailer and flushes the file. 0, -EIO. */
static int gzip_finish(struct gzip *g)
{
	int r = gzip_run(g, Z_FINISH);

	return r < 0 ? r : fflush(g->f) != 0 || ferror(g->f) ? -EIO : 0;
}

/* --- wire encoding of protocol buffers; fields with the default value are left out, as in proto3 */

enum { WIRE_VARINT = 0, WIRE_LEN = 2 };

static int wire_varint(struct buf *b, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
		n++;
	} while (value);
	return buf_append(b, bytes, n);
}

static int wire_uint(struct buf *b, unsigned field, uint64_t value)
{
	int r;

	if (!value)
		return 0;
	r = wire_varint(b, (uint64_t)field << 3 | WIRE_VARINT);
	return r < 0 ? r : wire_varint(b, value);
}

/* Writes a field even if it is empty, since it counts as an element of a list. */
static int wire_bytes(struct buf *b, unsigned field, const void *data, size_t len)
{
	int r = wire_varint(b, (uint64_t)field << 3 | WIRE_LEN);

	if (r == 0)
		r = wire_varint(b, len);
	return r < 0 ? r : buf_append(b, data, len);
}

static int wire_message(struct buf *b, unsigned field, const struct buf *message)
{
	return wire_bytes(b, field, message->data, message->len);
}

/* --- messages of profile.proto, and their field numbers */

enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STR = 2, LABEL_NUM = 3 };
enum {
	MAPPING_ID = 1,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILE,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS
};
enum { LOCATION_ID = 1, LOCATION_MAPPING_ID = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION_ID = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME, FUNCTION_START_LINE };

enum fixed_string {
	STRING_SAMPLES,
	STRING_COUNT,
	STRING_CPU,
	STRING_NANOSECONDS,
	STRING_PROCESS,
	STRING_PID,
	STRING_THREAD,
	STRING_CONTAINER_ID,
	STRING_CONTAINER_NAME,
	N_FIXED_STRINGS
};

static const char *const fixed_strings[N_FIXED_STRINGS] = {
	"samples", "count",  "cpu",	     "nanoseconds",    "process",
	"pid",	   "thread", "container.id", "container.name",
};

struct pprof {
	const struct output_profile *p;
	struct gzip gzip;
	struct buf message; /* the message under construction */
	struct buf part;    /* a message inside it */
	struct buf labels;  /* of the current group, encoded */
	int r;		    /* first error; later writes do nothing */
};

static void pprof_fini(struct pprof *o)
{
	gzip_fini(&o->gzip);
	buf_fini(&o->message);
	buf_fini(&o->part);
	buf_fini(&o->labels);
}

static void keep(struct pprof *o, int r)
{
	if (o->r == 0)
		o->r = r;
}

static uint64_t fixed(const struct pprof *o, enum fixed_string s)
{
	return 1ull + output_table_len(&o->p->strings) + s;
}

/* Append a field to the message under construction, or to its part. */
static void put(struct pprof *o, unsigned field, uint64_t value)
{
	keep(o, wire_uint(&o->message, field, value));
}

static void put_part(struct pprof *o, unsigned field, uint64_t value)
{
	keep(o, wire_uint(&o->part, field, value));
}

static void end_part(struct pprof *o, unsigned field)
{
	keep(o, wire_message(&o->message, field, &o->part));
	buf_clear(&o->part);
}

/* Sends the message under construction as field `field` of Profile. */
static void end_message(struct pprof *o, enum profile_field field)
{
	keep(o, wire_message(&o->part, field, &o->message));
	if (o->r == 0)
		keep(o, gzip_write(&o->gzip, o->part.data, o->part.len));
	buf_clear(&o->part);
	buf_clear(&o->message);
}

static void put_value_type(struct pprof *o, enum profile_field field, enum fixed_string type,
			   enum fixed_string unit)
{
	put(o, VALUE_TYPE, fixed(o, type));
	put(o, VALUE_UNIT, fixed(o, unit));
	end_message(o, field);
}

static void put_scalar(struct pprof *o, enum profile_field field, uint64_t value)
{
	put_part(o, field, value);
	if (o->r == 0)
		keep(o, gzip_write(&o->gzip, o->part.data, o->part.len));
	buf_clear(&o->part);
}

static void put_head(struct pprof *o)
{
	const struct output_info *info = &o->p->info;

	put_value_type(o, PROFILE_SAMPLE_TYPE, STRING_SAMPLES, STRING_COUNT);
	put_scalar(o, PROFILE_TIME_NANOS, info->start_unix_ns);
	put_scalar(o, PROFILE_DURATION_NANOS, info->duration_ns);
	if (info->frequency_hz) {
		put_value_type(o, PROFILE_SAMPLE_TYPE, STRING_CPU, STRING_NANOSECONDS);
		put_value_type(o, PROFILE_PERIOD_TYPE, STRING_CPU, STRING_NANOSECONDS);
		put_scalar(o, PROFILE_PERIOD, NS_PER_SEC / info->frequency_hz);
	}
}

static void put_label(struct pprof *o, enum fixed_string key, uint32_t string, uint64_t number)
{
	if (!string && !number)
		return;
	put_part(o, LABEL_KEY, fixed(o, key));
	put_part(o, LABEL_STR, string);
	put_part(o, LABEL_NUM, number);
	keep(o, wire_message(&o->labels, SAMPLE_LABEL, &o->part));
	buf_clear(&o->part);
}

static void put_sample(struct pprof *o, const struct output_node *leaf)
{
	uint32_t hz = o->p->info.frequency_hz;

	for (const struct output_node *n = leaf; n->parent; n = n->parent)
		keep(o, wire_varint(&o->part, n->location));
	end_part(o, SAMPLE_LOCATION_ID);
	keep(o, wire_varint(&o->part, leaf->self));
	if (hz)
		keep(o,
		     wire_varint(&o->part, leaf->self / hz * NS_PER_SEC + leaf->self % hz * NS_PER_SEC / hz));
	end_part(o, SAMPLE_VALUE);
	keep(o, buf_append(&o->message, o->labels.data, o->labels.len));
	end_message(o, PROFILE_SAMPLE);
}

/* The node after `n` in preorder below `root`; NULL at the end. */
static const struct output_node *next_node(const struct output_node *n, const struct output_node *root)
{
	if (n->child)
		return n->child;
	while (n != root && !n->sibling)
		n = n->parent;
	return n == root ? NULL : n->sibling;
}

static void put_group(struct pprof *o, const struct output_group *g)
{
	buf_clear(&o->labels);
	put_label(o, STRING_PROCESS, g->process, 0);
	put_label(o, STRING_PID, 0, g->pid);
	put_label(o, STRING_THREAD, g->thread, 0);
	put_label(o, STRING_CONTAINER_ID, g->container, 0);
	put_label(o, STRING_CONTAINER_NAME, g->container_name, 0);
	for (const struct output_node *n = &g->root; n && o->r == 0; n = next_node(n, &g->root))
		if (n->self)
			put_sample(o, n);
}

/*
 * Sets has_functions only where every frame has a name, since it prevents pprof from symbolizing a mapping.
 */
static int put_mappings(struct pprof *o)
{
	uint32_t n = output_table_len(&o->p->modules);
	_cleanup_free_ bool *unnamed = calloc(n + 1, sizeof *unnamed);

	if (!unnamed)
		return -ENOMEM;
	/* readers take the first mapping for the main program; a recording of a host has none */
	put(o, MAPPING_ID, n + 1);
	end_message(o, PROFILE_MAPPING);
	for (uint32_t id = 1; id <= output_table_len(&o->p->functions); id++) {
		const struct output_function *f = output_function_of(o->p, id);

		unnamed[f->module] |= !f->named;
	}
	for (uint32_t id = 1; id <= n; id++) {
		const struct output_module *m = output_module_of(o->p, id);

		put(o, MAPPING_ID, id);
		put(o, MAPPING_START, m->start);
		put(o, MAPPING_LIMIT, m->limit);
		put(o, MAPPING_OFFSET, m->file_offset);
		put(o, MAPPING_FILE, m->path);
		put(o, MAPPING_BUILD_ID, m->build_id);
		put(o, MAPPING_HAS_FUNCTIONS, !unnamed[id]);
		end_message(o, PROFILE_MAPPING);
	}
	return 0;
}

static void put_locations(struct pprof *o)
{
	for (uint32_t id = 1; id <= output_table_len(&o->p->locations); id++) {
		const struct output_location *l = output_location_of(o->p, id);

		put(o, LOCATION_ID, id);
		put(o, LOCATION_MAPPING_ID, output_function_of(o->p, l->function)->module);
		put(o, LOCATION_ADDRESS, l->address);
		put_part(o, LINE_FUNCTION_ID, l->function);
		put_part(o, LINE_LINE, l->line);
		end_part(o, LOCATION_LINE);
		end_message(o, PROFILE_LOCATION);
	}
}

static void put_functions(struct pprof *o)
{
	for (uint32_t id = 1; id <= output_table_len(&o->p->functions); id++) {
		const struct output_function *f = output_function_of(o->p, id);

		put(o, FUNCTION_ID, id);
		put(o, FUNCTION_NAME, f->name);
		put(o, FUNCTION_SYSTEM_NAME, f->system_name ? f->system_name : f->name);
		put(o, FUNCTION_FILENAME, f->file);
		put(o, FUNCTION_START_LINE, f->start_line);
		end_message(o, PROFILE_FUNCTION);
	}
}

static void put_string(struct pprof *o, const char *s)
{
	keep(o, buf_puts(&o->message, s));
	end_message(o, PROFILE_STRING_TABLE);
}

static void put_strings(struct pprof *o)
{
	const struct output_info *info = &o->p->info;
	const char *const comments[][2] = {
		{"host: ", info->hostname},
		{"command: ", info->command},
		{"proflet ", info->version},
	};
	uint64_t index = fixed(o, N_FIXED_STRINGS);

	put_string(o, "");
	for (uint32_t id = 1; id <= output_table_len(&o->p->strings); id++)
		put_string(o, output_string_text(o->p, id));
	for (size_t i = 0; i < N_FIXED_STRINGS; i++)
		put_string(o, fixed_strings[i]);
	for (size_t i = 0; i < ARRAY_SIZE(comments); i++) {
		if (!comments[i][1])
			continue;
		keep(o, buf_puts(&o->message, comments[i][0]));
		put_string(o, comments[i][1]);
		put_scalar(o, PROFILE_COMMENT, index++);
	}
}

int output_pprof_write(const struct output_profile *p, FILE *f)
{
	_cleanup_(pprof_fini) struct pprof o = {.p = p};
	int r;

	r = gzip_init(&o.gzip, f);
	if (r < 0)
		return r;
	put_head(&o);
	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++)
		put_group(&o, output_group_of(p, id));
	keep(&o, put_mappings(&o));
	put_locations(&o);
	put_functions(&o);
	put_strings(&o);
	if (o.r == 0)
		o.r = gzip_finish(&o.gzip);
	return o.r;
}
