// SPDX-License-Identifier: Apache-2.0
/* The memory of a process with a script of V8, made by hand: its objects and its text. */
#ifndef PROFLET_TESTS_V8_MEMORY_H
#define PROFLET_TESTS_V8_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/elf/runtime/v8.h"
#include "agent/elf/runtime/v8_lines.h"

#define VM_BASE 0x500000000ull
#define VM_BYTES 0x10000u
#define VM_SCRIPT 0x100u /* the objects' offsets; pointers have 1 more */
#define VM_STRING 0x200u
#define VM_OTHER 0x300u /* another string */
#define VM_EMPTY 0x400u
#define VM_MAPS 0x1000u /* 0x40 bytes each */
#define VM_TEXT 0x2000u
#define VM_SCRIPT_TYPE 160u
#define VM_ID (7ull << 32)

/* Types of strings. */
enum { VM_TWO_BYTE = 0, VM_CONS = 1, VM_EXTERNAL = 2, VM_SLICED = 3, VM_THIN = 5, VM_ONE_BYTE = 8 };

struct v8_machine {
	uint8_t bytes[VM_BYTES];
	/* After so many reads, the script is another one; 0: never. */
	unsigned changes_after;
};

static const struct v8_layout vm_layout = {
	.script_source = 8,
	.script_name = 16,
	.script_id = 64,
	.map_type = 12,
	.script_type = VM_SCRIPT_TYPE,
};

static const struct v8_script vm_script = {.address = VM_BASE + VM_SCRIPT + 1, .id = VM_ID};

static inline void vm_put(struct v8_machine *m, uint32_t at, uint64_t word)
{
	memcpy(m->bytes + at, &word, sizeof word);
}

static inline void vm_object(struct v8_machine *m, uint32_t at, uint16_t type)
{
	const uint32_t map = VM_MAPS + (type & 63) * 0x40u;

	vm_put(m, at, VM_BASE + map + 1);
	memcpy(m->bytes + map + 12, &type, sizeof type);
}

/* A string at `at`: the last two words are those of its form. */
static inline void vm_string(struct v8_machine *m, uint32_t at, uint16_t type, uint32_t length,
			     uint64_t first, uint64_t second)
{
	vm_object(m, at, type);
	vm_put(m, at + 8, (uint64_t)length << 32);
	vm_put(m, at + 16, first);
	vm_put(m, at + 24, second);
}

/* The script has a sequential text of one byte a character. */
static inline void vm_init(struct v8_machine *m, const char *text)
{
	memset(m, 0, sizeof *m);
	vm_object(m, VM_SCRIPT, VM_SCRIPT_TYPE);
	vm_put(m, VM_SCRIPT + 8, VM_BASE + VM_STRING + 1);
	vm_put(m, VM_SCRIPT + 64, VM_ID);
	vm_object(m, VM_STRING, VM_ONE_BYTE);
	vm_put(m, VM_STRING + 8, (uint64_t)strlen(text) << 32);
	memcpy(m->bytes + VM_STRING + 16, text, strlen(text));
	vm_string(m, VM_EMPTY, VM_ONE_BYTE, 0, 0, 0);
}

static inline int vm_read(void *to, uint64_t address, size_t n, void *data)
{
	struct v8_machine *m = data;

	if (address < VM_BASE || n > VM_BYTES || address - VM_BASE > VM_BYTES - n)
		return -EFAULT;
	memcpy(to, m->bytes + (address - VM_BASE), n);
	if (m->changes_after && !--m->changes_after)
		vm_put(m, VM_SCRIPT + 64, VM_ID + (1ull << 32));
	return 0;
}

static inline struct v8_memory vm_memory(struct v8_machine *m)
{
	return (struct v8_memory){.read = vm_read, .data = m, .left = V8_LINES_BYTES_MAX};
}

#endif
