// SPDX-License-Identifier: Apache-2.0
/*
 * The GNU linkers describe their PLT in .eh_frame, lld does not. There are few forms of it (System V ABI,
 *x86-64, section 5.2; chapter 13 of its CET supplement):
 *
 *	.plt       first slot   push; jmp           entered with one word pushed, the relocation's index
 *	           others       jmp; push; jmp      or, with endbr64 in front: push; jmp
 *	.plt.sec .plt.got       jmp                 nothing is pushed
 *
 * A slot is 16 bytes, and is pushed on where its `push imm32` ends. What looks otherwise (a retpoline calls)
 *gets no rows.
 *
 * A coroutine of makecontext returns to the first byte of glibc's __start_context, which then goes on in
 *another stack. Who unwinds looks up the byte before, which is padding: that byte gets the row of an
 *outermost frame.
 */
#include "agent/elf/coderows.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/dwarf.h"
#include "agent/elf/image_private.h"

#define SLOT_BYTES 16
#define NO_PUSH 16 /* offset in the slot: behind its end */

static int put_rule(struct fdes *f, uint32_t off, const struct elf_rule *rule)
{
	int64_t index = ruleset_intern(&f->out.rules, rule);
	int r = f->out.n_rows == f->out.rows_cap ? cfi_output_grow(&f->out) : 0;

	if (index < 0 || r < 0)
		return index < 0 ? (int)index : r;
	f->out.rows[f->out.n_rows++] = (struct cfi_row){.off = off, .rule = (uint32_t)index};
	return 0;
}

static int put_row(struct fdes *f, uint32_t off, uint8_t kind, int32_t cfa)
{
	return put_rule(f, off,
			&(struct elf_rule){.cfa_kind = kind,
					   .cfa_reg = X86_RSP,
					   .cfa_off = cfa,
					   .ra = {.kind = REG_CFA_OFF, .off = -8}});
}

/* Where the slot has pushed its index, NO_PUSH if it does not; 0 when it has none of the known forms. */
static int pushed_from(const uint8_t slot[SLOT_BYTES])
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const bool marked = memcmp(slot, endbr, sizeof(endbr)) == 0;
	const uint8_t *code = marked ? slot + sizeof(endbr) : slot;
	int at = (int)(code - slot);

	if (code[0] == 0x68)
		return at + 5;
	if (code[0] == 0xf2) { /* bnd */
		code++;
		at++;
	}
	if (code[0] != 0xff || code[1] != 0x25)
		return 0;
	return !marked && code[6] == 0x68 ? at + 11 : NO_PUSH;
}

/* The first slot of a .plt: push disp32(%rip), then the jump. */
static bool is_first_slot(const uint8_t slot[SLOT_BYTES])
{
	return slot[0] == 0xff && slot[1] == 0x35;
}

static int read_slots(struct fdes *f, uint64_t start, uint64_t end, const uint8_t slot[SLOT_BYTES])
{
	int pushed = pushed_from(slot);
	size_t first = f->out.n_rows;
	int r;

	if (!pushed || start >= end)
		return 0;
	/* the rule of the linkers that describe it looks at the address modulo 16 */
	r = pushed == NO_PUSH ? put_row(f, 0, CFA_REG_OFF, 8) : put_row(f, 0, CFA_PLT, pushed);
	return r < 0 ? r : fdes_add_span(f, start, end, first, ELF_CODE);
}

static int read_first_slot(struct fdes *f, uint64_t start)
{
	size_t first = f->out.n_rows;
	int r = put_row(f, 0, CFA_REG_OFF, 16);

	if (r == 0)
		r = put_row(f, 6, CFA_REG_OFF, 24);
	return r < 0 ? r : fdes_add_span(f, start, start + SLOT_BYTES, first, ELF_CODE);
}

static int read_section(struct fdes *f, const struct elf_image *img, const GElf_Shdr *shdr)
{
	uint64_t start = shdr->sh_addr, end = start + shdr->sh_size;
	uint8_t code[2 * SLOT_BYTES] = {0};
	size_t len = shdr->sh_size < sizeof(code) ? shdr->sh_size : sizeof(code);
	const uint8_t *slot = code;
	int r = 0;

	if (start % SLOT_BYTES != 0 || shdr->sh_size < 8 || shdr->sh_size > UINT32_MAX || end < start ||
	    !fdes_clip(f, start, &end) || image_read(img, shdr->sh_offset, code, len) < 0)
		return 0;
	if (is_first_slot(slot) && end - start >= SLOT_BYTES) {
		r = read_first_slot(f, start);
		start += SLOT_BYTES;
		slot += SLOT_BYTES;
	}
	return r < 0 ? r : read_slots(f, start, end, slot);
}

static int read_plts(struct fdes *f, const struct elf_image *img)
{
	static const char *const names[] = {".plt", ".plt.sec", ".plt.got"};
	GElf_Shdr shdr;
	size_t index;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
		if (image_find_section(img, names[i], &shdr, &index) == 0 && shdr.sh_type == SHT_PROGBITS)
			r = read_section(f, img, &shdr);
	return r;
}

/* mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi: the whole function has this length */
#define START_CONTEXT_BYTES 26
static const uint8_t start_context[] = {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff};

static bool is_start_context(const struct elf_image *img, const struct fde_span *span)
{
	uint8_t code[sizeof(start_context)];
	const struct elf_segment *s;

	if (span->end - span->start != START_CONTEXT_BYTES || span->n != 1)
		return false;
	s = image_segment_at(img, span->start);
	return s && s->file_bytes - (span->start - s->va) >= START_CONTEXT_BYTES &&
	       image_read(img, s->offset + (span->start - s->va), code, sizeof(code)) == 0 &&
	       memcmp(code, start_context, sizeof(code)) == 0;
}

static int read_context_root(struct fdes *f, const struct elf_image *img)
{
	const struct elf_rule root = {
		.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}};

	for (size_t i = 0; i < f->n_spans; i++) {
		uint64_t start = f->spans[i].start;
		size_t first = f->out.n_rows;
		int r;

		if (!is_start_context(img, &f->spans[i]))
			continue;
		r = put_rule(f, 0, &root);
		return r < 0 ? r : fdes_add_span(f, start - 1, start, first, ELF_CODE);
	}
	return 0;
}

int coderows_read(struct fdes *f, const struct elf_image *img)
{
	int r;

	if (img->machine != EM_X86_64 || f->n_spans == 0)
		return 0; /* code alone makes no table */
	r = read_context_root(f, img);
	return r < 0 ? r : read_plts(f, img);
}
