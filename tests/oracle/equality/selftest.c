// SPDX-License-Identifier: Apache-2.0
/*
 * Compares two small dumps in the form of readelf with a table that is right for both. Then one line of the
 * table at a time is made wrong in every possible way, and each error must be found.
 */
#include "tests/oracle/equality/selftest.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "tests/oracle/equality/compare.h"

#define TABLE_BYTES 4096

static unsigned failures, checks;

static void expect(bool ok, const char *what, const char *detail)
{
	checks++;
	if (ok)
		return;
	failures++;
	printf("FAIL: %s%s%s\n", what, *detail ? ": " : "", detail);
}

#define HEAD "   LOC           CFA      "
#define CIE                                                                     \
	"00000000 0000000000000014 00000000 CIE \"zR\" cf=1 df=-8 ra=16\n" HEAD \
	"ra    \n0000000000000000 rsp+8    c-8   \n\n"

static const char interpreted[] =
	"Contents of the .eh_frame section:\n\n\n" CIE
	/* a procedure linkage table */
	"00000018 0000000000000024 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001030\n" HEAD
	"ra    \n"
	"0000000000001000 rsp+16   c-8   \n0000000000001006 rsp+24   c-8   \n0000000000001010 exp      c-8   "
	"\n\n"
	/* nothing but nops */
	"00000040 0000000000000014 00000044 FDE cie=00000000 pc=0000000000001030..0000000000001040\n\n"
	/* a frame pointer; a row behind the end */
	"00000058 0000000000000024 0000005c FDE cie=00000000 pc=0000000000001050..0000000000001060\n" HEAD
	"rbx   rbp   ra    \n0000000000001050 rsp+8    u     u     c-8   \n0000000000001051 rsp+16   u     "
	"c-16  c-8   \n"
	"0000000000001054 rbp+16   c-24  c-16  c-8   \n0000000000001060 rsp+8    c-24  c-16  c-8   \n\n"
	/* longjmp, and the return address in a register */
	"00000080 0000000000000024 00000084 FDE cie=00000000 pc=0000000000001100..0000000000001120\n" HEAD
	"rbp   rsp   ra    \n0000000000001100 rsp+8    u     u     c-8   \n"
	"0000000000001108 rdi+8    r9 (r9) r8 (r8) r1 (rdx) \n0000000000001110 rdi+0    c+8   c+48  c+56  \n"
	"0000000000001118 rsp+8    s     u     r5 (rdi) \n\n"
	/* overlapping: the inner one holds, then the outer one again */
	"000000a8 0000000000000014 000000ac FDE cie=00000000 pc=0000000000001200..0000000000001220\n" HEAD
	"ra    \n0000000000001200 rsp+32   c-8   \n\n"
	"000000c0 0000000000000014 000000c4 FDE cie=00000000 pc=0000000000001208..0000000000001210\n" HEAD
	"ra    \n0000000000001208 rsp+40   c-8   \n\n"
	"000000d8 0000000000000014 00000000 CIE \"zRS\" cf=1 df=-8 ra=16\n" HEAD
	"ra    \n0000000000000000 rsp+8    c-8   \n\n"
	/* a signal trampoline */
	"000000f0 0000000000000014 0000001c FDE cie=000000d8 pc=0000000000001300..0000000000001308\n" HEAD
	"rbp   rsp   ra    \n0000000000001300 exp      exp   exp   exp   \n\n"
	/* outermost; no length */
	"00000108 0000000000000014 0000010c FDE cie=00000000 pc=0000000000001400..0000000000001410\n" HEAD
	"ra    \n0000000000001400 rsp+8    u     \n\n"
	"00000120 0000000000000014 00000124 FDE cie=00000000 pc=0000000000001500..0000000000001500\n\n"
	/* nothing but nops, below a CIE with an expression */
	"00000138 0000000000000014 00000000 CIE \"zR\" cf=1 df=-8 ra=16\n" HEAD
	"ra    \n0000000000000000 exp      c-8   \n\n"
	"00000150 0000000000000014 0000001c FDE cie=00000138 pc=0000000000001600..0000000000001610\n\n"
	"00000168 ZERO terminator\n\n\n"
	"Contents of the .debug_frame section:\n\n\n" CIE
	/* covered by .eh_frame in its first half; at address 0 */
	"00000018 0000000000000014 00000000 FDE cie=00000000 pc=0000000000001400..0000000000001420\n" HEAD
	"rbp   ra    \n0000000000001400 rsp+48   c-16  c-8   \n\n"
	"00000030 0000000000000014 00000000 FDE cie=00000000 pc=0000000000000000..0000000000000420\n" HEAD
	"rbp   ra    \n0000000000000000 rsp+48   c-16  c-8   \n\n";

static const char raw[] =
	"Contents of the .eh_frame section:\n\n\n"
	"00000000 0000000000000014 00000000 CIE\n  Version:               1\n  Augmentation:          "
	"\"zR\"\n"
	"  DW_CFA_def_cfa: r7 (rsp) ofs 8\n  DW_CFA_offset: r16 (rip) at cfa-8\n\n"
	"00000018 0000000000000024 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001030\n"
	"  DW_CFA_def_cfa_offset: 16\n  DW_CFA_advance_loc: 6 to 0000000000001006\n  DW_CFA_def_cfa_offset: "
	"24\n"
	"  DW_CFA_advance_loc: 10 to 0000000000001010\n"
	"  DW_CFA_def_cfa_expression (DW_OP_breg7 (rsp): 8; DW_OP_breg16 (rip): 0; DW_OP_lit15; DW_OP_and; "
	"DW_OP_lit11; "
	"DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus)\n  DW_CFA_nop\n\n"
	"00000040 0000000000000014 00000044 FDE cie=00000000 pc=0000000000001030..0000000000001040\n  "
	"DW_CFA_nop\n\n"
	"00000058 0000000000000024 0000005c FDE cie=00000000 pc=0000000000001050..0000000000001060\n\n"
	"00000080 0000000000000024 00000084 FDE cie=00000000 pc=0000000000001100..0000000000001120\n\n"
	"000000a8 0000000000000014 000000ac FDE cie=00000000 pc=0000000000001200..0000000000001220\n\n"
	"000000c0 0000000000000014 000000c4 FDE cie=00000000 pc=0000000000001208..0000000000001210\n\n"
	"000000d8 0000000000000014 00000000 CIE\n  Augmentation:          \"zRS\"\n\n"
	"000000f0 0000000000000014 0000001c FDE cie=000000d8 pc=0000000000001300..0000000000001308\n"
	"  DW_CFA_def_cfa_expression (DW_OP_breg7 (rsp): 160; DW_OP_deref)\n"
	"  DW_CFA_expression: r6 (rbp) (DW_OP_breg7 (rsp): 120)\n  DW_CFA_expression: r7 (rsp) (DW_OP_breg7 "
	"(rsp): 160)\n"
	"  DW_CFA_expression: r16 (rip) (DW_OP_breg7 (rsp): 168)\n\n"
	"00000108 0000000000000014 0000010c FDE cie=00000000 pc=0000000000001400..0000000000001410\n\n"
	"00000120 0000000000000014 00000124 FDE cie=00000000 pc=0000000000001500..0000000000001500\n\n"
	"00000138 0000000000000014 00000000 CIE\n"
	"  DW_CFA_def_cfa_expression (DW_OP_breg6 (rbp): -16; DW_OP_deref)\n\n"
	"00000150 0000000000000014 0000001c FDE cie=00000138 pc=0000000000001600..0000000000001610\n  "
	"DW_CFA_nop\n\n"
	"not an entry: the reader has stopped before\n";

#define ROW(start, end, columns) "000000000000" #start "\t000000000000" #end "\t" columns "\n"

static const char right[] = ROW(1000, 1006, "rsp+16\tsame\tcfa-8") ROW(1006, 1010, "rsp+24\tsame\tcfa-8")
	ROW(1010, 1030, "plt(rsp+8,11)\tsame\tcfa-8") ROW(1030, 1040, "rsp+8\tsame\tcfa-8")
		ROW(1050, 1051, "rsp+8\tsame\tcfa-8") ROW(1051, 1054, "rsp+16\tcfa-16\tcfa-8")
			ROW(1054, 1064, "rbp+16\tcfa-16\tcfa-8") /* four bytes of padding */
	ROW(1070, 1090, "rsp+8\tsame\tcfa-8")			 /* .plt.got */
	ROW(1100, 1108, "rsp+8\tsame\tcfa-8") ROW(1108, 1110, "r8+0\tr9\trdx")
		ROW(1110, 1118, "*(rdi+48)\t*(rdi+8)\t*(rdi+56)") ROW(1118, 1120, "rsp+8\tsame\trdi")
			ROW(1200, 1208, "rsp+32\tsame\tcfa-8") ROW(1208, 1210, "rsp+40\tsame\tcfa-8")
				ROW(1210, 1220, "rsp+32\tsame\tcfa-8") ROW(12ff, 1300, "undef\tsame\tundef")
					ROW(1300, 1308, "signal\t*(rsp+120)\t*(rsp+168)")
						ROW(1400, 1410, "rsp+8\tsame\tundef")
							ROW(1410, 1420, "rsp+48\tcfa-16\tcfa-8")
								ROW(1600, 1610, "*(rbp-16)\tsame\tcfa-8");

/* Compares a table with the dumps; each of the two may be NULL. -errno as of the readers. */
static int run(const char *table, const struct layout_skip *skip, const struct compare_range *overridden,
	       struct compare_result *ret)
{
	_cleanup_(texts_fini) struct texts texts = {0};
	_cleanup_(frames_fini) struct frames frames = {0};
	_cleanup_(expressions_fini) struct expressions expressions = {0};
	_cleanup_(table_fini) struct table t = {0};
	_cleanup_(expected_fini) struct expected expected = {0};
	struct binary_section plt = {0x1070, 0x1090, true};
	struct lines of_frames, of_raw, of_table;

	texts_init(&texts);
	expected_init(&expected, &frames, &expressions);
	expected.texts = &texts;
	int r = lines_open_string(&of_frames, interpreted);
	if (r == 0)
		r = frames_read(&frames, "", &texts, &of_frames);
	lines_close(&of_frames);
	if (r < 0)
		return r;
	r = lines_open_string(&of_raw, raw);
	if (r == 0)
		r = expressions_read(&expressions, &frames, &of_raw);
	lines_close(&of_raw);
	if (r < 0)
		return r;
	r = lines_open_string(&of_table, table);
	if (r == 0)
		r = table_read(&t, &texts, &of_table);
	lines_close(&of_table);
	const struct compare_input in = {.expected = &expected,
					 .table = &t,
					 .binary = &(struct binary){.sections = &plt, .n = 1},
					 .skips = skip,
					 .n_skips = skip != NULL,
					 .overridden = overridden,
					 .n_overridden = overridden != NULL};
	return r < 0 ? r : compare_run(&in, ret);
}

static void check_right(void)
{
	const struct layout_skip inner = {EH_FRAME, 0xc0, false};
	struct compare_result result = {0};

	expect(run(right, NULL, NULL, &result) == 0 && result.differing == 0, "the right table", "");
	expect(result.rows == 18, "rows compared", "");
	expect(result.counts[COUNT_PADDING] == 1 && result.counts[COUNT_PLT] == 1 &&
		       result.counts[COUNT_ROOT] == 1,
	       "what is counted", "");
	expect(run(right, &inner, NULL, &result) == 0 && result.differing == 1 &&
		       result.counts[COUNT_SKIPPED] == 1,
	       "an FDE that was skipped", "");
}

/* Returns `right` with line `n` replaced by `line`; "" removes it. */
static void replace_line(size_t n, const char *line, char ret[TABLE_BYTES])
{
	const char *at = right;

	for (size_t i = 0; i < n; i++)
		at = strchr(at, '\n') + 1;
	snprintf(ret, TABLE_BYTES, "%.*s%s%s%s", (int)(at - right), right, line, *line ? "\n" : "",
		 strchr(at, '\n') + 1);
}

/* One row is replaced in its middle, as for a function on the override list. */
static void check_overridden(void)
{
	static const char line[] = ROW(1200, 1202, "rsp+32\tsame\tcfa-8")
		ROW(1202, 1204, "rsp+64\trdi\tcfa-16") ROW(1204, 1208, "rsp+32\tsame\tcfa-8");
	const struct compare_range range = {0x1202, 0x1204}, short_range = {0x1202, 0x1203};
	struct compare_result result = {0};
	char table[TABLE_BYTES], own[sizeof line];

	snprintf(own, sizeof own, "%.*s", (int)sizeof line - 2, line); /* without the last newline */
	replace_line(12, own, table);
	expect(run(table, NULL, &range, &result) == 0 && result.differing == 0 && result.rows == 19 &&
		       result.counts[COUNT_OVERRIDDEN] == 1,
	       "an overridden row", "");
	expect(run(table, NULL, &short_range, &result) == 0 && result.differing == 1,
	       "a row behind what is overridden", "");
	expect(run(table, NULL, NULL, &result) == 0 && result.differing == 1, "a row overridden unsaid", "");
}

/* Of an FDE that was skipped in part, a row is as in the FDE or unsupported. */
static void check_in_part(void)
{
	static const char line[] = ROW(1208, 1210, "unsupported\tsame\tcfa-8");
	const struct layout_skip part = {EH_FRAME, 0xc0, true};
	struct compare_result result = {0};
	char table[TABLE_BYTES], own[sizeof line];

	snprintf(own, sizeof own, "%.*s", (int)sizeof line - 2, line); /* without the last newline */
	replace_line(13, own, table);
	expect(run(table, &part, NULL, &result) == 0 && result.differing == 0 &&
		       result.counts[COUNT_SKIPPED] == 1,
	       "an unsupported row of an FDE skipped in part", "");
	expect(run(right, &part, NULL, &result) == 0 && result.differing == 0,
	       "a good row of an FDE skipped in part", "");
	expect(run(table, NULL, NULL, &result) == 0 && result.differing == 1, "an unsupported row", "");
	own[strlen("0000000000001208\t0000000000001210\t")] = 'U'; /* neither */
	replace_line(13, own, table);
	expect(run(table, &part, NULL, &result) == 0 && result.differing == 1,
	       "a wrong row of an FDE skipped in part", "");
}

static void must_be_found(size_t n, const char *line, const char *what)
{
	struct compare_result result = {0};
	char table[TABLE_BYTES];

	replace_line(n, line, table);
	expect(run(table, NULL, NULL, &result) == 0 && result.differing > 0, what, line);
}

struct parts {
	unsigned long long start, end;
	char cfa[32], fp[32], ra[32];
};

static void print_parts(const struct parts *p, char ret[256])
{
	snprintf(ret, 256, "%016llx\t%016llx\t%s\t%s\t%s", p->start, p->end, p->cfa, p->fp, p->ra);
}

static void plant(size_t n, const struct parts *p, bool in_fde)
{
	static const char *const cfas[] = {"rsp+56", "rbp+24", "unsupported", "plt(rsp+8,9)", "undef"},
				 *const fps[] = {"cfa-24", "rbx", "unsupported", "*(rsp+128)"},
				 *const ras[] = {"cfa-16", "unsupported", "rax", "*(rsp+176)"};
	struct parts q;
	char line[256];

	for (size_t i = 0; i < ARRAY_SIZE(cfas) && in_fde; i++) {
		if (strcmp(cfas[i], "undef") == 0 && strcmp(p->ra, "undef") == 0)
			continue; /* what the CFA of an outermost frame would be says nothing */
		q = *p;
		snprintf(q.cfa, sizeof q.cfa, "%s", cfas[i]);
		print_parts(&q, line);
		must_be_found(n, line, "a wrong CFA is not found");
	}
	for (size_t i = 0; i < ARRAY_SIZE(fps) && in_fde; i++) {
		q = *p;
		snprintf(q.fp, sizeof q.fp, "%s", fps[i]);
		print_parts(&q, line);
		must_be_found(n, line, "a wrong frame pointer is not found");
	}
	for (size_t i = 0; i < ARRAY_SIZE(ras) && in_fde; i++) {
		q = *p;
		snprintf(q.ra, sizeof q.ra, "%s", ras[i]);
		print_parts(&q, line);
		must_be_found(n, line, "a wrong return address is not found");
	}
	q = *p;
	q.start++;
	print_parts(&q, line);
	if (in_fde && q.start < q.end)
		must_be_found(n, line, "a row that begins late is not found");
	if (in_fde)
		must_be_found(n, "", "a missing row is not found");
}

static void check_planted(void)
{
	char copy[sizeof right], *rest = copy, *line;

	memcpy(copy, right, sizeof right);
	for (size_t n = 0; (line = strsep(&rest, "\n")) && *line; n++) {
		struct parts p;

		bool ok = sscanf(line, "%llx\t%llx\t%31s\t%31s\t%31s", &p.start, &p.end, p.cfa, p.fp, p.ra) ==
			  5;
		expect(ok, "a line of the right table", line);
		if (ok)
			plant(n, &p, p.start != 0x1070 && p.start != 0x12ff);
	}
	must_be_found(6, "0000000000001054\t0000000000001070\trbp+16\tcfa-16\tcfa-8",
		      "padding of 16 bytes is not found");
	must_be_found(6,
		      "0000000000001054\t0000000000001060\trbp+16\tcfa-16\tcfa-8\n"
		      "0000000000001060\t0000000000001064\trsp+8\tsame\tcfa-8",
		      "another row in padding is not found");
	must_be_found(7, "0000000000001070\t0000000000001098\trsp+8\tsame\tcfa-8",
		      "a row behind the .plt is not found");
	must_be_found(15, "00000000000012fe\t0000000000001300\tundef\tsame\tundef",
		      "a root of two bytes is not found");
	must_be_found(15, "00000000000012ff\t0000000000001300\trsp+8\tsame\tundef",
		      "a root with a CFA is not found");
}

static void check_texts(void)
{
	static const struct {
		const char *ops, *text;
	} known[] = {
		{"DW_OP_breg7 (rsp): 8", "rsp+8"},
		{"DW_OP_breg6 (rbp): -56; DW_OP_deref", "*(rbp-56)"},
		{"DW_OP_breg7 (rsp): 8; DW_OP_deref; DW_OP_plus_uconst: 16", "*(rsp+8)+16"},
		{"DW_OP_breg7 (rsp): 8; DW_OP_breg9 (r9): 1; DW_OP_lit8; DW_OP_mul; DW_OP_plus; DW_OP_deref; "
		 "DW_OP_plus_uconst: 8",
		 "*(rsp+r9*8+16)+8"},
		{"DW_OP_breg7 (rsp): 8; DW_OP_deref; DW_OP_deref", "unsupported"},
		{"DW_OP_lit8", "unsupported"},
		{"", "unsupported"},
	};
	_cleanup_(texts_fini) struct texts texts = {0};

	texts_init(&texts);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const char *text = expressions_text(&texts, known[i].ops);

		expect(text && strcmp(text, known[i].text) == 0, known[i].ops, text ? text : "no memory");
	}
}

/* Texts that are not a dump or a table must not count as empty ones. */
static void check_refused(void)
{
	static const char *const tables[] = {
		"words\n", ROW(1000, 1000, "rsp+8\tsame\tcfa-8"), ROW(1000, 1010, "rsp+8\tsame"),
		ROW(1000, 1010, "rsp+8\tsame\tcfa-8\tmore"),
		ROW(1000, 1010, "rsp+8\tsame\tcfa-8") ROW(1008, 1020, "rsp+8\tsame\tcfa-8")};
	static const char *const dumps[] = {"Contents of the .eh_frame section:\n\nwords\n",
					    "Contents of the .eh_frame section:\n\n" CIE
					    "0000000000001000 rsp+8    c-8\nx\n"};
	struct compare_result result;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		expect(run(tables[i], NULL, NULL, &result) < 0, "not a table", tables[i]);
	for (size_t i = 0; i < ARRAY_SIZE(dumps); i++) {
		_cleanup_(texts_fini) struct texts texts = {0};
		_cleanup_(frames_fini) struct frames frames = {0};
		struct lines lines;

		texts_init(&texts);
		expect(lines_open_string(&lines, dumps[i]) == 0 &&
			       frames_read(&frames, "", &texts, &lines) < 0,
		       "not a dump", dumps[i]);
		lines_close(&lines);
	}
}

unsigned selftest_run(void)
{
	failures = checks = 0;
	check_texts();
	check_right();
	check_overridden();
	check_in_part();
	check_planted();
	check_refused();
	printf("%u checks, %u failures\n", checks, failures);
	return failures;
}
