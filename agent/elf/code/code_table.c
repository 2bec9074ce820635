// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/code_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/relocations.h"

#define FUNCTION_BYTES_MAX 4096u
#define TABLE_WORDS 256u

struct function {
	const struct elf_image *img;
	uint8_t *code;
	uint32_t bytes;
	uint64_t va;
};

struct table {
	uint64_t va, words[TABLE_WORDS];
};

static bool is_code(const struct elf_image *img, uint64_t va)
{
	const struct elf_segment *s = va ? elf_image_segment_at(img, va) : NULL;

	return s && s->executable;
}

static bool take_word(const Elf64_Rela *rela, void *data)
{
	struct table *t = data;

	if (rela->r_offset - t->va < sizeof t->words)
		t->words[(rela->r_offset - t->va) / 8] = (uint64_t)rela->r_addend;
	return true;
}

/* 1: each word of the table is an address of code; 0; -ENOMEM. */
static int table_is_of_code(const struct elf_image *img, uint64_t va)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);
	struct table t = {.va = va};
	int r;

	if (!s || va % 8 || sizeof t.words > s->file_bytes - (va - s->va) ||
	    elf_image_pread(img, s->offset + (va - s->va), t.words, sizeof t.words) < 0)
		return 0;
	if (!is_code(img, t.words[0])) {
		r = elf_relocations_each(img, take_word, &t);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < TABLE_WORDS; i++)
		if (!is_code(img, t.words[i]))
			return 0;
	return 1;
}

/*
 * The base of the address in `call *disp(base, index, 8)`: a register, X86_NO_REG if there is none. False: it
 * is another call.
 */
static bool table_call(const uint8_t *code, uint8_t *ret_base)
{
	const uint8_t rex = (*code & 0xf0) == 0x40 ? *code++ : 0, mod = code[1] >> 6, sib = code[2];

	if (code[0] != 0xff || (code[1] & 0x3f) != (2 << 3 | 4) || mod == 3 || sib >> 6 != 3)
		return false;
	*ret_base = mod == 0 && (sib & 7) == 5 ? X86_NO_REG : (uint8_t)((sib & 7) | (rex & 1) << 3);
	return true;
}

/* Whether the function calls through a table of code: 1, 0, -ENOMEM. */
static int calls_table(const struct function *f)
{
	uint64_t known[X86_REGS] = {0}; /* addresses in registers */
	struct x86_insn i;
	uint8_t base;

	for (uint32_t at = 0; at + X86_MAX_BYTES <= f->bytes; at += i.len) {
		i = x86_decode(f->code + at, f->bytes - at);
		if (!i.len)
			return 0;
		if (i.op == X86_ADDRESS && i.reg < X86_REGS)
			known[i.reg] = f->va + at + i.len + (uint64_t)(int64_t)i.disp;
		if (i.op == X86_CALL_FAR_AWAY && table_call(f->code + at, &base)) {
			uint64_t table = (base == X86_NO_REG ? 0 : known[base]) + (uint64_t)(int64_t)i.disp;
			int r = base == X86_NO_REG || known[base] ? table_is_of_code(f->img, table) : 0;

			if (r)
				return r;
		}
	}
	return 0;
}

int code_calls_table(const struct elf_image *img, uint64_t start, uint64_t end)
{
	_cleanup_free_ uint8_t *code = end - start <= FUNCTION_BYTES_MAX ? malloc(end - start) : NULL;
	struct function f = {.img = img, .code = code, .bytes = (uint32_t)(end - start), .va = start};

	if (elf_arch(elf_image_machine(img)) != &elf_arch_x86_64 || end - start > FUNCTION_BYTES_MAX)
		return 0;
	if (!code)
		return -ENOMEM;
	if (elf_image_read_code(img, start, code, f.bytes) < 0)
		return 0;
	return calls_table(&f);
}
