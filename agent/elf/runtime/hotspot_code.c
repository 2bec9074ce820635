// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/hotspot_code.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/runtime/hotspot_layout.h"

#define HEAPS_MAX 8u
#define HOPS_MAX 4096u /* from a segment to the beginning of its block */
#define SHIFT_MAX 16u  /* log2 of the bytes of a segment */
#define SEGMENT_FREE 0xffu
#define FRAME_WORDS_MAX (1u << 17)
#define CODE_BYTES_MAX (64u << 20)
#define BYTECODE_SLOT_8 56u /* of the interpreter of JDK 8, below a frame record: see struct elf_arch */

/* A code heap: [low, high) is in use. */
struct heap {
	uint64_t low, high, segmap;
	unsigned shift;
};

static int heap_read(struct vm_memory *m, const struct hotspot_layout *l, uint64_t at, struct heap *ret)
{
	uint64_t shift = 0;
	int r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_MEMORY].off, HOTSPOT_SPACE_LOW, &ret->low);

	if (r == 0)
		r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_MEMORY].off, HOTSPOT_SPACE_HIGH,
				&ret->high);
	if (r == 0)
		r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_SEGMAP].off, HOTSPOT_SPACE_LOW,
				&ret->segmap);
	if (r == 0)
		r = hotspot_get(m, l, at, HOTSPOT_HEAP_SHIFT, &shift);
	if (r == 0 && shift > SHIFT_MAX)
		return -ENOTSUP;
	ret->shift = (unsigned)shift;
	return r;
}

/* Finds the heap with the address. 0; -ENOENT. */
static int heap_find(struct vm_memory *m, const struct hotspot_layout *l, uint64_t address, struct heap *ret)
{
	const enum hotspot_field_name length =
		hotspot_has(l, HOTSPOT_ARRAY_LENGTH) ? HOTSPOT_ARRAY_LENGTH : HOTSPOT_ARRAY_LENGTH_OLD;
	uint64_t array = 0, n = 1, data = 0, heap = 0;
	int r = vm_read_number(m, &array, l->heaps, 8);

	if (r == 0 && !array)
		return -EAGAIN;
	if (r == 0 && !l->single)
		r = hotspot_get(m, l, array, length, &n);
	if (r == 0 && !l->single)
		r = hotspot_get(m, l, array, HOTSPOT_ARRAY_DATA, &data);
	if (r == 0 && n > HEAPS_MAX)
		r = -ENOTSUP;
	for (uint64_t i = 0; i < n && r == 0; i++) {
		heap = array;
		if (!l->single)
			r = vm_read_number(m, &heap, data + i * 8, 8);
		if (r == 0)
			r = heap_read(m, l, heap, ret);
		if (r == 0 && address >= ret->low && address < ret->high)
			return 0;
	}
	return r < 0 ? r : -ENOENT;
}

/* The address of the block with the address, which is in the heap. 0; -ENODATA: it is free. */
static int block_find(struct vm_memory *m, const struct hotspot_layout *l, const struct heap *heap,
		      uint64_t address, uint64_t *ret)
{
	uint64_t segment = (address - heap->low) >> heap->shift, back = 0, used = 0;
	int r = 0;

	for (unsigned hops = 0; r == 0; hops++) {
		r = vm_read_number(m, &back, heap->segmap + segment, 1);
		if (r < 0 || !back)
			break;
		if (back == SEGMENT_FREE || back > segment || hops == HOPS_MAX)
			return -ENODATA;
		segment -= back;
	}
	*ret = heap->low + (segment << heap->shift);
	if (r == 0)
		r = hotspot_get(m, l, *ret, HOTSPOT_BLOCK_USED, &used);
	return r == 0 && !(used & 1) ? -ENODATA : r;
}

/* What a blob is, by its name, which has been the same in all versions but for details behind it. */
static enum hotspot_code_kind kind_of(const char *name, uint32_t frame_bytes)
{
	static const struct {
		const char *begins;
		enum hotspot_code_kind kind;
	} kinds[] = {
		{"nmethod", HOTSPOT_CODE_METHOD},	    {"native nmethod", HOTSPOT_CODE_NATIVE},
		{"Interpreter", HOTSPOT_CODE_INTERPRETER},  {"StubRoutines", HOTSPOT_CODE_STUBS},
		{"vtable chunks", HOTSPOT_CODE_FRAMELESS},  {"I2C/C2I adapters", HOTSPOT_CODE_ADAPTERS},
		{"DeoptimizationBlob", HOTSPOT_CODE_CALLS}, {"UncommonTrapBlob", HOTSPOT_CODE_CALLS},
		{"ExceptionBlob", HOTSPOT_CODE_CALLS},	    {"SafepointBlob", HOTSPOT_CODE_CALLS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(name, kinds[i].begins, strlen(kinds[i].begins)) == 0)
			return kinds[i].kind;
	return frame_bytes ? HOTSPOT_CODE_STUB : HOTSPOT_CODE_STUBS;
}

static int read_range(struct vm_memory *m, const struct hotspot_layout *l, struct hotspot_blob *b)
{
	int r;

	if (hotspot_has(l, HOTSPOT_BLOB_CODE_BEGIN)) {
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_CODE_BEGIN, &b->start);
	} else {
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_CODE_OFFSET, &b->start);
		b->start += b->address;
	}
	if (r == 0 && hotspot_has(l, HOTSPOT_BLOB_CODE_END)) {
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_CODE_END, &b->end);
	} else if (r == 0) {
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_DATA_OFFSET, &b->end);
		b->end += b->address;
	}
	return r;
}

/* 0; -ENOTSUP: it is no blob, or one of another layout. */
static int blob_read(struct vm_memory *m, const struct hotspot_layout *l, struct hotspot_blob *b)
{
	const enum hotspot_field_name method =
		hotspot_has(l, HOTSPOT_NMETHOD_METHOD) ? HOTSPOT_NMETHOD_METHOD : HOTSPOT_COMPILED_METHOD;
	const struct elf_arch *arch = elf_arch(memory_rows_machine());
	uint64_t name = 0, frame = 0, id = 0;
	int r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_NAME, &name);

	if (r == 0)
		r = vm_read_string(m, b->name, sizeof b->name, name);
	if (r == 0)
		r = read_range(m, l, b);
	if (r == 0)
		r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_FRAME_SIZE, &frame);
	if (r < 0)
		return r;
	b->frame_bytes = (int32_t)frame > 0 && frame <= FRAME_WORDS_MAX ? (uint32_t)frame * 8 : 0;
	b->kind = kind_of(b->name, b->frame_bytes);
	if (b->kind == HOTSPOT_CODE_INTERPRETER)
		b->frame_bytes = l->version < 9 ? BYTECODE_SLOT_8 : arch ? arch->jvm_bytecode : 0;
	if (b->kind != HOTSPOT_CODE_METHOD && b->kind != HOTSPOT_CODE_NATIVE)
		return 0;
	r = hotspot_get(m, l, b->address, method, &b->method);
	if (r == 0)
		r = hotspot_get(m, l, b->address, HOTSPOT_NMETHOD_COMPILE_ID, &id);
	b->compile_id = (uint32_t)id;
	return r == 0 && !b->frame_bytes ? -ENOTSUP : r;
}

int hotspot_blob_find(struct vm_memory *m, const struct hotspot_layout *l, uint64_t address,
		      struct hotspot_blob *ret)
{
	uint64_t block = 0, segments = 0, limit;
	struct heap heap;
	int r = heap_find(m, l, address, &heap);

	if (r == 0)
		r = block_find(m, l, &heap, address, &block);
	if (r == 0)
		r = hotspot_get(m, l, block, HOTSPOT_BLOCK_LENGTH, &segments);
	if (r < 0)
		return r;
	if (segments > CODE_BYTES_MAX >> heap.shift)
		return -ENOTSUP;
	limit = block + (segments << heap.shift);
	*ret = (struct hotspot_blob){.address = block + l->block_bytes};
	r = blob_read(m, l, ret);
	if (r < 0)
		return r;
	if (ret->start < ret->address || ret->end < ret->start || ret->end > limit)
		return -ENOTSUP;
	return address >= ret->start && address < ret->end ? 0 : -ENODATA;
}

bool hotspot_is_empty(struct vm_memory *m, const struct hotspot_layout *l, uint64_t start, uint64_t end)
{
	uint64_t address = start, block;
	struct heap heap;

	if (end - start > MEMORY_CODE_MAX || heap_find(m, l, start, &heap) < 0 || end > heap.high)
		return false;
	while (address < end && block_find(m, l, &heap, address, &block) == -ENODATA)
		address = (address | ((1ull << heap.shift) - 1)) + 1;
	return address >= end;
}
