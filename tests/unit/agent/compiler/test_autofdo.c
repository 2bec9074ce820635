// SPDX-License-Identifier: Apache-2.0
/* Samples of this program itself, which is built with debug information. */
#include "agent/compiler/autofdo.h"

#include <errno.h>

#include "agent/symbol/dwarf.h"
#include "tests/unit/agent/compiler/program.h"

static uint64_t returns_to, plain_returns_to;

__attribute__((noinline)) static void note(uint64_t *ret)
{
	*ret = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* clang-format off */
__attribute__((always_inline)) static inline void inner(void)
{
	note(&returns_to);
}

__attribute__((always_inline)) static inline void middle(void)
{

	inner();
}

__attribute__((noinline)) static void outer(void)
{
	__asm__ volatile(".fill 16, 1, 0x90"); /* what follows is not at its beginning */

	middle();
	note(&plain_returns_to);
	__asm__ volatile("" ::: "memory");
}
/* clang-format on */

static struct compiler_samples *own_program(void)
{
	struct compiler_samples *ret = NULL;

	cr_assert_eq(symbol_dwarf_load(), 0, "libdw is there where this is built");
	cr_assert_eq(compiler_samples_new(&ret, "/proc/self/exe"), 0);
	outer();
	return ret;
}

Test(compiler_autofdo, lines_count_from_their_function_and_inlined_calls_nest)
{
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = own_program();
	const struct frame_module m = module_of(s, "exe", returns_to - 1);
	_cleanup_free_ char *text = NULL;
	uint64_t left;

	add(s, &m, returns_to - 1, 7); /* linked without PIE */
	add(s, &m, returns_to - 2, 5); /* the same line: it did not run twelve times */
	add(s, &m, plain_returns_to - 1, 2);
	text = WRITTEN(compiler_autofdo_write(s, &left, f));
	cr_expect_str_eq(text,
			 "outer:9:0\n"
			 " 4: middle:7\n"
			 "  3: inner:7\n"
			 "   2: 7\n"
			 " 5: 2\n",
			 "got:\n%s", text);
	cr_expect_eq(left, 0);
}

Test(compiler_autofdo, the_first_instructions_run_once_for_each_call)
{
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = own_program();
	const uint64_t entry = (uint64_t)(uintptr_t)note;
	const struct frame_module m = module_of(s, "exe", entry);
	_cleanup_free_ char *text = NULL;
	uint64_t left;

	add(s, &m, entry, 3);
	text = WRITTEN(compiler_autofdo_write(s, &left, f));
	cr_expect_str_eq(text, "note:3:3\n 1: 3\n", "got:\n%s", text);
}

Test(compiler_autofdo, an_address_without_a_line_is_counted)
{
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = own_program();
	const struct frame_module m = module_of(s, "exe", returns_to);
	_cleanup_free_ char *text = NULL;
	uint64_t left;

	add(s, &m, m.start, 4); /* what the linker puts first has no source */
	text = WRITTEN(compiler_autofdo_write(s, &left, f));
	cr_expect_str_eq(text, "");
	cr_expect_eq(left, 4);
}
