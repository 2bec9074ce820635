// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/outdated_frames.h"

#include <stdbool.h>

#include "agent/base/cleanup.h"
#include "agent/sample/frames.h"
#include "agent/unwind/list.h"

/* The entry that contains the frame, and the address of the frame in the process. NULL: there is none. */
static const struct mapping_entry *entry_of(const struct list_entries *l, uint64_t frame,
					    uint64_t *ret_address)
{
	uint32_t file = frame_file(frame);
	uint64_t va = frame_va(frame);

	for (size_t i = 0; i < l->n; i++) {
		const struct mapping_entry *e = &l->entries[i];
		/* a frame has the low bits of an address only; addresses of user space have no others */
		uint64_t address = (va + e->bias) & FRAME_VA_MASK;

		/* a frame of generated code may be older than the index that stands for it */
		bool same = e->file == file || (file == FILE_ANONYMOUS && !e->bias);

		if (same && address >= e->start && address < e->end) {
			*ret_address = address;
			return e;
		}
	}
	return NULL;
}

static const struct mapping_entry *entry_at(const struct list_entries *l, uint64_t address)
{
	for (size_t i = 0; i < l->n; i++)
		if (address >= l->entries[i].start && address < l->entries[i].end)
			return &l->entries[i];
	return NULL;
}

static bool same_place(const struct mapping_entry *a, const struct mapping_entry *b)
{
	return a->file == b->file && a->bias == b->bias;
}

int unwind_frames_valid(const struct unwind_tables *tables, const struct proc_maps *used,
			const struct proc_maps *right, const uint64_t *frames, uint16_t n,
			struct outdated_frame *ret)
{
	_cleanup_(list_entries_fini) struct list_entries was = {0}, is = {0};
	struct stack_frames walk = {frames, 0, 0, n};
	struct stack_frame f;
	int r = list_entries_make(&was, used, tables);

	if (r == 0)
		r = list_entries_make(&is, right, tables);
	if (r < 0)
		return r;
	*ret = (struct outdated_frame){0};
	while (stack_frames_next(&walk, &f)) {
		uint64_t address;
		const struct mapping_entry *e, *now;

		if (f.kind == STACK_FRAME_OMITTED) /* among these, one may be where a mapping has changed */
			return (int)f.index;
		if (f.kind != STACK_FRAME_NATIVE && f.kind != STACK_FRAME_ANONYMOUS)
			continue; /* it does not depend on mappings */
		e = entry_of(&was, f.word, &address);
		if (!e)
			return (int)f.index;
		now = entry_at(&is, address);
		if (now && same_place(e, now))
			continue;
		ret->address = address;
		if (now)
			ret->frame = frame_native(now->file, address - now->bias);
		return (int)f.index;
	}
	return n;
}
