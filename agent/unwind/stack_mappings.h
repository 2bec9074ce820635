// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the mappings that unwinding one stack can need: those that contain an address held in one of its
 * registers or in a word of the saved stack. A process with tens of thousands of mappings has a handful of
 * them. Pure. Used by finish.c.
 */
#ifndef PROFLET_UNWIND_STACK_MAPPINGS_H
#define PROFLET_UNWIND_STACK_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>

struct proc_mapping;
struct proc_maps;
struct sample_view;

/*
 * *ret is an array of *ret_n mappings of `maps`, ascending, each once; the caller frees it, before `maps`
 * changes. v->saved must not be NULL. 0 or -ENOMEM.
 */
int stack_mappings_find(const struct proc_maps *maps, const struct sample_view *v,
			const struct proc_mapping ***ret, size_t *ret_n);

#endif
