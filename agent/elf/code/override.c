// SPDX-License-Identifier: Apache-2.0
/*
 * Only the code of FDEs that have one of the listed lengths is read. So for most FDEs the list costs one
 * comparison of the length.
 */
#include "agent/elf/code/override.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/file/elf_image.h"

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull
#define TARGET_BYTES 4

uint64_t override_code(const uint8_t *code, size_t len)
{
	uint64_t h = FNV_BASIS;
	unsigned skip = 0;
	uint8_t before = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t byte = skip ? 0 : code[i];

		if (skip)
			skip--;
		else if (byte == 0xe8 || (before == 0xff && byte == 0x15))
			skip = TARGET_BYTES;
		h = (h ^ byte) * FNV_PRIME;
		before = byte;
	}
	return h;
}

static bool has_code(const struct elf_image *img, uint64_t start, const struct override *o)
{
	uint8_t code[OVERRIDE_CODE_MAX];
	size_t len = o->to - o->from;

	return len <= sizeof(code) && elf_image_read_code(img, start + o->from, code, len) == 0 &&
	       override_code(code, len) == o->code;
}

/* Writes the rows of the FDE again, with the rows of the entry in place of the wrong ones. */
static int merge_rows(struct row_spans *spans, const struct row_span *span, const struct override *o)
{
	const struct elf_rule *over = NULL;
	uint32_t own = 0;
	int r = 0;

	for (size_t i = 0, k = 0; r == 0 && (i < span->n || k < o->n_rows);) {
		/* adding a row may move the array */
		uint32_t own_at = i < span->n ? spans->out.rows[span->first + i].off : UINT32_MAX;
		uint32_t over_at = k < o->n_rows ? o->rows[k].off : UINT32_MAX;

		if (own_at <= over_at)
			own = spans->out.rows[span->first + i++].rule;
		if (over_at <= own_at)
			over = o->rows[k++].rule;
		r = over ? cfi_output_add(&spans->out, own_at < over_at ? own_at : over_at, over)
			 : cfi_output_add_index(&spans->out, own_at < over_at ? own_at : over_at, own);
	}
	return r;
}

int override_rows(struct row_spans *spans, struct row_span *span, const struct override *o)
{
	size_t first = spans->out.n_rows;
	int r = merge_rows(spans, span, o);

	if (r < 0)
		return r;
	span->first = first;
	span->n = (uint32_t)(spans->out.n_rows - first);
	return row_spans_note_override(spans, span->start + o->rows[0].off,
				       span->start + o->rows[o->n_rows - 1].off, o->name);
}

/*
 * In _start, the rule "return address undefined" is set before the first instruction. If the code was
 * compiled for control-flow protection, an endbr64 precedes that. It changes no register, so the rule applies
 * to it, too.
 */
static bool root_begins_late(const struct row_spans *spans, const struct elf_image *img,
			     const struct row_span *span)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const struct cfi_row *rows = spans->out.rows + span->first;
	uint8_t code[sizeof(endbr64)];

	return span->n >= 2 && rows[1].off == sizeof(endbr64) &&
	       spans->out.rules.rules[rows[1].rule].cfa_kind == CFA_UNDEFINED &&
	       rows[0].rule != rows[1].rule &&
	       elf_image_read_code(img, span->start, code, sizeof(code)) == 0 &&
	       memcmp(code, endbr64, sizeof(code)) == 0;
}

static int begin_root(struct row_spans *spans, const struct row_span *span)
{
	struct cfi_row *rows = spans->out.rows + span->first;

	rows[0].rule = rows[1].rule;
	return row_spans_note_override(spans, span->start, span->start + rows[1].off, "_start");
}

static int apply_list(struct row_spans *spans, const struct elf_image *img, struct row_span *span,
		      const struct override *list, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (list[k].fde_bytes == span->end - span->start && has_code(img, span->start, &list[k]))
			return override_rows(spans, span, &list[k]);
	return 0;
}

/* --- arm64 */

/*
 * glibc's _dl_runtime_resolve says that the return address is above its CFA. It is: the PLT has pushed it,
 * and the CFA that it means is below those words, while the caller's stack pointer is above them.
 */
static bool is_above(const struct elf_rule *rule)
{
	return rule->cfa_kind == CFA_REG_OFF && rule->cfa_reg == elf_arch_aarch64.sp &&
	       rule->ra.kind == REG_CFA_OFF && rule->ra.off >= 0;
}

static struct elf_rule lowered(const struct elf_rule *rule, const struct elf_arch *arch)
{
	const int32_t up = rule->ra.off + 8;
	struct elf_rule ret = *rule;

	if (__builtin_add_overflow(rule->cfa_off, up, &ret.cfa_off) ||
	    (rule->fp.kind == REG_CFA_OFF && __builtin_sub_overflow(rule->fp.off, up, &ret.fp.off)))
		return *rule;
	ret.ra.off = -8;
	if (ret.cfa_reg == arch->sp && ret.cfa_off == 0) /* popped again */
		ret.ra = (struct elf_reg_rule){.kind = REG_SAME};
	return ret;
}

/* The first rule of the span with the return address above its CFA; the caller knows that there is one. */
static struct elf_rule first_above(const struct row_spans *spans, const struct row_span *span)
{
	for (uint32_t i = 0; i < span->n; i++) {
		const struct elf_rule *rule = &spans->out.rules.rules[spans->out.rows[span->first + i].rule];

		if (is_above(rule))
			return *rule;
	}
	return (struct elf_rule){.cfa_kind = CFA_NONE};
}

/*
 * The first instruction is a landing pad, or a nop in its place. The PLT has pushed its words before it, but
 * the FDE has them only from the next instruction on: so the first one gets that one's rule.
 */
static int lower_rows(struct row_spans *spans, struct row_span *span, const struct elf_arch *arch)
{
	const struct elf_rule entry = first_above(spans, span);
	const size_t first = spans->out.n_rows;
	bool above = false;
	int r = 0;

	for (uint32_t i = 0; i < span->n && r == 0; i++) {
		const struct cfi_row row = spans->out.rows[span->first + i];
		const struct elf_rule own = spans->out.rules.rules[row.rule];
		const bool is_entry = !above && !is_above(&own) && own.cfa_kind == entry.cfa_kind &&
				      own.cfa_reg == entry.cfa_reg && own.cfa_off == entry.cfa_off;
		const struct elf_rule new = lowered(is_entry ? &entry : &own, arch);

		above = above || is_above(&own);
		r = is_entry || is_above(&own) ? cfi_output_add(&spans->out, row.off, &new)
					       : cfi_output_add_index(&spans->out, row.off, row.rule);
	}
	if (r < 0)
		return r;
	span->first = (uint32_t)first;
	span->n = (uint32_t)(spans->out.n_rows - first);
	return row_spans_note_override(spans, span->start, span->end, "_dl_runtime_resolve");
}

/* Whether a row of the span has a rule of which this is true. */
static bool has_rule(const struct row_spans *spans, const struct row_span *span,
		     bool (*is)(const struct elf_rule *rule))
{
	for (uint32_t i = 0; i < span->n; i++)
		if (is(&spans->out.rules.rules[spans->out.rows[span->first + i].rule]))
			return true;
	return false;
}

static bool is_signal(const struct elf_rule *rule)
{
	return rule->cfa_kind == CFA_SIGNAL;
}

/*
 * In the system call of a signal trampoline, the next instruction is the one behind it, where its FDE ends.
 * What begins there, if anything does, comes first.
 */
static int apply_arm64(struct row_spans *spans)
{
	bool above = false, signal = false;
	int r = 0;

	for (size_t i = 0; i < spans->out.rules.n; i++) {
		above = above || is_above(&spans->out.rules.rules[i]);
		signal = signal || is_signal(&spans->out.rules.rules[i]);
	}
	for (size_t i = 0; i < spans->n && (above || signal) && r == 0; i++) {
		if (above && has_rule(spans, &spans->v[i], is_above))
			r = lower_rows(spans, &spans->v[i], &elf_arch_aarch64);
		if (signal && has_rule(spans, &spans->v[i], is_signal))
			spans->v[i].end += elf_arch_aarch64.instruction_align;
	}
	return r;
}

int override_apply(struct row_spans *spans, const struct elf_image *img, const struct override *list,
		   size_t n)
{
	uint64_t lengths = 0; /* one bit for each length modulo 64 */
	int r = 0;

	if (elf_image_machine(img) == EM_AARCH64)
		return apply_arm64(spans);
	for (size_t i = 0; i < n; i++)
		lengths |= 1ull << (list[i].fde_bytes % 64);
	for (size_t i = 0; i < spans->n && r == 0 && elf_image_machine(img) == EM_X86_64; i++) {
		struct row_span *span = &spans->v[i];

		if (root_begins_late(spans, img, span))
			r = begin_root(spans, span);
		else if (span->n && lengths >> ((span->end - span->start) % 64) & 1)
			r = apply_list(spans, img, span, list, n);
	}
	return r;
}

/* Appends the expression "value of register `reg` + off". Offsets of an entry are small. */
static struct frame_location address_of(struct frame_rule *rule, size_t *used, uint8_t reg, int32_t off)
{
	struct frame_location l = {.kind = LOCATION_AT_EXPR, .off = (int64_t)*used};
	int32_t rest = off;
	uint8_t *at = rule->bytes + *used, *to = at;

	*to++ = (uint8_t)(DW_OP_breg0 + reg);
	for (bool more = true; more; rest >>= 7) {
		more = !((rest >> 7 == 0 && !(rest & 0x40)) || (rest >> 7 == -1 && (rest & 0x40)));
		*to++ = (uint8_t)((rest & 0x7f) | (more ? 0x80 : 0));
	}
	l.len = (uint16_t)(to - at);
	*used += l.len;
	return l;
}

static struct frame_location location_of(struct frame_rule *rule, size_t *used, const struct elf_reg_rule *r)
{
	switch ((enum reg_rule_kind)r->kind) {
	case REG_SAME:
		return (struct frame_location){.kind = LOCATION_SAME};
	case REG_CFA_OFF:
		return (struct frame_location){.kind = LOCATION_AT_CFA, .off = r->off};
	case REG_DEREF_REG:
		return address_of(rule, used, r->reg, r->off);
	case REG_REGISTER:
		return (struct frame_location){.kind = LOCATION_REGISTER, .reg = r->reg};
	default:
		return (struct frame_location){.kind = LOCATION_UNSUPPORTED};
	}
}

static void replace_rule(struct frame_rule *rule, const struct elf_rule *by)
{
	size_t used = 0;

	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		rule->regs[i] =
			(struct frame_location){.kind = i == X86_RSP ? LOCATION_UNSAID : LOCATION_UNDEFINED};
	rule->cfa =
		(struct frame_location){.kind = LOCATION_REGISTER, .reg = by->cfa_reg, .off = by->cfa_off};
	if (by->cfa_kind == CFA_DEREF_REG) {
		rule->cfa = address_of(rule, &used, by->cfa_reg, by->cfa_off);
		rule->cfa.kind = LOCATION_EXPR;
		rule->cfa.len++;
		rule->bytes[used++] = DW_OP_deref;
	}
	rule->regs[X86_RBP] = location_of(rule, &used, &by->fp);
	rule->regs[X86_RIP] = location_of(rule, &used, &by->ra);
}

void override_complete(const struct elf_image *img, struct frame_query *q, const struct override *list,
		       size_t n)
{
	const uint64_t off = q->va - q->fde_start;
	const struct elf_rule *by = NULL;

	if (elf_image_machine(img) != EM_X86_64)
		return;
	for (size_t i = 0; i < n; i++) {
		if (list[i].fde_bytes != q->fde_end - q->fde_start || !has_code(img, q->fde_start, &list[i]))
			continue;
		for (size_t k = 0; k < list[i].n_rows && list[i].rows[k].off <= off; k++)
			by = list[i].rows[k].rule;
		if (by) {
			q->rule.start = q->va;
			q->rule.end = q->va + 1;
			replace_rule(&q->rule, by);
		}
		return;
	}
}
