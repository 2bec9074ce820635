// SPDX-License-Identifier: Apache-2.0
/*
 * BOLT (seen up to LLVM 19) reorders the basic blocks of a function and loses some changes of the call-frame
 * information: a jump that it adds is described like the first instruction of the function, and a block may
 * have the state of the block that is now in front of it. The code shows what is right: at a `ret`, the
 * return address is at rsp; a jump changes nothing, so its row must equal the row of its target. Where the
 * last instruction of a block contradicts its row, the rows of the block are derived again, backwards from
 * there.
 *
 * Very large files (compilers of 100 MB) are not corrected: decoding all their code would take a hundred
 * times as long as building the table, and would correct one sample in a thousand.
 */
#include "agent/elf/code/bolt.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/override.h"
#include "agent/elf/code/x86.h"

#define CODE_BYTES_MAX (4u << 20) /* bytes of code in a file; all of it is decoded, twice */
#define BLOCK_INSNS_MAX 256u	  /* instructions whose rows are replaced */

/* The code of one FDE. */
struct function {
	size_t span; /* index of its span: spans do not move, but their rows do */
	uint32_t n;  /* number of instructions */
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

/*
 * The rule at span->start + off; NULL if its CFA is not rsp + offset, or if there is none. Borrowed until
 * rows are added.
 */
static const struct elf_rule *rule_at(const struct row_spans *spans, const struct row_span *span,
				      uint64_t off)
{
	const struct cfi_row *rows = spans->out.rows + span->first;
	size_t next = array_first(span->n, i, rows[i].off > off);
	const struct elf_rule *rule = next ? &spans->out.rules.rules[rows[next - 1].rule] : NULL;

	return rule && rule->cfa_kind == CFA_REG_OFF && rule->cfa_reg == X86_RSP && !rule->flags ? rule
												 : NULL;
}

/* The span at an address. The spans are sorted. */
static const struct row_span *span_at(const struct row_spans *spans, uint64_t va)
{
	size_t next = array_first(spans->n, i, spans->v[i].start > va);

	return next && va < spans->v[next - 1].end ? &spans->v[next - 1] : NULL;
}

/* True when the row of the last instruction of a block is wrong; then *ret is the right rule. */
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

/* Computes the rule in front of an instruction from the one behind it. False: that is not possible. */
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

/* Replaces the rows of the instructions before the k-th one, backwards as far as they are wrong. */
static int describe(struct row_spans *spans, const struct function *fn, uint32_t k, struct elf_rule rule)
{
	struct elf_rule rules[BLOCK_INSNS_MAX];
	struct override_row rows[BLOCK_INSNS_MAX + 1];
	struct override o = {.name = "BOLT"};
	struct row_span *span = &spans->v[fn->span];
	uint32_t n = 0;

	rows[BLOCK_INSNS_MAX] = (struct override_row){.off = fn->offs[k] + fn->insns[k].len};
	do { /* from the end of both arrays */
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
	return r < 0 ? r : repair(spans, img, X86_JUMP); /* second, since a jump may lead to such a `ret` */
}
