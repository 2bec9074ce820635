// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises the CPython runtime in an ELF file (an executable, or libpython), and says where what a profiler
 * needs lies in it and in its objects. Versions 3.8 to 3.15. From 3.13 on, the runtime describes itself
 * (_Py_DebugOffsets, at the start of _PyRuntime, in the file's data); before, the offsets are those of the
 * minor version. Pure. Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_CPYTHON_H
#define PROFLET_ELF_RUNTIME_CPYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/runtime/cpython_layout.h"

struct elf_image;

#define CPYTHON_LOOPS_MAX 4u

/* Addresses are ELF virtual addresses; 0: not in the file. */
struct cpython_facts {
	uint32_t version; /* PY_VERSION_HEX; zeros for what the file does not say; 0: no CPython in it */
	uint32_t free_threaded;			 /* 0 or 1 */
	uint64_t runtime;			 /* _PyRuntime */
	uint64_t code_type, text_type, int_type; /* PyCode_Type, PyUnicode_Type, PyLong_Type */
	/* The interpreter's loop, [start, end): _PyEval_EvalFrameDefault, and parts split off it. */
	uint64_t loop_start[CPYTHON_LOOPS_MAX], loop_end[CPYTHON_LOOPS_MAX];
	uint32_t n_loops;
	uint32_t has_instructions; /* 1: each instruction is a function of its own, which the loop calls */
	uint32_t known; /* 1: `layout` is filled in; 0: an unknown version, or offsets that cannot be */
	struct cpython_layout layout;
};

/*
 * 0: *ret describes the runtime in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed.
 * Costs a few small reads where there is none.
 */
int cpython_facts_read(struct cpython_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as cpython_facts_read gives, also on failure. */
bool cpython_facts_valid(const struct cpython_facts *f);

#endif
