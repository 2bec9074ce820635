// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/go/gocode.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"

#define ARM64_STR_LR_MASK 0xffe00fffu /* str x30, [sp, #-n]! */
#define ARM64_STR_LR 0xf8000ffeu
#define ARM64_MOV_SP_X20 0x9100029fu
#define ARM64_MOV_SP_MASK 0xfffffc1fu /* mov sp, xn */
#define ARM64_MOV_SP 0x9100001fu
#define ARM64_SUB_FP 0xd10023fdu  /* sub x29, sp, #8 */
#define ARM64_STUR_FP 0xf81f83fdu /* stur x29, [sp, #-8] */

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

/* Length of a mov or lea with the operand `disp`(%rsp). */
static unsigned sp_operand_bytes(int32_t disp)
{
	return disp == 0 ? 4 : disp < 128 ? 5 : 8;
}

/* True for "OPCODE %rbp" with the operand disp(%rsp). */
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
	/* code[0] is the last byte of the previous instruction */
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
	if ((code[0] & ARM64_STR_LR_MASK) == ARM64_STR_LR ||
	    (code[1] == ARM64_STUR_FP && code[2] == ARM64_SUB_FP)) /* asyncPreempt */
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
		return (struct go_frame){.saved = va + len, .set = va + 2ull * len};
	case GO_PROLOGUE_STR: /* earlier in a large frame, which does no harm: x29 is unchanged */
		return (struct go_frame){.saved = va + 4, .set = va + 8};
	case GO_PROLOGUE_NONE:
		break;
	}
	return (struct go_frame){.saved = UINT64_MAX, .set = UINT64_MAX};
}

/* Length of an operand in memory or a register: Intel 64 SDM, volume 2, table 2-2. */
static unsigned modrm_bytes(const uint8_t *modrm)
{
	unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7, sib = mod != 3 && rm == 4;

	if (mod == 0)
		return 1 + sib + (rm == 5 || (sib && (modrm[1] & 7) == 5) ? 4 : 0);
	return 1 + sib + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* Recognises mov OPERAND,%rsp; mov REGISTER,%rsp; and $-N,%rsp. Returns the length; 0: it is none of them. */
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

/*
 * Compares bytes instead of decoding instructions, which suffices for the few short assembly functions
 * concerned.
 */
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

/*
 * Finds the start of the text, from which offsets in the table count. Up to Go 1.25 the header has it, unless
 * a linker left it to a relocation. A section .text begins there, too, if Go's own linker made the file;
 * other linkers put C start-up code in front. So each candidate is tested: the first functions of the table
 * that have a frame must have a prologue at the right place. The test needs neither symbols nor knowledge of
 * the runtime's data, and it also detects a wrong header.
 */

#define PROBES 48
#define PROBES_MIN 8	      /* fewer could match by chance */
#define PROBED_FUNCTIONS 2048 /* functions that are examined to find PROBES with a frame */
#define DEPTHS_PREFIX 64      /* bytes of a pc-value table that are read for its first values */
#define SCAN_BYTES \
	(512ull    \
	 << 10) /* bytes of each executable segment in which a start is searched if no likely one fits */
#define SCAN_ALIGN 16

/* The end of an instruction that makes the frame of a function. */
struct probe {
	uint64_t offset; /* offset from the start of the text */
	int32_t depth;
};

struct probes {
	struct probe probes[PROBES];
	unsigned n;
};

static bool first_depth(const struct gopclntab *t, const struct gopclntab_function *fn, struct probe *ret)
{
	uint8_t prefix[DEPTHS_PREFIX];
	struct gopclntab_values v;
	uint64_t from;

	gopclntab_depths(t, fn, prefix, sizeof(prefix), &v);
	while (gopclntab_values_next(&v, &from)) {
		*ret = (struct probe){.offset = from, .depth = v.value};
		if (v.value != 0)
			return from > fn->start && from < fn->end && v.value >= 8;
	}
	return false;
}

static void collect(const struct gopclntab *t, struct probes *ret)
{
	struct gopclntab_function fn;

	ret->n = 0;
	for (uint64_t i = 0; i < t->n_functions && i < PROBED_FUNCTIONS && ret->n < PROBES; i++) {
		if (gopclntab_function(t, i, &fn) == 0 && !(fn.flags & (GO_FLAG_ASM | GO_FLAG_SPWRITE)) &&
		    first_depth(t, &fn, &ret->probes[ret->n]))
			ret->n++;
	}
}

/* The first eight probes must match, and nearly all of the others. */
static bool fits(const struct probes *p, struct gocode *code, uint64_t text, enum go_prologue *ret)
{
	unsigned n[GO_PROLOGUE_STR + 1] = {0}, best = GO_PROLOGUE_PUSH;

	for (unsigned i = 0; i < p->n; i++) {
		n[gocode_prologue(code, text + p->probes[i].offset, p->probes[i].depth)]++;
		if (n[GO_PROLOGUE_NONE] > i / 8)
			return false;
	}
	for (unsigned k = GO_PROLOGUE_SUB; k <= GO_PROLOGUE_STR; k++)
		best = n[k] > n[best] ? k : best;
	*ret = n[best] ? best : GO_PROLOGUE_NONE;
	return true;
}

static int scan(struct gopclntab *t, const struct probes *p, struct gocode *code, enum go_prologue *ret)
{
	size_t n;
	const struct elf_segment *segments = elf_image_segments(t->img, &n);

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segments[i];
		uint64_t bytes = s->file_bytes < SCAN_BYTES ? s->file_bytes : SCAN_BYTES;

		if (!s->executable || s->va > UINT64_MAX - SCAN_BYTES - SCAN_ALIGN)
			continue;
		for (uint64_t at = (s->va + SCAN_ALIGN - 1) & ~(uint64_t)(SCAN_ALIGN - 1); at < s->va + bytes;
		     at += SCAN_ALIGN) {
			if (!fits(p, code, at, ret))
				continue;
			t->text = at;
			return 0;
		}
	}
	return -ENOENT;
}

/* Lists the likely starts. */
static size_t candidates(const struct gopclntab *t, uint64_t ret[2])
{
	struct elf_section section;
	size_t n = 0;

	if (t->header_text)
		ret[n++] = t->header_text;
	if (elf_image_find_section(t->img, ".text", &section) == 0)
		ret[n++] = section.va;
	return n;
}

int gocode_find_text(struct gopclntab *t, enum go_prologue *ret)
{
	_cleanup_free_ struct gocode *code = calloc(1, sizeof(*code));
	struct probes p;
	uint64_t starts[2];

	*ret = GO_PROLOGUE_NONE;
	if (t->layout == GOPCLNTAB_1_16)
		return 0; /* this layout has addresses, not offsets */
	if (!code)
		return -ENOMEM;
	code->img = t->img;
	collect(t, &p);
	size_t n = candidates(t, starts);
	for (size_t i = 0; i < n; i++) {
		if (!fits(&p, code, starts[i], ret))
			continue;
		t->text = starts[i];
		return 0;
	}
	return p.n >= PROBES_MIN ? scan(t, &p, code, ret) : -ENOENT;
}
