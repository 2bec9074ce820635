// SPDX-License-Identifier: Apache-2.0
/* FDEs that contradict their code are recognised by the code only, and their rows are replaced. */
#include "agent/elf/code/override.h"

#include "tests/unit/agent/elf/elf_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

/* push %rbx; call; pop %rbx; ret: a frame that the FDEs below do not describe */
#define LYING "\x53\xe8\x01\x02\x03\x04\x5b\xc3"
#define LYING_CALLS_OTHER "\x53\xe8\xe8\x99\x98\xff\x5b\xc3"
#define LYING_OTHERWISE "\x55\xe8\x01\x02\x03\x04\x5d\xc3"
#define LYING_BYTES 8
#define ENDBR64 "\xf3\x0f\x1e\xfa"

static const struct elf_rule rsp_16 = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = X86_RSP, .cfa_off = 16, .ra = {.kind = REG_CFA_OFF, .off = -8}};
static const struct elf_rule rbp_16 = {.cfa_kind = CFA_REG_OFF,
				       .cfa_reg = X86_RBP,
				       .cfa_off = 16,
				       .fp = {.kind = REG_CFA_OFF, .off = -16},
				       .ra = {.kind = REG_CFA_OFF, .off = -8}};
static const struct override_row rows[] = {{1, &rsp_16}, {3, &rbp_16}, {7, NULL}};

struct lie_case {
	const char *name;
	struct bytes code; /* at TEXT_VA */
	uint64_t fde_bytes;
	struct bytes program;
	const char *expected;
};

static const struct lie_case lies[] = {
	{"listed", BYTES(LYING), LYING_BYTES, BYTES(""),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rbp+16 cfa-16 cfa-8; 1007 rsp+8 same cfa-8; "
	 "1008 none | 1001..1007 lying"},
	{"calls something else", BYTES(LYING_CALLS_OTHER), LYING_BYTES, BYTES(""),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rbp+16 cfa-16 cfa-8; 1007 rsp+8 same cfa-8; "
	 "1008 none | 1001..1007 lying"},
	{"rows of its own between and behind", BYTES(LYING), LYING_BYTES,
	 BYTES("\x42\x0e\x20\x41\x0e\x28\x44\x0e\x30"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rbp+16 cfa-16 cfa-8; 1007 rsp+48 same cfa-8; "
	 "1008 none | 1001..1007 lying"},
	{"its own rule holds again", BYTES(LYING), LYING_BYTES, BYTES("\x42\x0e\x20"),
	 "1000 rsp+8 same cfa-8; 1001 rsp+16 same cfa-8; 1003 rbp+16 cfa-16 cfa-8; 1007 rsp+32 same cfa-8; "
	 "1008 none | 1001..1007 lying"},
	{"other code", BYTES(LYING_OTHERWISE), LYING_BYTES, BYTES(""), "1000 rsp+8 same cfa-8; 1008 none"},
	{"another length", BYTES(LYING), LYING_BYTES + 1, BYTES(""), "1000 rsp+8 same cfa-8; 1009 none"},
	{"the same length modulo 64", BYTES(LYING), LYING_BYTES + 64, BYTES(""),
	 "1000 rsp+8 same cfa-8; 1048 none"},
	{"root behind endbr64", BYTES(ENDBR64 "\x31\xed"), 6, BYTES("\x44\x07\x10"),
	 "1000 rsp+8 same undef; 1006 none | 1000..1004 _start"},
	{"root behind something else", BYTES("\x55\x55\x55\x55\x31\xed"), 6, BYTES("\x44\x07\x10"),
	 "1000 rsp+8 same cfa-8; 1004 rsp+8 same undef; 1006 none"},
	{"root later", BYTES(ENDBR64 "\x31\xed"), 6, BYTES("\x45\x07\x10"),
	 "1000 rsp+8 same cfa-8; 1005 rsp+8 same undef; 1006 none"},
	{"no root behind endbr64", BYTES(ENDBR64 "\x55"), 5, BYTES("\x44\x0e\x10"),
	 "1000 rsp+8 same cfa-8; 1004 rsp+16 same cfa-8; 1005 none"},
};

/* `cfi` is the machine of the call-frame information, `machine` that of the file. */
static void check_lie_of(const struct lie_case *c, const struct override *list, size_t n, uint16_t cfi,
			 uint16_t machine, const char *expected)
{
	char code[0x80] = {0};
	const struct file_section text = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
	_cleanup_buf_ struct buf eh = {0}, out = {0};
	size_t cie = put_cie(&eh, cfi, "", cfi == EM_AARCH64 ? ARM64_START : X86_START);
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};
	size_t n_segments;

	memcpy(code, c->code.data, c->code.len);
	put_fde(&eh, cie, false, TEXT_VA, c->fde_bytes, c->program);
	const struct cfi_section s = section_of(&eh, cfi);
	struct elf_image *img = file_image(machine, &text, 1, 0);
	const struct elf_segment *segments = elf_image_segments(img, &n_segments);

	cr_assert_eq(row_spans_init(&spans, segments, n_segments), 0);
	cr_assert_eq(fdes_read(&spans, &s), 0);
	cr_assert_eq(override_apply(&spans, img, list, n), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &t), 0);
	row_spans_fini(&spans);
	put_table(&out, t, cfi);
	cr_expect_str_eq(buf_str(&out), expected, "%s:\n  found    %s\n  expected %s", c->name, buf_str(&out),
			 expected);
	elf_rows_free(t);
	elf_image_free(img);
}

static void check_lie(const struct lie_case *c, const struct override *list, size_t n, uint16_t machine,
		      const char *expected)
{
	check_lie_of(c, list, n, EM_X86_64, machine, expected);
}

static struct override lying_entry(void)
{
	return (struct override){.name = "lying",
				 .fde_bytes = LYING_BYTES,
				 .to = LYING_BYTES,
				 .code = override_code((const uint8_t *)LYING, LYING_BYTES),
				 .rows = rows,
				 .n_rows = ARRAY_SIZE(rows)};
}

Test(override, listed_code_and_no_other)
{
	const struct override entry = lying_entry();

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++)
		check_lie(&lies[i], &entry, 1, EM_X86_64, lies[i].expected);
}

Test(override, a_part_of_the_code)
{
	struct override entry = lying_entry();

	/* compares the code behind the push */
	entry.from = 1;
	entry.to = 6;
	entry.code = override_code((const uint8_t *)LYING + 1, 5);
	const struct lie_case other = {"part", BYTES(LYING_OTHERWISE), LYING_BYTES, BYTES(""), ""};
	check_lie(&other, &entry, 1, EM_X86_64, lies[0].expected);
	entry.to = LYING_BYTES;
	check_lie(&other, &entry, 1, EM_X86_64, "1000 rsp+8 same cfa-8; 1008 none");
}

Test(override, code_that_is_not_in_the_file)
{
	struct override entry = lying_entry();

	entry.from = 0x7c;
	entry.to = 0x7c + LYING_BYTES;
	check_lie(&lies[0], &entry, 1, EM_X86_64, "1000 rsp+8 same cfa-8; 1008 none");
	entry.from = 0;
	entry.to = OVERRIDE_CODE_MAX + 1;
	check_lie(&lies[0], &entry, 1, EM_X86_64, "1000 rsp+8 same cfa-8; 1008 none");
}

Test(override, other_machines_do_not_change)
{
	const struct override entry = lying_entry();

	check_lie(&lies[0], &entry, 1, EM_AARCH64, "1000 rsp+8 same cfa-8; 1008 none");
}

Test(override, code_without_the_targets_of_calls)
{
	const char *a = "\xe8\1\2\3\4\x90", *b = "\xe8\xe8\6\7\x8\x90", *c = "\xe8\1\2\3\4\x91",
		   *got = "\xff\x15\1\2\3\4", *other_got = "\xff\x15\xe8\xff\x15\4",
		   *data = "\xff\x35\1\2\3\4", *other_data = "\xff\x35\1\2\3\5";

	cr_expect_eq(override_code((const uint8_t *)"", 0), 0xcbf29ce484222325);
	cr_expect_eq(override_code((const uint8_t *)"a", 1), 0xaf63dc4c8601ec8c, "FNV-1a");
	cr_expect_eq(override_code((const uint8_t *)a, 6), override_code((const uint8_t *)b, 6));
	cr_expect_neq(override_code((const uint8_t *)a, 6), override_code((const uint8_t *)c, 6));
	cr_expect_eq(override_code((const uint8_t *)a, 2), override_code((const uint8_t *)b, 2), "cut off");
	cr_expect_eq(override_code((const uint8_t *)got, 6), override_code((const uint8_t *)other_got, 6));
	cr_expect_neq(override_code((const uint8_t *)data, 6), override_code((const uint8_t *)other_data, 6));
}

Test(override, the_list_is_well_formed)
{
	for (size_t i = 0; i < override_list_n; i++) {
		const struct override *o = &override_list[i];

		cr_expect(i == 0 || o[-1].fde_bytes <= o->fde_bytes, "%s", o->name);
		cr_expect_lt(o->from, o->to, "%s", o->name);
		cr_expect_leq(o->to, o->fde_bytes, "%s", o->name);
		cr_expect_leq(o->to - o->from, OVERRIDE_CODE_MAX, "%s", o->name);
		cr_assert_geq(o->n_rows, 2, "%s", o->name);
		cr_expect_not_null(o->rows[0].rule, "%s", o->name);
		cr_expect_null(o->rows[o->n_rows - 1].rule, "%s", o->name);
		for (size_t k = 1; k < o->n_rows; k++)
			cr_expect_lt(o->rows[k - 1].off, o->rows[k].off, "%s", o->name);
		cr_expect_leq(o->rows[o->n_rows - 1].off, o->fde_bytes, "%s", o->name);
	}
}

/* --- the C library of this system */

struct library {
	char path[4096];
};

static int is_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library *l = data;

	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so") && !strstr(info->dlpi_name, "/libc-"))
		return 0;
	snprintf(l->path, sizeof(l->path), "%s", info->dlpi_name);
	return 1;
}

static const struct elf_rule *rule_at(const struct elf_rows *t, uint64_t va)
{
	const struct elf_row *row = elf_rows_find(t, va);

	return row ? &t->rules[row->rule] : NULL;
}

/* push %rbx; push %rbp; lea (%rdx),%rbx */
static const uint8_t mul_1_begin[] = {0x53, 0x55, 0x48, 0x8d, 0x1a};

static void check_mul_1(const struct elf_rows *t, const struct elf_image *img, const struct elf_overridden *o)
{
	const struct elf_segment *s = elf_image_segment_at(img, o->start);
	uint8_t code[sizeof(mul_1_begin)], end[3];

	cr_assert_not_null(s);
	uint64_t to_offset = s->offset - s->va;
	cr_assert_eq(elf_image_pread(img, o->start - 1 + to_offset, code, sizeof(code)), 0);
	cr_assert_eq(elf_image_pread(img, o->end - 2 + to_offset, end, sizeof(end)), 0);
	cr_expect_arr_eq(code, mul_1_begin, sizeof(code));
	cr_expect_arr_eq(end, "\x5d\x5b\xc3", sizeof(end), "pop %%rbp; pop %%rbx; ret");
	cr_expect_eq(rule_at(t, o->start - 1)->cfa_off, 8);
	cr_expect_eq(rule_at(t, o->start)->cfa_off, 16);
	cr_expect_eq(rule_at(t, o->start + 1)->cfa_off, 24);
	cr_expect_eq(rule_at(t, o->start + 1)->fp.off, -24);
	cr_expect_eq(rule_at(t, o->end - 2)->cfa_off, 24);
	cr_expect_eq(rule_at(t, o->end - 1)->cfa_off, 16);
	cr_expect_eq(rule_at(t, o->end)->cfa_off, 8);
}

Test(override, the_c_library)
{
	struct library l = {0};
	struct elf_image *img = NULL;
	struct elf_rows *t = NULL;

	cr_assert(dl_iterate_phdr(is_libc, &l), "no libc among the loaded objects");
	_cleanup_close_ int fd = open(l.path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	cr_assert_eq(elf_rows_build(&t, img), 0);
	cr_expect_leq(t->n_overridden, override_list_n);
	for (size_t i = 0; i < t->n_overridden; i++)
		if (strncmp(t->overridden[i].name, "__mpn_", 6) == 0)
			check_mul_1(t, img, &t->overridden[i]);
	elf_rows_free(t);
	elf_image_free(img);
}

/* --- complete rules */

static int read_word(void *data, void *to, uint32_t bytes, uint64_t address)
{
	const uint64_t *stack = data; /* its address is 0x1000 */

	if (address < 0x1000 || address + bytes > 0x1000 + 32 * 8)
		return -EFAULT;
	memcpy(to, (const uint8_t *)stack + (address - 0x1000), bytes);
	return 0;
}

/*
 * Computes the caller of the code above by its complete rule: frame pointer and return address must be where
 * `by` says.
 */
static void check_complete(const struct elf_rule *by, uint64_t rdx, uint64_t sp, uint64_t fp, uint64_t ra)
{
	const struct override_row one[] = {{1, by}, {7, NULL}};
	struct override entry = lying_entry();
	char code[0x80] = {0};
	const struct file_section text = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
	uint64_t stack[32];
	const struct frame_memory memory = {read_word, stack, NULL};
	struct frame_registers regs = {.known = (1u << 17) - 1};
	struct frame_query q = {.va = TEXT_VA + 2,
				.fde_start = TEXT_VA,
				.fde_end = TEXT_VA + LYING_BYTES,
				.rule = {.ra_reg = 16}};

	q.rule.sp_reg = X86_RSP;
	memcpy(code, LYING, LYING_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(stack); i++)
		stack[i] = 0x1000 + i;
	regs.value[X86_RDX] = rdx;
	regs.value[X86_RSP] = 0x1000;
	regs.value[X86_RBP] = 0x1080;
	entry.rows = one;
	entry.n_rows = 2;
	struct elf_image *img = file_image(EM_X86_64, &text, 1, 0);
	override_complete(img, &q, &entry, 1);
	cr_assert_eq(frame_rule_step(&q.rule, &memory, &regs), 0);
	cr_expect_eq(regs.value[X86_RSP], sp);
	cr_expect_eq(regs.value[X86_RBP], fp);
	cr_expect_eq(regs.value[X86_RIP], ra);
	cr_expect_eq(regs.known, 1u << X86_RSP | 1u << X86_RBP | 1u << X86_RIP,
		     "of the others nothing is known");
	elf_image_free(img);
}

Test(override, complete_rules)
{
	static const struct elf_rule context = {
		.cfa_kind = CFA_DEREF_REG,
		.cfa_reg = X86_RDX,
		.cfa_off = 160,
		.fp = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = 120},
		.ra = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = -8},
	};
	static const struct elf_rule saved = {.cfa_kind = CFA_REG_OFF,
					      .cfa_reg = X86_RSP,
					      .cfa_off = 24,
					      .fp = {.kind = REG_CFA_OFF, .off = -24},
					      .ra = {.kind = REG_CFA_OFF, .off = -8}};

	check_complete(&context, 0x1008, 0x1000 + 21, 0x1000 + 16, 0x1000);
	check_complete(&saved, 0, 0x1018, 0x1000, 0x1002);
	check_complete(&rsp_16, 0, 0x1010, 0x1080, 0x1001);
}

/*
 * glibc's _dl_runtime_resolve: the PLT has pushed two words, above the CFA that the FDE means. Its first
 * instruction is a landing pad or a nop, and only behind that the FDE says where the return address is.
 */
Test(override, the_resolver_of_arm64)
{
	/* nop; stp x8, x9, [sp, #-208]!; ldp x8, x9, [sp], #208; ldp x17, x30, [sp], #16; br x16 */
	const struct lie_case c = {
		"resolver",
		BYTES("\x1f\x20\x03\xd5\xe8\x27\xb3\xa9\xe8\x27\xcd\xa8\xf1\x7b\xc1\xa8\x00\x02\x1f\xd6"), 20,
		/* ra at cfa+8; cfa sp+208; cfa sp+0; cfa sp-16 */
		BYTES("\x41\x11\x1e\x7f\x41\x0e\xd0\x01\x41\x0e\x00\x41\x13\x02"),
		"1000 sp+16 same cfa-8; 1008 sp+224 same cfa-8; 100c sp+16 same cfa-8; 1010 sp+0 same x30; "
		"1014 none | 1000..1014 _dl_runtime_resolve"};

	check_lie_of(&c, NULL, 0, EM_AARCH64, EM_AARCH64, c.expected);
}
