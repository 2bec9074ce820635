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

struct elf_image;

#define CPYTHON_NO_OFFSET 0xffffu /* in place of an offset */
#define CPYTHON_LOOPS_MAX 4u

enum cpython_lines {
	CPYTHON_LINES_LNOTAB,	 /* 3.8, 3.9: pairs (u8 bytes, s8 lines) */
	CPYTHON_LINES_LINETABLE, /* 3.10: pairs (u8 bytes, s8 lines), -128: no line */
	CPYTHON_LINES_LOCATIONS, /* 3.11 and later: entries of variable length */
	CPYTHON_LINES_N,
};

/* Offsets in bytes, in the objects of one version. Those up to `bytes` have the meaning of struct runtime_walk. */
struct cpython_layout {
	uint16_t flags; /* RUNTIME_WALK_ENTRY, _EACH, _INDEX */
	uint16_t thread, first, first_of, marker_first, marker_next;
	uint16_t frame_bytes, next, code, instruction, kind;
	uint8_t code_tag, hidden_kind;
	uint16_t content, content_bytes, type, first_line, name, file, lines;
	uint16_t text_length, bytes_length, bytes;
	uint16_t text_state; /* in a string object: u32 with its kind, and whether it is compact and ASCII */
	uint8_t kind_shift, compact_bit, ascii_bit; /* in that word; the kind has 3 bits */
	uint8_t lines_format;			    /* enum cpython_lines */
	uint16_t ascii_text, wide_text; /* in a compact string object: the characters */
	uint16_t code_start;		/* in a code object: the first instruction; with _INDEX: 0 */
	uint16_t instruction_bytes;	/* of one index (RUNTIME_WALK_INDEX), else 1 */
	uint16_t key;			/* in _PyRuntime: u32, the pthread key of thread states */
	uint16_t has_thread_local;	/* 1: a thread-local variable has the thread state, too (3.12 and later) */
};

/* Addresses are ELF virtual addresses; 0: not in the file. */
struct cpython_facts {
	uint32_t version;	/* PY_VERSION_HEX; with zeros for what the file does not say; 0: no CPython in it */
	uint32_t free_threaded; /* 0 or 1 */
	uint64_t runtime;	/* _PyRuntime */
	uint64_t code_type, text_type; /* PyCode_Type, PyUnicode_Type */
	/* The interpreter's loop, [start, end): _PyEval_EvalFrameDefault, and parts that were split off it. */
	uint64_t loop_start[CPYTHON_LOOPS_MAX], loop_end[CPYTHON_LOOPS_MAX];
	uint32_t n_loops;
	uint32_t known; /* 1: `layout` is filled in; 0: a version that is not known, or offsets that cannot be */
	struct cpython_layout layout;
};

/* 0: *ret describes the runtime in the file; -ENOENT: there is none; -ENOMEM, -errno. */
int cpython_facts_read(struct cpython_facts *ret, struct elf_image *img);
/*
 * The layout for a version before 3.13, by the minor version alone. False: not known. Such versions have no
 * free-threaded build.
 */
bool cpython_layout_of_minor(struct cpython_layout *ret, unsigned minor);
/* Whether facts, which a parser process has sent, are such as cpython_facts_read gives. */
bool cpython_facts_valid(const struct cpython_facts *f);

#endif
