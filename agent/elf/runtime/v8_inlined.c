// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/v8_inlined.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/elf/code/memory_code.h"
#include "agent/elf/runtime/v8.h"

#define CODE_ALIGNMENT 64u
#define CODE_SIZE_MIN 8u
#define ARRAY_FIRST 16u	  /* bytes before the first element; the length is a Smi in front of it */
#define WRAPPED 8u	  /* what a SharedFunctionInfoWrapper leads to */
#define INLINED_COUNT 1u  /* index in DeoptimizationData: how many of the literals are functions */
#define INLINED_BYTES 16u /* of the place of an inlined call: u64 position, u32 index of the function */
#define POSITIONS_BYTES_MAX (64u << 10)
#define ELEMENTS_MAX 65536u
/* Bits of a position. */
#define POSITION_EXTERNAL 1u
#define POSITION_INLINED 31 /* u16, the index of the inlined call, from 1 on */

struct place {
	uint64_t caller;   /* index of the inlined call that it is in, from 1 on; 0: none */
	uint64_t function; /* index of the literal */
};

static bool is_pointer(uint64_t word)
{
	return (word & 3) == 1;
}

static int read_word(struct vm_memory *m, uint64_t *ret, uint64_t pointer, uint64_t offset)
{
	return is_pointer(pointer) ? vm_read_number(m, ret, pointer - 1 + offset, 8) : -EFAULT;
}

/* Whether the object is of the type. 0; -ENOENT: no; errors of vm_read. */
static int check_type(struct vm_memory *m, const struct v8_layout *l, uint64_t pointer, uint16_t type)
{
	uint64_t map, is;
	int r = read_word(m, &map, pointer, 0);

	if (r == 0)
		r = is_pointer(map) ? vm_read_number(m, &is, map - 1 + l->map_type, 2) : -ENOENT;
	if (r < 0)
		return r;
	return is == type ? 0 : -ENOENT;
}

/* The elements of an array. 0; -ENOENT: it has more than there can be, or is none. */
static int read_length(struct vm_memory *m, uint64_t array, uint32_t max, uint32_t *ret)
{
	uint64_t length;
	int r = read_word(m, &length, array, 8);

	if (r < 0)
		return r;
	if ((uint32_t)length || length >> 32 > max)
		return -ENOENT;
	*ret = (uint32_t)(length >> 32);
	return 0;
}

/* --- code */

/* Whether code whose instructions begin at `start` has the address. 0; -ENOENT; errors of vm_read. */
static int code_at(struct vm_memory *m, const struct v8_layout *l, uint64_t start, uint64_t address,
		   struct v8_compiled *ret)
{
	const struct v8_code_layout *c = &l->code;
	uint64_t object = start - c->header + 1, map, begins, size;
	int r = read_word(m, &map, object, 0);

	if (r == 0 && !is_pointer(map))
		return -ENOENT;
	if (r == 0 && c->code)
		r = read_word(m, &object, object, c->code);
	if (r == 0)
		r = check_type(m, l, object, c->type);
	if (r == 0 && c->start) {
		r = read_word(m, &begins, object, c->start);
		if (r == 0 && begins != start)
			return -ENOENT;
	}
	if (r == 0)
		r = vm_read_number(m, &size, object - 1 + c->size, 4);
	if (r < 0)
		return r;
	if (size < CODE_SIZE_MIN || size > MEMORY_CODE_MAX || address - start >= size)
		return -ENOENT;
	*ret = (struct v8_compiled){.start = start, .end = start + size};
	r = read_word(m, &ret->deopt, object, c->deopt);
	return r == 0 ? read_word(m, &ret->positions, object, c->positions) : r;
}

int v8_compiled_find(struct vm_memory *m, const struct v8_layout *l, uint64_t address,
		     struct v8_compiled *ret)
{
	uint64_t start = address & ~(uint64_t)(CODE_ALIGNMENT - 1), word;

	if (!l->code.type || address >= VM_ADDRESS_MAX)
		return -ENOENT;
	for (; start > MEMORY_CODE_MAX && address - start < MEMORY_CODE_MAX; start -= CODE_ALIGNMENT) {
		const int r = code_at(m, l, start, address, ret);

		/* instructions may look like pointers to anything; the memory before the code is not there */
		if (r == 0 || r == -E2BIG)
			return r;
		if (r == -EFAULT && vm_read_number(m, &word, start - l->code.header, 8) < 0)
			return -ENOENT;
	}
	return -ENOENT;
}

int v8_compiled_function(struct vm_memory *m, const struct v8_layout *l, const struct v8_compiled *code,
			 uint64_t *ret)
{
	uint32_t n;
	int r = read_length(m, code->deopt, ELEMENTS_MAX, &n);

	*ret = 0;
	if (r == 0)
		r = n > l->code.inlined ? read_word(m, ret, code->deopt, ARRAY_FIRST + 8u * l->code.function)
					: -ENOENT;
	if (r == 0 && l->code.is_wrapped)
		r = read_word(m, ret, *ret, WRAPPED);
	if (r == 0)
		r = check_type(m, l, *ret, l->shared_type);
	if (r < 0)
		*ret = 0;
	return r;
}

/* --- inlined functions */

struct reader {
	struct vm_memory *m;
	const struct v8_layout *l;
	struct v8_inlined *to;
	uint64_t deopt;
	uint32_t n_literals, n_calls;
	struct place calls[V8_INLINED_MAX];
};

static int element(const struct reader *r, uint64_t *ret, uint32_t i)
{
	return read_word(r->m, ret, r->deopt, ARRAY_FIRST + 8u * i);
}

/* The functions that are inlined, which are the first ones of the literals. */
static int read_functions(struct reader *r)
{
	uint64_t count, literals;
	int e = element(r, &count, INLINED_COUNT);

	if (e == 0)
		e = element(r, &literals, r->l->code.literals);
	if (e < 0)
		return e;
	if ((uint32_t)count || count >> 32 >= HOTSPOT_METHODS_MAX)
		return -ENOENT;
	r->n_literals = (uint32_t)(count >> 32);
	for (uint32_t i = 0; i < r->n_literals && e == 0; i++) {
		uint64_t *f = &r->to->functions[1 + i];

		e = read_word(r->m, f, literals, ARRAY_FIRST + 8u * i);
		if (e == 0)
			e = check_type(r->m, r->l, *f, r->l->shared_type);
	}
	r->to->n_functions = 1 + r->n_literals;
	return e;
}

/* Which function the code of an inlined call is of, as an index of functions[]. */
static uint16_t function_of(const struct reader *r, uint64_t call)
{
	return call ? (uint16_t)(1 + r->calls[call - 1].function) : 0;
}

/* The place from which each inlined call was made is a scope of the same index. */
static int read_calls(struct reader *r)
{
	uint64_t array, position, function;
	uint32_t bytes = 0;
	int e = element(r, &array, r->l->code.inlined);

	if (e == 0)
		e = read_length(r->m, array, V8_INLINED_MAX * INLINED_BYTES, &bytes);
	if (e < 0)
		return e;
	for (uint32_t i = 0; i < bytes / INLINED_BYTES; i++) {
		const uint64_t at = array - 1 + ARRAY_FIRST + (uint64_t)i * INLINED_BYTES;
		struct place *p = &r->calls[i];

		e = vm_read_number(r->m, &position, at, 8);
		if (e == 0)
			e = vm_read_number(r->m, &function, at + 8, 4);
		if (e < 0)
			return e;
		*p = (struct place){position >> POSITION_INLINED & 0xffff, function};
		if (position & POSITION_EXTERNAL || p->caller > i || function >= r->n_literals)
			return -ENOENT;
		r->to->scopes[i] = (struct hotspot_scope){.outer = p->caller ? (uint16_t)(p->caller - 1)
									     : HOTSPOT_NO_SCOPE,
							  .method = function_of(r, p->caller)};
		r->n_calls = i + 1;
	}
	/* then a scope for what is inlined by each call, and one for what is not inlined */
	for (uint32_t call = 0; call <= r->n_calls; call++)
		r->to->scopes[r->n_calls + call] =
			(struct hotspot_scope){.outer = call ? (uint16_t)(call - 1) : HOTSPOT_NO_SCOPE,
					       .method = function_of(r, call)};
	r->to->n_scopes = 2 * r->n_calls + 1;
	return 0;
}

/* A number of 7 bits a byte, the lowest first. False: it does not end. */
static bool next_number(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		const uint8_t byte = *(*at)++;

		*ret |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static int64_t zigzag(uint64_t number)
{
	return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* The difference of offsets that an entry has. */
static uint64_t offset_of(const struct v8_code_layout *l, uint64_t number)
{
	const int64_t n = zigzag(number);

	if (l->flag_bits)
		return number >> l->flag_bits;
	return n >= 0 ? (uint64_t)n : ~(uint64_t)n;
}

/* The code before `end` is of that inlined call, up to the place before. False: there are too many places. */
static bool put_place(struct reader *r, uint64_t end, uint64_t call)
{
	struct v8_inlined *to = r->to;
	const uint32_t scope = r->n_calls + (uint32_t)call;

	if (!end || (to->n_places && to->places[to->n_places - 1].end + 1 >= end))
		return true;
	if (to->n_places && to->places[to->n_places - 1].scope == scope) {
		to->places[to->n_places - 1].end = (uint32_t)end - 1;
		return true;
	}
	if (to->n_places == HOTSPOT_PLACES_MAX)
		return false;
	to->places[to->n_places++] = (struct hotspot_place){.end = (uint32_t)end - 1, .scope = scope};
	return true;
}

static bool put_places(struct reader *r, const uint8_t *at, size_t n, uint64_t code_bytes)
{
	const uint8_t *end = at + n;
	uint64_t offset = 0, position = 0, call = 0, number, next;

	while (at < end) {
		if (!next_number(&at, end, &number) || !next_number(&at, end, &next))
			return false;
		number = offset_of(&r->l->code, number);
		if (number >= code_bytes - offset)
			return false;
		offset += number;
		if (!put_place(r, offset, call))
			return false;
		position += (uint64_t)zigzag(next);
		call = position & POSITION_EXTERNAL ? 0 : position >> POSITION_INLINED & 0xffff;
		if (call > r->n_calls)
			return false;
	}
	return put_place(r, code_bytes, call);
}

static int read_places(struct reader *r, const struct v8_compiled *code)
{
	uint8_t bytes[POSITIONS_BYTES_MAX];
	uint32_t n;
	int e = read_length(r->m, code->positions, sizeof bytes, &n);

	if (e == 0)
		e = vm_read(r->m, bytes, code->positions - 1 + ARRAY_FIRST, n);
	if (e < 0)
		return e;
	return put_places(r, bytes, n, code->end - code->start) ? 0 : -ENOENT;
}

int v8_inlined_read(struct vm_memory *m, const struct v8_layout *l, const struct v8_compiled *code,
		    struct v8_inlined *ret)
{
	struct reader r = {.m = m, .l = l, .to = ret, .deopt = code->deopt};
	int e;

	ret->n_places = ret->n_scopes = 0;
	ret->n_functions = 1;
	e = v8_compiled_function(m, l, code, &ret->functions[0]);
	if (e == 0)
		e = read_functions(&r);
	if (e == 0)
		e = read_calls(&r);
	if (e == 0)
		e = read_places(&r, code);
	if (e < 0) {
		ret->n_places = ret->n_scopes = 0;
		ret->n_functions = 1;
	}
	return e == -E2BIG ? e : 0;
}
