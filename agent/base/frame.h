// SPDX-License-Identifier: Apache-2.0
/*
 * A frame with its name: agent/symbol produces it, otlp and agent/output consume it. Plain borrowed views:
 * every pointer is owned by the module that filled in the view, and is valid until the next call of that
 * module. Includes nothing of ours.
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
	/*
	 * No code: frames are missing here. As the outermost frame it says why the unwind ended early,
	 * between others it stands for the middle of a very deep stack.
	 */
	FRAME_ENDING,
};

/*
 * One loaded object, with addresses in its ELF virtual address space. The kernel is one, and so is each of
 * its modules.
 */
struct frame_module {
	uint32_t id;		  /* stable for the process's life, 0 = unknown */
	const char *path;	  /* as the process sees it, "[kernel]", "[vdso]"; never NULL */
	const char *name;	  /* last component of path; never NULL */
	const char *build_id_gnu; /* hex or NULL */
	const char *build_id_go;  /* text or NULL */
	const char *htlhash;	  /* 32 hex digits or NULL */
	uint64_t start, limit;	  /* executable range [start, limit), ELF virtual addresses */
	uint64_t file_offset;	  /* of `start` in the file */
	bool go;		  /* compiled by Go, possibly with C functions of cgo */
	bool fixed;		  /* linked to fixed addresses: they are those in the process */
};

/* The source position of a frame, or of a call that was inlined there. */
struct frame_line {
	const char *function; /* demangled */
	const char *file;     /* as passed to the compiler; "" when unknown */
	uint32_t line;	      /* 0: unknown */
	uint32_t start_line;  /* where `function` begins in `file`; 0: unknown */
};

struct frame {
	const struct frame_module *module; /* NULL: address belongs to no file (JIT code, unmapped) */
	uint64_t address;		   /* ELF virtual address; a return address is stored minus 1 */
	const char *function;		   /* demangled name; NULL when unknown */
	const char *system_name;	   /* linkage name where it differs from function, else NULL */
	enum frame_kind kind;
	/*
	 * "v8js", "jvm" …: the language runtime that generated the code; static; NULL: none. Frames that an
	 * interpreter keeps itself, "cpython" …, have no module and address 0.
	 */
	const char *runtime;
	const struct frame_line *lines; /* inlined calls, innermost first, the last is `function`; NULL */
	size_t n_lines;
	uint64_t unnamed_start; /* start of a function without a symbol; 0: unknown, or it has a symbol */
	const char *tier;	/* compiler of the runtime that made the code; static; NULL: unknown */
	uint32_t start_line;	/* of `function`, in the file of the last of `lines`; 0: unknown */
	bool inlined; /* into the function of the next frame of the stack, which has the same address */
};

/* Identifies the function of a frame without a name: by its start, if that is known, else by the address. */
static inline uint64_t frame_unnamed_offset(const struct frame *f)
{
	return f->unnamed_start ? f->unnamed_start : f->address;
}

#endif
