// SPDX-License-Identifier: Apache-2.0
/*
 * Names of HotSpot's methods, and which methods are inlined where in compiled code. Pure but for the
 * memory that it is given. Rank 1.
 *
 * Compiled code has a table of places (PcDesc), in ascending order, and for each of them a scope: which
 * method, at which bytecode, and the scope of the method into which it was inlined. Method → ConstMethod →
 * ConstantPool → Symbol, and the class, leads to the name.
 */
#ifndef PROFLET_ELF_HOTSPOT_NAMES_H
#define PROFLET_ELF_HOTSPOT_NAMES_H

#include <stdint.h>

#include "agent/elf/runtime/vm_memory.h"

struct hotspot_blob;
struct hotspot_layout;

#define HOTSPOT_NAME_MAX 512u	 /* bytes of "package.Class.method", with the NUL */
#define HOTSPOT_PLACES_MAX 8192u /* of one compiled method; of more, none are known */
#define HOTSPOT_SCOPES_MAX 8192u
#define HOTSPOT_METHODS_MAX 1024u /* that are inlined into one, and itself */
#define HOTSPOT_INLINED_MAX 64u	  /* depth of inlining */
#define HOTSPOT_NO_SCOPE 0xffffu

struct hotspot_method {
	uint64_t constant;   /* address of its ConstMethod */
	uint64_t start, end; /* of its bytecode; equal if it has none */
	char name[HOTSPOT_NAME_MAX];
	char file[VM_TEXT_MAX]; /* without directories; "": unknown */
};

struct hotspot_scope {
	uint16_t outer;	 /* index of the scope that it is inlined into; less than its own; HOTSPOT_NO_SCOPE */
	uint16_t method; /* index */
	uint32_t line;	 /* 0: unknown */
};

/* The scope of the code before `end`, up to the place before. */
struct hotspot_place {
	uint32_t end; /* bytes from the beginning of the code: of the instruction behind a call, mostly */
	uint32_t scope;
};

struct hotspot_scopes {
	uint32_t n_places, n_scopes, n_methods;
	struct hotspot_place places[HOTSPOT_PLACES_MAX];
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];
	uint32_t offsets[HOTSPOT_SCOPES_MAX];  /* of the scopes, in their encoding */
	uint64_t methods[HOTSPOT_METHODS_MAX]; /* addresses of Method objects; the first one is the blob's */
	uint64_t constants[HOTSPOT_METHODS_MAX]; /* of their ConstMethod */
};

/* 0; -ENOTSUP: it is no method; errors of vm_read. */
int hotspot_method_read(struct vm_memory *m, const struct hotspot_layout *l, uint64_t method,
			struct hotspot_method *ret);
/* The line of a bytecode in the method; 0: unknown. */
uint32_t hotspot_line(struct vm_memory *m, const struct hotspot_layout *l, uint64_t constant, uint32_t bci);
/*
 * The places of a compiled method. Without any, or where they are not as they should be, there is one
 * method and no place. 0; errors of vm_read.
 */
int hotspot_scopes_read(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			struct hotspot_scopes *ret);

/*
 * The lines of a method as places in its bytecode, each of one scope. Without any, there is one place. 0;
 * errors of vm_read.
 */
int hotspot_lines_read(struct vm_memory *m, const struct hotspot_layout *l,
		       const struct hotspot_method *method, uint64_t address, struct hotspot_scopes *ret);

#endif
