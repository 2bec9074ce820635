// SPDX-License-Identifier: Apache-2.0
/*
 * BOLT (seen up to LLVM 19) puts the blocks of a function into another order, and forgets some changes of the
 * call-frame information on the way: a jump that it adds is described as the function's first instruction,
 * and a block may keep the state of the one that is now in front of it. The code tells: a `ret` has the
 * return address at rsp, and a jump leaves everything as it is, so that its row must be that of its target.
 * Where the last instruction of a block contradicts its row, the block is described anew, from there back.
 * Compilers of 100 MB have been through BOLT, too: to read all their code would take a hundred times as long
 * as their table does, for one sample in a thousand. They are left as they are.
 */
#include "agent/elf/code/bolt.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/override.h"
#include "agent/elf/code/x86.h"

#define CODE_BYTES_MAX (4u << 20) /* of a file: all of it is decoded, twice */
#define BLOCK_INSNS_MAX 256u	  /* that are described anew */

/* The code of one FDE. */
struct function {
	size_t span; /* index: spans stay, their rows move */
	uint32_t n;  /* instructions */
	uint32_t *offs;
	struct x86_insn *insns;
};

static const struct elf_rule at_entry = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = X86_RSP, .cfa_off = 8, .ra = {.kind = REG_CFA_OFF, .off = -8}};

static void function_fini(struct function *fn)
{
	free(fn->offs);
	free(fn->insns);
}

static int function_read(struct function *fn, const struct elf_image *img, const struct row_span *span)
{
	const uint32_t n = (uint32_t)(span->end - span->start);
	_cleanup_free_ uint8_t *code = malloc(n);

	fn->offs = malloc(n * sizeof *fn->offs);
	fn->insns = malloc(n * sizeof *fn->insns);
	if (!code || !fn->offs || !fn->insns)
		return -ENOMEM;
	if (elf_image_read_code(img, span->start, code, n) < 0)
		return 0;
	for (uint32_t off = 0; off < n; off += fn->insns[fn->n++].len) {
		fn->insns[fn->n] = x86_decode(code + off, n - off);
		fn->offs[fn->n] = off;
		if (!fn->insns[fn->n].len)
			break;
	}
	return 0;
}

/* The rule of [span->start + off]; NULL: it is no distance from rsp, or there is none. Until rows are added.
 */
static const struct elf_rule *rule_at(const struct row_spans *spans, const struct row_span *span,
				      uint64_t off)
{
	const struct cfi_row *rows = spans->out.rows + span->first;
	const struct elf_rule *rule;
	uint32_t low = 0, n = span->n;

	while (n) {
		uint32_t half = n / 2;

		if (rows[low + half].off <= off) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	rule = low ? &spans->out.rules.rules[rows[low - 1].rule] : NULL;
	return rule && rule->cfa_kind == CFA_REG_OFF && rule->cfa_reg == X86_RSP && !rule->flags ? rule
												 : NULL;
}

/* The spans are sorted. */
static const struct row_span *span_at(const struct row_spans *spans, uint64_t va)
{
	size_t low = 0, n = spans->n;

	while (n) {
		size_t half = n / 2;

		if (spans->v[low + half].start <= va) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low && va < spans->v[low - 1].end ? &spans->v[low - 1] : NULL;
}

/* What must hold at the last instruction of a block, when its row says something else. */
static bool contradicted(const struct row_spans *spans, const struct function *fn, uint32_t k,
			 enum x86_op last, struct elf_rule *ret)
{
	const struct row_span *span = &spans->v[fn->span], *there;
	const struct elf_rule *rule = rule_at(spans, span, fn->offs[k]), *target;
	uint64_t va;

	if (!rule || fn->insns[k].op != last)
		return false;
	*ret = at_entry;
	if (last == X86_RETURN)
		return rule->cfa_off != at_entry.cfa_off;
	va = span->start + fn->offs[k] + fn->insns[k].len + (uint64_t)(int64_t)fn->insns[k].disp;
	there = span_at(spans, va);
	target = there ? rule_at(spans, there, va - there->start) : NULL;
	if (!target || rule->cfa_off != at_entry.cfa_off || target->cfa_off == at_entry.cfa_off)
		return false;
	*ret = *target;
	return true;
}

/* From the rule behind an instruction to that in front of it. False: it cannot be told. */
static bool step_back(const struct x86_insn *insn, struct elf_rule *rule)
{
	switch (insn->op) {
	case X86_PUSH:
		rule->cfa_off -= 8;
		if (insn->reg == X86_BP)
			rule->fp = (struct elf_reg_rule){.kind = REG_SAME};
		return rule->cfa_off >= at_entry.cfa_off;
	case X86_POP:
		rule->cfa_off += 8;
		if (insn->reg == X86_BP)
			rule->fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -rule->cfa_off};
		return true;
	case X86_ADD:
	case X86_LEA:
		if (insn->reg == X86_SP && (insn->op == X86_ADD || insn->base == X86_SP)) {
			rule->cfa_off += insn->disp;
			return rule->cfa_off >= at_entry.cfa_off;
		}
		break;
	case X86_LEAVE:
	case X86_RETURN:
	case X86_JUMP:
	case X86_JUMP_FAR_AWAY:
	case X86_TRAP:
		return false;
	default:
		break;
	}
	return insn->reg != X86_SP && !(insn->writes & (1u << X86_SP | 1u << X86_BP));
}

/* Describes the instructions up to the k-th anew, as far back as they are described wrongly. */
static int describe(struct row_spans *spans, const struct function *fn, uint32_t k, struct elf_rule rule)
{
	struct elf_rule rules[BLOCK_INSNS_MAX];
	struct override_row rows[BLOCK_INSNS_MAX + 1];
	struct override o = {.name = "BOLT"};
	struct row_span *span = &spans->v[fn->span];
	uint32_t n = 0;

	rows[BLOCK_INSNS_MAX] = (struct override_row){.off = fn->offs[k] + fn->insns[k].len};
	do { /* from the end of both arrays on */
		const struct elf_rule *said = rule_at(spans, span, fn->offs[k]);

		if (n && said && said->cfa_off == rule.cfa_off)
			break;
		n++;
		rules[BLOCK_INSNS_MAX - n] = rule;
		rows[BLOCK_INSNS_MAX - n] = (struct override_row){fn->offs[k], &rules[BLOCK_INSNS_MAX - n]};
	} while (n < BLOCK_INSNS_MAX && k-- > 0 && step_back(&fn->insns[k], &rule));
	o.rows = &rows[BLOCK_INSNS_MAX - n];
	o.n_rows = n + 1;
	return override_rows(spans, span, &o);
}

static int repair(struct row_spans *spans, const struct elf_image *img, enum x86_op last)
{
	int r = 0;

	for (size_t i = 0; i < spans->n && r == 0; i++) {
		_cleanup_(function_fini) struct function fn = {.span = i};
		struct elf_rule rule;

		if (!spans->v[i].n)
			continue;
		r = function_read(&fn, img, &spans->v[i]);
		for (uint32_t k = 0; k < fn.n && r == 0; k++)
			if (contradicted(spans, &fn, k, last, &rule))
				r = describe(spans, &fn, k, rule);
	}
	return r;
}

static bool is_small(const struct row_spans *spans)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < spans->n && bytes <= CODE_BYTES_MAX; i++)
		bytes += spans->v[i].end - spans->v[i].start;
	return bytes <= CODE_BYTES_MAX;
}

int bolt_repair(struct row_spans *spans, const struct elf_image *img)
{
	struct elf_section section;
	int r;

	if (elf_image_machine(img) != EM_X86_64 ||
	    elf_image_find_section(img, ".note.bolt_info", &section) < 0 || !is_small(spans))
		return 0;
	r = row_spans_sort(spans);
	if (r == 0)
		r = repair(spans, img, X86_RETURN);
	return r < 0 ? r : repair(spans, img, X86_JUMP); /* whose targets may be such a `ret` */
}
