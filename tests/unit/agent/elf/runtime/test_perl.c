// SPDX-License-Identifier: Apache-2.0
/* Perl in files: those that are installed or that tests/oracle/run_perl has fetched, and small ones. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/file/arch.h"
#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

static const struct runtime_symbol symbols[] = {
	{"PL_thr_key", 0x3000, 4, OBJECT},
	{"PL_revision", VERSION_VA, 1, OBJECT},
	{"PL_version", VERSION_VA + 1, 1, OBJECT},
	{"PL_subversion", VERSION_VA + 2, 1, OBJECT},
	{"Perl_runops_standard", LOOP_VA + 64, 32, FUNCTION},
	{"Perl_call_sv", LOOP_VA + 128, 64, FUNCTION},
};

/* A file of that version. */
static int read_file(uint8_t major, uint8_t minor, uint8_t release, size_t n_symbols, struct perl_facts *ret)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	const struct runtime_file f = {.symbols = symbols,
				       .n_symbols = n_symbols,
				       .version = major | (uint64_t)minor << 8 | (uint64_t)release << 16};
	int r;

	runtime_file_write(&b, &f);
	img = file_open(&b);
	r = perl_facts_read(ret, img);
	cr_expect(perl_facts_valid(ret));
	return r;
}

Test(perl, small_files)
{
	static const struct {
		uint8_t major, minor, release, known;
	} cases[] = {
		{5, 26, 0, 0}, {5, 28, 1, 1}, {5, 29, 4, 0}, {5, 32, 1, 1}, {5, 34, 0, 1},
		{5, 36, 0, 1}, {5, 42, 9, 1}, {5, 43, 1, 0}, {5, 44, 0, 0}, {7, 0, 0, 0},
	};
	struct perl_facts f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = read_file(cases[i].major, cases[i].minor, cases[i].release, ARRAY_SIZE(symbols), &f);

		cr_expect_eq(r, 0, "%zu: %d", i, r);
		cr_expect_eq(f.version, (uint32_t)cases[i].major << 24 | (uint32_t)cases[i].minor << 16 |
						(uint32_t)cases[i].release << 8);
		cr_expect_eq(f.known, cases[i].known, "5.%u", cases[i].minor);
	}
	cr_expect_eq(f.key, 0x3000);
	cr_expect_eq(perl_function_at(&f, LOOP_VA + 63), PERL_FUNCTIONS);
	cr_expect_eq(perl_function_at(&f, LOOP_VA + 64), PERL_RUNOPS);
	cr_expect_eq(perl_function_at(&f, LOOP_VA + 95), PERL_RUNOPS);
	cr_expect_eq(perl_function_at(&f, LOOP_VA + 96), PERL_FUNCTIONS);
	cr_expect_eq(perl_function_at(&f, LOOP_VA + 128), PERL_CALL_SV);
	cr_expect_eq(perl_function_at(&f, 0), PERL_FUNCTIONS);
}

Test(perl, files_that_lack_something)
{
	struct perl_facts f;

	cr_expect_eq(read_file(5, 36, 0, 0, &f), -ENOENT);
	cr_expect_eq(read_file(5, 36, 0, 3, &f), -ENOENT, "no release");
	cr_expect_eq(read_file(0, 36, 0, 4, &f), -ENOENT, "no version");
	cr_expect_eq(read_file(5, 36, 0, 4, &f), 0);
	cr_expect_eq(f.known, 0, "no loop");
}

/* Without threads, the interpreter's variables are the file's. */
Test(perl, not_built_for_threads)
{
	struct runtime_symbol s[] = {
		{"PL_curcop", 0x3010, 8, OBJECT},
		{"PL_curstackinfo", 0x3020, 8, OBJECT},
		{"PL_top_env", 0x3008, 8, OBJECT},
		{"PL_revision", VERSION_VA, 1, OBJECT},
		{"PL_version", VERSION_VA + 1, 1, OBJECT},
		{"PL_subversion", VERSION_VA + 2, 1, OBJECT},
		{"Perl_runops_standard", LOOP_VA + 64, 32, FUNCTION},
	};
	static const struct {
		unsigned symbol;
		uint64_t va;
		int error;
		uint32_t known;
	} cases[] = {
		{0, 0x3010, 0, 1}, {0, 0x3014, 0, 0},  {0, 0x13008, 0, 0},
		{2, 0x3008, 0, 1}, {2, 0, -ENOENT, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		_cleanup_image_ struct elf_image *img = NULL;
		const struct runtime_file file = {
			.symbols = s, .n_symbols = ARRAY_SIZE(s), .version = 5 | 36 << 8 | 1 << 16};
		uint64_t before = s[cases[i].symbol].va;
		struct perl_facts f;

		s[cases[i].symbol].va = cases[i].va;
		runtime_file_write(&b, &file);
		img = file_open(&b);
		cr_expect_eq(perl_facts_read(&f, img), cases[i].error, "%zu", i);
		cr_expect(perl_facts_valid(&f));
		cr_expect_eq(f.known, cases[i].known, "%zu", i);
		cr_expect_eq(perl_facts_start(&f), cases[i].known ? 0x3008 : 0, "%zu", i);
		s[cases[i].symbol].va = before;
	}
}

Test(perl, layouts)
{
	struct perl_layout l;

	cr_assert(perl_layout_of(&l, PERL_VERSION(5, 30), &elf_arch_x86_64));
	cr_expect_eq(l.context_bytes, 0x60);
	cr_assert(perl_layout_of(&l, PERL_VERSION(5, 34), &elf_arch_x86_64));
	cr_expect_eq(l.body_names, 0);
	cr_expect_eq(l.environment, 0x2f8);
	cr_assert(perl_layout_of(&l, PERL_VERSION(5, 40), &elf_arch_x86_64));
	cr_expect_eq(l.body_names, 1);
	cr_expect_eq(l.environment, 0x308);
	cr_assert(perl_layout_of(&l, PERL_VERSION(5, 36), &elf_arch_aarch64));
	cr_expect_eq(l.environment, 0x2e8);
	cr_expect_not(perl_layout_of(&l, PERL_VERSION(5, 41), &elf_arch_x86_64));
	cr_expect_not(perl_layout_of(&l, PERL_VERSION(5, 44), &elf_arch_x86_64));
	cr_expect_not(perl_layout_of(&l, 0, &elf_arch_x86_64));
}

Test(perl, facts_that_are_not_valid)
{
	struct perl_facts good, f;

	cr_assert_eq(read_file(5, 36, 0, ARRAY_SIZE(symbols), &good), 0);
	for (size_t i = 0; i < sizeof good.layout / 2; i++) {
		f = good;
		((uint16_t *)&f.layout)[i] ^= 1;
		cr_expect_not(perl_facts_valid(&f), "field %zu", i);
	}
	f = good;
	f.version = 0;
	cr_expect_not(perl_facts_valid(&f));
	f = good;
	f.key = 0;
	cr_expect_not(perl_facts_valid(&f));
	f = good;
	f.known = 2;
	cr_expect_not(perl_facts_valid(&f));
	f = good;
	f.end[PERL_CALL_SV] = f.start[PERL_CALL_SV];
	cr_expect_not(perl_facts_valid(&f));
	f = good;
	f.end[PERL_PARSE] = 5;
	cr_expect_not(perl_facts_valid(&f));
	f = good;
	f.start[PERL_RUNOPS] = f.end[PERL_RUNOPS] = 0;
	cr_expect_not(perl_facts_valid(&f));
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
	cr_expect_eq(f.kind, RUNTIME_FILE_PERL);
	cr_expect(runtime_facts_known(&f));
	cr_expect_eq(strncmp(runtime_facts_version(&f, text), "Perl 5.", 7), 0, "%s: %s", path, text);
	for (size_t k = 0; k < PERL_FUNCTIONS; k++)
		cr_expect(f.perl.start[k] != 0, "%s: %zu", path, k);
	cr_expect(runtime_facts_is_loop(&f, f.perl.start[PERL_RUNOPS]));
	cr_expect(runtime_facts_is_loop(&f, f.perl.start[PERL_RUNOPS_DEBUG]));
	cr_expect_not(runtime_facts_is_loop(&f, f.perl.start[PERL_CALL_SV]));
	cr_log_info("%s: %s", path, text);
}

Test(perl, installed)
{
	static const char *const patterns[] = {"/usr/bin/perl", "/usr/lib/*/libperl.so.5.*",
					       "perls/*/usr/bin/perl", "perls/*/usr/lib/*/libperl.so.5.*"};

	runtime_files_each(patterns, ARRAY_SIZE(patterns), check_installed);
}
