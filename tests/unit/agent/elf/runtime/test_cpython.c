// SPDX-License-Identifier: Apache-2.0
/* The CPython runtime in files: one that is installed, and small ones that look like it. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "agent/elf/runtime/facts.h"
#include "bpf/abi.h"

#define PYTHON_3_11 "/usr/bin/python3.11"
#define DEBUG_WORDS 111u

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

static const struct runtime_symbol of_8[] = {
	{"_PyRuntime", RUNTIME_VA, 656, OBJECT},
	{"PyCode_Type", 0x5000, 408, OBJECT},
	{"PyUnicode_Type", 0x6000, 408, OBJECT},
	{"PyCode_NewWithPosOnlyArgs", LOOP_VA + 200, 16, FUNCTION},
	{"_PyEval_EvalFrameDefault", LOOP_VA + 64, 32, FUNCTION},
	{"PyInterpreterState_Get", LOOP_VA + 220, 16, FUNCTION}, /* from 3.9 on */
	{"Py_Version", VERSION_VA, 8, OBJECT},			 /* from 3.11 on */
};
#define N_OF_8 5u
#define N_OF_9 6u
#define N_OF_11 7u

/* _Py_DebugOffsets: numbers of u64 and their values, taken from builds of Debian. */
struct debug_value {
	unsigned word;
	uint64_t value;
};

static const struct debug_value debug_13[] = {
	{3, 283408}, {23, 72}, {24, 152}, {29, 8}, {30, 0},  {31, 56}, {33, 70}, {35, 112}, {37, 128},
	{38, 136},   {39, 68}, {43, 200}, {45, 8}, {65, 16}, {66, 32}, {68, 32}, {69, 16},  {70, 40},
};
static const struct debug_value debug_13t[] = {
	{3, 328384}, {23, 72}, {24, 152}, {29, 8},  {30, 0},  {31, 56}, {33, 70}, {35, 128}, {37, 144},
	{38, 152},   {39, 84}, {43, 216}, {45, 24}, {65, 32}, {66, 48}, {68, 48}, {69, 32},  {70, 56},
};
static const struct debug_value debug_14[] = {
	{3, 316616}, {26, 72}, {27, 152}, {32, 8}, {33, 0},  {34, 56}, {36, 74}, {40, 112}, {42, 128},
	{43, 136},   {44, 68}, {48, 208}, {51, 8}, {75, 16}, {76, 32}, {78, 32}, {79, 16},  {80, 40},
};
static const struct debug_value debug_14t[] = {
	{3, 365624}, {26, 72},	{27, 152}, {32, 8},  {33, 0},	{34, 56},  {36, 78},
	{40, 128},   {42, 144}, {43, 152}, {44, 84}, {48, 232}, {51, 24},  {75, 32},
	{76, 48},    {78, 48},	{79, 32},  {80, 56}, {38, 72},	{49, 216},
};
static const struct debug_value debug_15[] = {
	{3, 346560}, {26, 72},	{30, 176}, {40, 8},  {41, 0},	{42, 56}, {44, 74},
	{48, 112},   {50, 128}, {51, 136}, {52, 68}, {56, 208}, {59, 8},  {87, 16},
	{88, 32},    {90, 32},	{91, 16},  {92, 40}, {93, 56},
};

static void make_debug(uint64_t *words, uint64_t version, uint64_t free_threaded, const struct debug_value *v,
		       size_t n)
{
	memset(words, 0, DEBUG_WORDS * sizeof *words);
	memcpy(words, "xdebugpy", 8);
	words[1] = version;
	words[2] = free_threaded;
	for (size_t i = 0; i < n; i++)
		words[v[i].word] = v[i].value;
}

static int read_file(const struct runtime_file *f, struct cpython_facts *ret)
{
	_cleanup_image_ struct elf_image *img = runtime_file_image(f);
	const int r = cpython_facts_read(ret, img);

	cr_expect(cpython_facts_valid(ret));
	return r;
}

/* Facts of a file with such a description of itself. */
static struct cpython_facts read_debug(const uint64_t *words, size_t bytes, uint64_t version)
{
	struct cpython_facts f;

	cr_assert_eq(read_file(&(struct runtime_file){.symbols = of_8,
						      .n_symbols = N_OF_11,
						      .section = ".PyRuntime",
						      .version = version,
						      .runtime = words,
						      .runtime_bytes = bytes},
			       &f),
		     0);
	return f;
}

static int read_path(const char *path, struct cpython_facts *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;

	if (fd < 0)
		return -errno;
	cr_assert_eq(elf_image_open(&img, fd), 0);
	return cpython_facts_read(ret, img);
}

Test(cpython, an_installed_python)
{
	struct cpython_layout expected;
	struct cpython_facts f;
	int r = read_path(PYTHON_3_11, &f);

	if (r == -ENOENT && access(PYTHON_3_11, F_OK) < 0)
		cr_skip("no " PYTHON_3_11);
	cr_assert_eq(r, 0);
	cr_expect_eq(f.version >> 16, 0x30b);
	cr_expect_eq(f.version & 0xff, 0xf0);
	cr_expect(f.runtime && f.code_type && f.text_type && f.known && !f.free_threaded);
	cr_assert_geq(f.n_loops, 1);
	cr_expect_gt(f.loop_end[0] - f.loop_start[0], 10000);
	cr_assert(cpython_layout_of_minor(&expected, 11));
	cr_expect_eq(memcmp(&f.layout, &expected, sizeof expected), 0);
	cr_expect(cpython_facts_valid(&f));
}

Test(cpython, the_c_library_has_none)
{
	static const struct cpython_facts none;
	struct cpython_facts f;

	cr_assert_eq(read_path("/proc/self/exe", &f), -ENOENT);
	cr_expect_eq(memcmp(&f, &none, sizeof f), 0);
	cr_expect(cpython_facts_valid(&f));
	cr_assert_eq(read_path("/lib/x86_64-linux-gnu/libc.so.6", &f), -ENOENT);
}

Test(cpython, versions_that_do_not_say_which_they_are)
{
	static const struct {
		unsigned n_symbols;
		const char *section;
		uint32_t version;
	} cases[] = {{3, NULL, 0x03000000},
		     {N_OF_8, NULL, 0x03080000},
		     {N_OF_9, NULL, 0x03090000},
		     {N_OF_9, ".PyRuntime", 0x030a0000}};
	struct cpython_facts f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_assert_eq(read_file(&(struct runtime_file){.symbols = of_8,
							      .n_symbols = cases[i].n_symbols,
							      .section = cases[i].section},
				       &f),
			     0);
		cr_expect_eq(f.version, cases[i].version, "case %zu: %#x", i, f.version);
		cr_expect_eq(f.known, i > 0);
		cr_expect(f.runtime == RUNTIME_VA && f.code_type == 0x5000 && f.text_type == 0x6000);
	}
	cr_assert_eq(f.n_loops, 1);
	cr_expect(f.loop_start[0] == LOOP_VA + 64 && f.loop_end[0] == LOOP_VA + 96);
	cr_expect_eq(f.layout.key, 588);
	cr_expect_eq(f.layout.instruction_bytes, 2);
}

Test(cpython, the_number_of_the_version)
{
	static const struct {
		uint64_t version;
		uint32_t result, known;
	} cases[] = {{0x030b02f0, 0x030b02f0, 1}, {0x030c0af0, 0x030c0af0, 1},
		     {0x030b00c1, 0x030b00c1, 1}, {0x030b00b4, 0x030b00b4, 0}, /* a beta */
		     {0x030d00f0, 0x030d00f0, 0}, /* without the description of itself */
		     {0x031000f0, 0x031000f0, 0}, {0x030a00f0, 0x03000000, 0}, /* had no such symbol */
		     {0x040000f0, 0x03000000, 0}};
	struct cpython_facts f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_assert_eq(read_file(&(struct runtime_file){.symbols = of_8,
							      .n_symbols = N_OF_11,
							      .section = ".PyRuntime",
							      .version = cases[i].version},
				       &f),
			     0);
		cr_expect_eq(f.version, cases[i].result, "case %zu: %#x", i, f.version);
		cr_expect_eq(f.known, cases[i].known, "case %zu", i);
	}
}

Test(cpython, a_runtime_describes_itself)
{
	static const struct {
		uint64_t version, free_threaded;
		const struct debug_value *values;
		size_t n;
		uint16_t key, frame_bytes, kind_shift, lines, code_start, wide_text;
	} cases[] = {
		{0x030d12f0, 0, debug_13, ARRAY_SIZE(debug_13), 2164, 72, 2, 136, 200, 56},
		{0x030d12f0, 1, debug_13t, ARRAY_SIZE(debug_13t), 2164, 72, 2, 152, 216, 72},
		{0x030e0af0, 0, debug_14, ARRAY_SIZE(debug_14), 2340, 80, 2, 136, 208, 56},
		{0x030e0af0, 1, debug_14t, ARRAY_SIZE(debug_14t), 2340, 80, 8, 152, 232, 72},
		{0x030f02f0, 0, debug_15, ARRAY_SIZE(debug_15), CPYTHON_NO_OFFSET, 80, 2, 136, 208, 56},
	};
	uint64_t words[DEBUG_WORDS];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_debug(words, cases[i].version, cases[i].free_threaded, cases[i].values, cases[i].n);
		const struct cpython_facts f = read_debug(words, sizeof words, cases[i].version);
		const struct cpython_layout *l = &f.layout;

		cr_assert_eq(f.known, 1, "case %zu", i);
		cr_expect(f.version == cases[i].version && f.free_threaded == cases[i].free_threaded);
		cr_expect(l->first == 72 && l->next == 8 && l->code == 0 && l->instruction == 56);
		cr_expect(l->key == cases[i].key && l->frame_bytes == cases[i].frame_bytes, "case %zu", i);
		cr_expect(l->kind_shift == cases[i].kind_shift && l->lines == cases[i].lines, "case %zu", i);
		cr_expect(l->code_start == cases[i].code_start && l->wide_text == cases[i].wide_text);
		cr_expect(l->content + l->content_bytes == l->lines + 8 && l->hidden_kind == 3);
		cr_expect(l->has_thread_local && l->code_tag == (i < 2 ? 0 : 3), "case %zu", i);
		cr_expect_eq(l->flags, i == 3 ? RUNTIME_WALK_COPIES : 0, "case %zu", i);
		cr_expect(l->copies == (i == 3 ? 216 : 0) && l->copy == (i == 3 ? 72 : 0), "case %zu", i);
	}
}

Test(cpython, a_description_without_a_symbol_of_the_version)
{
	uint64_t words[DEBUG_WORDS];
	struct cpython_facts f;

	make_debug(words, 0x030d12f0, 0, debug_13, ARRAY_SIZE(debug_13));
	cr_assert_eq(read_file(&(struct runtime_file){.section = ".PyRuntime",
						      .runtime = words,
						      .runtime_bytes = sizeof words},
			       &f),
		     0);
	cr_expect(f.known && f.version == 0x030d12f0 && f.runtime == RUNTIME_VA && !f.code_type &&
		  !f.n_loops);
}

Test(cpython, descriptions_that_cannot_be)
{
	static const struct debug_value wrong[] = {
		{0, 0},			 /* no cookie */
		{1, 0x031000f0},	 /* an unknown minor version */
		{1, 0x030d00b1},	 /* a beta */
		{1, 0x030d01f0},	 /* not that of the symbol */
		{1, 1ull << 40}, {2, 1}, /* free-threaded, with other offsets */
		{3, 2164},		 /* the key lies behind the runtime */
		{23, 4096},	 {29, 12},	   {31, 1ull << 32},
		{33, 200},	 {33, 20}, /* the frame ends before the instruction */
		{38, 144},	 {68, UINT64_MAX},
	};
	uint64_t words[DEBUG_WORDS];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		make_debug(words, 0x030d12f0, 0, debug_13, ARRAY_SIZE(debug_13));
		words[wrong[i].word] = wrong[i].value;
		cr_expect_eq(read_debug(words, sizeof words, 0x030d12f0).known, 0, "case %zu", i);
	}
	make_debug(words, 0x030d12f0, 0, debug_13, ARRAY_SIZE(debug_13));
	cr_expect_eq(read_debug(words, 584, 0x030d12f0).known, 1);
	cr_expect_eq(read_debug(words, 576, 0x030d12f0).known, 0);
	cr_expect_eq(read_debug(words, 16, 0x030d12f0).known, 0);
}

Test(cpython, names_of_a_file_that_exports_none)
{
	static const struct runtime_symbol loops[] = {
		{"_PyRuntime", RUNTIME_VA, 656, OBJECT},
		{"PyCode_NewWithPosOnlyArgs", LOOP_VA + 200, 16, FUNCTION},
		{"_PyEval_EvalFrameDefault", LOOP_VA + 64, 32, FUNCTION},
		{"_PyEval_EvalFrameDefault.cold", LOOP_VA + 8, 16, FUNCTION},
	};
	struct runtime_file file = {.symbols = loops,
				    .n_symbols = ARRAY_SIZE(loops),
				    .table = SHT_SYMTAB,
				    .section = ".PyRuntime"};
	struct cpython_facts f;

	cr_assert_eq(read_file(&file, &f), 0);
	cr_expect(f.version == 0x030a0000 && f.known && f.n_loops == 2);
	cr_expect(f.loop_start[0] == LOOP_VA + 8 && f.loop_end[0] == LOOP_VA + 24);
	cr_expect(f.loop_start[1] == LOOP_VA + 64 && f.loop_end[1] == LOOP_VA + 96);
	file.section = NULL;
	cr_expect_eq(read_file(&file, &f), -ENOENT, "not looked for where no section tells of it");
}

Test(cpython, symbols_that_are_of_no_use)
{
	static const struct runtime_symbol undefined[] = {{"_PyRuntime", 0, 0, OBJECT}};
	static const struct runtime_symbol overlapping[] = {
		{"_PyRuntime", RUNTIME_VA, 656, OBJECT},
		{"_PyEval_EvalFrameDefault", LOOP_VA + 64, 32, FUNCTION},
		{"_PyEval_EvalFrameDefault.cold", LOOP_VA + 80, 32, FUNCTION},
		{"_PyEval_EvalFrameDefault.cold.0", UINT64_MAX, 32, FUNCTION},
	};
	struct cpython_facts f;

	cr_expect_eq(read_file(&(struct runtime_file){.symbols = undefined, .n_symbols = 1}, &f), -ENOENT);
	cr_assert_eq(read_file(&(struct runtime_file){.symbols = overlapping,
						      .n_symbols = ARRAY_SIZE(overlapping)},
			       &f),
		     0);
	cr_expect_eq(f.n_loops, 0);
}

/* --- a loop that calls functions of instructions */

#define TABLE_WORDS 256u
#define TABLE_AT (DEBUG_WORDS + 1) /* words behind the runtime's description of itself */
#define TABLE_VA (RUNTIME_VA + TABLE_AT * 8)

/* What a file with that loop has: in words[], the description of itself and the table. */
struct instructions {
	uint64_t words[TABLE_AT + TABLE_WORDS];
	uint8_t code[RUNTIME_CODE_BYTES];
};

static void instructions_make(struct instructions *i, const uint8_t *loop, size_t bytes)
{
	make_debug(i->words, 0x030e0af0, 0, debug_14, ARRAY_SIZE(debug_14));
	for (size_t k = 0; k < TABLE_WORDS; k++)
		i->words[TABLE_AT + k] = LOOP_VA + 128 + k % 64;
	memset(i->code, 0xcc, sizeof i->code);
	memcpy(i->code + 64, loop, bytes);
}

static struct cpython_facts instructions_read(const struct instructions *i, size_t loop_bytes)
{
	const struct runtime_symbol symbols[] = {
		{"_PyRuntime", RUNTIME_VA, sizeof i->words, OBJECT},
		{"Py_Version", VERSION_VA, 8, OBJECT},
		{"_PyEval_EvalFrameDefault", LOOP_VA + 64, loop_bytes, FUNCTION},
	};
	struct cpython_facts f;

	cr_assert_eq(read_file(&(struct runtime_file){.symbols = symbols,
						      .n_symbols = ARRAY_SIZE(symbols),
						      .version = 0x030e0af0,
						      .section = ".PyRuntime",
						      .code = i->code,
						      .runtime = i->words,
						      .runtime_bytes = sizeof i->words},
			       &f),
		     0);
	return f;
}

static const uint8_t calls_through_table[] = {
	0x55,				       /* push rbp */
	0xff, 0x14, 0xc5, 0,	0,    0,    0, /* call [rax * 8 + table] */
	0x5d, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
};
static const uint8_t calls_through_register[] = {
	0x4c, 0x8d, 0x05, 0,	0,    0,    0, /* lea r8, [table] */
	0x41, 0xff, 0x14, 0xc0,		       /* call [r8 + rax * 8] */
	0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
};

Test(cpython, instructions_that_are_functions)
{
	static struct instructions i;
	const uint32_t table = TABLE_VA, distance = TABLE_VA - (LOOP_VA + 64 + 7);

	instructions_make(&i, calls_through_table, sizeof calls_through_table);
	memcpy(i.code + 64 + 4, &table, 4);
	cr_expect_eq(instructions_read(&i, sizeof calls_through_table).has_instructions, 1);
	i.words[TABLE_AT + 200] = RUNTIME_VA; /* another table, and what is behind it */
	cr_expect_eq(instructions_read(&i, sizeof calls_through_table).has_instructions, 0);
	i.words[TABLE_AT + 200] = LOOP_VA;
	cr_expect_eq(instructions_read(&i, 2).has_instructions, 0);

	instructions_make(&i, calls_through_register, sizeof calls_through_register);
	memcpy(i.code + 64 + 3, &distance, 4);
	cr_expect_eq(instructions_read(&i, sizeof calls_through_register).has_instructions, 1);
	memset(i.code + 64, 0x90, 7); /* the table is not known */
	cr_expect_eq(instructions_read(&i, sizeof calls_through_register).has_instructions, 0);
}

Test(cpython, a_loop_that_is_elsewhere)
{
	struct runtime_facts f;

	memset(&f, 0, sizeof f);
	f.kind = RUNTIME_FILE_CPYTHON;
	f.cpython.n_loops = 1;
	f.cpython.loop_start[0] = 0x1000;
	f.cpython.loop_end[0] = 0x1200;
	cr_expect(runtime_facts_loop_is_elsewhere(&f));
	cr_expect_not(runtime_facts_calls_inner_loop(&f));
	f.cpython.loop_end[0] = 0xa000;
	cr_expect_not(runtime_facts_loop_is_elsewhere(&f));
	f.cpython.has_instructions = 1;
	cr_expect(runtime_facts_calls_inner_loop(&f));
	f.kind = RUNTIME_FILE_PHP;
	cr_expect_not(runtime_facts_loop_is_elsewhere(&f) || runtime_facts_calls_inner_loop(&f));
}

Test(cpython, the_task_that_runs)
{
	static const struct cpython_tasks tasks = {
		{168, 136, 96, 108, 109, 128, 152, 225864, 10880, 1104, 1024, 1032, 1048}};
	struct cpython_debug debug;
	struct cpython_layout l;
	struct cpython_tasks wrong = tasks;

	make_debug(debug.words, 0x030e0af0, 0, debug_14, ARRAY_SIZE(debug_14));
	cr_assert(cpython_layout_of_debug(&l, &debug));
	cpython_layout_set_tasks(&l, &debug, &tasks);
	cr_expect(l.task == 1032 && l.task_name == 136 && cpython_layout_valid(&l));
	cpython_layout_set_tasks(&l, &debug, NULL);
	cr_expect(l.task == 872 && l.task_name == 136);
	l.task = l.task_name = 0;
	wrong.words[11] = 4096;
	cpython_layout_set_tasks(&l, &debug, &wrong);
	wrong.words[11] = 0;
	cpython_layout_set_tasks(&l, &debug, &wrong);
	make_debug(debug.words, 0x030e0af0, 1, debug_14t, ARRAY_SIZE(debug_14t));
	cpython_layout_set_tasks(&l, &debug, NULL);
	cr_expect(!l.task && !l.task_name, "not known");
}

Test(cpython, instructions_of_no_runtime)
{
	struct cpython_facts f;

	memset(&f, 0, sizeof f);
	f.has_instructions = 1;
	cr_expect_not(cpython_facts_valid(&f));
}

/* --- facts that a parser process has sent */

static struct cpython_facts some_facts(unsigned minor)
{
	struct cpython_facts f;

	memset(&f, 0, sizeof f);
	f.version = 3u << 24 | minor << 16;
	f.runtime = 0x1000;
	f.loop_start[0] = 0x100;
	f.loop_end[0] = 0x200;
	f.n_loops = 1;
	f.known = 1;
	cr_assert(cpython_layout_of_minor(&f.layout, minor));
	return f;
}

#define FIELD(name, value) {offsetof(struct cpython_layout, name), value}

Test(cpython, layouts_that_are_not_taken)
{
	static const struct {
		size_t field; /* u16 */
		uint16_t value;
	} wrong[] = {
		FIELD(flags, 8),
		FIELD(thread, 4),
		FIELD(thread, 4096),
		FIELD(first, 0xffff),
		FIELD(first_of, 1),
		FIELD(marker_first, 7),
		FIELD(marker_next, 0xffff),
		FIELD(frame_bytes, 136),
		FIELD(frame_bytes, 71),
		FIELD(frame_bytes, 64),
		FIELD(next, 72),
		FIELD(code, 68),
		FIELD(instruction, 68),
		FIELD(kind, 72),
		FIELD(kind, 0xffff),
		FIELD(content, 12),
		FIELD(content_bytes, 0),
		FIELD(content_bytes, 120),
		FIELD(content_bytes, 20),
		FIELD(type, 4),
		FIELD(first_line, 2),
		FIELD(name, 4),
		FIELD(file, 0xffff),
		FIELD(lines, 4),
		FIELD(text_length, 4),
		FIELD(bytes_length, 4),
		FIELD(bytes, 4096),
		FIELD(text_state, 2),
		FIELD(ascii_text, 4096),
		FIELD(wide_text, 2),
		FIELD(code_start, 1),
		FIELD(instruction_bytes, 2),
		FIELD(key, 2),
		FIELD(has_thread_local, 2),
		FIELD(task, 4),
		FIELD(task_name, 4096),
		FIELD(copies, 8),
		FIELD(copy, 8),
	};
	static const size_t bytes[] = {
		offsetof(struct cpython_layout, kind_shift), offsetof(struct cpython_layout, compact_bit),
		offsetof(struct cpython_layout, ascii_bit), offsetof(struct cpython_layout, lines_format),
		offsetof(struct cpython_layout, code_tag)};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct cpython_facts f = some_facts(11);

		cr_assert(cpython_facts_valid(&f));
		memcpy((uint8_t *)&f.layout + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
		cr_expect_not(cpython_facts_valid(&f), "case %zu", i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		struct cpython_facts f = some_facts(11);

		((uint8_t *)&f.layout)[bytes[i]] = 32;
		cr_expect_not(cpython_facts_valid(&f), "byte %zu", i);
	}
}

Test(cpython, facts_that_are_not_taken)
{
	static const struct {
		size_t field; /* u32 */
		uint32_t value;
	} wrong[] = {
		{offsetof(struct cpython_facts, version), 0},
		{offsetof(struct cpython_facts, version), 0x02070000},
		{offsetof(struct cpython_facts, free_threaded), 2},
		{offsetof(struct cpython_facts, runtime), 0},
		{offsetof(struct cpython_facts, known), 0},
		{offsetof(struct cpython_facts, known), 2},
		{offsetof(struct cpython_facts, has_instructions), 2},
		{offsetof(struct cpython_facts, n_loops), 0},
		{offsetof(struct cpython_facts, n_loops), 2},
		{offsetof(struct cpython_facts, n_loops), CPYTHON_LOOPS_MAX + 1},
		{offsetof(struct cpython_facts, loop_start), 0x200},
		{offsetof(struct cpython_facts, loop_end), 0x100},
	};

	for (unsigned minor = 8; minor <= 12; minor++) {
		const struct cpython_facts f = some_facts(minor);

		cr_expect(cpython_facts_valid(&f), "3.%u", minor);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct cpython_facts f = some_facts(9);

		memcpy((uint8_t *)&f + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
		cr_expect_not(cpython_facts_valid(&f), "case %zu", i);
	}
	struct cpython_facts f = some_facts(9);
	f.layout.instruction = 108; /* s32, in a frame of 112 bytes */
	cr_expect(cpython_facts_valid(&f));
	f.layout.instruction_bytes = 3;
	cr_expect_not(cpython_facts_valid(&f));
	cr_expect_not(cpython_layout_of_minor(&f.layout, 7));
	cr_expect_not(cpython_layout_of_minor(&f.layout, 13));
}
