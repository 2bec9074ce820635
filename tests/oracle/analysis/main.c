// SPDX-License-Identifier: Apache-2.0
/*
 * Analyses the code of ELF files as if they had no call-frame information, and compares the result with the
 * rows of their call-frame information, instruction by instruction. Both rules of an instruction are equal if
 * they say the same of the CFA and of the caller's frame pointer: the analysis often knows several registers
 * by which the CFA can be computed, and that of the row must be among them.
 */
#include <elf.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"

/* What came of comparing one instruction. */
enum outcome {
	EQUAL,
	CFA_DIFFERS,
	FP_DIFFERS,
	FP_BOTH,    /* the row says that rbp is unchanged, the analysis that it is saved: both may be right */
	FP_UNKNOWN, /* to the analysis: the caller's rbp is lost */
	NOT_COMPARED,	/* the row's rule has a base of which the analysis knows nothing */
	ROOT_OR_SIGNAL, /* the row is of an outermost frame or a signal frame */
	OUTCOMES,
};

static const char *const names[OUTCOMES] = {
	"equal",       "CFA differs",  "rbp differs",	     "rbp saved or unchanged",
	"rbp unknown", "not compared", "outermost or signal"};

struct comparison {
	const struct elf_rows *rows;
	uint64_t n[OUTCOMES];
	uint64_t bytes; /* of the compared instructions */
	unsigned show;	/* differences to print */
};

static const uint8_t x86_number[16] = {X86_AX, X86_DX, X86_CX, X86_BX, X86_SI, X86_DI, X86_BP, X86_SP,
				       8,      9,      10,     11,     12,     13,     14,     15};

/* 1: equal, 0: differs, -1: the analysis does not know. */
static int compare_cfa(const struct elf_rule *rule, const struct flow_state *s)
{
	const uint8_t reg = rule->cfa_reg < 16 ? x86_number[rule->cfa_reg] : X86_NO_REG;
	const struct flow_slot *slot = reg == X86_SP ? &s->sp : &s->bp;

	if (rule->cfa_kind == CFA_REG_OFF && reg < X86_REGS && s->known >> reg & 1)
		return s->reg[reg] == rule->cfa_off;
	if (rule->cfa_kind == CFA_DEREF_REG && (reg == X86_SP || reg == X86_BP) && slot->valid)
		return slot->at == rule->cfa_off && slot->add == rule->cfa_add;
	return -1;
}

static enum outcome compare(const struct elf_rule *rule, const struct flow_state *s)
{
	int cfa;

	if (rule->cfa_kind == CFA_UNDEFINED || rule->cfa_kind == CFA_SIGNAL)
		return ROOT_OR_SIGNAL;
	cfa = compare_cfa(rule, s);
	if (cfa < 0)
		return NOT_COMPARED;
	if (!cfa || rule->ra.kind != REG_CFA_OFF || rule->ra.off != -8)
		return CFA_DIFFERS;
	if (s->fp_at == FLOW_FP_LOST)
		return FP_UNKNOWN;
	if (rule->fp.kind == REG_SAME)
		return s->fp_at < 0 && !(s->known >> X86_BP & 1) ? FP_BOTH : s->fp_at ? FP_DIFFERS : EQUAL;
	/* behind `pop rbp`, GCC's rows refer to the word below rsp, which still has the value */
	if (rule->fp.kind == REG_CFA_OFF)
		return s->fp_at == rule->fp.off || (!s->fp_at && -s->reg[X86_SP] > rule->fp.off) ? EQUAL
												 : FP_DIFFERS;
	return NOT_COMPARED;
}

static void on_instruction(uint64_t va, unsigned bytes, const struct flow_state *state, void *data)
{
	struct comparison *c = data;
	const struct elf_row *row = elf_rows_find(c->rows, va);
	const struct elf_rule *rule = row ? &c->rows->rules[row->rule] : NULL;
	enum outcome o;

	if (!rule || rule->cfa_kind == CFA_NONE || rule->cfa_kind == CFA_UNSUPPORTED)
		return;
	o = compare(rule, state);
	c->n[o]++;
	c->bytes += bytes;
	if ((o == CFA_DIFFERS || o == FP_DIFFERS) && c->show) {
		c->show--;
		printf("  %#lx %s: row: CFA reg %u%+d, rbp %u at %d; code: rsp%s%d rbp%s%d, rbp at %d\n",
		       (unsigned long)va, names[o], rule->cfa_reg, rule->cfa_off, rule->fp.kind, rule->fp.off,
		       state->known >> X86_SP & 1 ? "+" : "?", state->reg[X86_SP],
		       state->known >> X86_BP & 1 ? "+" : "?", state->reg[X86_BP], state->fp_at);
	}
}

/* 0, or -1 when the file has nothing to compare. */
static int compare_file(const char *path, unsigned show, uint64_t totals[OUTCOMES], uint64_t *described,
			uint64_t *compared)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_image *img = NULL;
	struct elf_rows *rows = NULL;
	struct comparison c = {.show = show};
	const struct code_observer observer = {on_instruction, &c};
	int r = -1;

	if (fd < 0 || elf_image_open(&img, fd) < 0)
		return -1;
	if (elf_image_machine(img) == EM_X86_64 && elf_rows_build(&rows, img) == 0 && rows->n_fdes &&
	    !rows->n_functions) {
		c.rows = rows;
		r = asmrows_observe(img, &observer);
		printf("%s: %lu instructions equal, %lu CFA, %lu rbp differ, %lu rbp unknown, %lu not "
		       "compared; %lu "
		       "of %lu bytes\n",
		       path, (unsigned long)c.n[EQUAL], (unsigned long)c.n[CFA_DIFFERS],
		       (unsigned long)c.n[FP_DIFFERS], (unsigned long)c.n[FP_UNKNOWN],
		       (unsigned long)c.n[NOT_COMPARED], (unsigned long)c.bytes,
		       (unsigned long)rows->described_bytes);
		for (int i = 0; i < OUTCOMES; i++)
			totals[i] += c.n[i];
		*described += rows->described_bytes;
		*compared += c.bytes;
	}
	elf_rows_free(rows);
	elf_image_free(img);
	return r;
}

int main(int argc, char **argv)
{
	uint64_t totals[OUTCOMES] = {0}, described = 0, compared = 0;
	unsigned files = 0, show = 0;

	if (argc > 2 && strcmp(argv[1], "--show") == 0) {
		show = (unsigned)atoi(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		printf("usage: code_analysis [--show N] FILE...\n\n"
		       "Compares what the analysis of code says with the call-frame information of each "
		       "file.\n"
		       "--show: the first N differences of each file.\n");
		return argc < 2 ? 2 : 0;
	}
	for (int i = 1; i < argc; i++)
		files += compare_file(argv[i], show, totals, &described, &compared) == 0;
	printf("total: %u files", files);
	for (int i = 0; i < OUTCOMES; i++)
		printf(", %lu %s", (unsigned long)totals[i], names[i]);
	printf("; %lu of %lu bytes (%.2f %%)\n", (unsigned long)compared, (unsigned long)described,
	       described ? 100.0 * (double)compared / (double)described : 0.0);
	return 0;
}
