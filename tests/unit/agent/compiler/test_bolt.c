// SPDX-License-Identifier: Apache-2.0
/* Samples of a handmade program with global, local and equal names. */
#include "agent/compiler/bolt.h"

#include <elf.h>
#include <errno.h>

#include "tests/unit/agent/compiler/program.h"
#include "tests/unit/agent/elf/elf_file.h"

#define CODE_VA 0x1000

static const char strings[] = "\0work\0main\0step two\0";
enum { WORK = 1, MAIN = 6, STEP = 11 };

#define SYMBOL(name_, type_, bind_, va_, bytes_) \
	{.st_name = (name_),                     \
	 .st_info = ELF64_ST_INFO(bind_, type_), \
	 .st_shndx = (va_) ? 1 : SHN_UNDEF,      \
	 .st_value = (va_),                      \
	 .st_size = (bytes_)}

/* Sorted otherwise than by address; `work` is three local functions and a label, `main` also undefined. */
static const Elf64_Sym symbols[] = {
	SYMBOL(0, STT_NOTYPE, STB_LOCAL, 0, 0),		 SYMBOL(WORK, STT_FUNC, STB_LOCAL, 0x1040, 0x20),
	SYMBOL(WORK, STT_FUNC, STB_LOCAL, 0x1010, 0x20), SYMBOL(WORK, STT_NOTYPE, STB_LOCAL, 0x1018, 0),
	SYMBOL(STEP, STT_FUNC, STB_LOCAL, 0x1070, 0),	 SYMBOL(MAIN, STT_FUNC, STB_GLOBAL, 0x1080, 0x10),
	SYMBOL(MAIN, STT_FUNC, STB_GLOBAL, 0, 0x10),	 SYMBOL(9999, STT_FUNC, STB_GLOBAL, 0x1080, 0x10),
};

/* Opens the program by a path without a name of its own: that of its descriptor. */
static struct compiler_samples *open_program(char name[16], bool with_symbols)
{
	static const char code[0x100];
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, CODE_VA, code, sizeof code, 0, 0},
		{with_symbols ? ".symtab" : ".other", SHT_SYMTAB, 0, 0, symbols, sizeof symbols, 3,
		 sizeof symbols[0]},
		{".strtab", SHT_STRTAB, 0, 0, strings, sizeof strings, 0, 0},
	};
	_cleanup_buf_ struct buf b = {0};
	struct compiler_samples *ret = NULL;
	char path[64];

	file_write(&b, EM_X86_64, s, ARRAY_SIZE(s), 0);
	_cleanup_close_ int fd = file_fd(b.data, b.len);
	snprintf(name, 16, "%d", fd);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	cr_assert_eq(compiler_samples_new(&ret, path), 0);
	return ret;
}

Test(compiler_bolt, addresses_are_offsets_of_symbols)
{
	char name[16];
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = open_program(name, true);
	const struct frame_module m = module_of(s, name, CODE_VA);
	_cleanup_free_ char *text = NULL;
	uint64_t left;

	add(s, &m, 0x1044, 3);
	add(s, &m, 0x1012, 5);
	add(s, &m, 0x1044, 4);
	add(s, &m, 0x1019, 6); /* behind the label, in the function */
	add(s, &m, 0x1070, 1); /* a function of unknown size */
	add(s, &m, 0x108f, 2);
	add(s, &m, 0x1090, 9); /* behind it */
	add(s, &m, 0x1004, 8); /* before the first */
	text = WRITTEN(compiler_bolt_write(s, &left, f));
	cr_expect_str_eq(text,
			 "no_lbr cpu-clock\n"
			 "1 work/1 2 5\n"
			 "1 work/1 9 6\n"
			 "1 work/3 4 7\n"
			 "1 step\\ two/1 0 1\n"
			 "1 main f 2\n",
			 "got:\n%s", text);
	cr_expect_eq(left, 17);
	cr_expect_eq(compiler_samples_own(s), 38);
}

Test(compiler_bolt, a_program_without_symbols_is_reported)
{
	char name[16];
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = open_program(name, false);
	uint64_t left;

	cr_expect_eq(compiler_bolt_write(s, &left, stderr), -ENODATA);
}

Test(compiler_samples, what_ran_in_the_program_counts)
{
	char name[16];
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = open_program(name, true);
	struct frame_module own = module_of(s, name, CODE_VA), other = own, moved = own;
	const struct compiler_address *v;
	size_t n;

	other.name = "libc.so.6";
	moved.start += 0x555500000000; /* as in a process, in recordings of others */
	add(s, &own, 0x1044, 3);
	add(s, &other, 0x1044, 5);
	add(s, &moved, 0x555500001044, 4);
	add(s, &own, 0x90001044, 7); /* in no segment */
	cr_assert_eq(compiler_samples_add(s, &(struct output_stack){.process = "p", .count = 2}), 0);
	cr_expect_eq(compiler_samples_all(s), 21);
	cr_expect_eq(compiler_samples_own(s), 7);
	cr_assert_eq(compiler_samples_get(s, &v, &n), 0);
	cr_assert_eq(n, 1);
	cr_expect(v[0].va == 0x1044 && v[0].n == 7);
}

Test(compiler_samples, files_that_are_none_are_refused)
{
	struct compiler_samples *s = NULL;

	cr_expect_eq(compiler_samples_new(&s, "/nonexistent"), -ENOENT);
	cr_expect_eq(compiler_samples_new(&s, "/etc/passwd"), -ENOEXEC);
	cr_expect_null(s);
}
