// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises LuaJIT 2.1 with 64-bit pointers to objects in an ELF file (luajit, libluajit-5.1, programs that
 * export its functions), for x86-64. Its interpreter is one block of code in assembly language, with one row
 * of call-frame information; offsets in its objects are those of this object model, and the code says whether
 * it is that, and how its global state looks. Pure. Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_LUAJIT_H
#define PROFLET_ELF_RUNTIME_LUAJIT_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

/* Offsets in bytes; the same wherever pointers to objects have 64 bits. */
#define LUAJIT_STATE_GLOBAL 16u /* lua_State: glref */
#define LUAJIT_STATE_BASE 32u
#define LUAJIT_STATE_STACK_END 48u /* maxstack */
#define LUAJIT_STATE_STACK 56u
#define LUAJIT_STATE_FRAME 80u	    /* cframe */
#define LUAJIT_FUNCTION_CODE 32u    /* GCfunc: pc */
#define LUAJIT_PROTO_N 12u	    /* GCproto: sizebc, u32 */
#define LUAJIT_PROTO_SOURCE 64u	    /* chunkname; behind it what identifies the function */
#define LUAJIT_PROTO_BYTES 32u	    /* of these fields */
#define LUAJIT_PROTO_FIRST_LINE 72u /* u32, and the number of lines */
#define LUAJIT_PROTO_LINES 80u	    /* lineinfo */
#define LUAJIT_PROTO_CODE 104u	    /* the bytecode itself */
#define LUAJIT_INSTRUCTION_BYTES 4u
#define LUAJIT_TEXT 24u /* GCstr: the text, NUL terminated */

/* DWARF numbers: what the block of code keeps in them while it runs bytecode. */
#define LUAJIT_NEXT_REGISTER 3u	  /* rbx: behind the bytecode that runs */
#define LUAJIT_BASE_REGISTER 1u	  /* rdx: the first value of the innermost frame */
#define LUAJIT_CALLEE_REGISTER 2u /* rcx: of the one that is about to be called */

/* Of the block's frame: from its stack pointer to its CFA, and from there to what it keeps. */
#define LUAJIT_FRAME_BYTES 80u
#define LUAJIT_FRAME_STATE (-64)
#define LUAJIT_FRAME_NEXT (-56) /* SAVE_PC */

/* Addresses are ELF virtual addresses. */
struct luajit_facts {
	uint32_t version;	       /* LUA_VERSION of LuaJIT itself: 2.1; 0: no LuaJIT in the file */
	uint32_t known;		       /* 1: all that follows is filled in; 0: another object model */
	uint64_t loop_start, loop_end; /* the block of code: [loop_start, loop_end) */
	/* Offset in the global state of the frame in which compiled code has begun; 0: there is none. */
	uint32_t jit_base;
	/* From loop_start, where C code returns to that has no frame (cpcall). */
	uint32_t protected_return;
};

/*
 * 0: *ret describes the LuaJIT in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed.
 * Costs a look-up of a name where there is none.
 */
int luajit_facts_read(struct luajit_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as luajit_facts_read gives, also on failure. */
bool luajit_facts_valid(const struct luajit_facts *f);

#endif
