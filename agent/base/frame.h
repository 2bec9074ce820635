// SPDX-License-Identifier: Apache-2.0
/*
 * A frame with its name: the vocabulary that symbol/ produces and that otlp/ and output/ consume. Plain
 * borrowed views: every pointer stays owned by whoever filled the view in and is valid until that owner's
 * next call. Rank 0; includes nothing of ours.
 */
#ifndef PROFLET_BASE_FRAME_H
#define PROFLET_BASE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Append-only: the numbers are used as array indices by the writers. */
enum frame_kind {
	FRAME_NATIVE, /* user-space machine code */
	FRAME_KERNEL, /* kernel or module text */
	FRAME_ENDING, /* no code: says why the unwind ended early, outermost frame of its stack */
};

/* One loaded object, addresses in its ELF virtual address space; kernel and modules have one each, too. */
struct frame_module {
	uint32_t id;		  /* stable for the process's life, 0 = unknown */
	const char *path;	  /* as the process sees it, "[kernel]", "[vdso]"; never NULL */
	const char *name;	  /* last component of path; never NULL */
	const char *build_id_gnu; /* hex or NULL */
	const char *build_id_go;  /* text or NULL */
	const char *htlhash;	  /* 32 hex digits or NULL */
	uint64_t start, limit;	  /* executable range [start, limit), ELF virtual addresses */
	uint64_t file_offset;	  /* of `start` in the file */
	bool go;		  /* made by the Go compiler, C functions of cgo beside it */
};

/* Where in the source a frame is, or a call that was inlined there. */
struct frame_line {
	const char *function; /* as printed */
	const char *file;     /* as the compiler was given it; "" when unknown */
	uint32_t line;	      /* 0: unknown */
};

struct frame {
	const struct frame_module *module; /* NULL: address belongs to no file (JIT code, unmapped) */
	uint64_t address;		   /* ELF virtual address; a return address is stored minus 1 */
	const char *function;		   /* demangled name; NULL when unknown */
	const char *system_name;	   /* linkage name where it differs from function, else NULL */
	enum frame_kind kind;
	const char *runtime; /* of code that a language's runtime made: "v8js", "jvm" …; static; NULL: none */
	const struct frame_line *lines; /* inlined calls, innermost first, the last is `function`; NULL */
	size_t n_lines;
	uint64_t unnamed_start; /* where its function begins when that has no symbol; 0: unknown, or it has */
};

/* What a frame without a name is told by: where its function begins, all of which then is one; else the
 * address. */
static inline uint64_t frame_unnamed_offset(const struct frame *f)
{
	return f->unnamed_start ? f->unnamed_start : f->address;
}

#endif
