// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with a HotSpot, made by hand: its tables, a code heap with a compiled method,
 * into which another one is inlined, and the interpreter. In two forms: that of JDK 17, and that of JDK
 * 25, where tables are outside of the code heap.
 */
#ifndef PROFLET_TESTS_HOTSPOT_MACHINE_H
#define PROFLET_TESTS_HOTSPOT_MACHINE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/vm_memory.h"

#define HM_BASE 0x7f0000000000ull
#define HM_BYTES 0x20000u
#define HM_STRUCTS (HM_BASE + 0x10) /* the pointers to the tables */
#define HM_TYPES (HM_BASE + 0x18)
#define HM_FIELDS_AT 0x1000u
#define HM_TYPES_AT 0x4000u
#define HM_STRINGS_AT 0x5000u
#define HM_HEAPS 0x8000u  /* the pointer to the array of heaps */
#define HM_ARRAY 0x8100u  /* GrowableArray */
#define HM_DATA 0x8200u	  /* its items */
#define HM_HEAP 0x8300u	  /* CodeHeap */
#define HM_SEGMAP 0x8800u /* a byte for each of the heap's segments */
#define HM_VERSION 0x8900u
#define HM_CODELETS 0x8a00u /* the pointer to the StubQueue; then that */
#define HM_CODE 0x10000u    /* the heap: segments of 128 bytes */
#define HM_NMETHOD (HM_CODE + 0x80)
#define HM_NMETHOD_CODE (HM_NMETHOD + 0x200)
#define HM_INTERPRETER (HM_CODE + 0x800)
#define HM_METHOD 0xa000u /* Method, and the one that is inlined */
#define HM_INLINED 0xa100u
#define HM_CONST 0xa200u /* their ConstMethod objects */
#define HM_CONST_INLINED 0xa400u
#define HM_POOL 0xa600u
#define HM_CLASS 0xa800u
#define HM_SYMBOLS 0xaa00u
#define HM_OUTSIDE 0xc000u /* what JDK 25 keeps outside of the code heap */

struct hotspot_machine {
	bool outside; /* as JDK 25 */
	uint8_t *bytes;
	struct vm_memory *memory;
	uint32_t fields, types, strings; /* where the next one goes */
	uint64_t faults;		 /* a page that is not there; 0: none */
};

static inline int hm_read(void *to, uint64_t address, void *data)
{
	const struct hotspot_machine *m = data;

	if (address < HM_BASE || address >= HM_BASE + HM_BYTES || (m->faults && address == m->faults))
		return -EFAULT;
	memcpy(to, m->bytes + (address - HM_BASE), VM_PIECE_BYTES);
	return 0;
}

static inline void hm_put(struct hotspot_machine *m, uint32_t at, uint64_t value, unsigned bytes)
{
	memcpy(m->bytes + at, &value, bytes);
}

static inline uint64_t hm_string(struct hotspot_machine *m, const char *s)
{
	const uint32_t at = m->strings;

	memcpy(m->bytes + at, s, strlen(s) + 1);
	m->strings += (uint32_t)strlen(s) + 1;
	return HM_BASE + at;
}

/* A field at an offset, or a static one at an address. */
static inline void hm_field(struct hotspot_machine *m, const char *type, const char *name, const char *is,
			    uint64_t off, uint64_t address)
{
	const uint32_t at = m->fields;

	hm_put(m, at, hm_string(m, type), 8);
	hm_put(m, at + 8, hm_string(m, name), 8);
	hm_put(m, at + 16, hm_string(m, is), 8);
	hm_put(m, at + 24, address != 0, 4);
	hm_put(m, at + 32, off, 8);
	hm_put(m, at + 40, address, 8);
	m->fields += 48;
}

static inline void hm_type(struct hotspot_machine *m, const char *name, uint64_t bytes)
{
	hm_put(m, m->types, hm_string(m, name), 8);
	hm_put(m, m->types + 32, bytes, 8);
	m->types += 40;
}

static inline void hm_tables(struct hotspot_machine *m)
{
	static const struct {
		const char *type, *name, *is;
		uint16_t off;
		uint8_t form; /* 0: of both; 17, 25 */
	} fields[] = {
		{"GrowableArrayBase", "_len", "int", 0, 0},
		{"GrowableArray<int>", "_data", "int*", 8, 0},
		{"CodeHeap", "_memory", "VirtualSpace", 8, 0},
		{"CodeHeap", "_segmap", "VirtualSpace", 120, 0},
		{"CodeHeap", "_log2_segment_size", "int", 248, 0},
		{"VirtualSpace", "_low", "char*", 16, 0},
		{"VirtualSpace", "_high", "char*", 24, 0},
		{"VirtualSpace", "_high_boundary", "char*", 32, 25},
		{"HeapBlock::Header", "_length", "size_t", 0, 17},
		{"HeapBlock::Header", "_used", "bool", 8, 17},
		{"HeapBlock::Header", "_length", "uint32_t", 0, 25},
		{"HeapBlock::Header", "_used", "bool", 4, 25},
		{"CodeBlob", "_name", "const char*", 96, 0},
		{"CodeBlob", "_size", "int", 12, 0},
		{"CodeBlob", "_frame_size", "int", 28, 0},
		{"CodeBlob", "_frame_complete_offset", "int", 20, 17},
		{"CodeBlob", "_frame_complete_offset", "int16_t", 26, 25},
		{"CodeBlob", "_code_begin", "address", 32, 17},
		{"CodeBlob", "_code_end", "address", 40, 17},
		{"CodeBlob", "_code_offset", "int", 32, 25},
		{"CodeBlob", "_data_offset", "int", 40, 25},
		{"CodeBlob", "_mutable_data", "address", 48, 25},
		{"CodeBlob", "_relocation_size", "int", 56, 25},
		{"CompiledMethod", "_method", "Method*", 112, 17},
		{"CompiledMethod", "_scopes_data_begin", "address", 120, 17},
		{"nmethod", "_method", "Method*", 112, 25},
		{"nmethod", "_immutable_data", "address", 120, 25},
		{"nmethod", "_compile_id", "int", 128, 0},
		{"nmethod", "_state", "volatile signed char", 148, 0},
		{"nmethod", "_metadata_offset", "int", 132, 17},
		{"nmethod", "_scopes_pcs_offset", "int", 136, 0},
		{"nmethod", "_dependencies_offset", "int", 140, 17},
		{"nmethod", "_scopes_data_offset", "int", 144, 25},
		{"PcDesc", "_pc_offset", "int", 0, 0},
		{"PcDesc", "_scope_decode_offset", "int", 4, 0},
		{"Method", "_constMethod", "ConstMethod*", 8, 0},
		{"ConstMethod", "_constants", "ConstantPool*", 8, 0},
		{"ConstMethod", "_code_size", "u2", 32, 0},
		{"ConstMethod", "_name_index", "u2", 34, 0},
		{"ConstMethod", "_flags", "u2", 28, 17},
		{"ConstMethod", "_flags._flags", "u4", 28, 25},
		{"ConstantPool", "_pool_holder", "InstanceKlass*", 24, 0},
		{"ConstantPool", "_length", "int", 60, 0},
		{"ConstantPool", "_source_file_name_index", "u2", 54, 0},
		{"Klass", "_name", "Symbol*", 24, 0},
		{"StubQueue", "_stub_buffer", "address", 8, 0},
		{"StubQueue", "_buffer_limit", "int", 20, 0},
		{"StubQueue", "_number_of_stubs", "int", 32, 0},
		{"InterpreterCodelet", "_size", "int", 8, 0},
		{"InterpreterCodelet", "_description", "const char*", 0, 0},
		{"Symbol", "_length", "u2", 4, 0},
		{"Symbol", "_body[0]", "u1", 6, 0},
	};

	m->fields = HM_FIELDS_AT;
	m->types = HM_TYPES_AT;
	m->strings = HM_STRINGS_AT;
	hm_put(m, (uint32_t)(HM_STRUCTS - HM_BASE), HM_BASE + HM_FIELDS_AT, 8);
	hm_put(m, (uint32_t)(HM_TYPES - HM_BASE), HM_BASE + HM_TYPES_AT, 8);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!fields[i].form || (fields[i].form == 25) == m->outside)
			hm_field(m, fields[i].type, fields[i].name, fields[i].is, fields[i].off, 0);
	hm_field(m, "CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 0, HM_BASE + HM_HEAPS);
	if (m->outside) {
		hm_field(m, "Abstract_VM_Version", "_vm_major_version", "int", 0, HM_BASE + HM_VERSION);
	} else {
		hm_field(m, "JDK_Version", "_current", "JDK_Version", 0, HM_BASE + HM_VERSION);
		hm_field(m, "JDK_Version", "_major", "unsigned char", 0, 0);
	}
	hm_put(m, HM_VERSION, m->outside ? 25 : 17, 4);
	hm_type(m, "HeapBlock", m->outside ? 8 : 16);
	hm_type(m, "ConstMethod", 48);
	hm_type(m, "ConstantPool", 72);
	hm_type(m, "PcDesc", 16);
}

/* In the interpreter, two codelets. */
static inline void hm_codelets(struct hotspot_machine *m)
{
	const uint32_t queue = HM_CODELETS + 0x20;

	hm_type(m, "InterpreterCodelet", 16);
	hm_field(m, "AbstractInterpreter", "_code", "StubQueue*", 0, HM_BASE + HM_CODELETS);
	hm_put(m, HM_CODELETS, HM_BASE + queue, 8);
	hm_put(m, queue + 8, HM_BASE + HM_INTERPRETER + 0x40, 8);
	hm_put(m, queue + 20, 0xa0, 4);
	hm_put(m, queue + 32, 2, 4);
	hm_put(m, HM_INTERPRETER + 0x40, hm_string(m, "return entry points"), 8);
	hm_put(m, HM_INTERPRETER + 0x48, 0x40, 4);
	hm_put(m, HM_INTERPRETER + 0x80, hm_string(m, "method entry point (kind = native)"), 8);
	hm_put(m, HM_INTERPRETER + 0x88, 0x60, 4);
}

/*
 * The heap has 32 segments: the first one is free, then a method of 12, then 2 free ones, then the
 * interpreter.
 */
static inline void hm_heap(struct hotspot_machine *m)
{
	hm_put(m, HM_HEAPS, HM_BASE + HM_ARRAY, 8);
	hm_put(m, HM_ARRAY, 1, 4);
	hm_put(m, HM_ARRAY + 8, HM_BASE + HM_DATA, 8);
	hm_put(m, HM_DATA, HM_BASE + HM_HEAP, 8);
	hm_put(m, HM_HEAP + 8 + 16, HM_BASE + HM_CODE, 8);
	hm_put(m, HM_HEAP + 8 + 24, HM_BASE + HM_CODE + 0x1000, 8);
	hm_put(m, HM_HEAP + 120 + 16, HM_BASE + HM_SEGMAP, 8);
	hm_put(m, HM_HEAP + 248, 7, 4);
	memset(m->bytes + HM_SEGMAP, 0xff, 32);
	for (uint8_t i = 0; i < 12; i++)
		m->bytes[HM_SEGMAP + 1 + i] = i;
	for (uint8_t i = 0; i < 8; i++)
		m->bytes[HM_SEGMAP + 15 + i] = i > 4 ? 3 : i; /* more than one hop */
	hm_put(m, HM_NMETHOD, 12, m->outside ? 4 : 8);
	hm_put(m, HM_NMETHOD + (m->outside ? 4 : 8), 1, 1);
	hm_put(m, HM_CODE + 15 * 128, 8, m->outside ? 4 : 8);
	hm_put(m, HM_CODE + 15 * 128 + (m->outside ? 4 : 8), 1, 1);
}

static inline void hm_blob(struct hotspot_machine *m, uint32_t block, const char *name, uint32_t frame_words,
			   uint32_t begin, uint32_t end)
{
	const uint32_t at = block + (m->outside ? 8 : 16);

	hm_put(m, at + 96, hm_string(m, name), 8);
	hm_put(m, at + 28, frame_words, 4);
	hm_put(m, at + 32, m->outside ? begin - at : HM_BASE + begin, m->outside ? 4 : 8);
	hm_put(m, at + 40, m->outside ? end - at : HM_BASE + end, m->outside ? 4 : 8);
}

static inline uint64_t hm_symbol(struct hotspot_machine *m, uint32_t at, const char *text)
{
	hm_put(m, at + 4, strlen(text), 2);
	memcpy(m->bytes + at + 6, text, strlen(text));
	return HM_BASE + at;
}

/* A method: bytecode of 20 bytes, lines 2 from 0 on, 4 from 5 on, 292 from 9 on. */
static inline void hm_method(struct hotspot_machine *m, uint32_t method, uint32_t constant, uint16_t name)
{
	/* numbers with a sign: 4, and 288 = 576 / 2, in one byte and in two of them */
	static const uint8_t lines[] = {0x02, 0x05 << 3 | 2, 0xff, 8, 192, 6, 0},
			     lines_25[] = {0x02, 0x05 << 3 | 2, 0xff, 9, 193, 7, 0};

	hm_put(m, method + 8, HM_BASE + constant, 8);
	hm_put(m, constant + 8, HM_BASE + HM_POOL, 8);
	hm_put(m, constant + 28, 1, 2);
	hm_put(m, constant + 32, 20, 2);
	hm_put(m, constant + 34, name, 2);
	memcpy(m->bytes + constant + 48 + 20, m->outside ? lines_25 : lines, sizeof lines);
}

static inline void hm_names(struct hotspot_machine *m)
{
	hm_put(m, HM_POOL + 24, HM_BASE + HM_CLASS, 8);
	hm_put(m, HM_POOL + 60, 8, 4);
	hm_put(m, HM_POOL + 54, 3, 2);
	hm_put(m, HM_POOL + 72 + 8, hm_symbol(m, HM_SYMBOLS, "run"), 8);
	hm_put(m, HM_POOL + 72 + 16, hm_symbol(m, HM_SYMBOLS + 0x40, "add") | 1, 8);
	hm_put(m, HM_POOL + 72 + 24, hm_symbol(m, HM_SYMBOLS + 0x80, "Work.java"), 8);
	hm_put(m, HM_CLASS + 24, hm_symbol(m, HM_SYMBOLS + 0xc0, "org/example/Work"), 8);
	hm_method(m, HM_METHOD, HM_CONST, 1);
	hm_method(m, HM_INLINED, HM_CONST_INLINED, 2);
}

/* The encoded scopes: of the method at bytecode 5, at offset 1; of the inlined one at bytecode 0 into it. */
static inline void hm_scopes(struct hotspot_machine *m, uint32_t at)
{
	const uint8_t x = m->outside; /* added to each byte */

	m->bytes[at + 1] = 0 + x;
	m->bytes[at + 2] = 1 + x;
	m->bytes[at + 3] = 6 + x;
	m->bytes[at + 4] = 1 + x;
	m->bytes[at + 5] = 2 + x;
	m->bytes[at + 6] = 1 + x;
}

static inline void hm_debug_data(struct hotspot_machine *m)
{
	const uint32_t blob = HM_NMETHOD + (m->outside ? 8 : 16), at = m->outside ? HM_OUTSIDE : blob + 0x400;
	/* mark, offset 9: inlined, offset 15: the method itself, mark */
	const int32_t places[][2] = {{-1, 0}, {9, 4}, {15, 1}, {INT32_MAX, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		hm_put(m, at + (uint32_t)i * 16, (uint32_t)places[i][0], 4);
		hm_put(m, at + (uint32_t)i * 16 + 4, (uint32_t)places[i][1], 4);
	}
	hm_scopes(m, at + (m->outside ? 0x40 : 0x80)); /* where the places end, in the one form */
	hm_put(m, at + 0xc0, HM_BASE + HM_METHOD, 8);
	hm_put(m, at + 0xc8, HM_BASE + HM_INLINED, 8);
	hm_put(m, blob + 112, HM_BASE + HM_METHOD, 8);
	hm_put(m, blob + 128, 77, 4);
	if (m->outside) {
		hm_put(m, blob + 120, HM_BASE + at, 8);
		hm_put(m, blob + 136, 0, 4);
		hm_put(m, blob + 144, 0x40, 4);
		hm_put(m, blob + 48, HM_BASE + at + 0xa0, 8);
		hm_put(m, blob + 56, 0x20, 4);
	} else {
		hm_put(m, blob + 120, HM_BASE + at + 0x80, 8);
		hm_put(m, blob + 136, at - blob, 4);
		hm_put(m, blob + 140, at + 0x40 - blob, 4);
		hm_put(m, blob + 132, at + 0xc0 - blob, 4);
	}
}

static inline void hm_free(struct hotspot_machine *m)
{
	free(m->bytes);
	free(m->memory);
}

#define _cleanup_hotspot_machine_ _cleanup_(hm_free)

static inline void hm_init(struct hotspot_machine *m, bool outside)
{
	/* push rbp; sub rsp, 16; call; nop; call; nop; add rsp, 16; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x83, 0xec, 0x10, 0xe8, 0,	 0x10, 0,    0,	   0x90, 0xe8,
				       0,    0x10, 0,	 0,    0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};

	*m = (struct hotspot_machine){.outside = outside, .bytes = calloc(1, HM_BYTES)};
	m->memory = calloc(1, sizeof *m->memory);
	m->memory->read = hm_read;
	m->memory->data = m;
	hm_tables(m);
	hm_heap(m);
	hm_blob(m, HM_NMETHOD, "nmethod", 4, HM_NMETHOD_CODE, HM_NMETHOD_CODE + sizeof code);
	hm_blob(m, HM_CODE + 15 * 128, "Interpreter", 0, HM_INTERPRETER, HM_INTERPRETER + 0x300);
	hm_codelets(m);
	memcpy(m->bytes + HM_NMETHOD_CODE, code, sizeof code);
	hm_names(m);
	hm_debug_data(m);
}

/* What was read is forgotten. */
static inline void hm_changed(struct hotspot_machine *m)
{
	vm_memory_forget(m->memory);
	m->memory->reads = 0;
}

#endif
