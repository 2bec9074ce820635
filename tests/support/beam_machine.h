// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with BEAM, made by hand: its tables of modules and atoms, and one module with three
 * functions, as OTP 25 to 27 lay them out; bm_strip makes it one of OTP 29 to which no symbol leads.
 */
#ifndef PROFLET_TESTS_BEAM_MACHINE_H
#define PROFLET_TESTS_BEAM_MACHINE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/runtime/beam_code.h"

#define BM_BASE 0x7f0000000000ull
#define BM_BYTES 0x20000u
#define BM_INDEX 0x10u
#define BM_EXIT_POINTER 0x18u
#define BM_LAYOUT 0x20u
#define BM_ATOM_TABLE 0x100u
#define BM_PIECES 0x400u /* pointers to pieces of the table of atoms */
#define BM_PIECE 0x1000u
#define BM_ATOMS 0x4000u
#define BM_TEXTS 0x5000u
#define BM_DATA 0x8000u /* variables, among them the tables of modules */
#define BM_RANGES (BM_DATA + 0x140u)
#define BM_DATA_END 0x9000u
#define BM_MODULES 0x9000u
#define BM_NAME_TEXT 0x7f00u		  /* of the table of atoms, among constants */
#define BM_NAMED_TABLE (BM_DATA + 0x400u) /* the table of atoms as a variable of that range */
#define BM_EXIT_INFO (BM_MODULE - 0x200u) /* of the function that processes end with */
#define BM_EXIT 0x10010u		  /* among shared code */
#define BM_SHARED 0x10000u
#define BM_MODULE 0x11000u
#define BM_MODULE_END 0x12000u
#define BM_FUNCTIONS (BM_MODULE + 96u)
#define BM_CODE (BM_MODULE + 0x100u) /* of the first function, with what is in front of it */
#define BM_FUNCTION_BYTES 0x80u
#define BM_N_FUNCTIONS 3u

enum {
	BM_FALSE,
	BM_TRUE,
	BM_UNDERSCORE,
	BM_NONODE,
	BM_NAME,
	BM_LEAF,
	BM_MIDDLE,
	BM_ROOT,
	BM_ELIXIR,
	BM_EXIT_MODULE,
	BM_EXIT_FUNCTION,
	BM_N_ATOMS
};

struct beam_machine {
	uint8_t *bytes;
	struct vm_memory *memory;
	struct beam_vm vm;
};

static inline int bm_read(void *to, uint64_t address, void *data)
{
	const struct beam_machine *m = data;

	if (address < BM_BASE || address >= BM_BASE + BM_BYTES)
		return -EFAULT;
	memcpy(to, m->bytes + (address - BM_BASE), VM_PIECE_BYTES);
	return 0;
}

static inline void bm_put(struct beam_machine *m, uint32_t at, uint64_t value)
{
	memcpy(m->bytes + at, &value, sizeof value);
}

#define BM_ATOM(i) ((uint64_t)(i) << 6 | 0x0b)

static inline void bm_atoms(struct beam_machine *m)
{
	static const char *const texts[BM_N_ATOMS] = {"false",	       "true",	     "_",
						      "nonode@nohost", "work",	     "leaf",
						      "middle",	       "root",	     "Elixir.Work.Deep",
						      "erts_beamasm",  "normal_exit"};

	bm_put(m, BM_ATOM_TABLE + 120, BM_BASE + BM_PIECES);
	bm_put(m, BM_PIECES, BM_BASE + BM_PIECE);
	for (uint32_t i = 0; i < BM_N_ATOMS; i++) {
		const uint32_t atom = BM_ATOMS + i * 64, text = BM_TEXTS + i * 32;

		bm_put(m, BM_PIECE + i * 8, BM_BASE + atom);
		bm_put(m, atom + 24, strlen(texts[i]));
		bm_put(m, atom + 32, BM_BASE + text);
		memcpy(m->bytes + text, texts[i], strlen(texts[i]));
	}
}

/* A call that ends with the process, a frame of 16 bytes, a call of C code. */
static const uint8_t bm_code[] = {
	0xeb, 0x06, 0x00, 0xe8, 0x68, 0xfd, 0xff, 0xff, /* jmp +6; what it skips has a push in it */
	0x48, 0x83, 0xec, 0x10,				/* sub rsp, 16 */
	0x48, 0x89, 0xe5,				/* mov rbp, rsp */
	0x48, 0x8d, 0x63, 0x80,				/* lea rsp, [rbx - 128] */
	0xff, 0xd1,					/* call rcx */
	0x48, 0x89, 0xec,				/* mov rsp, rbp */
	0x48, 0x83, 0xc4, 0x10,				/* add rsp, 16 */
	0xc3,						/* ret */
};

static inline void bm_function(struct beam_machine *m, uint32_t i, uint64_t module, uint64_t name,
			       uint64_t arity)
{
	const uint32_t at = BM_CODE + i * BM_FUNCTION_BYTES;

	bm_put(m, BM_FUNCTIONS + i * 8, BM_BASE + at);
	bm_put(m, at + 16, module);
	bm_put(m, at + 24, name);
	bm_put(m, at + 32, arity);
	memcpy(m->bytes + at + BEAM_INFO_BYTES, bm_code, sizeof bm_code);
}

static inline void bm_init(struct beam_machine *m)
{
	memset(m, 0, sizeof *m);
	m->bytes = calloc(1, BM_BYTES);
	m->memory = calloc(1, sizeof *m->memory);
	m->memory->read = bm_read;
	m->memory->data = m;
	m->vm = (struct beam_vm){.code_index = BM_BASE + BM_INDEX,
				 .atom_table = BM_BASE + BM_ATOM_TABLE,
				 .normal_exit = BM_BASE + BM_EXIT_POINTER,
				 .frame_layout = BM_BASE + BM_LAYOUT,
				 .data_start = BM_BASE + BM_DATA,
				 .data_end = BM_BASE + BM_DATA_END};
	bm_put(m, BM_EXIT_POINTER, BM_BASE + BM_EXIT);
	bm_put(m, BM_INDEX, 1);
	bm_atoms(m);
	for (uint32_t i = 0; i < 3; i++) { /* the tables: each its own array, of the same module */
		const uint32_t array = BM_MODULES + i * 0x100;

		bm_put(m, BM_RANGES + i * 32, BM_BASE + array);
		bm_put(m, BM_RANGES + i * 32 + 8, 1);
		bm_put(m, BM_RANGES + i * 32 + 16, 2);
		bm_put(m, BM_RANGES + i * 32 + 24, BM_BASE + array);
		bm_put(m, array, BM_BASE + BM_MODULE);
		bm_put(m, array + 8, BM_BASE + BM_MODULE_END);
	}
	bm_put(m, BM_MODULE, BM_N_FUNCTIONS);
	bm_put(m, BM_MODULE + 8, BM_BASE + BM_MODULE + 0xf00); /* of something else */
	bm_put(m, BM_MODULE + 16, 40);
	bm_function(m, 0, BM_ATOM(BM_NAME), BM_ATOM(BM_LEAF), 2);
	bm_function(m, 1, BM_ATOM(BM_NAME), BM_ATOM(BM_MIDDLE), 1);
	bm_function(m, 2, BM_ATOM(BM_ELIXIR), BM_ATOM(BM_ROOT), 0);
	bm_put(m, BM_FUNCTIONS + BM_N_FUNCTIONS * 8, BM_BASE + BM_CODE + BM_N_FUNCTIONS * BM_FUNCTION_BYTES);
}

/* Texts of atoms are terms, the table of atoms has its name, processes end with a function that has one. */
static inline void bm_strip(struct beam_machine *m)
{
	m->vm = (struct beam_vm){.data_start = BM_BASE + BM_DATA, .data_end = BM_BASE + BM_DATA_END};
	for (uint32_t i = 0; i < BM_N_ATOMS; i++) {
		const uint32_t text = BM_TEXTS + i * 32, atom = BM_ATOMS + i * 64;
		const uint64_t len = m->bytes[atom + 24];

		memmove(m->bytes + text + 16, m->bytes + text, 16);
		bm_put(m, text, 0xa0);
		bm_put(m, text + 8, len * 8);
		bm_put(m, atom + 32, BM_BASE + text + 2);
	}
	memcpy(m->bytes + BM_NAME_TEXT, "atom_tab", sizeof "atom_tab");
	bm_put(m, BM_NAMED_TABLE + 64, BM_BASE + BM_NAME_TEXT);
	bm_put(m, BM_NAMED_TABLE + 120, BM_BASE + BM_PIECES);
	bm_put(m, BM_EXIT_INFO + 16, BM_ATOM(BM_EXIT_MODULE));
	bm_put(m, BM_EXIT_INFO + 24, BM_ATOM(BM_EXIT_FUNCTION));
}

static inline void bm_free(struct beam_machine *m)
{
	free(m->bytes);
	free(m->memory);
}

#endif
