// SPDX-License-Identifier: Apache-2.0
/*
 * Which function a method begins with is listed by the method: in an array for methods that are compiled as
 * they are defined, in a hash table for instances of generic ones. Both are gone through once, and turned
 * around.
 */
#include "agent/elf/runtime/dotnet_ready.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/vm_memory.h"

#define READY_SIGNATURE 0x00525452u
#define READY_SECTIONS_MAX 64u
#define SECTION_MAX (32u << 20) /* bytes */
#define FUNCTIONS_MAX (1u << 20)
#define METHODS_MAX (1u << 22)
#define DEPTH_MAX 16u /* types of which a type consists, in each other */
#define ARGUMENTS_MAX 64u
#define BLOCK 16u /* elements of an array that are found together */

enum section { FUNCTIONS = 102, METHOD_ENTRIES = 103, DEBUG_INFO = 105, INSTANCE_ENTRIES = 109 };

/* The lists in struct dotnet_ready. */
enum list { METHODS, INSTANCES, DEBUG, LISTS };

/* --- the numbers of these tables (docs: native format), of at most 32 bits */

struct bytes {
	const uint8_t *at;
	uint32_t n;
	bool bad; /* what was read is not there */
};

static uint32_t byte_at(struct bytes *b, uint64_t at)
{
	if (at >= b->n) {
		b->bad = true;
		return 0;
	}
	return b->at[at];
}

/* A number of 1, 2 or 4 bytes. */
static uint32_t fixed_at(struct bytes *b, uint64_t at, unsigned size)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= byte_at(b, at + i) << 8 * i;
	return value;
}

/* A number whose lowest bits say how long it is; *at is moved behind it. */
static uint32_t number(struct bytes *b, uint64_t *at)
{
	const uint32_t first = byte_at(b, *at);
	unsigned more = 0;
	uint32_t value;

	while (more < 4 && first >> more & 1)
		more++;
	value = more < 4 ? fixed_at(b, *at, more + 1) >> (more + 1) : fixed_at(b, *at + 1, 4);
	*at += more + 1;
	return value;
}

/* The same of one that may be negative. */
static int32_t signed_number(struct bytes *b, uint64_t *at)
{
	const uint64_t from = *at;
	const uint32_t value = number(b, at);
	const unsigned bits = (unsigned)(*at - from) < 5 ? 7 * (unsigned)(*at - from) : 32;

	return bits < 32 ? (int32_t)(value << (32 - bits)) >> (32 - bits) : (int32_t)value;
}

/* Of an entry, the function that the method begins with. */
static uint32_t function_of(struct bytes *b, uint64_t at)
{
	const uint32_t value = number(b, &at);

	return value & 1 ? value >> 2 : value >> 1; /* with fixups, or without */
}

static void put(struct dotnet_ready *r, uint32_t function, uint32_t row)
{
	if (function < r->n && !r->methods[function])
		r->methods[function] = row;
}

/* --- the array of methods */

/* Where the element of a block of 16, which begins at `at`, is. False: it has none. */
static bool find_in_block(struct bytes *b, uint64_t *at, uint32_t i)
{
	for (uint32_t bit = 8; bit; bit >>= 1) {
		uint64_t behind = *at;
		const uint32_t value = number(b, &behind);

		if (b->bad)
			return false;
		if (i & bit && value & 2) {
			*at += value >> 2;
		} else if (!(i & bit) && value & 1) {
			*at = behind;
		} else if (!(value & 3) && value >> 2 == (i & 15)) { /* the only one in it */
			*at = behind;
			return true;
		} else {
			return false;
		}
	}
	return true;
}

static void read_methods(struct dotnet_ready *r, struct bytes *b)
{
	uint64_t base = 0;
	const uint32_t head = number(b, &base), n = head >> 2, size = 1u << (head & 3);

	for (uint32_t i = 0; i < n && i < METHODS_MAX && !b->bad && size <= 4; i++) {
		uint64_t at = base + fixed_at(b, base + (uint64_t)(i / BLOCK) * size, size);

		if (find_in_block(b, &at, i))
			put(r, function_of(b, at), i + 1);
	}
}

/* --- the table of instances */

/* A number of a signature (ECMA-335, II.23.2). */
static uint32_t signature_number(struct bytes *b, uint64_t *at)
{
	const uint32_t first = byte_at(b, *at);
	const unsigned bytes = !(first & 0x80) ? 1 : !(first & 0x40) ? 2 : 4;
	uint32_t value = first & (bytes == 1 ? 0x7f : bytes == 2 ? 0x3f : 0x1f);

	for (unsigned i = 1; i < bytes; i++)
		value = value << 8 | byte_at(b, *at + i);
	*at += bytes;
	return value;
}

/* II.23.1.16, and what the runtime adds to it */
enum {
	TYPE_OBJECT = 0x1c,
	TYPE_POINTER = 0x0f,
	TYPE_REFERENCE,
	TYPE_VALUE,
	TYPE_CLASS,
	TYPE_VARIABLE,
	TYPE_ARRAY,
	TYPE_INSTANCE,
	TYPE_TYPED_REFERENCE,
	TYPE_FUNCTION = 0x1b,
	TYPE_VECTOR = 0x1d,
	TYPE_METHOD_VARIABLE,
	TYPE_REQUIRED,
	TYPE_OPTIONAL,
	TYPE_NATIVE_VALUE = 0x3d,
	TYPE_CANONICAL,
	TYPE_OF_MODULE
};

static void skip_numbers(struct bytes *b, uint64_t *at)
{
	const uint32_t n = signature_number(b, at);

	for (uint32_t i = 0; i < n && i < ARGUMENTS_MAX && !b->bad; i++)
		(void)signature_number(b, at);
}

static void skip_type(struct bytes *b, uint64_t *at, unsigned depth);

static void skip_types(struct bytes *b, uint64_t *at, uint32_t n, unsigned depth)
{
	if (n > ARGUMENTS_MAX)
		b->bad = true;
	for (uint32_t i = 0; i < n && !b->bad; i++)
		skip_type(b, at, depth);
}

/* Function pointers, which are rare in names of instances, and unknown types are bad. */
static void skip_type(struct bytes *b, uint64_t *at, unsigned depth)
{
	const uint32_t type = byte_at(b, (*at)++);

	if (depth == DEPTH_MAX)
		b->bad = true;
	if (b->bad || type < TYPE_POINTER || type == TYPE_TYPED_REFERENCE || type == TYPE_CANONICAL ||
	    (type > TYPE_TYPED_REFERENCE && type < TYPE_FUNCTION) || type == TYPE_OBJECT)
		return;
	switch (type) {
	case TYPE_VALUE:
	case TYPE_CLASS:
	case TYPE_VARIABLE:
	case TYPE_METHOD_VARIABLE:
		(void)signature_number(b, at);
		return;
	case TYPE_REQUIRED:
	case TYPE_OPTIONAL:
	case TYPE_OF_MODULE:
		(void)signature_number(b, at);
		break;
	case TYPE_POINTER:
	case TYPE_REFERENCE:
	case TYPE_VECTOR:
	case TYPE_NATIVE_VALUE:
		break;
	case TYPE_INSTANCE:
		skip_type(b, at, depth + 1);
		skip_types(b, at, signature_number(b, at), depth + 1);
		return;
	case TYPE_ARRAY:
		skip_type(b, at, depth + 1);
		(void)signature_number(b, at);
		skip_numbers(b, at);
		skip_numbers(b, at);
		return;
	default:
		b->bad = true;
		return;
	}
	skip_type(b, at, depth + 1);
}

enum {
	OF_SLOT = 0x08,
	OF_REFERENCE = 0x10,
	OF_ARGUMENTS = 0x04,
	OF_TYPE = 0x40,
	OF_OTHER_MODULE = 0x80 /* the method is one of another assembly */
};

static void read_instance(struct dotnet_ready *r, struct bytes all, uint64_t at)
{
	const uint32_t flags = signature_number(&all, &at);
	uint32_t row;

	if (flags & (OF_SLOT | OF_REFERENCE | OF_OTHER_MODULE))
		return;
	if (flags & OF_TYPE)
		skip_type(&all, &at, 0);
	row = signature_number(&all, &at);
	if (flags & OF_ARGUMENTS)
		skip_types(&all, &at, signature_number(&all, &at), 0);
	if (all.bad)
		return;
	at = function_of(&all, at);
	if (!all.bad)
		put(r, (uint32_t)at, row);
}

static void read_instances(struct dotnet_ready *r, struct bytes *b)
{
	const uint32_t head = byte_at(b, 0), size = 1u << (head & 3);
	const uint64_t buckets = head >> 2 < 24 ? 1ull << (head >> 2) : 0;

	for (uint64_t i = 0; i < buckets && !b->bad && size <= 4; i++) {
		uint64_t at = 1 + fixed_at(b, 1 + i * size, size);
		const uint64_t end = 1 + fixed_at(b, 1 + (i + 1) * size, size);

		while (at < end && !b->bad) {
			const uint64_t entry = ++at; /* behind the low byte of the hash */
			const int64_t distance = signed_number(b, &at);

			if (!b->bad && (int64_t)entry + distance > 0)
				read_instance(r, *b, entry + (uint64_t)distance);
		}
	}
}

/* --- the image */

static int read_section(const struct dotnet_image *x, struct vm_memory *m, uint32_t rva, uint32_t bytes,
			void (*read)(struct dotnet_ready *r, struct bytes *b), struct dotnet_ready *r)
{
	const uint64_t at = dotnet_image_address(x, rva, bytes);
	_cleanup_free_ uint8_t *copy = NULL;
	struct bytes b = {.n = bytes};
	int e;

	if (!at || !bytes || bytes > SECTION_MAX)
		return 0;
	copy = malloc(bytes);
	if (!copy)
		return -ENOMEM;
	e = vm_read(m, copy, at, bytes);
	b.at = copy;
	if (e == 0)
		read(r, &b);
	return e == -EFAULT ? 0 : e;
}

/* Section headers of the image: the functions, then each list. */
struct sections {
	uint32_t major;
	uint32_t rva[1 + LISTS], bytes[1 + LISTS];
};

static int read_sections(struct sections *ret, const struct dotnet_image *x, struct vm_memory *m)
{
	static const uint32_t kinds[] = {FUNCTIONS, METHOD_ENTRIES, INSTANCE_ENTRIES, DEBUG_INFO};
	const uint64_t at = x->ready ? dotnet_image_address(x, x->ready, 16) : 0;
	uint64_t signature, major, n;
	int r = at ? vm_read_number(m, &signature, at, 4) : -ENOTSUP;

	if (r == 0)
		r = vm_read_number(m, &major, at + 4, 2);
	if (r == 0)
		r = vm_read_number(m, &n, at + 12, 4);
	if (r == 0 && (signature != READY_SIGNATURE || n > READY_SECTIONS_MAX))
		r = -ENOTSUP;
	if (r == 0)
		ret->major = (uint32_t)major;
	for (uint64_t i = 0; r == 0 && i < n; i++) {
		uint32_t head[3];

		r = vm_read(m, head, at + 16 + i * sizeof head, sizeof head);
		for (unsigned k = 0; r == 0 && k < ARRAY_SIZE(kinds); k++)
			if (head[0] == kinds[k]) {
				ret->rva[k] = head[1];
				ret->bytes[k] = head[2];
			}
	}
	return r;
}

int dotnet_ready_read(struct dotnet_ready *ret, const struct dotnet_image *image, struct vm_memory *m)
{
	struct sections s = {0};
	struct dotnet_ready x = {0};
	int r = read_sections(&s, image, m);

	if (r < 0)
		return r;
	x.major = s.major;
	x.n = s.bytes[0] / (uint32_t)sizeof(struct dotnet_function);
	x.functions = dotnet_image_address(image, s.rva[0], s.bytes[0]);
	if (!x.n || x.n > FUNCTIONS_MAX || !x.functions)
		return -ENOTSUP;
	for (unsigned i = 0; i < ARRAY_SIZE(x.rva); i++) {
		x.rva[i] = s.rva[i + 1];
		x.bytes[i] = s.bytes[i + 1];
	}
	*ret = x;
	return 0;
}

static int read_lists(struct dotnet_ready *r, const struct dotnet_image *image, struct vm_memory *m)
{
	int e;

	r->methods = calloc(r->n, sizeof *r->methods);
	if (!r->methods)
		return -ENOMEM;
	e = read_section(image, m, r->rva[METHODS], r->bytes[METHODS], read_methods, r);
	return e == 0 ? read_section(image, m, r->rva[INSTANCES], r->bytes[INSTANCES], read_instances, r) : e;
}

/* The function with which the method begins that the function belongs to. */
static uint32_t first_of(const struct dotnet_ready *r, uint32_t index)
{
	while (index && !r->methods[index])
		index--;
	return index;
}

int dotnet_ready_method(struct dotnet_ready *r, const struct dotnet_image *image, struct vm_memory *m,
			uint32_t index, uint32_t *ret)
{
	int e = r->methods ? 0 : read_lists(r, image, m);

	if (e < 0)
		return e;
	*ret = r->methods[first_of(r, index)];
	return 0;
}

void dotnet_ready_fini(struct dotnet_ready *r)
{
	free(r->methods);
	free(r->debug);
	*r = (struct dotnet_ready){0};
}

int dotnet_ready_find(const struct dotnet_ready *r, struct vm_memory *m, uint32_t rva,
		      struct dotnet_function *ret, uint32_t *ret_index)
{
	uint32_t low = 0, high = r->n;

	while (low < high) {
		const uint32_t i = low + (high - low) / 2;
		int e = vm_read(m, ret, r->functions + i * sizeof *ret, sizeof *ret);

		if (e < 0)
			return e;
		if (rva >= ret->start && rva < ret->end) {
			*ret_index = i;
			return 0;
		}
		if (rva < ret->start)
			high = i;
		else
			low = i + 1;
	}
	return -ENOENT;
}

/* --- debug information */

/*
 * Where the list of debug information, whose bytes are `b`, says that of the function is, in it. Equal ones
 * are there once, and others say how far before them. False: there is none.
 */
static bool find_debug(struct bytes *b, uint32_t index, uint64_t *ret)
{
	uint64_t base = 0, at, behind;
	const uint32_t head = number(b, &base), size = 1u << (head & 3);
	uint32_t back;

	if (b->bad || index >= head >> 2 || size > 4)
		return false;
	at = base + fixed_at(b, base + (uint64_t)(index / BLOCK) * size, size);
	if (!find_in_block(b, &at, index))
		return false;
	behind = at;
	back = number(b, &behind);
	*ret = back ? at - back : behind;
	return !b->bad && *ret < b->n;
}

static int read_debug(struct dotnet_ready *r, struct vm_memory *m, uint64_t list)
{
	_cleanup_free_ uint8_t *copy = malloc(r->bytes[DEBUG]);
	int e = copy ? vm_read(m, copy, list, r->bytes[DEBUG]) : -ENOMEM;

	if (e == 0)
		r->debug = TAKE_PTR(copy);
	return e;
}

int dotnet_ready_debug(struct dotnet_ready *r, const struct dotnet_image *image, struct vm_memory *m,
		       uint32_t index, uint64_t *ret, uint32_t *ret_start)
{
	const uint64_t list = dotnet_image_address(image, r->rva[DEBUG], r->bytes[DEBUG]);
	struct bytes b = {.n = r->bytes[DEBUG]};
	struct dotnet_function f;
	uint64_t off;
	int e;

	if (!list || !b.n || b.n > SECTION_MAX || !r->methods)
		return -ENOENT;
	index = first_of(r, index);
	e = vm_read(m, &f, r->functions + index * sizeof f, sizeof f);
	if (e == 0 && !r->debug)
		e = read_debug(r, m, list);
	if (e < 0)
		return e;
	b.at = r->debug;
	if (!find_debug(&b, index, &off))
		return -ENOENT;
	*ret = list + off;
	*ret_start = f.start;
	return 0;
}
