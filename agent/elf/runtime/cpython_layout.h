// SPDX-License-Identifier: Apache-2.0
/*
 * The layouts of CPython's objects: those of minor versions, and those that a runtime describes itself. Pure.
 */
#ifndef PROFLET_ELF_RUNTIME_CPYTHON_LAYOUT_H
#define PROFLET_ELF_RUNTIME_CPYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPYTHON_NO_OFFSET 0xffffu /* in place of an offset */

enum cpython_lines {
	CPYTHON_LINES_LNOTAB,	 /* 3.8, 3.9: pairs (u8 bytes, s8 lines) */
	CPYTHON_LINES_LINETABLE, /* 3.10: pairs (u8 bytes, s8 lines), -128: no line */
	CPYTHON_LINES_LOCATIONS, /* 3.11 and later: entries of variable length */
	CPYTHON_LINES_N,
};

/*
 * Offsets in bytes, in the objects of one version. Those up to `bytes` have the meaning that they have in
 * struct runtime_walk (bpf/abi.h).
 */
struct cpython_layout {
	uint16_t flags; /* RUNTIME_WALK_ENTRY, _EACH, _INDEX, _TEXTS, _COPIES */
	uint16_t thread, first, first_of, marker_first, marker_next;
	uint16_t frame_bytes, next, code, instruction, kind;
	uint8_t code_tag, hidden_kind;
	uint16_t content, content_bytes, type, first_line;
	uint16_t name; /* the qualified one, from 3.11 on */
	uint16_t file, lines;
	uint16_t text_length, bytes_length, bytes;
	uint16_t text_state; /* in a string object: u32 with its kind, and whether it is compact and ASCII */
	uint8_t kind_shift, compact_bit, ascii_bit; /* in that word; the kind has 3 bits */
	uint8_t lines_format;			    /* enum cpython_lines */
	uint16_t ascii_text, wide_text;		    /* in a compact string object: the characters */
	uint16_t code_start;	    /* in a code object: the first instruction; with _INDEX: 0 */
	uint16_t copies, copy;	    /* with _COPIES: pointer in a code object, s32 in a frame; else 0 */
	uint16_t instruction_bytes; /* of one index (RUNTIME_WALK_INDEX), else 1 */
	uint16_t task;		    /* in a thread state: pointer to asyncio's task that runs; 0: not known */
	uint16_t task_name;	    /* in a task: pointer to an object */
	uint16_t key;		    /* in _PyRuntime: u32, the pthread key of thread states */
	uint16_t has_thread_local; /* 1: a thread-local variable has the thread state, too (3.12 and later) */
};

/*
 * The layout for a version before 3.13, by the minor version alone. False: not known. Such versions have no
 * free-threaded build.
 */
bool cpython_layout_of_minor(struct cpython_layout *ret, unsigned minor);
bool cpython_layout_valid(const struct cpython_layout *l);

/* --- for cpython.c */

#define CPYTHON_VERSION(minor) (3u << 24 | (minor) << 16)

/* _Py_DebugOffsets: a cookie, the version, whether threads are free, then offsets in groups without names. */
#define CPYTHON_DEBUG_HEAD_BYTES 24u
#define CPYTHON_DEBUG_WORDS 111u
struct cpython_debug {
	uint64_t words[CPYTHON_DEBUG_WORDS];
};

/* How many bytes the structure has, by its head. 0: there is none, or of a version that is not known. */
size_t cpython_debug_bytes(const struct cpython_debug *d);
uint32_t cpython_debug_version(const struct cpython_debug *d);
uint32_t cpython_debug_free_threaded(const struct cpython_debug *d); /* 0 or 1 */
/* False: the offsets cannot be those of that version. */
bool cpython_layout_of_debug(struct cpython_layout *ret, const struct cpython_debug *d);
/* Offsets in objects of asyncio, in groups without names, from 3.14 on. */
#define CPYTHON_TASKS_WORDS 13u
struct cpython_tasks {
	uint64_t words[CPYTHON_TASKS_WORDS];
};

/*
 * Sets where the task that runs has its name. `tasks` is what asyncio says of it, if it is in the runtime's
 * file; NULL: it is in a file of its own.
 */
void cpython_layout_set_tasks(struct cpython_layout *l, const struct cpython_debug *d,
			      const struct cpython_tasks *tasks);
/* Layouts change up to the first release candidate. True, too, where only the minor version is known. */
bool cpython_version_final(uint32_t version);

#endif
