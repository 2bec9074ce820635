// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with .NET, made by hand as .NET 8 to 10 lay it out: the map of ranges with code,
 * one heap with two compiled methods and a method without metadata, stubs, and an assembly with code that was
 * compiled ahead of time, once laid out by its sections, once as it is in the file.
 */
#ifndef PROFLET_TESTS_DOTNET_MACHINE_H
#define PROFLET_TESTS_DOTNET_MACHINE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/runtime/dotnet_code.h"

#define DM_BASE 0x7f0000000000ull
#define DM_BYTES 0x60000u
#define DM_DAC 0x10u
#define DM_LEVELS 0x1000u /* of the map, 0x800 each */
#define DM_FRAGMENTS 0x4000u
#define DM_SECTIONS 0x4400u
#define DM_LIST 0x4800u
#define DM_HEAP 0x4c00u
#define DM_MAP 0x5000u /* of functions in the heap */
#define DM_HEADERS 0x6000u
#define DM_METHODS 0x6800u /* a chunk of them */
#define DM_TABLE 0x7000u
#define DM_MODULE 0x7400u
#define DM_TEXT 0x7800u
#define DM_STUBS 0x8000u
#define DM_STUBS_END 0x9000u
#define DM_CODE 0x10000u
#define DM_CODE_END 0x12000u
#define DM_FIRST (DM_CODE + 0x40u) /* a method of 0x40 bytes, and its handler of 0x20 */
#define DM_SECOND (DM_CODE + 0x200u)
#define DM_DYNAMIC (DM_CODE + 0x1000u)
#define DM_THUNK (DM_CODE + 0x1800u) /* what the heap has no method for */
#define DM_UNWIND (DM_CODE + 0x1f00u)
#define DM_IMAGE 0x20000u /* by sections */
#define DM_FILE 0x40000u  /* as in the file */
#define DM_IMAGE_BYTES 0x8000u
#define DM_RVA 0x2000u /* of the only section */
#define DM_SECTION_BYTES 0x3000u
#define DM_RAW 0x400u
#define DM_CLI DM_RVA
#define DM_METADATA (DM_RVA + 0x100u)
#define DM_TABLES_OFFSET 0x80u
#define DM_STRINGS_OFFSET 0x200u
#define DM_READY (DM_RVA + 0x600u)
#define DM_FUNCTIONS (DM_RVA + 0x700u)
#define DM_ENTRIES (DM_RVA + 0x800u)
#define DM_INSTANCES (DM_RVA + 0x880u)
#define DM_READY_UNWIND (DM_RVA + 0x900u)
#define DM_READY_CODE (DM_RVA + 0x1000u)
#define DM_FUNCTION_BYTES 0x20u
#define DM_N_FUNCTIONS 6u

#define DM_DEBUG (DM_RVA + 0x1800u) /* directory of debug information */
#define DM_CODEVIEW (DM_RVA + 0x1900u)
#define DM_EMBEDDED (DM_RVA + 0x1a00u) /* a file of lines, deflated */
#define DM_MAPS (DM_RVA + 0x1700u)     /* list of maps of code that was compiled ahead of time */
#define DM_LINES_NAME "Demo.pdb"

struct dotnet_machine {
	uint8_t *bytes;
	struct dotnet_reader *reader;
};

static inline int dm_read(void *to, uint64_t address, void *data)
{
	const struct dotnet_machine *m = data;

	if (address < DM_BASE || address >= DM_BASE + DM_BYTES)
		return -EFAULT;
	memcpy(to, m->bytes + (address - DM_BASE), VM_PIECE_BYTES);
	return 0;
}

static inline void dm_put(struct dotnet_machine *m, uint32_t at, uint64_t value, unsigned bytes)
{
	memcpy(m->bytes + at, &value, bytes);
}

static inline void dm_put_address(struct dotnet_machine *m, uint32_t at, uint32_t to)
{
	dm_put(m, at, DM_BASE + to, 8);
}

/* A function that makes a frame record: push rbp; mov rbp, rsp; …; pop rbp; ret. */
static inline void dm_function(struct dotnet_machine *m, uint32_t at, uint32_t bytes)
{
	static const uint8_t begin[] = {0x55, 0x48, 0x89, 0xe5}, end[] = {0x5d, 0xc3};

	memset(m->bytes + at, 0x90, bytes);
	memcpy(m->bytes + at, begin, sizeof begin);
	memcpy(m->bytes + at + bytes - sizeof end, end, sizeof end);
}

/* Unwind information of such a one. */
static inline void dm_unwind(struct dotnet_machine *m, uint32_t at)
{
	static const uint8_t unwind[] = {0x01, 0x04, 0x02, 0x05, 0x04, 0x03, 0x01, 0x50};

	memcpy(m->bytes + at, unwind, sizeof unwind);
}

/* --- ranges */

static inline void dm_range(struct dotnet_machine *m, uint32_t i, uint32_t start, uint32_t end,
			    uint32_t flags)
{
	const uint32_t fragment = DM_FRAGMENTS + i * 32, section = DM_SECTIONS + i * 64;
	const uint64_t chunk = (DM_BASE + start) >> 17 & 255;
	const uint32_t slot = DM_LEVELS + 4 * 0x800 + (uint32_t)chunk * 8;
	uint64_t first;

	memcpy(&first, m->bytes + slot, 8);
	dm_put(m, fragment, first, 8);
	dm_put_address(m, fragment + 8, start);
	dm_put_address(m, fragment + 16, end);
	dm_put_address(m, fragment + 24, section);
	dm_put(m, slot, (DM_BASE + fragment) | 1, 8); /* the lowest bit says that it may be freed */
	dm_put_address(m, section, start);
	dm_put_address(m, section + 8, end);
	dm_put(m, section + 16, flags, 4);
	dm_put_address(m, section + 32, DM_MODULE);
	dm_put_address(m, section + 40, DM_HEAP);
	dm_put_address(m, section + 48, DM_LIST);
}

static inline void dm_ranges(struct dotnet_machine *m)
{
	dm_put_address(m, DM_DAC, DM_LEVELS);
	for (uint32_t level = 0; level < 4; level++) {
		const uint32_t i = (uint32_t)(DM_BASE >> (17 + (4 - level) * 8) & 255);

		dm_put_address(m, DM_LEVELS + level * 0x800 + i * 8, DM_LEVELS + (level + 1) * 0x800);
	}
	dm_range(m, 0, DM_CODE, DM_CODE_END, 2);
	dm_range(m, 1, DM_STUBS, DM_STUBS_END, 4);
	dm_range(m, 2, DM_IMAGE, DM_IMAGE + DM_IMAGE_BYTES, 0);
	dm_put(m, DM_LIST + 0x120, 5, 4);
}

/* --- code that was compiled at run time */

/* Notes in the map of functions that one begins there. */
static inline void dm_begins(struct dotnet_machine *m, uint32_t at)
{
	const uint32_t off = at - DM_CODE, unit = DM_MAP + off / 256 * 4, shift = 28 - off % 256 / 32 * 4;
	uint32_t word;

	memcpy(&word, m->bytes + unit, 4);
	dm_put(m, unit, word | (off % 32 / 4 + 1) << shift, 4);
}

static inline void dm_method(struct dotnet_machine *m, uint32_t i, uint32_t at, uint32_t token, uint32_t kind)
{
	const uint32_t header = DM_HEADERS + i * 128, method = DM_METHODS + 24 + i * 64;

	dm_begins(m, at);
	dm_put_address(m, at - 8, header);
	dm_put_address(m, header + 24, method);
	dm_put(m, header + 32, i ? 1 : 2, 4);
	for (uint32_t k = 0; k < (i ? 1u : 2u); k++) {
		const uint32_t start = at + k * 0x40, bytes = k ? 0x20 : 0x40;

		dm_function(m, start, bytes);
		dm_put(m, header + 36 + k * 12, start - DM_CODE, 4);
		dm_put(m, header + 40 + k * 12, start - DM_CODE + bytes, 4);
		dm_put(m, header + 44 + k * 12, DM_UNWIND - DM_CODE, 4);
	}
	dm_put(m, method, token & 0xfff, 2);
	dm_put(m, method + 2, i * 8, 1);
	dm_put(m, method + 6, kind, 2);
}

static inline void dm_heap(struct dotnet_machine *m)
{
	dm_put_address(m, DM_HEAP + 16, DM_CODE);
	dm_put_address(m, DM_HEAP + 24, DM_CODE_END);
	dm_put_address(m, DM_HEAP + 32, DM_CODE);
	dm_put_address(m, DM_HEAP + 40, DM_MAP);
	dm_put_address(m, DM_METHODS, DM_TABLE);
	dm_put_address(m, DM_TABLE + 24, DM_MODULE);
	dm_put_address(m, DM_MODULE + 0x120, DM_FILE);
	dm_method(m, 0, DM_FIRST, 2, 0);
	dm_method(m, 1, DM_SECOND, 3, 5);
	dm_method(m, 2, DM_DYNAMIC, 0, 7);
	dm_put_address(m, DM_METHODS + 24 + 2 * 64 + 32, DM_TEXT);
	memcpy(m->bytes + DM_TEXT, "IL_STUB_PInvoke", 16);
	/* from .NET 10 on: bytes 0x1100 to 0x11ff are of the method that begins at 0x1000 */
	dm_put(m, DM_MAP + 0x11 * 4, 0x1000 | 9, 4);
	dm_begins(m, DM_THUNK);
	dm_put(m, DM_THUNK - 8, 3, 8);
	memcpy(m->bytes + DM_THUNK, "\x49\x89\xfb\x49\xff\xe2", 6); /* mov r11, rdi; jmp r10 */
	dm_unwind(m, DM_UNWIND);
}

/* --- the assembly */

/* Appends a text to the strings; returns where it is. */
static inline uint32_t dm_string(struct dotnet_machine *m, uint32_t *end, const char *text)
{
	const uint32_t at = *end;

	memcpy(m->bytes + DM_IMAGE + DM_METADATA + DM_STRINGS_OFFSET + at, text, strlen(text) + 1);
	*end += (uint32_t)strlen(text) + 1;
	return at;
}

/* One module; three types, the last one in the second one; four methods. Indices have 2 bytes. */
static inline void dm_tables(struct dotnet_machine *m)
{
	static const char *const types[][2] = {{"", "<Module>"}, {"Demo", "Outer"}, {"", "Inner`1"}};
	static const char *const methods[] = {".ctor", "Run", "Deep", "Leaf"};
	static const uint32_t first[] = {1, 1, 3};
	const uint32_t stream = DM_IMAGE + DM_METADATA + DM_TABLES_OFFSET;
	uint32_t at = stream + 24, strings = 1;

	dm_put(m, stream + 8, 1ull << 0 | 1ull << 2 | 1ull << 6 | 1ull << 0x29, 8);
	for (uint32_t i = 0; i < 4; i++, at += 4)
		dm_put(m, at, (const uint32_t[]){1, 3, 4, 1}[i], 4);
	at += 10; /* the module */
	for (uint32_t i = 0; i < 3; i++, at += 14) {
		dm_put(m, at + 4, dm_string(m, &strings, types[i][1]), 2);
		dm_put(m, at + 6, dm_string(m, &strings, types[i][0]), 2);
		dm_put(m, at + 10, 1, 2);
		dm_put(m, at + 12, first[i], 2);
	}
	for (uint32_t i = 0; i < 4; i++, at += 14)
		dm_put(m, at + 8, dm_string(m, &strings, methods[i]), 2);
	dm_put(m, at, 3, 2);
	dm_put(m, at + 2, 2, 2);
}

static inline void dm_metadata(struct dotnet_machine *m)
{
	const uint32_t at = DM_IMAGE + DM_METADATA;

	dm_put(m, at, 0x424a5342, 4);
	dm_put(m, at + 12, 12, 4);
	memcpy(m->bytes + at + 16, "v4.0.30319", 11);
	dm_put(m, at + 30, 2, 2); /* streams */
	dm_put(m, at + 32, DM_TABLES_OFFSET, 4);
	dm_put(m, at + 36, DM_STRINGS_OFFSET - DM_TABLES_OFFSET, 4);
	memcpy(m->bytes + at + 40, "#~", 3);
	dm_put(m, at + 44, DM_STRINGS_OFFSET, 4);
	dm_put(m, at + 48, 0x100, 4);
	memcpy(m->bytes + at + 52, "#Strings", 9);
	dm_tables(m);
}

/*
 * Functions 0, 1, 3, 4 are the methods 1 to 4; 2 is a handler of method 2; 5 is an instance of method 2. The
 * array of methods is one block of 16 with four elements; the table of instances has one bucket with one.
 */
static inline void dm_ready(struct dotnet_machine *m)
{
	static const uint8_t entries[] = {0x20, 0x01, 0x02, 0x02, 0x26, 0x16, 0x00, 0x04, 0x16, 0x0c, 0x10};
	static const uint8_t instances[] = {0x00, 0x02, 0x04, 0xaa, 0x04, 0x00, 0x44, 0x15,
					    0x12, 0x08, 0x01, 0x08, 0x02, 0x01, 0x0e, 0x2a};
	const uint32_t head = DM_IMAGE + DM_READY;
	const uint32_t sections[][3] = {{102, DM_FUNCTIONS, DM_N_FUNCTIONS * 12},
					{103, DM_ENTRIES, sizeof entries},
					{109, DM_INSTANCES, sizeof instances}};

	dm_put(m, head, 0x00525452, 4);
	dm_put(m, head + 12, 3, 4);
	memcpy(m->bytes + head + 16, sections, sizeof sections);
	memcpy(m->bytes + DM_IMAGE + DM_ENTRIES, entries, sizeof entries);
	memcpy(m->bytes + DM_IMAGE + DM_INSTANCES, instances, sizeof instances);
	dm_unwind(m, DM_IMAGE + DM_READY_UNWIND);
	for (uint32_t i = 0; i < DM_N_FUNCTIONS; i++) {
		const uint32_t code = DM_READY_CODE + i * DM_FUNCTION_BYTES,
			       function = DM_IMAGE + DM_FUNCTIONS + i * 12;

		dm_function(m, DM_IMAGE + code, DM_FUNCTION_BYTES);
		dm_put(m, function, code, 4);
		dm_put(m, function + 4, code + DM_FUNCTION_BYTES, 4);
		dm_put(m, function + 8, DM_READY_UNWIND, 4);
	}
}

static inline void dm_image(struct dotnet_machine *m)
{
	const uint32_t pe = DM_IMAGE + 0x80, optional = pe + 24, section = optional + 240;

	dm_put(m, DM_IMAGE, 'M' | 'Z' << 8, 2);
	dm_put(m, DM_IMAGE + 0x3c, 0x80, 4);
	dm_put(m, pe, 0x4550, 4);
	dm_put(m, pe + 6, 1, 2);
	dm_put(m, pe + 20, 240, 2);
	dm_put(m, optional, 0x20b, 2);
	dm_put(m, optional + 108, 16, 4);
	dm_put(m, optional + 112 + 14 * 8, DM_CLI, 4);
	dm_put(m, section + 8, DM_SECTION_BYTES, 4);
	dm_put(m, section + 12, DM_RVA, 4);
	dm_put(m, section + 16, DM_SECTION_BYTES, 4);
	dm_put(m, section + 20, DM_RAW, 4);
	dm_put(m, DM_IMAGE + DM_CLI, 72, 4);
	dm_put(m, DM_IMAGE + DM_CLI + 8, DM_METADATA, 4);
	dm_put(m, DM_IMAGE + DM_CLI + 12, 0x400, 4);
	dm_put(m, DM_IMAGE + DM_CLI + 64, DM_READY, 4);
	dm_put(m, DM_IMAGE + DM_CLI + 68, 0x100, 4);
	dm_metadata(m);
	dm_ready(m);
	memcpy(m->bytes + DM_FILE, m->bytes + DM_IMAGE, DM_RAW);
	memcpy(m->bytes + DM_FILE + DM_RAW, m->bytes + DM_IMAGE + DM_RVA, DM_SECTION_BYTES);
}

/* --- lines */

/* From byte 0 on bytecode 0, from 4 on 4, from 0x10 on none, from 0x44 on 9. */
static const uint8_t dm_map[] = {0x09, 0x00, 0x04, 0x13, 0x74, 0x91, 0x24, 0xe1, 0x94, 0x14};

/* In both forms of the assembly. */
static inline void dm_put_debug(struct dotnet_machine *m, uint32_t rva, const void *bytes, size_t n)
{
	memcpy(m->bytes + DM_IMAGE + rva, bytes, n);
	memcpy(m->bytes + DM_FILE + DM_RAW + (rva - DM_RVA), bytes, n);
}

static inline void dm_debug_entry(struct dotnet_machine *m, uint32_t i, uint16_t minor, uint32_t type,
				  uint32_t rva, uint32_t bytes)
{
	uint8_t entry[28] = {0};
	const uint32_t stamp = 20u << 24 | 19 << 16 | 18 << 8 | 17; /* the end of pdb_id */

	memcpy(entry + 4, &stamp, 4);
	memcpy(entry + 10, &minor, 2);
	memcpy(entry + 12, &type, 4);
	memcpy(entry + 16, &bytes, 4);
	memcpy(entry + 20, &rva, 4);
	dm_put_debug(m, DM_DEBUG + i * sizeof entry, entry, sizeof entry);
}

/* The map of function 1, and of it alone, in the list of code that was compiled ahead of time. */
static inline void dm_ready_maps(struct dotnet_machine *m)
{
	static const uint8_t list[] = {0x30, 0x01, 0x08, 0x00};
	const uint32_t section[] = {105, DM_MAPS, sizeof list + sizeof dm_map};

	dm_put(m, DM_IMAGE + DM_READY + 12, 4, 4);
	memcpy(m->bytes + DM_IMAGE + DM_READY + 16 + 3 * sizeof section, section, sizeof section);
	memcpy(m->bytes + DM_IMAGE + DM_MAPS, list, sizeof list);
	memcpy(m->bytes + DM_IMAGE + DM_MAPS + sizeof list, dm_map, sizeof dm_map);
}

/* The assembly says that it has a file of lines (pdb_file.h); with `packed`, that it is in it. */
static inline void dm_lines(struct dotnet_machine *m, const void *packed, uint32_t packed_bytes,
			    uint32_t bytes)
{
	static const uint8_t codeview[] = "RSDS\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\1\0\0\0"
					  "C:\\src\\" DM_LINES_NAME;
	const uint32_t directory[] = {DM_DEBUG, packed ? 56 : 28}, at = 0x80 + 24 + 112 + 6 * 8;

	memcpy(m->bytes + DM_IMAGE + at, directory, sizeof directory);
	memcpy(m->bytes + DM_FILE + at, directory, sizeof directory);
	dm_put_debug(m, DM_CODEVIEW, codeview, sizeof codeview);
	dm_debug_entry(m, 0, 0x504d, 2, DM_CODEVIEW, sizeof codeview);
	if (packed) {
		dm_put_debug(m, DM_EMBEDDED, "MPDB", 4);
		dm_put_debug(m, DM_EMBEDDED + 4, &bytes, 4);
		dm_put_debug(m, DM_EMBEDDED + 8, packed, packed_bytes);
		dm_debug_entry(m, 1, 0x100, 17, DM_EMBEDDED, packed_bytes + 8);
	}
	memcpy(m->bytes + DM_TEXT + 0x100 + 1, dm_map, sizeof dm_map); /* behind a byte of flags */
	dm_put_address(m, DM_HEADERS, DM_TEXT + 0x100);
	dm_ready_maps(m);
}

static inline void dm_init(struct dotnet_machine *m)
{
	m->bytes = calloc(1, DM_BYTES);
	m->reader = calloc(1, sizeof *m->reader);
	m->reader->memory.read = dm_read;
	m->reader->memory.data = m;
	m->reader->vm.dac_table = DM_BASE + DM_DAC;
	dm_ranges(m);
	dm_heap(m);
	dm_image(m);
}

static inline void dm_free(struct dotnet_machine *m)
{
	dotnet_reader_fini(m->reader);
	free(m->reader);
	free(m->bytes);
}

#endif
