// SPDX-License-Identifier: Apache-2.0
/*
 * The GNU linkers describe their PLT in .eh_frame; lld does not. A PLT has one of a few forms (System V ABI,
 * x86-64, section 5.2; chapter 13 of its CET supplement):
 *
 *	.plt       first slot   push; jmp           entered with one word pushed, the relocation's index
 *	           others       jmp; push; jmp      or, with endbr64 in front: push; jmp
 *	.plt.sec .plt.got       jmp                 pushes nothing
 *
 * A slot has 16 bytes, or eight where it is but a jump, as in a static program. The word is on the stack
 * from the end of the slot's `push imm32` on. Other forms (a retpoline calls) get no rows.
 *
 * .init and .fini consist of parts from crti.o and crtn.o, without call-frame information:
 *
 *	.init   sub $8,%rsp; [call of __gmon_start__, if it is there; calls;] add $8,%rsp; ret
 *	.fini   sub $8,%rsp; add $8,%rsp; ret            both perhaps with endbr64 in front
 */
#include "agent/elf/code/known_code.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"

#define SLOT_BYTES 16
#define NO_PUSH 16 /* offset behind the end of a slot */
#define CRT_BYTES_MAX 64

static int put_row(struct row_spans *spans, uint32_t off, uint8_t kind, int32_t cfa)
{
	return cfi_output_add(&spans->out, off,
			      &(struct elf_rule){.cfa_kind = kind,
						 .cfa_reg = X86_RSP,
						 .cfa_off = cfa,
						 .ra = {.kind = REG_CFA_OFF, .off = -8}});
}

/*
 * The offset in the slot at which its index is on the stack; NO_PUSH if it pushes nothing; 0 if it has none
 * of the known forms.
 */
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

static int read_slots(struct row_spans *spans, uint64_t start, uint64_t end, const uint8_t slot[SLOT_BYTES])
{
	int pushed = pushed_from(slot);
	size_t first = spans->out.n_rows;
	int r;

	/* the rule that other linkers write for the whole section depends on the address modulo 16 */
	if (!pushed || start >= end || (pushed != NO_PUSH && start % SLOT_BYTES != 0))
		return 0;
	r = pushed == NO_PUSH ? put_row(spans, 0, CFA_REG_OFF, 8) : put_row(spans, 0, CFA_PLT, pushed);
	return r < 0 ? r : row_spans_add(spans, start, end, first, ELF_CODE);
}

static int read_first_slot(struct row_spans *spans, uint64_t start)
{
	size_t first = spans->out.n_rows;
	int r = put_row(spans, 0, CFA_REG_OFF, 16);

	if (r == 0)
		r = put_row(spans, 6, CFA_REG_OFF, 24);
	return r < 0 ? r : row_spans_add(spans, start, start + SLOT_BYTES, first, ELF_CODE);
}

static int read_plt(struct row_spans *spans, const struct elf_image *img, const struct elf_section *section)
{
	uint64_t start = section->va, end = start + section->bytes;
	uint8_t code[2 * SLOT_BYTES] = {0};
	size_t len = section->bytes < sizeof(code) ? section->bytes : sizeof(code);
	const uint8_t *slot = code;
	int r = 0;

	if (start % 8 != 0 || section->bytes < 8 || section->bytes > UINT32_MAX || end < start ||
	    !row_spans_clip(spans, start, &end) || elf_image_pread(img, section->offset, code, len) < 0)
		return 0;
	if (is_first_slot(slot) && start % SLOT_BYTES == 0 && end - start >= SLOT_BYTES) {
		r = read_first_slot(spans, start);
		start += SLOT_BYTES;
		slot += SLOT_BYTES;
	}
	return r < 0 ? r : read_slots(spans, start, end, slot);
}

/*
 * True when the bytes behind sub $8,%rsp are those of .init or .fini: mov __gmon_start__,%rax; test; je;
 * call; and calls.
 */
static bool is_crt(const uint8_t *code, size_t len)
{
	static const uint8_t end[] = {0x48, 0x83, 0xc4, 0x08, 0xc3}, mov[] = {0x48, 0x8b, 0x05},
			     by_register[] = {0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xd0},
			     direct[] = {0x48, 0x85, 0xc0, 0x74, 0x05};
	size_t at = 0;

	if (len >= 14 && memcmp(code, mov, sizeof(mov)) == 0) {
		if (memcmp(code + 7, by_register, sizeof(by_register)) == 0)
			at = 7 + sizeof(by_register);
		else if (memcmp(code + 7, direct, sizeof(direct)) == 0)
			at = 7 + sizeof(direct); /* the call is one of these: */
	}
	while (at + 5 < len && code[at] == 0xe8)
		at += 5;
	return len - at == sizeof(end) && memcmp(code + at, end, sizeof(end)) == 0;
}

static int read_crt(struct row_spans *spans, const struct elf_image *img, const struct elf_section *section)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa}, sub[] = {0x48, 0x83, 0xec, 0x08};
	uint64_t start = section->va, end = start + section->bytes;
	size_t first = spans->out.n_rows, len = section->bytes, at;
	uint8_t code[CRT_BYTES_MAX];
	int r;

	if (len < 2 * sizeof(sub) || len > sizeof(code) || end < start ||
	    !row_spans_clip(spans, start, &end) || end - start != len ||
	    elf_image_pread(img, section->offset, code, len) < 0)
		return 0;
	at = memcmp(code, endbr, sizeof(endbr)) == 0 ? sizeof(endbr) : 0;
	if (memcmp(code + at, sub, sizeof(sub)) != 0 ||
	    !is_crt(code + at + sizeof(sub), len - at - sizeof(sub)))
		return 0;
	r = put_row(spans, 0, CFA_REG_OFF, 8);
	if (r == 0)
		r = put_row(spans, (uint32_t)(at + sizeof(sub)), CFA_REG_OFF, 16);
	if (r == 0)
		r = put_row(spans, (uint32_t)len - 1, CFA_REG_OFF, 8);
	return r < 0 ? r : row_spans_add(spans, start, end, first, ELF_CODE);
}

static int read_sections(struct row_spans *spans, const struct elf_image *img)
{
	static const struct {
		const char *name;
		int (*read)(struct row_spans *spans, const struct elf_image *img,
			    const struct elf_section *section);
	} sections[] = {{".plt", read_plt},
			{".plt.sec", read_plt},
			{".plt.got", read_plt},
			{".init", read_crt},
			{".fini", read_crt}};
	struct elf_section section;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sections) && r == 0; i++)
		if (elf_image_find_section(img, sections[i].name, &section) == 0 &&
		    section.type == SHT_PROGBITS)
			r = sections[i].read(spans, img, &section);
	return r;
}

int known_code_read(struct row_spans *spans, const struct elf_image *img)
{
	return elf_image_machine(img) == EM_X86_64 ? read_sections(spans, img) : 0;
}
