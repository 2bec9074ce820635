// SPDX-License-Identifier: Apache-2.0
/*
 * Goes on, in user space, with an unwind that the BPF program had to end for want of a process, mapping or
 * table: the same bpf/unwind.h over the same arena, with the stack as the record brought it. Rank 2.
 */
#ifndef PROFLET_UNWIND_FINISH_H
#define PROFLET_UNWIND_FINISH_H

#include "agent/sample/decode.h"

struct arena;
struct finisher;

/* `user_frames`: the most a stack may have. The arena is borrowed. 0 or -ENOMEM. */
int finisher_new(struct finisher **ret, struct arena *arena, uint32_t user_frames);
void finisher_free(struct finisher *f);
/*
 * Walks on from v->rest (not NULL) with the mapping list `list` (a ref, not 0). *ret is the sample as it is
 * then, without rest; its frames are borrowed until the next call. True when that is final; false when a
 * mapping or a table that may still come would take it further.
 */
bool finisher_walk(struct finisher *f, const struct sample_view *v, uint32_t list, struct sample_view *ret);

#endif
