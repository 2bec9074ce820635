// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/symbol/perfmap.h"
#include "tests/unit/agent/symbol/jit_support.h"
#include "tests/support/jit_table.h"

DEFINE_CLEANUP(struct jit_table *, jit_table_free)

static struct jit_table *parse(const char *text, size_t len, size_t piece, uint64_t *ret_bad)
{
	struct perfmap m = {0};
	struct jit_builder b;
	struct jit_table *t;
	uint64_t n_cut = 0;
	size_t at = 0, end = 0, used;

	jit_builder_init(&b);
	while (end < len) {
		end = end + piece < len ? end + piece : len;
		cr_assert_eq(perfmap_parse(&m, &b, text + at, end - at, &used), 0);
		cr_assert_leq(used, end - at);
		at += used;
	}
	cr_assert_eq(jit_table_new(&t, NULL, &b, &n_cut), 0);
	*ret_bad = m.n_bad;
	return t;
}

Test(perfmap, lines)
{
	static const char text[] = "7f0000001000 100 LazyCompile:*work /a b.js:1:2\n"
				   "0x7f0000002000 0x80 with 0x\n"
				   "7F0000003000 FF upper\r\n"
				   "\n"
				   "no numbers here\n"
				   "7f0000004000 100\n"		 /* no name */
				   "7f0000004000 100 \n"	 /* an empty name */
				   "7f0000004000 0 empty\n"	 /* no size */
				   "12345678901234567 10 long\n" /* 17 digits */
				   "7f0000005000  20  spaced out  \n"
				   "7f0000006000 20 unfinished";
	uint64_t n_bad;

	for (size_t piece = 1; piece < sizeof text; piece += 3) {
		_cleanup_(jit_table_free_p) struct jit_table *t = parse(text, sizeof text - 1, piece, &n_bad);

		cr_expect_str_eq(name_at(t, 0x7f00000010ff), "LazyCompile:*work /a b.js:1:2");
		cr_expect_str_eq(name_at(t, 0x7f0000002000), "with 0x");
		cr_expect_str_eq(name_at(t, 0x7f0000003000), "upper");
		cr_expect_str_eq(name_at(t, 0x7f0000005000), "spaced out");
		cr_expect_str_eq(name_at(t, 0x7f0000004000), "");
		cr_expect_str_eq(name_at(t, 0x7f0000006000), "", "a line without its end is not read yet");
		cr_expect_eq(jit_table_len(t), 4);
		cr_expect_eq(n_bad, 6);
	}
}

Test(perfmap, an_endless_line_is_skipped)
{
	static char text[3 * PERFMAP_LINE_MAX];
	static const char last[] = "\n1000 10 after\n";
	uint64_t n_bad;

	memset(text, '1', sizeof text);
	memcpy(text + sizeof text - sizeof last + 1, last, sizeof last - 1);
	for (size_t piece = 1000; piece < sizeof text; piece += 7777) {
		_cleanup_(jit_table_free_p) struct jit_table *t = parse(text, sizeof text, piece, &n_bad);

		cr_expect_eq(jit_table_len(t), 1);
		cr_expect_str_eq(name_at(t, 0x1000), "after");
		cr_expect_eq(n_bad, 1);
	}
}

/* A full builder stops before the line for which it has no room. */
Test(perfmap, parsing_continues_after_a_full_builder)
{
	static const char line[] = "1000 10 name\n";
	static char text[(JIT_PENDING_MAX + 10) * (sizeof line - 1)];
	struct perfmap m = {0};
	struct jit_builder b;
	size_t used;

	for (size_t i = 0; i + sizeof line - 1 <= sizeof text; i += sizeof line - 1)
		memcpy(text + i, line, sizeof line - 1);
	jit_builder_init(&b);
	cr_assert_eq(perfmap_parse(&m, &b, text, sizeof text, &used), -ENOSPC);
	cr_expect_eq(used, JIT_PENDING_MAX * (sizeof line - 1));
	jit_builder_fini(&b);
	cr_assert_eq(perfmap_parse(&m, &b, text + used, sizeof text - used, &used), 0);
	cr_expect_eq(used, 10 * (sizeof line - 1));
	cr_expect_eq(b.n, 10);
	cr_expect_eq(m.n_bad, 0);
	jit_builder_fini(&b);
}
