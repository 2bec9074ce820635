// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/go/gocode.h"

#include <elf.h>
#include <errno.h>

#define ARM64_STR_LR_MASK 0xffe00fffu /* str x30, [sp, #-n]! */
#define ARM64_STR_LR 0xf8000ffeu
#define ARM64_MOV_SP_X20 0x9100029fu
#define ARM64_MOV_SP_MASK 0xfffffc1fu /* mov sp, xn */
#define ARM64_MOV_SP 0x9100001fu
#define ARM64_SUB_FP 0xd10023fdu /* sub x29, sp, #8 */

const uint8_t *gocode_at(struct gocode *code, uint64_t va, size_t len)
{
	if (va >= code->va && va - code->va <= code->len && len <= code->len - (va - code->va))
		return code->window + (va - code->va);
	const struct elf_segment *s = elf_image_segment_at(code->img, va);
	code->len = 0;
	if (!s || !s->executable)
		return NULL;
	uint64_t left = s->file_bytes - (va - s->va);
	size_t n = left < GOCODE_WINDOW ? left : GOCODE_WINDOW;
	if (elf_image_pread(code->img, s->offset + (va - s->va), code->window, n) < 0)
		return NULL;
	memset(code->window + n, 0, GOCODE_WINDOW - n);
	code->va = va;
	code->len = n;
	return code->window;
}

/* Bytes of a mov or lea with `disp`(%rsp). */
static unsigned sp_operand_bytes(int32_t disp)
{
	return disp == 0 ? 4 : disp < 128 ? 5 : 8;
}

/* "OPCODE %rbp with disp(%rsp)" */
static bool is_sp_operand(const uint8_t *code, uint8_t opcode, int32_t disp)
{
	static const uint8_t modes[] = {[4] = 0x2c, [5] = 0x6c, [8] = 0xac};
	unsigned len = sp_operand_bytes(disp);
	uint8_t low = (uint8_t)disp;

	if (code[0] != 0x48 || code[1] != opcode || code[2] != modes[len] || code[3] != 0x24)
		return false;
	return len == 4 || (len == 5 ? code[4] == low : memcmp(code + 4, &disp, 4) == 0);
}

static enum go_prologue x86_prologue(const uint8_t *code, int32_t depth)
{
	/* code[0] is the last byte of the instruction before */
	if (depth == 8 && code[0] == 0x55 && code[1] == 0x48 && code[2] == 0x89 && code[3] == 0xe5)
		return GO_PROLOGUE_PUSH;
	if (is_sp_operand(code + 1, 0x89, depth - 8) &&
	    is_sp_operand(code + 1 + sp_operand_bytes(depth - 8), 0x8d, depth - 8))
		return GO_PROLOGUE_SUB;
	return GO_PROLOGUE_NONE;
}

static enum go_prologue arm64_prologue(const uint8_t *bytes)
{
	uint32_t code[3];

	memcpy(code, bytes, sizeof(code));
	if ((code[0] & ARM64_STR_LR_MASK) == ARM64_STR_LR)
		return GO_PROLOGUE_STR;
	return code[0] == ARM64_MOV_SP_X20 && code[1] == ARM64_SUB_FP ? GO_PROLOGUE_STR : GO_PROLOGUE_NONE;
}

enum go_prologue gocode_prologue(struct gocode *code, uint64_t va, int32_t depth)
{
	bool x86 = elf_image_machine(code->img) == EM_X86_64;
	uint64_t before = x86 ? 1 : 4;
	const uint8_t *bytes = va < before ? NULL : gocode_at(code, va - before, x86 ? 17 : 12);

	if (!bytes || depth < 8)
		return GO_PROLOGUE_NONE;
	return x86 ? x86_prologue(bytes, depth) : arm64_prologue(bytes);
}

struct go_frame gocode_frame(enum go_prologue prologue, uint64_t va, int32_t depth)
{
	unsigned len = sp_operand_bytes(depth - 8);

	switch (prologue) {
	case GO_PROLOGUE_PUSH:
		return (struct go_frame){.saved = va, .set = va + 3};
	case GO_PROLOGUE_SUB:
		return (struct go_frame){.saved = va + len, .set = va + 2 * len};
	case GO_PROLOGUE_STR: /* the large one is earlier, which does not matter: x29 is still the caller's */
		return (struct go_frame){.saved = va + 4, .set = va + 8};
	case GO_PROLOGUE_NONE:
		break;
	}
	return (struct go_frame){.saved = UINT64_MAX, .set = UINT64_MAX};
}

/* Of an operand in memory or a register: Intel 64 SDM, volume 2, table 2-2. */
static unsigned modrm_bytes(const uint8_t *modrm)
{
	unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7, sib = mod != 3 && rm == 4;

	if (mod == 0)
		return 1 + sib + (rm == 5 || (sib && (modrm[1] & 7) == 5) ? 4 : 0);
	return 1 + sib + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* mov OPERAND,%rsp; mov REGISTER,%rsp; and $-N,%rsp. Returns the length, 0: none of these. */
static unsigned x86_writes_sp(const uint8_t *code)
{
	if ((code[0] == 0x48 || code[0] == 0x49) && code[1] == 0x8b && (code[2] & 0x38) == 0x20)
		return 2 + modrm_bytes(code + 2);
	if ((code[0] == 0x48 || code[0] == 0x4c) && code[1] == 0x89 && (code[2] & 0xc7) == 0xc4)
		return 3;
	return code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xe4 ? 4 : 0;
}

static bool arm64_writes_sp(const uint8_t *bytes)
{
	uint32_t code;

	memcpy(&code, bytes, sizeof(code));
	return (code & ARM64_MOV_SP_MASK) == ARM64_MOV_SP && code != ARM64_MOV_SP_X20;
}

/* Not a disassembler: it is asked about a handful of short functions written in assembly. */
uint64_t gocode_stack_switch(struct gocode *code, uint64_t va, uint64_t end)
{
	bool x86 = elf_image_machine(code->img) == EM_X86_64;

	for (uint64_t at = va; at < end && end - at >= 4; at += x86 ? 1 : 4) {
		const uint8_t *bytes = gocode_at(code, at, 4);

		if (!bytes)
			break;
		if (x86 ? x86_writes_sp(bytes) : arm64_writes_sp(bytes))
			return x86 ? at + x86_writes_sp(bytes) : at + 4;
	}
	return end;
}
