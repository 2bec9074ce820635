// SPDX-License-Identifier: Apache-2.0
/*
 * Sources: CPython's headers of each version (cpython/code.h, cpython/unicodeobject.h, cpython/pystate.h,
 * internal/pycore_frame.h, pycore_interpframe_structs.h, pycore_debug_offsets.h), compiled.
 *
 * `content` covers the fields of a code object from the first that does not change while the object lives up
 * to the line table: counts of arguments, first line, names, file, and from 3.12 on a version that is
 * unique. What lies before is references that may move (3.11: and the warm-up counter), behind it are caches.
 */
#include "agent/elf/runtime/cpython_layout.h"

#include <string.h>

#include "bpf/abi.h"

#define NONE CPYTHON_NO_OFFSET
#define OFFSET_MAX 4096u      /* no offset is as large */
#define FIRST_CANDIDATE 0xc1u /* low bits of the version of "3.x.0rc1" */

/* --- layouts of versions that do not describe themselves */

#define OBJECTS_OF_8_TO_10                                                                         \
	.first = 24, .first_of = NONE, .next = 24, .code = 32, .kind = NONE, .content = 16,        \
	.content_bytes = 112, .type = 8, .first_line = 40, .name = 112, .file = 104, .lines = 120, \
	.text_length = 16, .bytes_length = 16, .bytes = 32, .text_state = 32, .kind_shift = 2,     \
	.compact_bit = 5, .ascii_bit = 6, .ascii_text = 48, .wide_text = 72, .thread = 176

static const struct cpython_layout layout_8 = {
	OBJECTS_OF_8_TO_10,
	.flags = RUNTIME_WALK_EACH | RUNTIME_WALK_INDEX | RUNTIME_WALK_TEXTS,
	.marker_first = NONE,
	.marker_next = NONE,
	.frame_bytes = 112,
	.instruction = 104,
	.lines_format = CPYTHON_LINES_LNOTAB,
	.instruction_bytes = 1,
	.key = 1396,
};
static const struct cpython_layout layout_9 = {
	OBJECTS_OF_8_TO_10,
	.flags = RUNTIME_WALK_EACH | RUNTIME_WALK_INDEX | RUNTIME_WALK_TEXTS,
	.marker_first = NONE,
	.marker_next = NONE,
	.frame_bytes = 112,
	.instruction = 104,
	.lines_format = CPYTHON_LINES_LNOTAB,
	.instruction_bytes = 1,
	.key = 588,
};
static const struct cpython_layout layout_10 = {
	OBJECTS_OF_8_TO_10,	.flags = RUNTIME_WALK_EACH | RUNTIME_WALK_INDEX | RUNTIME_WALK_TEXTS,
	.marker_first = 48, /* cframe, on the native stack */
	.marker_next = 8,	.frame_bytes = 104,
	.instruction = 96,	.lines_format = CPYTHON_LINES_LINETABLE,
	.instruction_bytes = 2, .key = 588,
};
static const struct cpython_layout layout_11 = {
	.flags = RUNTIME_WALK_ENTRY | RUNTIME_WALK_TEXTS,
	.thread = 152,
	.first = 56, /* cframe */
	.first_of = 8,
	.marker_first = 56,
	.marker_next = 16,
	.frame_bytes = 72,
	.next = 48,
	.code = 32,
	.instruction = 56,
	.kind = 68, /* is_entry */
	.content = 56,
	.content_bytes = 88,
	.type = 8,
	.first_line = 72,
	.name = 128,
	.file = 112,
	.lines = 136,
	.text_length = 16,
	.bytes_length = 16,
	.bytes = 32,
	.text_state = 32,
	.kind_shift = 2,
	.compact_bit = 5,
	.ascii_bit = 6,
	.lines_format = CPYTHON_LINES_LOCATIONS,
	.ascii_text = 48,
	.wide_text = 72,
	.code_start = 184,
	.instruction_bytes = 1,
	.key = 596,
};
static const struct cpython_layout layout_12 = {
	.thread = 136,
	.first = 56, /* cframe */
	.first_of = 0,
	.marker_first = NONE,
	.marker_next = NONE,
	.frame_bytes = 72,
	.next = 8,
	.code = 0,
	.instruction = 56,
	.kind = 70, /* owner */
	.hidden_kind = 3,
	.content = 48,
	.content_bytes = 96,
	.type = 8,
	.first_line = 68,
	.name = 128,
	.file = 112,
	.lines = 136,
	.text_length = 16,
	.bytes_length = 16,
	.bytes = 32,
	.text_state = 32,
	.kind_shift = 2,
	.compact_bit = 5,
	.ascii_bit = 6,
	.lines_format = CPYTHON_LINES_LOCATIONS,
	.ascii_text = 40,
	.wide_text = 56,
	.code_start = 192,
	.instruction_bytes = 1,
	.key = 1548,
	.has_thread_local = 1,
};

bool cpython_layout_of_minor(struct cpython_layout *ret, unsigned minor)
{
	static const struct cpython_layout *const layouts[] = {
		[8] = &layout_8, [9] = &layout_9, [10] = &layout_10, [11] = &layout_11, [12] = &layout_12};

	if (minor >= sizeof layouts / sizeof layouts[0] || !layouts[minor])
		return false;
	*ret = *layouts[minor];
	return true;
}

bool cpython_version_final(uint32_t version)
{
	return (version & 0xffff) == 0 || (version & 0xffff) >= FIRST_CANDIDATE;
}

/* --- versions that describe themselves */

/* Where the offsets stand in _Py_DebugOffsets, which has neither lengths nor names of its groups. */
struct debug_places {
	uint16_t bytes, runtime_bytes, first, thread, next, code, instruction, kind, file, name, lines,
		first_line, code_start, type, bytes_length, bytes_start, text_state, text_length, ascii_text,
		wide_text, copies, copy; /* 0: it is not in it */
	uint16_t key;			 /* the offset itself */
	uint8_t code_tag;
};

static const struct debug_places places_13 = {
	.bytes = 584,
	.runtime_bytes = 24,
	.first = 184,
	.thread = 192,
	.next = 232,
	.code = 240,
	.instruction = 248,
	.kind = 264,
	.file = 280,
	.name = 296,
	.lines = 304,
	.first_line = 312,
	.code_start = 344,
	.type = 360,
	.bytes_length = 520,
	.bytes_start = 528,
	.text_state = 544,
	.text_length = 552,
	.ascii_text = 560,
	.key = 2164,
};
static const struct debug_places places_14 = {
	.bytes = 760,
	.runtime_bytes = 24,
	.first = 208,
	.thread = 216,
	.next = 256,
	.code = 264,
	.instruction = 272,
	.kind = 288,
	.file = 320,
	.name = 336,
	.lines = 344,
	.first_line = 352,
	.code_start = 384,
	.type = 408,
	.bytes_length = 600,
	.bytes_start = 608,
	.text_state = 624,
	.text_length = 632,
	.ascii_text = 640,
	.copies = 392,
	.copy = 304,
	.key = 2340,
	.code_tag = 3,
};
static const struct debug_places places_15 = {
	.bytes = 888,
	.runtime_bytes = 24,
	.first = 208,
	.thread = 240,
	.next = 320,
	.code = 328,
	.instruction = 336,
	.kind = 352,
	.file = 384,
	.name = 400,
	.lines = 408,
	.first_line = 416,
	.code_start = 448,
	.type = 472,
	.bytes_length = 696,
	.bytes_start = 704,
	.text_state = 720,
	.text_length = 728,
	.ascii_text = 736,
	.wide_text = 744,
	.copies = 456,
	.copy = 368,
	.key = NONE,
	.code_tag = 3,
};

static const struct debug_places *places_of(const struct cpython_debug *d)
{
	static const struct debug_places *const places[] = {&places_13, &places_14, &places_15};
	const uint32_t version = cpython_debug_version(d), minor = version >> 16 & 0xff;

	if (version >> 24 != 3 || minor < 13 || minor > 15 || !cpython_version_final(version))
		return NULL;
	return places[minor - 13];
}

size_t cpython_debug_bytes(const struct cpython_debug *d)
{
	const struct debug_places *p = memcmp(d->words, "xdebugpy", 8) == 0 ? places_of(d) : NULL;

	return p ? p->bytes : 0;
}

uint32_t cpython_debug_version(const struct cpython_debug *d)
{
	return d->words[1] > UINT32_MAX ? 0 : (uint32_t)d->words[1];
}

uint32_t cpython_debug_free_threaded(const struct cpython_debug *d)
{
	return d->words[2] != 0;
}

static uint16_t offset_at(const struct cpython_debug *d, uint16_t place)
{
	const uint64_t v = d->words[place / 8];

	return v < OFFSET_MAX ? (uint16_t)v : NONE; /* which no field that is read here may have */
}

/* A frame is read from its start up to its last field that is used. */
static uint16_t frame_bytes_of(const struct cpython_layout *l)
{
	return l->kind < RUNTIME_FRAME_BYTES_MAX ? (uint16_t)((l->kind | 7) + 1) : 0;
}

/* The bits of a string's state moved with the free-threaded build of 3.14. */
static void set_text_bits(struct cpython_layout *l, bool wide)
{
	l->kind_shift = wide ? 8 : 2;
	l->compact_bit = wide ? 11 : 5;
	l->ascii_bit = wide ? 12 : 6;
}

bool cpython_layout_of_debug(struct cpython_layout *ret, const struct cpython_debug *d)
{
	const struct debug_places *p = places_of(d);
	const bool free_threaded = cpython_debug_free_threaded(d);
	struct cpython_layout l;

	if (!p)
		return false;
	l = (struct cpython_layout){
		.thread = offset_at(d, p->thread),
		.first = offset_at(d, p->first),
		.first_of = NONE,
		.marker_first = NONE,
		.marker_next = NONE,
		.next = offset_at(d, p->next),
		.code = offset_at(d, p->code),
		.instruction = offset_at(d, p->instruction),
		.kind = offset_at(d, p->kind),
		.code_tag = p->code_tag,
		.hidden_kind = 3,
		.content = free_threaded ? 64 : 48,
		.content_bytes = 96,
		.type = offset_at(d, p->type),
		.first_line = offset_at(d, p->first_line),
		.name = offset_at(d, p->name),
		.file = offset_at(d, p->file),
		.lines = offset_at(d, p->lines),
		.text_length = offset_at(d, p->text_length),
		.bytes_length = offset_at(d, p->bytes_length),
		.bytes = offset_at(d, p->bytes_start),
		.text_state = offset_at(d, p->text_state),
		.lines_format = CPYTHON_LINES_LOCATIONS,
		.ascii_text = offset_at(d, p->ascii_text),
		.code_start = offset_at(d, p->code_start),
		.instruction_bytes = 1,
		.key = p->key,
		.has_thread_local = 1,
	};
	l.frame_bytes = frame_bytes_of(&l);
	l.wide_text = p->wide_text ? offset_at(d, p->wide_text) : (uint16_t)(l.ascii_text + 16);
	set_text_bits(&l, free_threaded && p != &places_13);
	if (free_threaded && p->copies) {
		l.flags = RUNTIME_WALK_COPIES;
		l.copies = offset_at(d, p->copies);
		l.copy = offset_at(d, p->copy);
	}
	/* the content's place was not read but is known of the versions: something else must confirm it */
	if (l.lines != l.content + l.content_bytes - 8 ||
	    (p->key != NONE && p->key + 4u > d->words[p->runtime_bytes / 8]) || !cpython_layout_valid(&l))
		return false;
	*ret = l;
	return true;
}

#define TASKS_NAME 1u /* words of struct cpython_tasks */
#define TASKS_RUNNING 11u
/* Where asyncio is in a file of its own: what those of all releases say. */
#define TASK_NAME_14 136u
#define RUNNING_TASK_14 872u

void cpython_layout_set_tasks(struct cpython_layout *l, const struct cpython_debug *d,
			      const struct cpython_tasks *tasks)
{
	uint64_t task = 0, name = 0;

	if (tasks) {
		task = tasks->words[TASKS_RUNNING];
		name = tasks->words[TASKS_NAME];
	} else if (places_of(d) == &places_14 && !cpython_debug_free_threaded(d)) {
		task = RUNNING_TASK_14;
		name = TASK_NAME_14;
	}
	if (task && task < OFFSET_MAX && task % 8 == 0 && name < OFFSET_MAX && name % 8 == 0) {
		l->task = (uint16_t)task;
		l->task_name = (uint16_t)name;
	}
}

/* --- validity */

static bool is_offset(uint16_t offset, uint16_t align)
{
	return offset < OFFSET_MAX && offset % align == 0;
}

static bool is_offset_or_none(uint16_t offset, uint16_t align)
{
	return offset == NONE || is_offset(offset, align);
}

static bool thread_valid(const struct cpython_layout *l)
{
	return is_offset(l->thread, 8) && is_offset(l->first, 8) && is_offset_or_none(l->first_of, 8) &&
	       is_offset_or_none(l->marker_first, 8) && is_offset_or_none(l->marker_next, 8) &&
	       (l->marker_first == NONE) == (l->marker_next == NONE) && is_offset_or_none(l->key, 4) &&
	       l->has_thread_local <= 1 && is_offset(l->task, 8) && is_offset(l->task_name, 8);
}

static bool in_frame(const struct cpython_layout *l, uint16_t offset, uint16_t bytes)
{
	return is_offset(offset, bytes) && offset + bytes <= l->frame_bytes;
}

static bool frame_valid(const struct cpython_layout *l)
{
	const bool index = l->flags & RUNTIME_WALK_INDEX;

	if (l->flags & ~(RUNTIME_WALK_ENTRY | RUNTIME_WALK_EACH | RUNTIME_WALK_INDEX | RUNTIME_WALK_TEXTS |
			 RUNTIME_WALK_COPIES))
		return false;
	if (l->flags & RUNTIME_WALK_COPIES ? index || !is_offset(l->copies, 8) || !in_frame(l, l->copy, 4)
					   : l->copies || l->copy)
		return false;
	if (l->frame_bytes % 8 || l->frame_bytes > RUNTIME_FRAME_BYTES_MAX || !in_frame(l, l->next, 8) ||
	    !in_frame(l, l->code, 8) || !in_frame(l, l->instruction, index ? 4 : 8))
		return false;
	if (l->kind == NONE ? (l->flags & RUNTIME_WALK_ENTRY) || l->hidden_kind : !in_frame(l, l->kind, 1))
		return false;
	if (index ? l->code_start || !l->instruction_bytes || l->instruction_bytes > 2
		  : l->instruction_bytes != 1)
		return false;
	return l->code_tag < 8;
}

static bool code_valid(const struct cpython_layout *l)
{
	return is_offset(l->content, 8) && l->content_bytes % 8 == 0 && l->content_bytes &&
	       l->content_bytes <= RUNTIME_CODE_BYTES_MAX && is_offset(l->type, 8) &&
	       is_offset(l->first_line, 4) && is_offset(l->name, 8) && is_offset(l->file, 8) &&
	       is_offset(l->lines, 8) && is_offset(l->code_start, 2) && l->lines_format < CPYTHON_LINES_N;
}

static bool text_valid(const struct cpython_layout *l)
{
	return is_offset(l->text_length, 8) && is_offset(l->bytes_length, 8) && is_offset(l->bytes, 1) &&
	       is_offset(l->text_state, 4) && is_offset(l->ascii_text, 1) && is_offset(l->wide_text, 4) &&
	       l->kind_shift < 32 && l->compact_bit < 32 && l->ascii_bit < 32;
}

bool cpython_layout_valid(const struct cpython_layout *l)
{
	return thread_valid(l) && frame_valid(l) && code_valid(l) && text_valid(l);
}
