// SPDX-License-Identifier: Apache-2.0
/*
 * Offsets are those of dotnet/runtime, src/coreclr/vm: codeman.h, method.hpp, methodtable.h, in the releases
 * 8.0 to 10.0. Where a module keeps the base of its image is not the same in all of them: it is the only
 * pointer to such an image in the object.
 */
#include "agent/elf/runtime/dotnet_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define LEVELS 5u
#define LEVEL_BITS 8u
#define LEVEL_SHIFT 17u /* of the innermost level: a piece has 128 KiB */
#define FRAGMENTS_MAX 256u

/* RangeSection::_flags */
enum { RANGE_COLLECTED = 1, RANGE_HEAP = 2, RANGE_LIST = 4 };

#define RANGE_LIST_KIND 0x120u /* CodeRangeMapRangeList: which stubs are in it */
#define STUB_PRECODE 4u
#define STUB_FIXUP 5u
#define STUB_KIND_MAX 15u /* in place of a pointer in front of code */
#define STUB_PIECE VM_PIECE_BYTES

#define MAP_UNIT 256u  /* bytes of code that a word of the map is about */
#define MAP_PIECE 32u  /* the same of 4 bits in it */
#define MAP_STEP 4u    /* code is aligned to as many bytes */
#define MAP_POINTER 9u /* in the lowest bits, from this value on: the word has the place of the function */
#define MAP_UNITS_MAX 65536u /* that are looked at */

#define HEADER_DEBUG 0u /* RealCodeHeader */
#define HEADER_METHOD 24u
#define HEADER_FUNCTIONS 32u
#define HEADER_FUNCTION 36u
#define FUNCTIONS_MAX 4096u /* of a method */

#define METHOD_INDEX 2u /* MethodDesc: its place in the chunk, in units of 8 bytes */
#define METHOD_FLAGS 6u
#define METHOD_KIND_MASK 7u
#define METHOD_DYNAMIC 7u
#define METHOD_NAME 32u /* of DynamicMethodDesc */
#define CHUNK_BYTES 24u /* MethodDescChunk, which the methods follow */
#define CHUNK_TOKEN 18u
#define TOKEN_BITS 12u	 /* of a method's number, those that the method itself has */
#define TABLE_MODULE 24u /* MethodTable */
#define MODULE_BYTES 512u

struct range_fragment {
	uint64_t next, start, end, section;
};

struct range_section {
	uint64_t start, end;
	uint32_t flags, zero;
	uint64_t manager, module, heap, list;
};

struct code_heap {
	uint64_t next, heap, start, end, base, map;
};

static bool is_address(uint64_t a)
{
	return a >= VM_PIECE_BYTES && a < VM_ADDRESS_MAX && !(a & 7);
}

int dotnet_reader_init(struct dotnet_reader *r)
{
	int e = vm_read_number(&r->memory, &r->ranges, r->vm.dac_table, 8);

	if (e < 0)
		return e;
	if (!r->ranges)
		return -EAGAIN;
	if (!is_address(r->ranges))
		return -ENOTSUP;
	r->assemblies = calloc(DOTNET_IMAGES_MAX, sizeof *r->assemblies);
	return r->assemblies ? 0 : -ENOMEM;
}

static void assemblies_clear(struct dotnet_reader *r)
{
	while (r->n)
		dotnet_ready_fini(&r->assemblies[--r->n].ready);
}

void dotnet_reader_fini(struct dotnet_reader *r)
{
	assemblies_clear(r);
	free(r->assemblies);
	r->assemblies = NULL;
}

/* --- assemblies */

/* The assembly whose image is at `base`, read if it was not. NULL: *error. */
static struct dotnet_assembly *assembly_at(struct dotnet_reader *r, uint64_t base, int *error)
{
	struct dotnet_assembly *a;

	for (size_t i = 0; i < r->n; i++)
		if (r->assemblies[i].image.base == base) {
			*error = r->assemblies[i].result;
			return *error ? NULL : &r->assemblies[i];
		}
	if (r->n == DOTNET_IMAGES_MAX) /* begin anew */
		assemblies_clear(r);
	a = &r->assemblies[r->n++];
	memset(a, 0, sizeof *a);
	a->result = dotnet_image_read(&a->image, &r->memory, base);
	a->image.base = base;
	*error = a->result;
	return a->result ? NULL : a;
}

/* The same with its code that was compiled ahead of time. */
static struct dotnet_assembly *ready_at(struct dotnet_reader *r, uint64_t base, int *error)
{
	struct dotnet_assembly *a = assembly_at(r, base, error);

	if (!a)
		return NULL;
	if (!a->ready.n && !a->ready_result)
		a->ready_result = dotnet_ready_read(&a->ready, &a->image, &r->memory);
	*error = a->ready_result;
	return *error ? NULL : a;
}

static int find_ready(struct dotnet_place *ret, struct dotnet_reader *r, const struct range_section *s,
		      uint64_t address)
{
	struct dotnet_function f;
	int e;
	const struct dotnet_assembly *a = ready_at(r, s->start, &e);

	if (!a)
		return e;
	if (address - s->start > UINT32_MAX)
		return -ENOENT;
	e = dotnet_ready_find(&a->ready, &r->memory, (uint32_t)(address - s->start), &f, &ret->function);
	if (e < 0)
		return e;
	ret->start = s->start + f.start;
	ret->end = s->start + f.end;
	ret->unwind = s->start + f.unwind;
	ret->image = s->start;
	return 0;
}

/* --- code that was compiled at run time */

/*
 * Where the function begins that has `address` in it: of each 32 bytes of code, 4 bits say whether and where
 * one begins (the first 4 bytes are 1), the highest bits those of the first. From .NET 10 on, a word for 256
 * bytes in which none begins says instead where the one begins that they are in.
 */
static int method_start(struct dotnet_reader *r, const struct code_heap *h, uint64_t address, uint64_t *ret)
{
	const uint64_t off = address - h->base;
	uint64_t unit = off / MAP_UNIT, word;
	unsigned piece = (unsigned)(off % MAP_UNIT / MAP_PIECE);
	uint32_t least = (uint32_t)(off % MAP_PIECE / MAP_STEP) + 1;

	for (unsigned n = 0; n < MAP_UNITS_MAX; n++) {
		int e = vm_read_number(&r->memory, &word, h->map + unit * 4, 4);

		if (e < 0)
			return e;
		if ((word & 15) >= MAP_POINTER) {
			*ret = h->base + (word & ~15ull) + ((word & 15) - MAP_POINTER) * MAP_STEP;
			return 0;
		}
		for (int i = (int)piece; i >= 0; i--) {
			const uint32_t there = word >> (28 - 4 * i) & 15;

			if (there && there <= least) {
				*ret = h->base + unit * MAP_UNIT + (unsigned)i * MAP_PIECE +
				       (there - 1) * MAP_STEP;
				return 0;
			}
			least = MAP_POINTER;
		}
		if (!unit--)
			return -ENOENT;
		piece = MAP_UNIT / MAP_PIECE - 1;
	}
	return -ENOTSUP;
}

/* Which of the method's functions the address is in: the first one is the method, others are its handlers. */
static int find_function(struct dotnet_place *ret, struct dotnet_reader *r, uint64_t header, uint64_t start,
			 uint64_t address)
{
	struct dotnet_function f;
	uint64_t n, base = 0;
	int e = vm_read_number(&r->memory, &n, header + HEADER_FUNCTIONS, 4);

	if (e == 0 && (!n || n > FUNCTIONS_MAX))
		e = -ENOTSUP;
	for (uint64_t i = 0; i < n && e == 0; i++) {
		e = vm_read(&r->memory, &f, header + HEADER_FUNCTION + i * sizeof f, sizeof f);
		if (e < 0)
			return e;
		if (!i)
			base = start - f.start;
		ret->start = base + f.start;
		ret->end = base + f.end;
		ret->unwind = base + f.unwind;
		if (address >= ret->start && address < ret->end)
			return base & 3 ? -ENOTSUP : 0;
	}
	return e < 0 ? e : -ENOENT;
}

/* The only pointer to an image that is in the module's object. 0: there is none, or another one, too. */
static int image_of_module(struct dotnet_reader *r, uint64_t module, uint64_t *ret)
{
	uint64_t words[MODULE_BYTES / 8];
	int e = is_address(module) ? vm_read(&r->memory, words, module, sizeof words) : -ENOTSUP;
	unsigned found = 0;

	*ret = 0;
	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(words); i++) {
		uint64_t magic;

		if (!is_address(words[i]) || words[i] == *ret ||
		    vm_read_number(&r->memory, &magic, words[i], 2) < 0 || magic != ('M' | 'Z' << 8))
			continue;
		*ret = words[i];
		found++;
	}
	if (found != 1)
		*ret = 0;
	return e;
}

/* What leads to the name of the method at `method`. */
static int read_method(struct dotnet_place *ret, struct dotnet_reader *r, uint64_t method)
{
	uint64_t low, index, flags, chunk, high, table, module;
	int e = is_address(method) ? vm_read_number(&r->memory, &low, method, 2) : -ENOTSUP;

	if (e == 0)
		e = vm_read_number(&r->memory, &index, method + METHOD_INDEX, 1);
	if (e == 0)
		e = vm_read_number(&r->memory, &flags, method + METHOD_FLAGS, 2);
	if (e < 0)
		return e;
	ret->method = method;
	if ((flags & METHOD_KIND_MASK) == METHOD_DYNAMIC)
		return vm_read_number(&r->memory, &ret->dynamic, method + METHOD_NAME, 8);
	chunk = method - index * 8 - CHUNK_BYTES;
	e = vm_read_number(&r->memory, &high, chunk + CHUNK_TOKEN, 2);
	if (e == 0)
		e = vm_read_number(&r->memory, &table, chunk, 8);
	if (e == 0 && !is_address(table))
		e = -ENOTSUP;
	if (e == 0)
		e = vm_read_number(&r->memory, &module, table + TABLE_MODULE, 8);
	if (e < 0)
		return e;
	ret->row = (uint32_t)((high & ((1u << (24 - TOKEN_BITS)) - 1)) << TOKEN_BITS |
			      (low & ((1u << TOKEN_BITS) - 1)));
	return image_of_module(r, module, &ret->image);
}

static int find_compiled(struct dotnet_place *ret, struct dotnet_reader *r, const struct range_section *s,
			 uint64_t address)
{
	uint64_t start, header, method;
	struct code_heap h;
	int e = is_address(s->heap) ? vm_read(&r->memory, &h, s->heap, sizeof h) : -ENOTSUP;

	if (e == 0 && (address < h.base || address >= h.end || !is_address(h.map)))
		e = address >= h.base && address < s->end ? -ENOENT : -ENOTSUP;
	if (e == 0)
		e = method_start(r, &h, address, &start);
	if (e == 0 && (start > address || start < h.base + 8 || start & 3))
		e = -ENOTSUP;
	if (e == 0)
		e = vm_read_number(&r->memory, &header, start - 8, 8);
	if (e == 0 && !is_address(header))
		e = header <= STUB_KIND_MAX ? -ENOENT : -ENOTSUP;
	if (e == 0)
		e = find_function(ret, r, header, start, address);
	if (e == 0) {
		ret->code = start;
		e = vm_read_number(&r->memory, &ret->debug, header + HEADER_DEBUG, 8);
	}
	if (e == 0)
		e = vm_read_number(&r->memory, &method, header + HEADER_METHOD, 8);
	return e == 0 ? read_method(ret, r, method) : e;
}

/* --- ranges */

/* Stubs that only jump; what others push is in their code. */
static int find_stub(struct dotnet_place *ret, struct dotnet_reader *r, const struct range_section *s,
		     uint64_t address)
{
	uint64_t kind;
	int e = is_address(s->list) ? vm_read_number(&r->memory, &kind, s->list + RANGE_LIST_KIND, 4)
				    : -ENOTSUP;

	if (e < 0)
		return e;
	if (kind != STUB_PRECODE && kind != STUB_FIXUP)
		return -ENOENT;
	ret->kind = DOTNET_STUB;
	ret->start = address & ~(uint64_t)(STUB_PIECE - 1);
	ret->end = ret->start + STUB_PIECE;
	ret->start = ret->start > s->start ? ret->start : s->start;
	ret->end = ret->end < s->end ? ret->end : s->end;
	return 0;
}

/* The range that the address is in. Its lowest bit says of a pointer that what it leads to may be freed. */
static int find_range(struct dotnet_reader *r, uint64_t address, struct range_section *ret)
{
	struct range_fragment f = {0};
	uint64_t at = r->ranges;
	int e = 0;

	for (unsigned level = LEVELS; level-- && e == 0;) {
		const uint64_t i = address >> (LEVEL_SHIFT + level * LEVEL_BITS) & ((1u << LEVEL_BITS) - 1);

		e = vm_read_number(&r->memory, &at, at + i * 8, 8);
		at &= ~1ull;
		if (e == 0 && !at)
			return -ENOENT;
		if (e == 0 && !is_address(at))
			return -ENOTSUP;
	}
	for (unsigned n = 0; e == 0; n++, at = f.next & ~1ull) {
		if (!at)
			return -ENOENT;
		if (n == FRAGMENTS_MAX || !is_address(at))
			return -ENOTSUP;
		e = vm_read(&r->memory, &f, at, sizeof f);
		if (e == 0 && address >= f.start && address < f.end)
			break;
	}
	if (e == 0)
		e = vm_read(&r->memory, ret, f.section, sizeof *ret);
	return e == 0 && (address < ret->start || address >= ret->end) ? -ENOTSUP : e;
}

int dotnet_place_find(struct dotnet_place *ret, struct dotnet_reader *r, uint64_t address)
{
	struct dotnet_place p = {.kind = DOTNET_METHOD};
	struct range_section s;
	int e = find_range(r, address, &s);

	if (e < 0)
		return e;
	p.freed = s.flags & RANGE_COLLECTED;
	if (s.flags & RANGE_LIST)
		e = find_stub(&p, r, &s, address);
	else if (s.flags & RANGE_HEAP)
		e = find_compiled(&p, r, &s, address);
	else
		e = s.module ? find_ready(&p, r, &s, address) : -ENOTSUP;
	if (e == 0 && (address < p.start || address >= p.end))
		e = -ENOTSUP;
	if (e == 0)
		*ret = p;
	return e;
}

int dotnet_place_method(const struct dotnet_place *p, struct dotnet_reader *r, struct dotnet_assembly **ret,
			uint32_t *ret_row)
{
	struct dotnet_assembly *a;
	int e = -ENOTSUP;

	a = !p->image ? NULL : p->method ? assembly_at(r, p->image, &e) : ready_at(r, p->image, &e);
	if (!a)
		return e;
	*ret = a;
	*ret_row = p->row;
	return p->method ? 0 : dotnet_ready_method(&a->ready, &a->image, &r->memory, p->function, ret_row);
}

int dotnet_place_name(const struct dotnet_place *p, struct dotnet_reader *r, char *to, size_t size)
{
	struct dotnet_assembly *a;
	uint32_t row;
	int e;

	if (p->dynamic)
		return vm_read_string(&r->memory, to, size, p->dynamic);
	e = dotnet_place_method(p, r, &a, &row);
	return e < 0 ? e : dotnet_image_method(&a->image, &r->memory, row, to, size);
}
