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
#define SEGMENT_FREE 0xffu
#define FRAME_WORDS_MAX (1u << 17)
#define NOT_INSTALLED 0xffu /* a state of compiled methods from JDK 9 on: it is not complete yet */
#define CODE_BYTES_MAX (64u << 20)
#define CODELETS_MAX 4096u
#define CODELET_ALIGN 32u /* of a codelet's code (CodeEntryAlignment), unless an option says otherwise */
#define ENTRY_TEXT "method entry point"
#define BYTECODE_SLOT_8 56u /* of the interpreter of JDK 8, below a frame record: see struct elf_arch */

/* A code heap: [low, high) is in use, [low, limit) is reserved. */
struct heap {
	uint64_t low, high, limit, segmap;
	unsigned shift;
};

static int heap_read(struct vm_memory *m, const struct hotspot_layout *l, uint64_t at, struct heap *ret)
{
	uint64_t shift = 0;
	int r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_MEMORY].off, HOTSPOT_SPACE_LOW, &ret->low);

	if (r == 0)
		r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_MEMORY].off, HOTSPOT_SPACE_HIGH,
				&ret->high);
	ret->limit = ret->high;
	if (r == 0 && hotspot_has(l, HOTSPOT_SPACE_BOUNDARY))
		r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_MEMORY].off, HOTSPOT_SPACE_BOUNDARY,
				&ret->limit);
	if (r == 0)
		r = hotspot_get(m, l, at + l->fields[HOTSPOT_HEAP_SEGMAP].off, HOTSPOT_SPACE_LOW,
				&ret->segmap);
	if (r == 0)
		r = hotspot_get(m, l, at, HOTSPOT_HEAP_SHIFT, &shift);
	if (r == 0 && shift > HOTSPOT_SHIFT_MAX)
		return -ENOTSUP;
	ret->shift = (unsigned)shift;
	return r;
}

/* Calls a function for each heap until it returns true. 1: it has; 0: it has not; -errno. */
static int heaps_each(struct vm_memory *m, const struct hotspot_layout *l,
		      bool (*each)(const struct heap *heap, void *data), void *data)
{
	const enum hotspot_field_name length =
		hotspot_has(l, HOTSPOT_ARRAY_LENGTH) ? HOTSPOT_ARRAY_LENGTH : HOTSPOT_ARRAY_LENGTH_OLD;
	uint64_t array = 0, n = 1, elements = 0, at = 0;
	int r = vm_read_number(m, &array, l->heaps, 8);

	if (r == 0 && !array)
		return -EAGAIN;
	if (r == 0 && !l->single)
		r = hotspot_get(m, l, array, length, &n);
	if (r == 0 && !l->single)
		r = hotspot_get(m, l, array, HOTSPOT_ARRAY_DATA, &elements);
	if (r == 0 && n > HEAPS_MAX)
		r = -ENOTSUP;
	for (uint64_t i = 0; i < n && r == 0; i++) {
		struct heap heap = {0};

		at = array;
		if (!l->single)
			r = vm_read_number(m, &at, elements + i * 8, 8);
		if (r == 0)
			r = heap_read(m, l, at, &heap);
		if (r == 0 && each(&heap, data))
			return 1;
	}
	return r;
}

struct heap_search {
	uint64_t address;
	struct heap found;
};

static bool has_address(const struct heap *heap, void *data)
{
	struct heap_search *s = data;

	s->found = *heap;
	return s->address >= heap->low && s->address < heap->high;
}

/* Finds the heap with the address. 0; -ENOENT. */
static int heap_find(struct vm_memory *m, const struct hotspot_layout *l, uint64_t address, struct heap *ret)
{
	struct heap_search s = {.address = address};
	int r = heaps_each(m, l, has_address, &s);

	*ret = s.found;
	return r < 0 ? r : r ? 0 : -ENOENT;
}

struct heap_list {
	struct code_heaps *to;
	unsigned n;
};

/* Further heaps than there is room for are left out. All have segments of the same size. */
static bool add_heap(const struct heap *heap, void *data)
{
	struct heap_list *list = data;

	if (heap->limit > heap->low)
		list->to->heaps[list->n++] =
			(struct code_heap){heap->low, heap->limit - heap->low, heap->segmap};
	list->to->shift = (uint16_t)heap->shift;
	return list->n == CODE_HEAPS_MAX;
}

/* Where in a block a field of its CodeBlob is; CODE_NO_OFFSET: there is none, or not where it is read. */
static uint16_t in_block(const struct hotspot_layout *l, enum hotspot_field_name field, uint32_t bytes)
{
	const struct hotspot_field *f = &l->fields[field];

	return f->bytes == bytes && l->block_bytes + f->off <= CODE_HEADER_BYTES - 16
		       ? (uint16_t)(l->block_bytes + f->off)
		       : CODE_NO_OFFSET;
}

/* Where the code begins, and from where on a frame stands. Without it, frames are stepped all the same. */
static void find_complete(struct code_heaps *h, const struct hotspot_layout *l)
{
	const bool is_short = l->fields[HOTSPOT_BLOB_COMPLETE].bytes == 2;
	const bool pointer = hotspot_has(l, HOTSPOT_BLOB_CODE_BEGIN);
	const uint16_t begin =
		pointer ? in_block(l, HOTSPOT_BLOB_CODE_BEGIN, 8) : in_block(l, HOTSPOT_BLOB_CODE_OFFSET, 4);
	const uint16_t complete = in_block(l, HOTSPOT_BLOB_COMPLETE, is_short ? 2 : 4);

	h->complete = CODE_NO_OFFSET;
	if (begin == CODE_NO_OFFSET || complete == CODE_NO_OFFSET)
		return;
	h->begin = begin;
	h->complete = complete | (is_short ? CODE_SHORT : 0);
	h->origin = pointer ? 0 : (uint16_t)l->block_bytes;
}

static void extend(struct code_heaps *h, uint32_t offset)
{
	if (offset != CODE_NO_OFFSET && offset >= h->bytes)
		h->bytes = (uint16_t)((offset & ~7u) + 8);
}

int hotspot_heaps_read(struct code_heaps *ret, struct vm_memory *m, const struct hotspot_layout *l)
{
	struct code_heaps made = {0};
	int r = heaps_each(m, l, add_heap, &(struct heap_list){&made, 0});

	if (r < 0)
		return r;
	made.used = l->fields[HOTSPOT_BLOCK_USED].off;
	made.name = in_block(l, HOTSPOT_BLOB_NAME, 8);
	made.compile_id = in_block(l, HOTSPOT_NMETHOD_COMPILE_ID, 4);
	made.frame_words = in_block(l, HOTSPOT_BLOB_FRAME_SIZE, 4);
	find_complete(&made, l);
	extend(&made, made.name);
	extend(&made, made.compile_id);
	extend(&made, made.frame_words);
	extend(&made, made.begin);
	if (made.complete != CODE_NO_OFFSET)
		extend(&made, made.complete & ~CODE_SHORT);
	if (!hotspot_heaps_valid(&made))
		return -ENOTSUP;
	*ret = made;
	return 0;
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

/*
 * Whether methods call the stub of that name, in whatever version, without pushing anything for it. They do
 * for slow_subtype_check, and what is not known may be alike.
 */
static bool is_plain(const char *name)
{
	static const char *const parts[] = {
		"resolve_",	  "wrong_method",     "ic_miss",	 "new_instance",   "new_array",
		"new_type_array", "new_object_array", "new_multi_array", "multianewarray", "counter_overflow",
		"monitorenter",	  "monitorexit",      "_patching",
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
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
	if (!frame_bytes)
		return HOTSPOT_CODE_STUBS;
	return is_plain(name) ? HOTSPOT_CODE_PLAIN_STUB : HOTSPOT_CODE_STUB;
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

/* Of a compiled method. 0; -EAGAIN: it is not complete yet. */
static int method_read(struct vm_memory *m, const struct hotspot_layout *l, struct hotspot_blob *b)
{
	const enum hotspot_field_name method =
		hotspot_has(l, HOTSPOT_NMETHOD_METHOD) ? HOTSPOT_NMETHOD_METHOD : HOTSPOT_COMPILED_METHOD;
	uint64_t id = 0, state = 0;
	int r = hotspot_get(m, l, b->address, method, &b->method);

	if (r == 0)
		r = hotspot_get(m, l, b->address, HOTSPOT_NMETHOD_COMPILE_ID, &id);
	b->compile_id = (uint32_t)id;
	if (r == 0 && hotspot_has(l, HOTSPOT_NMETHOD_STATE))
		r = vm_read_number(m, &state, b->address + l->fields[HOTSPOT_NMETHOD_STATE].off, 1);
	if (r == 0 && state == NOT_INSTALLED)
		return -EAGAIN;
	return r == 0 && !b->frame_bytes ? -ENOTSUP : r;
}

/* 0; -EAGAIN as above; -ENOTSUP: it is no blob, or one of another layout. */
static int blob_read(struct vm_memory *m, const struct hotspot_layout *l, struct hotspot_blob *b)
{
	const struct elf_arch *arch = elf_arch(memory_rows_machine());
	uint64_t name = 0, frame = 0;
	int r = hotspot_get(m, l, b->address, HOTSPOT_BLOB_NAME, &name);

	b->name_at = name;
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
	return hotspot_is_freed(b->kind) ? method_read(m, l, b) : 0;
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

/* The code of the codelet at an address. 1: it is an entry; 0: it is none; -ENODATA: it is no codelet. */
static int next_codelet(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			uint64_t at, uint64_t *ret_bytes, struct hotspot_entry *ret)
{
	const uint64_t code = (at + l->codelet_bytes + CODELET_ALIGN - 1) & ~(CODELET_ALIGN - 1ull);
	char text[sizeof ENTRY_TEXT] = "";
	uint64_t text_at = 0, bytes = 0;
	int r = hotspot_get(m, l, at, HOTSPOT_CODELET_SIZE, &bytes);

	if (r == 0)
		r = hotspot_get(m, l, at, HOTSPOT_CODELET_TEXT, &text_at);
	if (r == 0)
		r = vm_read_string(m, text, sizeof text, text_at);
	if (r < 0 || code < b->start || bytes <= code - at || bytes > b->end - at)
		return -ENODATA;
	*ret_bytes = bytes;
	*ret = (struct hotspot_entry){(uint32_t)(code - b->start), (uint32_t)(at + bytes - b->start)};
	return strcmp(text, ENTRY_TEXT) == 0;
}

size_t hotspot_entries_read(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			    struct hotspot_entry *ret, size_t max)
{
	uint64_t queue = 0, at = 0, limit = 0, stubs = 0, bytes = 0;
	size_t n = 0;
	int r = l->codelets && l->codelet_bytes ? vm_read_number(m, &queue, l->codelets, 8) : -ENOTSUP;

	if (r == 0)
		r = hotspot_get(m, l, queue, HOTSPOT_QUEUE_BUFFER, &at);
	if (r == 0)
		r = hotspot_get(m, l, queue, HOTSPOT_QUEUE_LIMIT, &limit);
	if (r == 0)
		r = hotspot_get(m, l, queue, HOTSPOT_QUEUE_STUBS, &stubs);
	if (r < 0 || at < b->start || at >= b->end)
		return 0;
	limit = limit < b->end - at ? at + limit : b->end;
	for (uint64_t i = 0; i < stubs && i < CODELETS_MAX && at < limit && n < max; i++, at += bytes) {
		r = next_codelet(m, l, b, at, &bytes, &ret[n]);
		if (r < 0)
			break;
		n += (size_t)r;
	}
	return n;
}
