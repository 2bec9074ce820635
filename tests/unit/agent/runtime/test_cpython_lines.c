// SPDX-License-Identifier: Apache-2.0
/*
 * The tables are those of one function, compiled by several versions of CPython; the lines are what their
 * PyCode_Addr2Line says. It has a list comprehension, an exception handler, and a loop with a gap of 130
 * lines in it, and begins in line 2.
 */
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/runtime/cpython_lines.h"

#define FIRST_LINE 2u

/* From this offset up to that of the next run. */
struct run {
	uint32_t offset, line;
};

static const uint8_t v39_table[] = {0,	1, 4,  1, 6, 1, 6, 255, 10, 3, 14, 1, 12, 3, 4, 253, 16, 3,
				    12, 1, 12, 2, 4, 1, 8, 127, 0,  4, 8,  1, 4,  1, 2, 1,   2,	 255};
static const struct run v39_runs[] = {{0, 3},	  {4, 4},     {10, 5},	  {16, 4},    {26, 7},	 {40, 8},
				      {52, 11},	  {56, 8},    {72, 11},	  {84, 12},   {96, 14},	 {100, 15},
				      {108, 146}, {116, 147}, {120, 148}, {122, 149}, {124, 148}};

static const uint8_t v310_table[] = {
	4, 1, 6, 1,   6, 1, 10, 255, 14, 3, 12, 1, 8, 3,   8, 128, 2, 252, 2, 253, 12, 7, 12, 1, 4, 2,
	8, 1, 0, 127, 8, 4, 2,	1,   2,	 1, 2,	1, 4, 255, 0, 129, 4, 249, 0, 127, 2,  7, 2,  1, 4, 255};
static const struct run v310_runs[] = {{0, 3},	   {4, 4},    {10, 5},	  {16, 4},    {26, 7},	  {40, 8},
				       {52, 11},   {60, 0},   {68, 7},	  {70, 4},    {72, 11},	  {84, 12},
				       {96, 14},   {100, 15}, {108, 146}, {116, 147}, {118, 148}, {120, 149},
				       {122, 148}, {126, 14}, {130, 148}, {132, 149}, {134, 148}};

static const uint8_t v311_table[] = {
	248, 128, 0,   240, 2,	 8,   9,   18,	240, 2,	  2,   17,  27,	 240, 0,   2,	17,  27,  221, 26,
	31,  160, 1,   153, 40,	 156, 40,  240, 3,   2,	  17,  27,  241, 0,   2,   17,	27,  244, 0,   2,
	17,  27,  136, 65,  136, 65,  248, 245, 6,   0,	  16,  26,  240, 0,   1,   9,	24,  240, 0,   1,
	9,   24,  240, 0,   1,	 9,   24,  216, 19,  23,  144, 52,  144, 52,  144, 52,	240, 6,	  0,   17,
	18,  136, 65,  136, 65,	 136, 65,  248, 248, 248, 248, 240, 9,	 1,   9,   24,	248, 248, 248, 240,
	7,   0,	  13,  14,  240, 14,  0,   17,	18,  136, 65,  136, 65,	 248, 144, 1,	136, 65,  136, 69,
	136, 69,  136, 69,  136, 69,  240, 2,	1,   9,	  21,  240, 0,	 1,   9,   21,	240, 0,	  1,   9,
	21,  240, 0,   1,   9,	 21,  240, 0,	1,   9,	  21,  224, 14,	 15,  240, 0,	69,  2,	  9,   22,
	216, 12,  13,  144, 17,	 137, 70,  136, 65,  240, 70,  4,   0,	 16,  17,  144, 65,  138, 118, 136,
	118, 216, 16,  21,  240, 75,  4,   0,	15,  16,  240, 0,   69,	 2,   9,   22,	240, 76,  4,   0,
	17,  18,  216, 16,  17,	 240, 3,   1,	16,  19,  240, 0,   1,	 9,   19};
static const struct run v311_runs[] = {
	{0, 0},	   {2, 2},    {4, 3},	  {6, 4},     {10, 5},	 {38, 4},    {58, 0},	 {60, 7},   {78, 8},
	{86, 11},  {94, 0},   {102, 7},	  {104, 0},   {110, 4},	 {112, 11},  {118, 0},	 {120, 11}, {132, 12},
	{142, 14}, {146, 15}, {156, 146}, {168, 147}, {170, 14}, {174, 148}, {176, 149}, {178, 148}};

static const uint8_t v315_table[] = {
	248, 129, 0,   240, 2,	 8,   9,   18,	228, 26,  31,  160, 1,	 155, 40,  243, 3,   2,	  17,
	27,  219, 26,  34,  144, 81,  216, 20,	21,  152, 1,   151, 69,	 145, 69,  247, 5,   0,	  18,
	19,  144, 17,  217, 26,	 34,  240, 3,	0,   13,  14,  240, 0,	 2,   17,  27,	136, 65,  240,
	14,  0,	  17,  18,  136, 65,  245, 2,	1,   9,	  21,  231, 14,	 15,  216, 12,	13,  144, 17,
	141, 70,  136, 65,  240, 70,  4,   0,	16,  17,  144, 65,  142, 118, 216, 16,	21,  216, 16,
	17,  216, 16,  17,  240, 3,   1,   16,	19,  240, 0,   1,   9,	 19,  144, 1,	216, 16,  17,
	240, 3,	  1,   16,  19,	 240, 0,   1,	9,   19,  249, 242, 97,	 4,   2,   17,	27,  248, 244,
	6,   0,	  16,  26,  244, 0,   1,   9,	24,  219, 19,  23,  240, 6,   0,   17,	18,  138, 65,
	251, 240, 9,   1,   9,	 24,  251, 240, 8,   0,	  17,  18,  137, 65,  250};
static const struct run v315_runs[] = {
	{0, 0},	    {2, 2},	{6, 3},	    {8, 5},	{28, 4},    {36, 5},   {46, 6},	   {70, 4},
	{88, 5},    {92, 4},	{98, 11},   {102, 12},	{114, 14},  {130, 15}, {148, 146}, {166, 147},
	{168, 148}, {170, 149}, {172, 148}, {178, 149}, {180, 148}, {184, 0},  {188, 4},   {194, 0},
	{196, 7},   {216, 8},	{224, 11},  {232, 0},	{240, 7},   {242, 0},  {250, 11},  {256, 0}};

static const struct version {
	const char *name;
	struct cpython_lines_table table;
	const struct run *runs;
	size_t n_runs;
	uint32_t code_bytes;
} versions[] = {
	{"3.9.18",
	 {v39_table, sizeof v39_table, false, CPYTHON_LINES_LNOTAB, FIRST_LINE},
	 v39_runs,
	 ARRAY_SIZE(v39_runs),
	 128},
	{"3.10.13",
	 {v310_table, sizeof v310_table, false, CPYTHON_LINES_LINETABLE, FIRST_LINE},
	 v310_runs,
	 ARRAY_SIZE(v310_runs),
	 138},
	{"3.11.7",
	 {v311_table, sizeof v311_table, false, CPYTHON_LINES_LOCATIONS, FIRST_LINE},
	 v311_runs,
	 ARRAY_SIZE(v311_runs),
	 182},
	{"3.15.2",
	 {v315_table, sizeof v315_table, false, CPYTHON_LINES_LOCATIONS, FIRST_LINE},
	 v315_runs,
	 ARRAY_SIZE(v315_runs),
	 262},
};

static uint32_t expected(const struct version *v, uint32_t offset)
{
	size_t i = v->n_runs - 1;

	while (v->runs[i].offset > offset)
		i--;
	return v->runs[i].line;
}

Test(cpython_lines, every_instruction)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		for (uint32_t offset = 0; offset < versions[i].code_bytes; offset++)
			cr_expect_eq(cpython_line(&versions[i].table, offset), expected(&versions[i], offset),
				     "%s at %u", versions[i].name, offset);
}

Test(cpython_lines, behind_the_code)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const struct version *v = &versions[i];
		uint32_t last = v->runs[v->n_runs - 1].line;

		/* only the oldest format does not say where the code ends */
		cr_expect_eq(cpython_line(&v->table, v->code_bytes),
			     v->table.format == CPYTHON_LINES_LNOTAB ? last : 0, "%s", v->name);
	}
}

Test(cpython_lines, cut_anywhere)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct cpython_lines_table cut = versions[i].table;
		size_t known, known_before = SIZE_MAX;

		for (cut.cut = true; cut.len-- > 0; known_before = known) {
			known = 0;
			for (uint32_t offset = 0; offset < versions[i].code_bytes; offset += 2) {
				uint32_t line = cpython_line(&cut, offset);

				cr_expect(line == 0 || line == expected(&versions[i], offset),
					  "%s, %zu bytes", versions[i].name, cut.len);
				known += line != 0;
			}
			cr_expect_leq(known, known_before);
		}
	}
}

Test(cpython_lines, no_table)
{
	struct cpython_lines_table t = {.first_line = 7};

	/* a function on one line has none in the oldest format */
	cr_expect_eq(cpython_line(&t, 0), 7);
	cr_expect_eq(cpython_line(&t, 1000), 7);
	t.cut = true;
	cr_expect_eq(cpython_line(&t, 0), 0);
	for (t.cut = false, t.format = CPYTHON_LINES_LINETABLE; t.format <= CPYTHON_LINES_N; t.format++)
		cr_expect_eq(cpython_line(&t, 0), 0);
}

Test(cpython_lines, lines_out_of_range)
{
	static const uint8_t back[] = {0, 0x9c, 2, 0}, up[] = {0, 100, 2, 0};
	/* one code unit, a delta of 2^29; a number that has no end; one that is too long */
	static const uint8_t far[] = {0xe8, 0x40, 0x40, 0x40, 0x40, 0x40, 0x01};
	static const uint8_t open[] = {0xe8, 0x42}, endless[] = {0xe8, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0};
	struct cpython_lines_table t = {back, sizeof back, false, CPYTHON_LINES_LINETABLE, 50};

	cr_expect_eq(cpython_line(&t, 0), 0, "line -50");
	t.first_line = (uint32_t)-40;
	cr_expect_eq(cpython_line(&t, 0), 0, "line -140");
	t.bytes = up;
	cr_expect_eq(cpython_line(&t, 0), 60, "a first line below 0");
	t.first_line = INT32_MAX;
	cr_expect_eq(cpython_line(&t, 0), 0, "beyond the largest line");
	t = (struct cpython_lines_table){far, sizeof far, false, CPYTHON_LINES_LOCATIONS, 1};
	cr_expect_eq(cpython_line(&t, 0), 1 + (1u << 29));
	t.first_line = INT32_MAX;
	cr_expect_eq(cpython_line(&t, 0), 0);
	t = (struct cpython_lines_table){open, sizeof open, false, CPYTHON_LINES_LOCATIONS, 1};
	cr_expect_eq(cpython_line(&t, 0), 0);
	t = (struct cpython_lines_table){endless, sizeof endless, false, CPYTHON_LINES_LOCATIONS, 1};
	cr_expect_eq(cpython_line(&t, 0), 0);
}
