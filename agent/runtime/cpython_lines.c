// SPDX-License-Identifier: Apache-2.0
/*
 * All three formats are lists of entries that advance an address and a line; the entry that covers the wanted
 * address has its line. The first format has the line *up to* the end of the entry from the previous one:
 * there, an entry says where the next line begins.
 */
#include "agent/runtime/cpython_lines.h"

#define NO_LINE_DELTA (-128) /* CPYTHON_LINES_LINETABLE */

/* Kinds of entries of CPYTHON_LINES_LOCATIONS; those below have the previous entry's line. */
#define KIND_ONE_LINE 10u /* 10 to 12: 0 to 2 lines on */
#define KIND_NO_COLUMNS 13u
#define KIND_LONG 14u
#define KIND_NO_LINE 15u

#define ENTRY_BEGINS 0x80u /* in the first byte of an entry, and in no other */
#define UNIT_BYTES 2u	   /* CPYTHON_LINES_LOCATIONS counts code units */
#define VARINT_BITS 6u
#define VARINT_CONTINUES 0x40u

static uint32_t line_of(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Python 3.8 and 3.9. What follows the last entry has its line. */
static uint32_t lnotab_line(const struct cpython_lines_table *t, uint32_t offset)
{
	int64_t line = (int32_t)t->first_line;
	uint64_t address = 0;

	for (size_t i = 0; i + 1 < t->len; i += 2) {
		address += t->bytes[i];
		if (address > offset)
			return line_of(line);
		line += (int8_t)t->bytes[i + 1];
	}
	return t->cut ? 0 : line_of(line);
}

/* Python 3.10 */
static uint32_t linetable_line(const struct cpython_lines_table *t, uint32_t offset)
{
	int64_t line = (int32_t)t->first_line;
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < t->len; i += 2) {
		int8_t delta = (int8_t)t->bytes[i + 1];

		end += t->bytes[i];
		if (delta != NO_LINE_DELTA)
			line += delta;
		if (end > offset)
			return delta == NO_LINE_DELTA ? 0 : line_of(line);
	}
	return 0;
}

/* A number in zigzag form that begins at `i`. False: it does not end in the table, or is too large. */
static bool read_signed(const struct cpython_lines_table *t, size_t i, int64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; i < t->len && shift <= 30; i++, shift += VARINT_BITS) {
		uint8_t byte = t->bytes[i];

		value |= (uint64_t)(byte & (VARINT_CONTINUES - 1)) << shift;
		if (byte & VARINT_CONTINUES)
			continue;
		*ret = value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
		return true;
	}
	return false;
}

static bool location_delta(const struct cpython_lines_table *t, size_t i, unsigned kind, int64_t *ret)
{
	if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
		return read_signed(t, i + 1, ret);
	*ret = kind >= KIND_ONE_LINE && kind < KIND_NO_COLUMNS ? kind - KIND_ONE_LINE : 0;
	return true;
}

/* Python 3.11 and later */
static uint32_t location_line(const struct cpython_lines_table *t, uint32_t offset)
{
	int64_t line = (int32_t)t->first_line;
	uint64_t end = 0;

	for (size_t i = 0; i < t->len;) {
		unsigned kind = t->bytes[i] >> 3 & 15;
		int64_t delta;

		if (!location_delta(t, i, kind, &delta))
			return 0;
		line += delta;
		end += ((t->bytes[i] & 7u) + 1) * UNIT_BYTES;
		if (end > offset)
			return kind == KIND_NO_LINE ? 0 : line_of(line);
		do
			i++;
		while (i < t->len && !(t->bytes[i] & ENTRY_BEGINS));
	}
	return 0;
}

uint32_t cpython_line(const struct cpython_lines_table *t, uint32_t offset)
{
	switch (t->format) {
	case CPYTHON_LINES_LNOTAB:
		return lnotab_line(t, offset);
	case CPYTHON_LINES_LINETABLE:
		return linetable_line(t, offset);
	case CPYTHON_LINES_LOCATIONS:
		return location_line(t, offset);
	case CPYTHON_LINES_N:
		break;
	}
	return 0;
}
