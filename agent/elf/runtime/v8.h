// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises V8, x86-64, in an ELF file (node, libnode), and says where what a profiler needs lies in its
 * objects. The constants are those that V8 exports for debuggers (v8dbg_*, also in stripped builds); what it
 * does not export is known by the version. V8 10.2 to 14.6 as Node.js 18, 20, 22, 24 and 26 have it. Pure.
 * Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_V8_H
#define PROFLET_ELF_RUNTIME_V8_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define V8_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)

/*
 * How V8 describes code that it has compiled. Which functions are inlined where is in the table of positions,
 * which are pairs of numbers (offset of an instruction, position in a script), and in the DeoptimizationData,
 * an array.
 */
struct v8_code_layout {
	uint16_t type;		   /* of Code objects */
	uint16_t header;	   /* bytes from the object with the instructions to the first of them */
	uint16_t code;		   /* in that object: Code; 0: it is the Code itself */
	uint16_t start, size;	   /* Code: address of the first instruction (0: it has none); u32 bytes */
	uint16_t deopt, positions; /* Code: DeoptimizationData; the table */
	/* DeoptimizationData, indices: functions that are inlined; SharedFunctionInfo of the code; where */
	uint16_t literals, function, inlined;
	uint16_t is_wrapped; /* another object leads to that SharedFunctionInfo */
	uint16_t flag_bits;  /* of an instruction's offset in the table; 0: its sign is the flag */
};

/* Offsets in bytes from the start of an object, which is one byte before what a pointer to it says. */
struct v8_layout {
	uint16_t function_shared; /* JSFunction: SharedFunctionInfo */
	uint16_t shared_name;	  /* SharedFunctionInfo: String or ScopeInfo */
	uint16_t shared_script;	  /* Script */
	uint16_t shared_flags;	  /* u32, behind that the number of the function in its script, u32 */
	uint16_t script_source, script_name;
	uint16_t script_line_ends;
	uint16_t script_id;					      /* Smi */
	uint16_t map_type;					      /* Map: u16, type of its objects */
	uint16_t shared_type, script_type, scope_type, bytecode_type; /* types of objects */
	uint16_t scope_first;	    /* ScopeInfo: words behind the map and before names of variables */
	uint16_t scope_is_packed;   /* its flags are an u32; 0: a Smi */
	uint16_t scope_function;    /* the kind of scope that a function is */
	uint16_t bytecode_data;	    /* BytecodeArray: the bytecode */
	struct v8_code_layout code; /* type 0: not known */
};

struct v8_facts {
	uint32_t version; /* V8_VERSION; 0: no V8 in the file */
	uint32_t build;
	uint32_t known; /* 1: the layout is filled in; 0: an unknown version, or other constants */
	struct v8_layout layout;
};

/*
 * 0: *ret describes the V8 in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed. Costs a
 * look-up of a name where there is none.
 */
int v8_facts_read(struct v8_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as v8_facts_read gives, also on failure. */
bool v8_facts_valid(const struct v8_facts *f);

#endif
