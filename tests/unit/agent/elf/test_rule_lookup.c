// SPDX-License-Identifier: Apache-2.0
/*
 * Complete rules. For real files they must agree with the rows of the table, which another interpreter made.
 * Sections written by hand have every kind of rule for a register; registers are computed by them.
 */
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"

#include <fcntl.h>

#include "agent/elf/rule_lookup.h"
#include "agent/elf/unwind_table.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/cfi/rows.h"
#include "tests/unit/machine.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

/* ---- against the rows of real files */

#define QUERIES 32
#define ROWS_EACH 640 /* rows of a file that are compared, spread over it */

static bool same_register(const struct elf_reg_rule *row, const struct frame_location *l)
{
	switch ((enum reg_rule_kind)row->kind) {
	case REG_SAME:
		return l->kind == LOCATION_UNSAID || l->kind == LOCATION_SAME;
	case REG_CFA_OFF:
		return l->kind == LOCATION_AT_CFA ? l->off == row->off : l->kind == LOCATION_AT_EXPR;
	case REG_UNDEFINED:
		return l->kind == LOCATION_UNDEFINED;
	case REG_REGISTER:
		return (l->kind == LOCATION_REGISTER && l->reg == row->reg) || l->kind == LOCATION_EXPR;
	default:
		return l->kind == LOCATION_AT_EXPR || l->kind == LOCATION_EXPR || l->kind == LOCATION_CFA;
	}
}

static bool same_rule(const struct elf_rule *row, const struct frame_rule *rule)
{
	bool cfa = rule->cfa.kind == LOCATION_EXPR;

	if (row->cfa_kind == CFA_UNDEFINED)
		return rule->regs[rule->ra_reg].kind == LOCATION_UNDEFINED;
	if (row->cfa_kind == CFA_SIGNAL)
		return rule->signal && cfa;
	if (row->cfa_kind == CFA_REG_OFF && !cfa)
		cfa = rule->cfa.kind == LOCATION_REGISTER && rule->cfa.reg == row->cfa_reg &&
		      rule->cfa.off == row->cfa_off;
	return cfa && same_register(&row->fp, &rule->regs[6]) && same_register(&row->ra, &rule->regs[16]);
}

/*
 * Excludes rows that the table rewrites because the stack pointer has a rule, and those that are not from
 * FDEs.
 */
static bool comparable(const struct frame_query *q)
{
	return q->error != -ENOENT && q->rule.regs[7].kind == LOCATION_UNSAID;
}

static size_t compare(struct elf_image *img, const struct elf_rows *t, struct frame_query *q, size_t n)
{
	size_t compared = 0;

	cr_assert_eq(frame_rules_find(img, q, n), 0);
	for (size_t i = 0; i < n; i++) {
		const struct elf_row *row = elf_rows_find(t, q[i].va);

		if (!comparable(&q[i]))
			continue;
		cr_assert_eq(q[i].error, 0, "%#" PRIx64 ": %d", q[i].va, q[i].error);
		cr_expect(same_rule(&t->rules[row->rule], &q[i].rule), "%#" PRIx64, q[i].va);
		cr_expect(q[i].rule.start <= q[i].va && q[i].va < q[i].rule.end);
		compared++;
	}
	return compared;
}

static void compare_file(const char *path)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *t = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ struct frame_query *q = calloc(QUERIES, sizeof *q);
	size_t step, n = 0, compared = 0;

	cr_assert(fd >= 0 && q, "%s", path);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(elf_rows_build(&t, img), 0);
	step = t->n_rows / ROWS_EACH + 1;
	for (size_t i = 0; i < t->n_rows; i += step) {
		if (t->rules[t->rows[i].rule].cfa_kind == CFA_NONE)
			continue;
		q[n++].va = t->rows[i].va;
		if (n == QUERIES) {
			compared += compare(img, t, q, n);
			n = 0;
		}
	}
	compared += compare(img, t, q, n);
	cr_expect_gt(compared, t->n_rows / step / 2, "%s: %zu rows", path, compared);
}

Test(frame_rule, real_files_agree_with_the_table, .timeout = 120)
{
	ONLY_ON_X86_64("files");
	compare_file("/lib/x86_64-linux-gnu/libc.so.6");
	compare_file("/lib64/ld-linux-x86-64.so.2");
	compare_file("/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
	compare_file("/proc/self/exe");
}

/* ---- steps over rules written by hand */

#define STACK 0x7000ull
#define WORDS 32
#define NONE UINT64_MAX /* unknown */

struct scene {
	uint64_t words[WORDS];
	struct frame_registers regs;
};

static int read_words(void *data, void *to, uint32_t bytes, uint64_t address)
{
	struct scene *s = data;

	if (address < STACK || address - STACK > sizeof s->words ||
	    bytes > sizeof s->words - (address - STACK))
		return -1;
	memcpy(to, (uint8_t *)s->words + (address - STACK), bytes);
	return 0;
}

/*
 * Register n has the value 100 + n, except rbx and rsp, which are STACK; memory words are 0x1000 + their
 * index.
 */
static void scene_init(struct scene *s)
{
	s->regs.known = 0x1ffff;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		s->regs.value[i] = 100 + i;
	s->regs.value[3] = s->regs.value[7] = STACK;
	for (unsigned i = 0; i < WORDS; i++)
		s->words[i] = 0x1000 + i;
}

struct step_case {
	const char *name;
	struct bytes program; /* of the FDE, after CFA = rsp + 8, RA at CFA - 8 */
	int result;
	unsigned reg;
	uint64_t value; /* value of reg in the caller */
};

static const struct step_case steps[] = {
	{"nothing said: the stack pointer is the CFA", {"", 0}, 0, 7, STACK + 8},
	{"nothing said: the return address", {"", 0}, 0, 16, 0x1000},
	{"nothing said: rbx is kept", {"", 0}, 0, 3, STACK},
	{"nothing said: r15 is kept", {"", 0}, 0, 15, 115},
	{"nothing said: rax is lost", {"", 0}, 0, 0, NONE},
	{"nothing said: r10 is lost", {"", 0}, 0, 10, NONE},
	{"same value of r10", BYTES("\x08\x0a"), 0, 10, 110},
	{"undefined rbx", BYTES("\x07\x03"), 0, 3, NONE},
	{"rbx at CFA + 16", BYTES("\x11\x03\x7e"), 0, 3, 0x1003},
	{"rbx at CFA - 8, compact", BYTES("\x83\x01"), 0, 3, 0x1000},
	{"rbx is CFA - 16", BYTES("\x14\x03\x02"), 0, 3, STACK - 8},
	{"rbx is CFA + 16", BYTES("\x15\x03\x7e"), 0, 3, STACK + 24},
	{"rbx is r12", BYTES("\x09\x03\x0c"), 0, 3, 112},
	{"rbx saved where an expression says: CFA, plus 24", BYTES("\x10\x03\x02\x23\x18"), 0, 3, 0x1004},
	{"rbx is what an expression says: *(rsp + 32) + 1", BYTES("\x16\x03\x05\x77\x20\x06\x23\x01"), 0, 3,
	 0x1005},
	{"rbx saved out of memory is lost, no more", BYTES("\x11\x03\x80\x40"), 0, 3, NONE},
	{"CFA = rbx + 32", BYTES("\x0c\x03\x20"), 0, 7, STACK + 32},
	{"CFA = *(rbx + 8) by expression: no memory for the return address", BYTES("\x0f\x03\x73\x08\x06"),
	 -EFAULT, 0, 0},
	{"CFA = rbx + 48 by expression", BYTES("\x0f\x04\x73\x00\x23\x30"), 0, 16, 0x1005},
	{"CFA = r17: not followed", BYTES("\x0c\x11\x20"), -ENODATA, 0, 0},
	{"CFA by an operation that is not followed", BYTES("\x0f\x01\x9c"), -ENOTSUP, 0, 0},
	{"restored by the CIE's rule", BYTES("\x07\x10\xd0"), 0, 16, 0x1000},
	{"remembered and restored", BYTES("\x0a\x07\x10\x0b"), 0, 16, 0x1000},
	{"the outermost", BYTES("\x07\x10"), 1, 16, 116},
	{"the stack pointer has a rule: saved at CFA + 8", BYTES("\x11\x07\x7f"), 0, 7, 0x1002},
	{"later rules do not hold yet", BYTES("\x41\x07\x03"), 0, 3, STACK},
};

static int find(struct bytes program, const char *augmentation, struct frame_query *q, size_t n)
{
	_cleanup_buf_ struct buf b = {0};
	size_t cie = put_cie(&b, EM_X86_64, augmentation, X86_START);
	struct cfi_section s;

	put_fde(&b, cie, augmentation[0] == 'z', TEXT_VA, 0x10, program);
	s = section_of(&b, EM_X86_64);
	for (size_t i = 0; i < n; i++)
		q[i].error = -ENOENT;
	return frame_rules_in_section(&s, q, n);
}

Test(frame_rule, steps)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct step_case *c = &steps[i];
		struct frame_query q = {.va = TEXT_VA};
		struct scene s;
		struct frame_memory memory = {read_words, &s, NULL};
		bool known;
		int r;

		scene_init(&s);
		cr_assert_eq(find(c->program, "", &q, 1), 0);
		cr_assert_eq(q.error, 0, "%s: %d", c->name, q.error);
		r = frame_rule_step(&q.rule, &memory, &s.regs);
		cr_expect_eq(r, c->result, "%s: %d", c->name, r);
		known = s.regs.known >> c->reg & 1;
		if (r == 0)
			cr_expect(known ? s.regs.value[c->reg] == c->value : c->value == NONE,
				  "%s: known %d, %#" PRIx64, c->name, known, s.regs.value[c->reg]);
		else
			cr_expect_eq(s.regs.known, 0x1ffff, "%s: registers changed", c->name);
	}
}

Test(frame_rule, ranges)
{
	/* at TEXT_VA + 4 the CFA becomes rsp + 16, at + 8 rsp + 24 */
	struct frame_query q[] = {{.va = TEXT_VA - 1}, {.va = TEXT_VA},	     {.va = TEXT_VA + 4},
				  {.va = TEXT_VA + 7}, {.va = TEXT_VA + 15}, {.va = TEXT_VA + 16}};
	static const int64_t offs[] = {0, 8, 16, 16, 24, 0};

	cr_assert_eq(find(BYTES("\x44\x0e\x10\x44\x0e\x18"), "zS", q, ARRAY_SIZE(q)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
		cr_expect_eq(q[i].error, offs[i] ? 0 : -ENOENT, "%zu", i);
		if (!offs[i])
			continue;
		cr_expect_eq(q[i].rule.cfa.off, offs[i], "%zu", i);
		cr_expect_eq(q[i].rule.start, TEXT_VA + (uint64_t)(offs[i] - 8) / 2, "%zu", i);
		cr_expect_eq(q[i].rule.end, offs[i] == 24 ? TEXT_VA + 16 : q[i].rule.start + 4, "%zu", i);
		cr_expect(q[i].rule.signal);
	}
}

struct damage_case {
	const char *name;
	struct bytes program;
	int error;
};

static const struct damage_case damages[] = {
	{"unknown instruction", BYTES("\x3f"), -EINVAL},
	{"truncated expression", BYTES("\x0f\x7f\x73"), -EINVAL},
	{"restore_state without remember_state", BYTES("\x0b"), 0},
	{"backwards", BYTES("\x44\x01\0\0\0\0\0\0\0\0"), -EINVAL},
	{"the damage comes behind the address", BYTES("\x4f\x3f"), 0},
};

Test(frame_rule, damaged)
{
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct frame_query q = {.va = TEXT_VA + 5};

		cr_assert_eq(find(damages[i].program, "", &q, 1), 0);
		cr_expect_eq(q.error, damages[i].error, "%s: %d", damages[i].name, q.error);
	}
}

struct fault_case {
	const char *name;
	struct bytes program;
	uint8_t cfa, rbp; /* enum frame_location_kind at TEXT_VA + 5 */
	int64_t off;	  /* of the CFA */
};

#define BELOW_ZERO "\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01"

/* What cannot be expressed holds until an instruction replaces it, as in rows (test_interpreter.c). */
static const struct fault_case faults[] = {
	{"restore_state without remember_state", BYTES("\x0b"), LOCATION_UNSUPPORTED, LOCATION_UNSUPPORTED,
	 0},
	{"and everything defined again", BYTES("\x0b\x42\x0c\x07\x10\x08\x06"), LOCATION_REGISTER,
	 LOCATION_SAME, 16},
	{"offset below zero", BYTES("\x42\x0e" BELOW_ZERO), LOCATION_UNSUPPORTED, LOCATION_UNSAID, 0},
	{"the row before it", BYTES("\x42\x0e\x10\x44\x0e" BELOW_ZERO), LOCATION_UNSUPPORTED, LOCATION_UNSAID,
	 0},
	{"a row before that", BYTES("\x42\x0e\x10\x44\x0e\x08\x41\x0e" BELOW_ZERO), LOCATION_REGISTER,
	 LOCATION_UNSAID, 16},
	{"and a good one behind it", BYTES("\x42\x0e" BELOW_ZERO "\x41\x0e\x10"), LOCATION_REGISTER,
	 LOCATION_UNSAID, 16},
	{"def_cfa_register alone keeps the offset", BYTES("\x0e" BELOW_ZERO "\x41\x0d\x06"),
	 LOCATION_UNSUPPORTED, LOCATION_UNSAID, 0},
	{"restore_state defines the CFA again", BYTES("\x0a\x0e" BELOW_ZERO "\x41\x0b"), LOCATION_REGISTER,
	 LOCATION_UNSAID, 8},
	{"register behind an expression keeps the older offset",
	 BYTES("\x0e\x18\x0f\x03\x76\x78\x06\x41\x0d\x03"), LOCATION_REGISTER, LOCATION_UNSAID, 24},
	{"factored offset overflows", BYTES("\x86\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), LOCATION_REGISTER,
	 LOCATION_UNSUPPORTED, 8},
};

Test(frame_rule, faults)
{
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		const struct fault_case *c = &faults[i];
		struct frame_query q = {.va = TEXT_VA + 5};

		cr_assert_eq(find(c->program, "", &q, 1), 0);
		cr_expect_eq(q.error, 0, "%s: %d", c->name, q.error);
		cr_expect_eq(q.rule.cfa.kind, c->cfa, "%s: %u", c->name, q.rule.cfa.kind);
		cr_expect_eq(q.rule.regs[6].kind, c->rbp, "%s: %u", c->name, q.rule.regs[6].kind);
		if (c->cfa == LOCATION_REGISTER)
			cr_expect_eq(q.rule.cfa.off, c->off, "%s: %" PRId64, c->name, q.rule.cfa.off);
	}
}

/* The expressions have more bytes than a rule holds. */
Test(frame_rule, too_many_expressions)
{
	_cleanup_buf_ struct buf program = {0};
	struct frame_query q = {.va = TEXT_VA};
	uint8_t nops[100];

	memset(nops, DW_OP_nop, sizeof nops);
	for (uint8_t reg = 8; reg < 14; reg++) {
		put_u8(&program, DW_CFA_expression);
		put_u8(&program, reg);
		put_u8(&program, sizeof nops);
		put(&program, nops, sizeof nops);
	}
	cr_assert_eq(find((struct bytes){(const char *)program.data, program.len}, "", &q, 1), 0);
	cr_expect_eq(q.error, -ENOTSUP);
}

/* Of two FDEs, the one that starts last applies, as in a table. */
Test(frame_rule, overlapping)
{
	_cleanup_buf_ struct buf b = {0};
	size_t cie = put_cie(&b, EM_X86_64, "", X86_START);
	struct frame_query q[] = {{.va = TEXT_VA + 8, .error = -ENOENT},
				  {.va = TEXT_VA + 1, .error = -ENOENT}};
	struct cfi_section s;

	put_fde(&b, cie, false, TEXT_VA + 4, 0x10, BYTES("\x0e\x20"));
	put_fde(&b, cie, false, TEXT_VA, 0x40, BYTES("\x0e\x30"));
	s = section_of(&b, EM_X86_64);
	cr_assert_eq(frame_rules_in_section(&s, q, 2), 0);
	cr_expect_eq(q[0].rule.cfa.off, 0x20);
	cr_expect_eq(q[1].rule.cfa.off, 0x30);
}
