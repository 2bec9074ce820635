// SPDX-License-Identifier: Apache-2.0
/* PHP in files: those that are installed or that tests/oracle/run_php has fetched, and small ones. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

#define GLOBALS 0x3000

static const struct runtime_symbol symbols[] = {
	{"executor_globals", GLOBALS, 1664, OBJECT},
	{"execute_ex", LOOP_VA + 64, 32, FUNCTION},
};

/* A file with this text in .rodata. */
static int read_file(const char *text, size_t n_symbols, const struct runtime_symbol *s,
		     struct php_facts *ret)
{
	_cleanup_buf_ struct buf strings = {0}, table = {0}, b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	static const uint8_t code[256];
	const struct runtime_file f = {.symbols = s, .n_symbols = n_symbols};
	int r;

	runtime_file_symbols(&f, &strings, &table);
	const struct file_section sections[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, LOOP_VA, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, strings.data, strings.len, 0, 0},
		{".symbols", SHT_DYNSYM, 0, 0, table.data, table.len, 2, sizeof(Elf64_Sym)},
		{".rodata", SHT_PROGBITS, SHF_ALLOC, VERSION_VA, text, strlen(text), 0, 0},
	};
	file_write(&b, EM_X86_64, sections, ARRAY_SIZE(sections), 0);
	img = file_open(&b);
	r = php_facts_read(ret, img);
	cr_expect(php_facts_valid(ret));
	return r;
}

Test(php, small_files)
{
	static const struct {
		const char *text;
		uint32_t version, known;
	} cases[] = {
		{"..X-Powered-By: PHP/7.4.33", 0x07042100, 1},
		{"X-Powered-By: PHP/8.2.32-dev", 0x08022000, 1},
		{"X-Powered-By: PHP/9.0.1 ", 0x09000100, 0},
		{"X-Powered-By: PHP/8.999.1", 0, 0},
		{"X-Powered-By: PHP/8.2", 0, 0},
		{"X-Powered-By: PHP/", 0, 0},
		{"PHP/8.2.1", 0, 0},
	};
	struct php_facts f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = read_file(cases[i].text, ARRAY_SIZE(symbols), symbols, &f);

		cr_expect_eq(r, cases[i].version ? 0 : -ENOENT, "%s: %d", cases[i].text, r);
		cr_expect_eq(f.version, cases[i].version, "%s: %x", cases[i].text, f.version);
		cr_expect_eq(f.known, cases[i].known, "%s", cases[i].text);
	}
	cr_expect_eq(read_file(cases[0].text, 2, symbols, &f), 0);
	cr_expect_eq(f.globals, GLOBALS);
	cr_assert_eq(f.n_loops, 1);
	cr_expect_eq(f.loop_start[0], LOOP_VA + 64);
	cr_expect_eq(f.loop_end[0], LOOP_VA + 96);
	cr_expect_eq(read_file(cases[0].text, 1, symbols, &f), 0);
	cr_expect_eq(f.n_loops, 0);
	cr_expect_eq(read_file(cases[0].text, 1, symbols + 1, &f), -ENOENT);
}

/* Built for threads, each has its own globals, at an offset that the process chooses. */
Test(php, built_for_threads)
{
	const struct runtime_symbol threads[] = {
		{"executor_globals_offset", GLOBALS, 8, OBJECT},
		{"execute_ex", LOOP_VA + 64, 32, FUNCTION},
	};
	struct php_facts f;

	cr_expect_eq(read_file("X-Powered-By: PHP/8.4.1", 2, threads, &f), 0);
	cr_expect_eq(f.threads, 1);
	cr_expect_eq(f.known, 1);
	cr_expect_eq(f.globals, GLOBALS);
	f.threads = 2;
	cr_expect_not(php_facts_valid(&f));
}

/* Globals that are too small for what is read of them are those of another layout. */
Test(php, globals_of_another_size)
{
	const struct runtime_symbol small = {"executor_globals", GLOBALS, 495, OBJECT};
	struct php_facts f;

	cr_expect_eq(read_file("X-Powered-By: PHP/8.4.1", 1, &small, &f), 0);
	cr_expect_eq(f.known, 0);
}

Test(php, facts_that_are_not_valid)
{
	struct php_facts good, f;

	cr_assert_eq(read_file("X-Powered-By: PHP/8.4.1", 2, symbols, &good), 0);
	for (size_t i = 0; i < sizeof good / 4; i++) {
		uint32_t *word;

		f = good;
		word = (uint32_t *)&f + i;
		*word = ~*word;
		if ((uint8_t *)word >= (uint8_t *)&f.layout)
			cr_expect_not(php_facts_valid(&f), "word %zu", i);
	}
	f = good;
	f.n_loops = PHP_LOOPS_MAX + 1;
	cr_expect_not(php_facts_valid(&f));
	f = good;
	f.version = 0;
	cr_expect_not(php_facts_valid(&f));
}

static void check_installed(const char *path)
{
	const char *version = strpbrk(strrchr(path, '/'), "789");
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;
	struct runtime_facts f;
	char text[RUNTIME_VERSION_TEXT];

	if (fd < 0 || elf_image_open(&img, fd) < 0)
		return;
	cr_assert_eq(runtime_facts_read(&f, img), 0, "%s", path);
	cr_expect(runtime_facts_valid(&f));
	cr_expect_eq(f.kind, RUNTIME_FILE_PHP);
	cr_expect_eq(strncmp(runtime_facts_version(&f, text) + 4, version, 3), 0, "%s: %s", path, text);
	cr_expect_eq(f.php.known, 1, "%s", path);
	cr_expect_eq(f.php.threads, 0, "%s", path);
	cr_assert_geq(f.php.n_loops, 1, "%s", path);
	cr_expect(runtime_facts_is_loop(&f, f.php.loop_start[0]));
	cr_expect_not(runtime_facts_is_loop(&f, f.php.loop_start[0] - 1));
	cr_log_info("%s: %s, %u loops, %lu and %lu bytes", path, text, f.php.n_loops,
		    f.php.loop_end[0] - f.php.loop_start[0], f.php.loop_end[1] - f.php.loop_start[1]);
}

/* Debian's: all have a loop, and 8.5's has a part without a name. */
Test(php, installed)
{
	static const char *const patterns[] = {"/usr/bin/php[78].*", "/usr/sbin/php-fpm*",
					       "phps/*/usr/bin/php[78].*", "phps/*/usr/sbin/php-fpm*"};

	runtime_files_each(patterns, ARRAY_SIZE(patterns), check_installed);
}
