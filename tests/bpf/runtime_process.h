/* SPDX-License-Identifier: Apache-2.0 */
/* A process with frames of a language runtime, for the host tests of bpf/runtime.h. */
#ifndef PROFLET_TESTS_RUNTIME_PROCESS_H
#define PROFLET_TESTS_RUNTIME_PROCESS_H

#include "tests/bpf/machine.h"

/* Gives the process a mapping list that says how the frames are found. */
static inline void walk_set(struct machine *m, const struct runtime_walk *walk)
{
	void *mem;
	uint32_t ref = machine_block(m, 1, list_bytes_with_walk(1), &mem);
	const struct mapping_entry none = {.start = 1, .end = 2};

	list_write(mem, &none, 1, 1, 0);
	list_write_walk(mem, walk);
	m->area.state.list = ref;
	m->area.state.runtime_at =
		(ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN + ((struct mapping_list *)mem)->runtime;
}

/* As runtime_walk_all() of bpf/profiler.bpf.c. */
static inline struct runtime_part runtime_walk(struct machine *m)
{
	m->area.state.next_marker = NO_MARKER;
	m->area.state.window_len = 0;
	if (runtime_begin()) {
		unsigned n = 0;

		while (runtime_steps())
			cr_assert_lt(++n, 2 * RUNTIME_STEPS_MAX);
		runtime_walked();
	}
	return m->area.runtime.part;
}

static inline const uint64_t *words(const struct machine *m)
{
	return (const uint64_t *)m->area.frames + RUNTIME_KEPT_WORDS;
}

static inline const struct runtime_segment *segments(const struct machine *m)
{
	return (const struct runtime_segment *)(m->area.frames + RUNTIME_KEPT);
}

#endif
