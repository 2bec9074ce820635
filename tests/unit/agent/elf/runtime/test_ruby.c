// SPDX-License-Identifier: Apache-2.0
/* Ruby in files: those that are installed or that tests/oracle/run_ruby has fetched, and small ones. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

#define CONTEXT 0x5000
#define SYMBOLS RUNTIME_VA
#define SYMBOLS_CODE (LOOP_VA + 128)

/* A file with this version, and a function that loads the word at SYMBOLS + 8, of the table of symbols. */
static int read_file(const char *version, uint64_t last_id, bool has_context, struct ruby_facts *ret)
{
	const struct runtime_symbol symbols[] = {
		{"ruby_version", VERSION_VA, strlen(version) + 1, OBJECT},
		{"rb_vm_exec", LOOP_VA + 64, 32, FUNCTION},
		{"rb_sym_all_symbols", SYMBOLS_CODE, 32, FUNCTION},
		{"ruby_current_execution_context_ptr", has_context ? CONTEXT : 0, 8, OBJECT},
	};
	_cleanup_buf_ struct buf strings = {0}, table = {0}, b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	const struct runtime_file f = {.symbols = symbols, .n_symbols = ARRAY_SIZE(symbols)};
	const uint64_t data[4] = {last_id};
	uint8_t code[256] = {0};
	const int32_t distance = SYMBOLS + 8 - (SYMBOLS_CODE + 4 + 7);
	int r;

	memcpy(code + 128 + 4, "\x48\x8b\x3d", 3);
	memcpy(code + 128 + 7, &distance, sizeof distance);
	runtime_file_symbols(&f, &strings, &table);
	const struct file_section sections[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, LOOP_VA, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, strings.data, strings.len, 0, 0},
		{".symbols", SHT_DYNSYM, 0, 0, table.data, table.len, 2, sizeof(Elf64_Sym)},
		{".rodata", SHT_PROGBITS, SHF_ALLOC, VERSION_VA, version, strlen(version) + 1, 0, 0},
		{".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, SYMBOLS, data, sizeof data, 0, 0},
	};
	file_write(&b, EM_X86_64, sections, ARRAY_SIZE(sections), 0);
	img = file_open(&b);
	r = ruby_facts_read(ret, img);
	cr_expect(ruby_facts_valid(ret));
	return r;
}

Test(ruby, small_files)
{
	static const struct {
		const char *text;
		bool has_context;
		uint32_t version, known;
	} cases[] = {
		{"3.1.2", false, 0x03010200, 1},
		{"3.4.11", false, 0x03040b00, 1},
		{"2.7.4", true, 0x02070400, 1},
		{"2.7.4", false, 0x02070400, 0},
		{"2.6.1", true, 0x02060100, 0},
		{"9.0.1", false, 0x09000100, 0},
		{"3.0.7", false, 0x03000700, 1},
		{"4.0.1", false, 0x04000100, 0},
		{"3.1", false, 0, 0},
		{"3.1.2p20", false, 0, 0},
		{"3.999.1", false, 0, 0},
		{"", false, 0, 0},
		{"111.222.333.4", false, 0, 0},
	};
	struct ruby_facts f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = read_file(cases[i].text, 169, cases[i].has_context, &f);

		cr_expect_eq(r, cases[i].version ? 0 : -ENOENT, "%s: %d", cases[i].text, r);
		cr_expect_eq(f.version, cases[i].version, "%s: %x", cases[i].text, f.version);
		cr_expect_eq(f.known, cases[i].known, "%s", cases[i].text);
		cr_expect_eq(f.symbols, cases[i].version ? SYMBOLS + 16 : 0, "%s", cases[i].text);
	}
}

/* What is no table of symbols is not taken for one. */
Test(ruby, symbols)
{
	struct ruby_facts f;

	cr_expect_eq(read_file("3.3.8", 12, false, &f), 0);
	cr_expect_eq(f.symbols, 0);
	cr_expect_eq(read_file("3.3.8", 1ull << 32 | 169, false, &f), 0);
	cr_expect_eq(f.symbols, 0);
}

Test(ruby, facts_that_are_not_valid)
{
	struct ruby_facts good, f;

	cr_assert_eq(read_file("3.4.1", 169, false, &good), 0);
	for (size_t i = 0; i < sizeof good / 4; i++) {
		uint32_t *word;

		f = good;
		word = (uint32_t *)&f + i;
		*word = ~*word;
		if ((uint8_t *)word >= (uint8_t *)&f.layout || word == &f.known || word == &f.zero)
			cr_expect_not(ruby_facts_valid(&f), "word %zu", i);
	}
	f = good;
	f.n_loops = RUBY_LOOPS_MAX + 1;
	cr_expect_not(ruby_facts_valid(&f));
	f = good;
	f.version = 0;
	cr_expect_not(ruby_facts_valid(&f));
	f = good;
	f.context = CONTEXT;
	cr_expect_not(ruby_facts_valid(&f), "before 3.0 only");
	f = good;
	f.loop_start[0] = 16;
	f.loop_end[0] = 8;
	f.n_loops = 1;
	cr_expect_not(ruby_facts_valid(&f));
	f = good;
	f.inner_start = 9;
	cr_expect_not(ruby_facts_valid(&f));
}

static void check_installed(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;
	struct runtime_facts f;
	char text[RUNTIME_VERSION_TEXT];

	if (fd < 0 || elf_image_open(&img, fd) < 0)
		return;
	cr_assert_eq(runtime_facts_read(&f, img), 0, "%s", path);
	cr_expect(runtime_facts_valid(&f));
	cr_expect_eq(f.kind, RUNTIME_FILE_RUBY);
	cr_expect_eq(strncmp(runtime_facts_version(&f, text) + 5, strrchr(path, '-') + 1, 3), 0, "%s: %s",
		     path, text);
	cr_expect_eq(f.ruby.known, 1, "%s", path);
	cr_expect_neq(f.ruby.symbols, 0, "%s", path);
	cr_assert_geq(f.ruby.n_loops, 1, "%s", path);
	cr_expect(runtime_facts_is_loop(&f, f.ruby.loop_start[0]));
	cr_expect_not(runtime_facts_is_loop(&f, f.ruby.loop_start[0] - 1));
	cr_expect_gt(f.ruby.inner_end - f.ruby.inner_start, 8192, "%s", path);
	cr_expect(runtime_facts_is_inner_loop(&f, f.ruby.inner_start));
	cr_expect_not(runtime_facts_is_inner_loop(&f, f.ruby.inner_end));
	cr_log_info("%s: %s, %u loops, %lu bytes, %lu inside", path, text, f.ruby.n_loops,
		    f.ruby.loop_end[0] - f.ruby.loop_start[0], f.ruby.inner_end - f.ruby.inner_start);
}

/* Debian's: all have a loop with a core, though from 3.3 on none of them has a name. */
Test(ruby, installed)
{
	static const char *const patterns[] = {
		"/usr/lib/*/libruby-*.so.?.?",
		"rubies/*/usr/lib/*/libruby-*.so.?.?",
	};

	runtime_files_each(patterns, ARRAY_SIZE(patterns), check_installed);
}
