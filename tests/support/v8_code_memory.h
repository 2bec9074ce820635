// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with code of V8, made by hand, as Node.js 22 has it: a function (1) into which two
 * are inlined, one (2) directly, the other (3) into that one.
 */
#ifndef PROFLET_TESTS_V8_CODE_MEMORY_H
#define PROFLET_TESTS_V8_CODE_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/elf/runtime/v8.h"
#include "agent/elf/runtime/vm_memory.h"

#define CODE_BASE 0x500000000ull
#define CODE_BYTES 0x8000u
#define CODE_STREAM 0x120u /* the objects' offsets; pointers have 1 more */
#define CODE_START (CODE_STREAM + 0x20u)
#define CODE_SIZE 0x90u
#define CODE_OBJECT 0x400u
#define CODE_DEOPT 0x500u
#define CODE_POSITIONS 0x600u
#define CODE_CALLS 0x700u
#define CODE_LITERALS 0x800u
#define CODE_SHARED(n) (0x1000u + (n) * 0x80u)
#define CODE_SCRIPT 0x1400u
#define CODE_NAME(n) (0x1800u + (n) * 0x40u)
#define CODE_MAPS 0x2000u /* 0x40 bytes each */
#define CODE_STREAM_MAP 0x3000u

enum { CODE_TYPE = 193, CODE_SHARED_TYPE = 194, CODE_SCRIPT_TYPE = 195, CODE_STRING_TYPE = 8 };

static const struct v8_layout code_layout = {
	.function_shared = 32,
	.shared_name = 16,
	.shared_script = 32,
	.shared_flags = 48,
	.script_source = 8,
	.script_name = 16,
	.script_line_ends = 48,
	.script_id = 64,
	.map_type = 12,
	.shared_type = CODE_SHARED_TYPE,
	.script_type = CODE_SCRIPT_TYPE,
	.scope_type = 203,
	.bytecode_type = 204,
	.scope_first = 3,
	.scope_function = 2,
	.bytecode_data = 64,
	.code = {.type = CODE_TYPE,
		 .header = 32,
		 .code = 8,
		 .start = 40,
		 .size = 52,
		 .deopt = 8,
		 .positions = 16,
		 .literals = 2,
		 .function = 6,
		 .inlined = 7},
};

static inline void code_put(uint8_t *m, uint32_t at, uint64_t word)
{
	memcpy(m + at, &word, sizeof word);
}

static inline uint64_t code_pointer(uint32_t at)
{
	return CODE_BASE + at + 1;
}

static inline void code_object(uint8_t *m, uint32_t at, uint16_t type)
{
	const uint32_t map = CODE_MAPS + (type & 31) * 0x40u;

	code_put(m, at, code_pointer(map));
	memcpy(m + map + 12, &type, sizeof type);
}

static inline uint64_t code_smi(uint32_t value)
{
	return (uint64_t)value << 32;
}

/* A position in a script, of the inlined call with that index; -1: of none. */
static inline uint64_t code_position(uint32_t place, int call)
{
	return (uint64_t)(place + 1) << 1 | (uint64_t)(call + 1) << 31;
}

static inline uint8_t *code_put_number(uint8_t *to, int64_t value)
{
	uint64_t n = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);

	while (n > 0x7f) {
		*to++ = (uint8_t)(n | 0x80);
		n >>= 7;
	}
	*to++ = (uint8_t)n;
	return to;
}

/* The table: entries of an offset and a position each. */
static inline void code_put_positions(uint8_t *m, const uint64_t (*entries)[2], size_t n)
{
	uint8_t *begin = m + CODE_POSITIONS + 16, *at = begin;
	uint64_t offset = 0, position = 0;

	for (size_t i = 0; i < n; i++) {
		/* every second one is a statement */
		const int64_t by = (int64_t)(entries[i][0] - offset);

		at = code_put_number(at, i % 2 ? by : -by - 1);
		at = code_put_number(at, (int64_t)(entries[i][1] - position));
		offset = entries[i][0];
		position = entries[i][1];
	}
	code_put(m, CODE_POSITIONS + 8, code_smi((uint32_t)(at - begin)));
}

static inline void code_put_function(uint8_t *m, uint32_t n, const char *name)
{
	code_object(m, CODE_SHARED(n), CODE_SHARED_TYPE);
	code_put(m, CODE_SHARED(n) + 16, code_pointer(CODE_NAME(n)));
	code_put(m, CODE_SHARED(n) + 32, code_pointer(CODE_SCRIPT));
	code_put(m, CODE_SHARED(n) + 48, code_smi(n));
	code_object(m, CODE_NAME(n), CODE_STRING_TYPE);
	code_put(m, CODE_NAME(n) + 8, code_smi((uint32_t)strlen(name)));
	memcpy(m + CODE_NAME(n) + 16, name, strlen(name));
}

/* m: CODE_BYTES. */
static inline void code_init(uint8_t *m)
{
	const uint64_t entries[][2] = {{0x10, code_position(5, -1)}, {0x20, code_position(50, 0)},
				       {0x30, code_position(70, 1)}, {0x40, code_position(71, 1)},
				       {0x50, code_position(51, 0)}, {0x60, code_position(6, -1)}};

	memset(m, 0, CODE_BYTES);
	code_put(m, CODE_STREAM, code_pointer(CODE_STREAM_MAP));
	code_put(m, CODE_STREAM + 8, code_pointer(CODE_OBJECT));
	code_object(m, CODE_OBJECT, CODE_TYPE);
	code_put(m, CODE_OBJECT + 8, code_pointer(CODE_DEOPT));
	code_put(m, CODE_OBJECT + 16, code_pointer(CODE_POSITIONS));
	code_put(m, CODE_OBJECT + 40, CODE_BASE + CODE_START);
	code_put(m, CODE_OBJECT + 48, code_smi(CODE_SIZE));
	code_put(m, CODE_DEOPT + 8, code_smi(12));
	code_put(m, CODE_DEOPT + 16 + 8, code_smi(2));
	code_put(m, CODE_DEOPT + 16 + 16, code_pointer(CODE_LITERALS));
	code_put(m, CODE_DEOPT + 16 + 48, code_pointer(CODE_SHARED(1)));
	code_put(m, CODE_DEOPT + 16 + 56, code_pointer(CODE_CALLS));
	code_put(m, CODE_LITERALS + 8, code_smi(2));
	code_put(m, CODE_LITERALS + 16, code_pointer(CODE_SHARED(3)));
	code_put(m, CODE_LITERALS + 24, code_pointer(CODE_SHARED(2)));
	code_put(m, CODE_CALLS + 8, code_smi(32));
	code_put(m, CODE_CALLS + 16, code_position(5, -1));
	code_put(m, CODE_CALLS + 24, 1);
	code_put(m, CODE_CALLS + 32, code_position(50, 0));
	code_put(m, CODE_CALLS + 40, 0);
	code_put_positions(m, entries, sizeof entries / sizeof entries[0]);
	code_put_function(m, 1, "own");
	code_put_function(m, 2, "second");
	code_put_function(m, 3, "third");
	code_object(m, CODE_SCRIPT, CODE_SCRIPT_TYPE);
	code_put(m, CODE_SCRIPT + 8, code_pointer(CODE_NAME(1)));
	code_put(m, CODE_SCRIPT + 16, code_pointer(CODE_NAME(4)));
	code_put(m, CODE_SCRIPT + 64, code_smi(9));
	code_object(m, CODE_NAME(4), CODE_STRING_TYPE);
	code_put(m, CODE_NAME(4) + 8, code_smi(4));
	memcpy(m + CODE_NAME(4) + 16, "a.js", 4);
}

/* struct vm_memory: `data` are the bytes. */
static inline int code_read(void *to, uint64_t address, void *data)
{
	if (address < CODE_BASE || address >= CODE_BASE + CODE_BYTES)
		return -EFAULT;
	memcpy(to, (const uint8_t *)data + (address - CODE_BASE), VM_PIECE_BYTES);
	return 0;
}

#endif
