// SPDX-License-Identifier: Apache-2.0
/*
 * GHC gives registers to its virtual machine: rbp points to the Haskell stack, r12 to the end of the used
 * heap, r13 to the other registers of the machine. So its code has instructions that no other compiler
 * writes, at intervals of some hundred bytes:
 *
 *	jmp *(%rbp)			return to the frame on top of the Haskell stack
 *	jmp *-16(%r13)			to the garbage collector
 *	cmp 856(%r13), %r12		is the heap's block full?
 *	lea -24(%rbp), %rax; cmp %r15, %rax	has the stack room?
 *
 * rsp changes only around calls of C functions, to align it: `sub $8, %rsp` ... `add $8, %rsp`, without jumps
 * between.
 */
#include "agent/elf/code/haskell.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"

#define MARKS_MIN 3u
#define MARK_BYTES 7u
#define STRETCH_BYTES_MIN 64u /* less is padding, or a function of assembly */
#define MARKS_APART_MAX 4096u /* bytes between two marks of the same code */
#define MARGIN 256u	      /* bytes before the first mark and behind the last one */
#define CALL_BYTES_MAX 512u   /* from the instruction that lowers rsp for a call to the one that raises it */

enum mark { MARK_NONE, MARK_RETURN, MARK_OTHER };

static bool is_bytes(const uint8_t *code, uint32_t left, const char *bytes, uint32_t n)
{
	return left >= n && memcmp(code, bytes, n) == 0;
}

static enum mark mark_at(const uint8_t *code, uint32_t left)
{
	if (left < 4)
		return MARK_NONE;
	switch (code[0]) {
	case 0xff: /* jmp *(%rbp) */
		return code[1] == 0x65 && code[2] == 0 ? MARK_RETURN : MARK_NONE;
	case 0x41: /* jmp *disp8(%r13), at one of the three fields before the registers */
		return code[1] == 0xff && code[2] == 0x65 && code[3] >= 0xe8 && code[3] % 8 == 0 ? MARK_OTHER
												 : MARK_NONE;
	case 0x4d: /* cmp disp32(%r13), %r12 */
		return code[1] == 0x3b && code[2] == 0xa5 && is_bytes(code + 5, left - 5, "\x00\x00", 2)
			       ? MARK_OTHER
			       : MARK_NONE;
	case 0x48: /* lea disp8(%rbp), %rax; cmp %r15, %rax */
		return code[1] == 0x8d && code[2] == 0x45 && is_bytes(code + 4, left - 4, "\x4c\x39\xf8", 3)
			       ? MARK_OTHER
			       : MARK_NONE;
	default:
		return MARK_NONE;
	}
}

/* Haskell code in a piece: offsets. */
struct stretch {
	uint32_t start, end;
};

/*
 * Behind the last `ret` in [from, to) that padding or endbr64 follows, or `from`: Haskell code has no `ret`,
 * and the byte alone often occurs in it.
 */
static uint32_t behind_return(const uint8_t *code, uint32_t n, uint32_t from, uint32_t to)
{
	uint32_t behind = from;

	for (uint32_t i = from; i < to; i++) {
		const uint8_t *next = code + i + 1;
		const uint32_t left = n - i - 1;

		if (code[i] == 0xc3 && (x86_nops(next, left) || is_bytes(next, left, "\xcc", 1) ||
					is_bytes(next, left, "\xf3\x0f\x1e\xfa", 4)))
			behind = i + 1;
	}
	return behind;
}

struct marks {
	uint32_t first, last, n[MARK_OTHER + 1];
};

static bool are_enough(const struct marks *m)
{
	return m->n[MARK_RETURN] && m->n[MARK_OTHER] && m->n[MARK_RETURN] + m->n[MARK_OTHER] >= MARKS_MIN;
}

/* Finds the marks of the first stretch at or behind `from`. */
static bool find_marks(const uint8_t *code, uint32_t n, uint32_t from, struct marks *m)
{
	*m = (struct marks){0};
	/* the only search in most code: there must be a return, and it is rare elsewhere */
	if (from >= n || !memmem(code + from, n - from, "\xff\x65\x00", 3))
		return false;
	for (uint32_t i = from; i < n; i++) {
		const enum mark mark = mark_at(code + i, n - i);

		if (mark == MARK_NONE)
			continue;
		const bool any = m->n[MARK_RETURN] + m->n[MARK_OTHER] > 0;
		if (any && (i - m->last > MARKS_APART_MAX || behind_return(code, n, m->last, i) > m->last)) {
			if (are_enough(m))
				return true;
			*m = (struct marks){0};
		}
		if (m->n[MARK_RETURN] + m->n[MARK_OTHER] == 0)
			m->first = i;
		m->last = i;
		m->n[mark]++;
	}
	return are_enough(m);
}

/* Finds the first stretch at or behind `from`. It begins before its first mark, and ends behind its last. */
static bool find_stretch(const uint8_t *code, uint32_t n, uint32_t from, struct stretch *ret)
{
	struct marks m;

	if (!find_marks(code, n, from, &m))
		return false;
	ret->start = behind_return(code, n, m.first - from > MARGIN ? m.first - MARGIN : from, m.first);
	ret->end = n - m.last > MARGIN ? m.last + MARGIN : n;
	if (behind_return(code, n, m.last, ret->end) > m.last)
		ret->end = n - m.last > MARK_BYTES ? m.last + MARK_BYTES : n;
	return true;
}

/* The length of `sub $n, %rsp` (modrm 0xec) or `add $n, %rsp` (0xc4), 0 for others. */
static uint32_t adjusts_sp(const uint8_t *code, uint32_t left, uint8_t modrm, uint32_t *ret_bytes)
{
	if (left < 7 || code[0] != 0x48 || code[2] != modrm)
		return 0;
	if (code[1] == 0x83) {
		*ret_bytes = code[3];
		return code[3] < 0x80 && code[3] % 8 == 0 ? 4 : 0;
	}
	memcpy(ret_bytes, code + 3, sizeof *ret_bytes);
	return code[1] == 0x81 && *ret_bytes <= INT16_MAX && *ret_bytes % 8 == 0 ? 7 : 0;
}

/* Behind the instruction that raises rsp again by `bytes`; 0: there is none. */
static uint32_t call_end(const uint8_t *code, uint32_t from, uint32_t n, uint32_t bytes)
{
	uint32_t more = 0;

	for (uint32_t i = from; i < n && i - from < CALL_BYTES_MAX; i++) {
		const uint32_t len = adjusts_sp(code + i, n - i, 0xc4, &more);

		if (len && more == bytes)
			return i + len;
		if (adjusts_sp(code + i, n - i, 0xec, &more))
			return 0;
	}
	return 0;
}

/* Adds a row in which rsp is `lower` bytes below that of StgRun. */
static int add_row(struct row_spans *spans, uint32_t off, uint32_t lower)
{
	struct elf_rule rule = spans->out.rules.rules[spans->out.stg_run];

	if (spans->out.stg_run == 0)
		return cfi_output_add_index(&spans->out, off, 0);
	if (__builtin_add_overflow(rule.cfa_off, (int32_t)lower, &rule.cfa_off))
		return cfi_output_add_index(&spans->out, off, 0);
	return cfi_output_add(&spans->out, off, &rule);
}

static int add_stretch(struct row_spans *spans, uint64_t va, const uint8_t *code, struct stretch at)
{
	const size_t first = spans->out.n_rows;
	int r = add_row(spans, 0, 0);

	for (uint32_t i = at.start; i < at.end && r == 0 && spans->out.stg_run; i++) {
		uint32_t bytes = 0;
		const uint32_t len = adjusts_sp(code + i, at.end - i, 0xec, &bytes);
		const uint32_t end = len && bytes ? call_end(code, i + len, at.end, bytes) : 0;

		if (!end)
			continue;
		r = add_row(spans, i + len - at.start, bytes);
		if (r == 0 && end < at.end)
			r = add_row(spans, end - at.start, 0);
		i = end - 1;
	}
	return r < 0 ? r : row_spans_add(spans, va + at.start, va + at.end, first, ELF_CODE);
}

int haskell_read_piece(struct row_spans *spans, uint64_t va, const uint8_t *code, uint32_t n)
{
	struct stretch at = {0};
	int r = 0;

	while (r == 0 && find_stretch(code, n, at.end, &at))
		r = add_stretch(spans, va, code, at);
	return r;
}

static int read_gap(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap,
		    void *data)
{
	int r = 0;

	(void)data;
	if (gap->end - gap->start < STRETCH_BYTES_MIN)
		return 0;
	for (uint64_t at = gap->start; at < gap->end && r == 0; at += ASM_PIECE_BYTES) {
		const uint32_t n =
			gap->end - at < ASM_PIECE_BYTES ? (uint32_t)(gap->end - at) : ASM_PIECE_BYTES;
		_cleanup_free_ uint8_t *code = malloc(n);

		if (!code)
			return -ENOMEM;
		if (elf_image_pread(img, gap->offset + (at - gap->start), code, n) < 0)
			return 0;
		r = haskell_read_piece(spans, at, code, n);
	}
	return r;
}

/* CFA = rbp + n, the return address is there, and the CFA is the caller's rbp, which rules cannot express. */
static bool is_of_haskell_stack(const struct row_spans *spans, const struct row_span *span)
{
	for (uint32_t i = 0; i < span->n; i++) {
		const struct elf_rule *r = &spans->out.rules.rules[spans->out.rows[span->first + i].rule];

		if (r->cfa_kind != CFA_REG_OFF || r->cfa_reg != X86_RBP || r->fp.kind != REG_UNSUPPORTED ||
		    r->ra.kind != REG_CFA_OFF || r->ra.off != 0)
			return false;
	}
	return span->source == ELF_DEBUG_FRAME || span->source == ELF_DEBUG_FILE;
}

/* Removes spans that describe the Haskell stack. */
static int remove_spans(struct row_spans *spans)
{
	uint64_t start = 0, end = 0; /* of neighbours that were removed */
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < spans->n && r == 0; i++) {
		const struct row_span span = spans->v[i];
		const bool removed = is_of_haskell_stack(spans, &span);

		if (!removed)
			spans->v[kept++] = span;
		if (end && (!removed || span.start - end > MARKS_APART_MAX)) {
			r = row_spans_note_override(spans, start, end, "Haskell code");
			end = 0;
		}
		if (removed) {
			start = end ? start : span.start;
			end = span.end;
		}
	}
	spans->n = r == 0 ? kept : spans->n;
	spans->n_sorted = spans->n;
	return end && r == 0 ? row_spans_note_override(spans, start, end, "Haskell code") : r;
}

int haskell_read(struct row_spans *spans, const struct elf_image *img, struct code_gaps *gaps)
{
	int r = 0;

	if (elf_image_machine(img) != EM_X86_64 || spans->n_functions > 0)
		return 0;
	if (spans->out.stg_run) {
		r = row_spans_sort(spans);
		if (r == 0)
			r = remove_spans(spans);
		gaps->found = false;
	}
	return r < 0 ? r : code_gaps_visit(gaps, spans, img, read_gap, NULL);
}
