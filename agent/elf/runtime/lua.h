// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises Lua 5.2 to 5.4 in an ELF file (lua, liblua, programs that export its functions), and says where
 * what a profiler needs lies in it and in its objects, which do not describe themselves: the offsets are
 * those of the version. No variable leads to the state of a coroutine (lua_State); the callers of the loop,
 * luaV_execute, have it as their first argument, and their code says where they keep it. Pure. Runs where the
 * file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_LUA_H
#define PROFLET_ELF_RUNTIME_LUA_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define LUA_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)
#define LUA_SITES_MAX 8u
#define LUA_OFFSET_MIN (-256) /* of struct lua_site */
#define LUA_OFFSET_MAX 1024

/* The same in all versions that are known, in bytes. */
#define LUA_STATE_CALL 32u   /* lua_State.ci */
#define LUA_CALL_FUNCTION 0u /* CallInfo: func, previous */
#define LUA_CALL_PREVIOUS 16u
#define LUA_CALL_BYTES 72u   /* that are read of it */
#define LUA_CLOSURE_CODE 24u /* LClosure.p */
#define LUA_TEXT 24u	     /* TString: the text, NUL terminated */
#define LUA_INSTRUCTION_BYTES 4u

/* Offsets that depend on the version. */
struct lua_layout {
	uint16_t stack, stack_end;   /* lua_State: stack, stack_last */
	uint16_t error_jump;	     /* lua_State: errorJmp */
	uint16_t instruction;	     /* CallInfo: savedpc, a pointer */
	uint16_t base;		     /* CallInfo: pointer to the first register; 0: behind `func` */
	uint16_t status;	     /* CallInfo: callstatus */
	uint16_t fresh, fresh_value; /* its bits that say: first function of a loop; and their value then */
	uint16_t content, content_bytes; /* Proto: what identifies it, with the next two */
	uint16_t first_line, source;	 /* u32; pointer to a text */
	uint16_t code, n_code;		 /* pointer to the instructions, u32 */
	uint16_t lines;			 /* pointer to the lines of instructions */
	uint16_t n_steps;   /* u32: 5.4's second table of lines, which is behind `lines`; 0: none */
	uint8_t call;	    /* opcode of a call */
	uint8_t call_shift; /* the bit of an instruction at which its first register begins */
	uint8_t zero[2];
};

/* Where a loop's state is, by the address that the loop returns to. */
struct lua_site {
	uint64_t va;	  /* ELF virtual address of the instruction behind the call */
	int32_t offset;	  /* from the CFA of the loop's frame, bytes */
	uint32_t resumes; /* 1: the caller may resume a coroutine that was suspended (unroll, resume) */
};

/* Addresses are ELF virtual addresses. */
struct lua_facts {
	uint32_t version; /* LUA_VERSION | release << 8; 0: no Lua in the file */
	uint32_t known;	  /* 1: all that follows is filled in; 0: an unknown version, or other code */
	uint64_t loop_start, loop_end; /* luaV_execute: [loop_start, loop_end) */
	uint64_t loop_body;	       /* from there on it has saved its caller's registers */
	uint32_t n_sites;
	uint32_t leaf_register; /* DWARF number: has the next instruction while the loop runs; 0: none */
	struct lua_site sites[LUA_SITES_MAX];
	struct lua_layout layout;
};

/*
 * 0: *ret describes the Lua in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed. Costs a
 * look-up of a name where there is none.
 */
int lua_facts_read(struct lua_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as lua_facts_read gives, also on failure. */
bool lua_facts_valid(const struct lua_facts *f);
/* The layout of a version (LUA_VERSION | release << 8). False: not known. */
bool lua_layout_of(struct lua_layout *ret, uint32_t version);
/*
 * Finds the loop of the version in f->layout, and its callers: fills in what is between `known` and `layout`.
 * Used by lua_facts_read. 0; -ENOENT: the code is not as expected; -ENOMEM.
 */
int lua_loop_find(struct lua_facts *f, struct elf_image *img);

#endif
