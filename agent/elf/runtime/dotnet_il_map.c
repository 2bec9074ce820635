// SPDX-License-Identifier: Apache-2.0
/*
 * The format is that of dotnet/runtime, src/coreclr/vm/debuginfostore.cpp (8.0 to 10.0), and for code that
 * was compiled ahead of time src/coreclr/tools/aot/ILCompiler.ReadyToRun: numbers of 3 bits each, with a
 * fourth one that says that more follow; from .NET 10 on, a place has as many bits as the largest needs.
 */
#include "agent/elf/runtime/dotnet_il_map.h"

#include <errno.h>
#include <stdbool.h>

#include "agent/elf/runtime/vm_memory.h"

enum extra { EXTRA_PATCHPOINT = 1, EXTRA_RICH = 2 };

/* PatchpointInfo, which a number for each local variable follows: its bytes, and where it says how many */
static const struct {
	uint32_t bytes, locals;
} patchpoints[] = {{32, 8}, {40, 16}}; /* from .NET 10 on, it has an address more */

#define LOCALS_MAX 65536u
#define RICH_MAX (16u << 20)  /* bytes */
#define BOTH_MAPS 0xffffffffu /* in place of a size: of rewritten bytecode there are two maps */
#define SIZE_MAX_BYTES (1u << 20)
#define DIGITS_MAX 11u /* of a number */
#define SOURCE_BITS 2u /* why the place is listed */
#define NUMBER_BITS_MAX 32u

/* Reads numbers of half bytes, the lower half first. */
struct digits {
	struct vm_memory *memory;
	uint64_t at; /* process address */
	bool high;   /* the next one is the higher half */
	int error;   /* of the first number that could not be read; numbers are 0 then */
};

static unsigned digit(struct digits *d)
{
	uint64_t byte = 0;

	if (d->error == 0)
		d->error = vm_read_number(d->memory, &byte, d->at, 1);
	if (d->high) {
		d->at++;
		byte >>= 4;
	}
	d->high = !d->high;
	return byte & 15;
}

static uint32_t number(struct digits *d)
{
	uint32_t value = 0;
	unsigned more = 8;

	for (unsigned n = 0; more && n < DIGITS_MAX; n++) {
		const unsigned one = digit(d);

		value = value << 3 | (one & 7);
		more = one & 8;
	}
	if (more && d->error == 0)
		d->error = -ENOTSUP;
	return d->error ? 0 : value;
}

/* Where the bytes behind the numbers begin. */
static uint64_t behind(const struct digits *d)
{
	return d->at + d->high;
}

/* Moves *address behind what the runtime needs to replace the method's frame while it runs, and the like. */
static int skip_extra(struct vm_memory *m, uint64_t *address, unsigned form)
{
	const unsigned i = form & DOTNET_IL_PACKED ? 1 : 0;
	uint64_t flags, n;
	int r = vm_read_number(m, &flags, (*address)++, 1);

	if (r == 0 && flags & ~(uint64_t)(EXTRA_PATCHPOINT | EXTRA_RICH))
		r = -ENOTSUP;
	if (r == 0 && flags & EXTRA_PATCHPOINT) {
		r = vm_read_number(m, &n, *address + patchpoints[i].locals, 4);
		if (r == 0 && n > LOCALS_MAX)
			r = -ENOTSUP;
		if (r == 0)
			*address += patchpoints[i].bytes + n * 4;
	}
	if (r == 0 && flags & EXTRA_RICH) {
		r = vm_read_number(m, &n, *address, 4);
		if (r == 0 && n > RICH_MAX)
			r = -ENOTSUP;
		if (r == 0)
			*address += 4 + n;
	}
	return r;
}

static int read_digits(struct dotnet_il_map *ret, struct digits *d, uint32_t n)
{
	uint32_t native = 0;

	for (uint32_t i = 0; i < n && d->error == 0; i++) {
		native += number(d);
		ret->v[i] = (struct dotnet_il_place){native, number(d) + DOTNET_IL_EPILOGUE};
		(void)number(d); /* why it is listed */
	}
	return d->error;
}

/* So many bits, at that bit behind `at`, the lowest one first. */
static int read_bits(uint64_t *ret, struct vm_memory *m, uint64_t at, uint64_t bit, unsigned bits)
{
	const unsigned off = bit % 8, bytes = (off + bits + 7) / 8;
	uint8_t b[8];
	uint64_t value = 0;
	int r = vm_read(m, b, at + bit / 8, bytes);

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)b[i] << 8 * i;
	*ret = value >> off & ((1ull << bits) - 1);
	return r;
}

static int read_packed(struct dotnet_il_map *ret, struct digits *d, uint32_t n)
{
	const uint32_t native_bits = number(d) + 1, il_bits = number(d) + 1;
	const uint64_t at = behind(d);
	uint64_t bit = 0, value;
	uint32_t native = 0;
	int r = d->error;

	if (r == 0 &&
	    (!native_bits || !il_bits || native_bits > NUMBER_BITS_MAX || il_bits > NUMBER_BITS_MAX))
		r = -ENOTSUP;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		bit += SOURCE_BITS;
		r = read_bits(&value, d->memory, at, bit, native_bits);
		native += (uint32_t)value;
		bit += native_bits;
		if (r == 0)
			r = read_bits(&value, d->memory, at, bit, il_bits);
		bit += il_bits;
		if (r == 0)
			ret->v[i] = (struct dotnet_il_place){native, (uint32_t)value + DOTNET_IL_EPILOGUE};
	}
	return r;
}

/* The sum of the steps may have overflowed. */
static bool is_ascending(const struct dotnet_il_map *map)
{
	for (uint32_t i = 1; i < map->n; i++)
		if (map->v[i].native < map->v[i - 1].native)
			return false;
	return true;
}

int dotnet_il_map_read(struct dotnet_il_map *ret, struct vm_memory *m, uint64_t address, unsigned form)
{
	struct digits d = {.memory = m, .at = address};
	uint32_t bytes, skip = 0, n;

	ret->n = 0;
	if (form & DOTNET_IL_COMPILED) {
		d.error = skip_extra(m, &address, form);
		d.at = address;
	}
	bytes = number(&d);
	if (form & DOTNET_IL_PACKED && bytes == BOTH_MAPS) { /* the second one is of the file's bytecode */
		skip = number(&d);
		bytes = number(&d);
	}
	(void)number(&d); /* bytes about variables */
	if (d.error < 0 || !bytes)
		return d.error;
	if (bytes > SIZE_MAX_BYTES || skip > SIZE_MAX_BYTES)
		return -ENOTSUP;
	d = (struct digits){.memory = m, .at = behind(&d) + skip};
	n = number(&d);
	if (d.error == 0 && n > DOTNET_IL_PLACES_MAX)
		d.error = -ENOTSUP;
	if (d.error == 0)
		d.error = form & DOTNET_IL_PACKED ? read_packed(ret, &d, n) : read_digits(ret, &d, n);
	if (d.error == 0)
		ret->n = n;
	if (d.error == 0 && !is_ascending(ret)) {
		ret->n = 0;
		return -ENOTSUP;
	}
	return d.error;
}
