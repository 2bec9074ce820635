// SPDX-License-Identifier: Apache-2.0
/*
 * Which of a process's mappings the walk over a stack can come to: those that its registers and the words of
 * the stack point into. Of tens of thousands that is a handful. Pure. Inside unwind/ only.
 */
#ifndef PROFLET_UNWIND_REACH_H
#define PROFLET_UNWIND_REACH_H

#include <stddef.h>
#include <stdint.h>

struct proc_maps;
struct sample_view;

/* Their indices in maps->entries, ascending, each once; *ret is the caller's to free. v->saved is not NULL. 0
 * or -ENOMEM. */
int reach_mappings(const struct proc_maps *maps, const struct sample_view *v, uint32_t **ret, size_t *ret_n);

#endif
