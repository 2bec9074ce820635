// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/hotspot_targets.h"

bool hotspot_frame_same(const struct hotspot_frame *a, const struct hotspot_frame *b)
{
	return a->depth == b->depth && a->saved == b->saved && a->record == b->record &&
	       a->in_register == b->in_register && a->on_stack == b->on_stack;
}

void hotspot_targets_note(struct hotspot_targets *t, uint32_t off, const struct hotspot_frame *frame)
{
	if (t->n < HOTSPOT_TARGETS_MAX)
		t->v[t->n++] = (struct hotspot_target){off, *frame};
}

bool hotspot_targets_take(struct hotspot_targets *t, uint32_t off, struct hotspot_frame *ret)
{
	bool found = false;
	size_t left = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].off == off && !found) {
			*ret = t->v[i].frame;
			found = true;
		}
		if (t->v[i].off > off)
			t->v[left++] = t->v[i];
	}
	t->n = left;
	return found;
}
