// SPDX-License-Identifier: Apache-2.0
/*
 * An entry of the table of fields: type name, field name, type of the field (strings), whether it is
 * static, its offset, its address. One of the types: name, its super type's, three flags, its size. The
 * size of entries and where their members are has been the same in all versions (vmStructs.hpp).
 */
#include "agent/elf/runtime/hotspot_layout.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/vm_memory.h"

#define ENTRIES_MAX 4096u
#define OFFSET_MAX 4096u /* of a field */
#define BYTES_MAX 1024u	 /* of the objects whose size counts */
#define NAME_MAX_BYTES 48u

struct field_entry {
	uint64_t type, name, is; /* addresses of strings */
	int32_t is_static, zero;
	uint64_t off, address;
};

struct type_entry {
	uint64_t name, super;
	int32_t flags[4];
	uint64_t bytes;
};

static const struct {
	const char *type, *name;
} fields[HOTSPOT_FIELDS_N] = {
#define X(id, type, name) [HOTSPOT_##id] = {type, name},
	HOTSPOT_FIELDS(X)
#undef X
};

/* What was found of statics. */
struct statics {
	uint64_t heaps, heap, counters, codelets; /* variables */
	uint64_t jdk, vm_major;			  /* the version's: a structure, and a number */
};

/* The width of a type, by its name in C++; 0: a structure. */
static uint16_t width_of(const char *type)
{
	static const struct {
		const char *name;
		uint16_t bytes;
	} widths[] = {{"address", 8},	  {"size_t", 8},       {"uint64_t", 8},
		      {"int", 4},	  {"unsigned int", 4}, {"uint32_t", 4},
		      {"u4", 4},	  {"jint", 4},	       {"u2", 2},
		      {"int16_t", 2},	  {"uint16_t", 2},     {"unsigned short", 2},
		      {"bool", 1},	  {"u1", 1},	       {"unsigned char", 1},
		      {"jushort", 2},	  {"jbyte", 1},	       {"char", 1},
		      {"signed char", 1}, {"juint", 4}};
	const size_t len = strlen(type);

	if (len && type[len - 1] == '*')
		return 8;
	for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
		if (strcmp(widths[i].name, type) == 0)
			return widths[i].bytes;
	return 0;
}

static void note_static(struct statics *s, const char *type, const char *name, uint64_t address)
{
	const struct {
		const char *type, *name;
		uint64_t *to;
	} wanted[] = {{"CodeCache", "_heaps", &s->heaps},
		      {"CodeCache", "_heap", &s->heap},
		      {"PerfMemory", "_start", &s->counters},
		      {"AbstractInterpreter", "_code", &s->codelets},
		      {"JDK_Version", "_current", &s->jdk},
		      {"Abstract_VM_Version", "_vm_major_version", &s->vm_major}};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (strcmp(type, wanted[i].type) == 0 && strcmp(name, wanted[i].name) == 0)
			*wanted[i].to = address;
}

/* 0; errors of vm_read. */
static int note_field(struct hotspot_layout *l, struct vm_memory *m, const struct field_entry *e,
		      const char *type, const char *name)
{
	char is[NAME_MAX_BYTES] = "";
	int r;

	for (size_t i = 0; i < HOTSPOT_FIELDS_N; i++) {
		if (strcmp(type, fields[i].type) != 0 || strcmp(name, fields[i].name) != 0)
			continue;
		if (e->off > OFFSET_MAX)
			return -ENOTSUP;
		r = e->is ? vm_read_string(m, is, sizeof is, e->is) : 0;
		if (r < 0)
			return r;
		l->fields[i] = (struct hotspot_field){(uint16_t)e->off, width_of(is), 1};
	}
	return 0;
}

/* 0: the end is reached; -ENOTSUP: it is not; errors of vm_read. */
static int read_fields(struct hotspot_layout *l, struct statics *s, struct vm_memory *m, uint64_t table)
{
	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		char type[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
		struct field_entry e;
		int r = vm_read(m, &e, table + i * sizeof e, sizeof e);

		if (r == 0 && !e.type)
			return 0;
		if (r == 0)
			r = vm_read_string(m, type, sizeof type, e.type);
		if (r == 0)
			r = vm_read_string(m, name, sizeof name, e.name);
		if (r < 0)
			return r;
		if (e.is_static)
			note_static(s, type, name, e.address);
		else
			r = note_field(l, m, &e, type, name);
		if (r < 0)
			return r;
	}
	return -ENOTSUP;
}

static int read_types(struct hotspot_layout *l, struct vm_memory *m, uint64_t table)
{
	const struct {
		const char *name;
		uint32_t *to;
	} wanted[] = {{"HeapBlock", &l->block_bytes},
		      {"ConstMethod", &l->method_bytes},
		      {"ConstantPool", &l->pool_bytes},
		      {"PcDesc", &l->pc_bytes},
		      {"InterpreterCodelet", &l->codelet_bytes}};

	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		char name[NAME_MAX_BYTES];
		struct type_entry e;
		int r = vm_read(m, &e, table + i * sizeof e, sizeof e);

		if (r == 0 && !e.name)
			return 0;
		if (r == 0)
			r = vm_read_string(m, name, sizeof name, e.name);
		if (r < 0)
			return r;
		for (size_t k = 0; k < ARRAY_SIZE(wanted); k++)
			if (strcmp(name, wanted[k].name) == 0)
				*wanted[k].to = e.bytes <= BYTES_MAX ? (uint32_t)e.bytes : 0;
	}
	return -ENOTSUP;
}

/*
 * HotSpot's own number is not the JDK's in old versions: that of JDK 8 is 25. These have a JDK_Version,
 * which is filled in when the machine starts.
 */
static int read_version(struct hotspot_layout *l, struct vm_memory *m, const struct statics *s)
{
	uint64_t version = 0;
	int r = -ENOTSUP;

	if (s->jdk)
		r = hotspot_get(m, l, s->jdk, HOTSPOT_VERSION_MAJOR, &version);
	else if (s->vm_major)
		r = vm_read_number(m, &version, s->vm_major, 4);
	if (r == 0 && !version)
		return -EAGAIN;
	l->version = (uint32_t)version;
	return r;
}

int hotspot_layout_read(struct hotspot_layout *ret, struct vm_memory *m, uint64_t structs, uint64_t types)
{
	struct hotspot_layout l;
	struct statics s = {0};
	uint64_t fields_at, types_at;
	int r = vm_read_number(m, &fields_at, structs, 8);

	memset(&l, 0, sizeof l);
	if (r == 0)
		r = vm_read_number(m, &types_at, types, 8);
	if (r == 0 && (!fields_at || !types_at))
		r = -EAGAIN;
	if (r == 0)
		r = read_fields(&l, &s, m, fields_at);
	if (r == 0)
		r = read_types(&l, m, types_at);
	if (r == 0)
		r = read_version(&l, m, &s);
	if (r < 0)
		return r;
	l.single = !s.heaps;
	l.heaps = s.heaps ?: s.heap;
	l.counters = s.counters;
	l.codelets = s.codelets;
	if (!hotspot_layout_valid(&l))
		return -ENOTSUP;
	*ret = l;
	return 0;
}

/* Fields of pointers and numbers that have to be there: one of each row, by index. */
static const uint8_t needed[][2] = {
	{HOTSPOT_HEAP_SHIFT, HOTSPOT_HEAP_SHIFT},
	{HOTSPOT_SPACE_LOW, HOTSPOT_SPACE_LOW},
	{HOTSPOT_SPACE_HIGH, HOTSPOT_SPACE_HIGH},
	{HOTSPOT_BLOCK_LENGTH, HOTSPOT_BLOCK_LENGTH},
	{HOTSPOT_BLOCK_USED, HOTSPOT_BLOCK_USED},
	{HOTSPOT_BLOB_NAME, HOTSPOT_BLOB_NAME},
	{HOTSPOT_BLOB_FRAME_SIZE, HOTSPOT_BLOB_FRAME_SIZE},
	{HOTSPOT_BLOB_CODE_BEGIN, HOTSPOT_BLOB_CODE_OFFSET},
	{HOTSPOT_BLOB_CODE_END, HOTSPOT_BLOB_DATA_OFFSET},
	{HOTSPOT_NMETHOD_METHOD, HOTSPOT_COMPILED_METHOD},
	{HOTSPOT_NMETHOD_COMPILE_ID, HOTSPOT_NMETHOD_COMPILE_ID},
	{HOTSPOT_METHOD_CONST, HOTSPOT_METHOD_CONST},
	{HOTSPOT_CONST_POOL, HOTSPOT_CONST_POOL},
	{HOTSPOT_CONST_NAME, HOTSPOT_CONST_NAME},
	{HOTSPOT_CONST_CODE_SIZE, HOTSPOT_CONST_CODE_SIZE},
	{HOTSPOT_POOL_HOLDER, HOTSPOT_POOL_HOLDER},
	{HOTSPOT_CLASS_NAME, HOTSPOT_CLASS_NAME},
	{HOTSPOT_SYMBOL_LENGTH, HOTSPOT_SYMBOL_LENGTH_NEW},
};

/* The BPF program reads the rest from the process: only where in a header is a matter of sizes. */
bool hotspot_heaps_valid(const struct code_heaps *c)
{
	const uint16_t complete = c->complete & (uint16_t)~CODE_SHORT;

	if (!c->bytes)
		return !c->method && !c->native;
	if (c->complete != CODE_NO_OFFSET &&
	    (complete >= c->bytes || complete % (c->complete & CODE_SHORT ? 2 : 4)))
		return false;
	return c->bytes < CODE_HEADER_BYTES && c->bytes % 8 == 0 && c->shift <= HOTSPOT_SHIFT_MAX &&
	       c->used < c->bytes && c->name < c->bytes && c->name % 8 == 0 && c->compile_id < c->bytes &&
	       c->compile_id % 4 == 0 && c->frame_words < c->bytes && c->frame_words % 4 == 0 &&
	       c->begin < c->bytes && c->begin % 4 == 0;
}

bool hotspot_layout_valid(const struct hotspot_layout *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!l->fields[needed[i][0]].bytes && !l->fields[needed[i][1]].bytes)
			return false;
	for (size_t i = 0; i < HOTSPOT_FIELDS_N; i++) {
		const struct hotspot_field *f = &l->fields[i];

		if (f->off > OFFSET_MAX || f->found > 1 || f->bytes > 8 || (f->bytes & (f->bytes - 1)))
			return false;
	}
	if (!l->single &&
	    (!l->fields[HOTSPOT_ARRAY_DATA].found ||
	     (!hotspot_has(l, HOTSPOT_ARRAY_LENGTH) && !hotspot_has(l, HOTSPOT_ARRAY_LENGTH_OLD))))
		return false;
	return l->heaps && l->single <= 1 && l->version >= 8 && l->version < 256 &&
	       hotspot_has(l, HOTSPOT_HEAP_MEMORY) && hotspot_has(l, HOTSPOT_HEAP_SEGMAP) &&
	       (hotspot_has(l, HOTSPOT_SYMBOL_BODY) || hotspot_has(l, HOTSPOT_SYMBOL_BODY_OLD)) &&
	       l->block_bytes && l->block_bytes <= BYTES_MAX && l->method_bytes &&
	       l->method_bytes <= BYTES_MAX && l->pool_bytes && l->pool_bytes <= BYTES_MAX &&
	       l->pc_bytes >= 8 && l->pc_bytes <= BYTES_MAX && l->codelet_bytes <= BYTES_MAX &&
	       hotspot_heaps_valid(&l->code) && !l->zero;
}

int hotspot_get(struct vm_memory *m, const struct hotspot_layout *l, uint64_t object,
		enum hotspot_field_name field, uint64_t *ret)
{
	const struct hotspot_field *f = &l->fields[field];

	if (!f->bytes)
		return -ENOTSUP;
	return object ? vm_read_number(m, ret, object + f->off, f->bytes) : -EFAULT;
}
