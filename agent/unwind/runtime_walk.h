// SPDX-License-Identifier: Apache-2.0
/*
 * Tells the BPF program how the frames of a process's language runtime are found: from what is known of the
 * runtime's file (agent/elf/runtime) and from where the process has mapped it. Used within agent/unwind.
 */
#ifndef PROFLET_UNWIND_RUNTIME_WALK_H
#define PROFLET_UNWIND_RUNTIME_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/abi.h"

struct generated_request;
struct runtime_facts;
struct proc_maps;
struct unwind_tables;

/*
 * The walk for a process with these mappings. Bit n of `kinds`: runtimes of kind n (enum runtime_kind) are
 * wanted; RUNTIME_WANT_TASKS. `secret` goes into the numbers of its code objects. False: it has no such
 * runtime that is known.
 */
bool runtime_walk_find(struct runtime_walk *ret, const struct proc_maps *maps,
		       const struct unwind_tables *tables, unsigned kinds, uint64_t secret);
/* The walk for a runtime in the binary with that index, mapped at `bias`. False: its layout is not known. */
bool runtime_walk_make(struct runtime_walk *ret, const struct runtime_facts *facts, uint32_t file,
		       uint64_t bias, uint64_t secret);

/*
 * What leads to the tables of the process's virtual machine (`vm` of *ret), if its kind is wanted.
 * 0; -ENOENT: it has none; -ENOTSUP: what it compiles is stepped over without rows (LuaJIT); -EAGAIN: what
 * is in the file that is named like one, or in the first one, mostly the program, or in one that is being
 * opened, is not known yet.
 */
int runtime_walk_find_vm(struct generated_request *ret, const struct proc_maps *maps,
			 const struct unwind_tables *tables, unsigned kinds);

#endif
