// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/symbol/jitdump.h"
#include "tests/unit/agent/symbol/jit_support.h"
#include "tests/support/jit_table.h"

DEFINE_CLEANUP(struct jit_table *, jit_table_free)

/* Parses like a reader of a file that grows by `piece` bytes at a time. */
static int parse(const struct dump *d, size_t piece, struct jitdump *state, struct jit_table **ret)
{
	struct jit_builder b;
	uint64_t at = 0, used, n_cut = 0;
	size_t end = 0;
	int r = 0;

	jit_builder_init(&b);
	while (end < d->b.len && r == 0) {
		end = end + piece < d->b.len ? end + piece : d->b.len;
		do {
			used = 0;
			if (at < end)
				r = jitdump_parse(state, &b, d->b.data + at, end - at, &used);
			at += used;
		} while (r == 0 && used);
	}
	if (r == 0)
		r = jit_table_new(ret, NULL, &b, &n_cut);
	jit_builder_fini(&b);
	return r;
}

static void story(struct dump *d, uint64_t flags)
{
	dump_header(d, flags);
	dump_load(d, 0x7f0000001000, 0x300, "first");
	dump_record(d, 2, 48); /* JIT_CODE_DEBUG_INFO */
	for (int i = 0; i < 4; i++)
		dump_u64(d, 0x7f0000001000);
	dump_load(d, 0x7f0000002000, 0x10, "second");
	dump_record(d, 77, 24); /* a record type of a later version */
	dump_u64(d, 0);
	dump_move(d, 0x7f0000001000, 0x7f0000065000, 0x300);
	dump_load(d, 0x7f0000001080, 0x10, "in its place");
	dump_load(d, 0x7f0000003000, 0x20000, "long");
	dump_record(d, 4, 16); /* JIT_CODE_UNWINDING_INFO, cut short */
	dump_load(d, 0x7f0000040000, 0x10, "before the end");
	dump_record(d, 3, 16); /* JIT_CODE_CLOSE */
	dump_load(d, 0x7f0000050000, 0x10, "behind the end");
}

static void check_story(const struct jit_table *t)
{
	cr_expect_eq(jit_table_len(t), 5);
	cr_expect_str_eq(name_at(t, 0x7f0000001000), "");
	cr_expect_str_eq(name_at(t, 0x7f0000001080), "in its place");
	cr_expect_str_eq(name_at(t, 0x7f00000652ff), "first");
	cr_expect_str_eq(name_at(t, 0x7f000000200f), "second");
	cr_expect_str_eq(name_at(t, 0x7f0000022fff), "long");
	cr_expect_str_eq(name_at(t, 0x7f0000040000), "before the end");
}

/* Both byte orders, both kinds of time stamps, and pieces of all sizes. */
Test(jitdump, records_of_every_kind)
{
	for (unsigned form = 0; form < 4; form++) {
		struct dump d = {.swapped = form & 1};

		story(&d, form & 2 ? 1 : 0);
		for (size_t piece = 1; piece < 6000; piece = piece * 3 + 1) {
			_cleanup_(jit_table_free_p) struct jit_table *t = NULL;
			struct jitdump state = {0};

			cr_assert_eq(parse(&d, piece, &state, &t), 0);
			cr_expect(state.ended);
			cr_expect_eq(state.n_bad, 0);
			check_story(t);
		}
		buf_fini(&d.b);
	}
}

Test(jitdump, other_files)
{
	static const struct {
		size_t at;
		uint8_t byte;
	} rows[] = {{0, 0}, {4, 2}, {8, 39}, {9, 0x20}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(jit_table_free_p) struct jit_table *t = NULL;
		struct jitdump state = {0};
		struct dump d = {0};

		dump_header(&d, 0);
		dump_load(&d, 0x1000, 16, "f");
		d.b.data[rows[i].at] = rows[i].byte;
		cr_expect_eq(parse(&d, 4096, &state, &t), -EBADMSG, "row %zu", i);
		cr_expect(state.ended, "it is not asked again");
		buf_fini(&d.b);
	}
}

/*
 * After an impossible record length, nothing more can be parsed. Records with wrong contents are counted and
 * skipped.
 */
Test(jitdump, broken_records)
{
	_cleanup_(jit_table_free_p) struct jit_table *t = NULL;
	struct jitdump state = {0};
	struct dump d = {0};

	dump_header(&d, 0);
	dump_record(&d, 0, 20); /* a load without a name */
	dump_u32(&d, 0);
	dump_load(&d, 0, 0x10, "null");
	dump_record(&d, 1, 32); /* a move without a destination */
	dump_u64(&d, 0);
	dump_u64(&d, 0);
	dump_load(&d, 0x1000, 0x10, "");
	dump_load(&d, 0x1000, 0x10, "good");
	dump_record(&d, 0, 15);
	dump_load(&d, 0x2000, 0x10, "never");
	cr_assert_eq(parse(&d, 5000, &state, &t), 0);
	cr_expect_eq(jit_table_len(t), 1);
	cr_expect_str_eq(name_at(t, 0x1000), "good");
	cr_expect_eq(state.n_bad, 5);
	cr_expect(state.ended);
	buf_fini(&d.b);
}

/* A name without a NUL ends where the record ends. */
Test(jitdump, name_ends_with_its_record)
{
	_cleanup_(jit_table_free_p) struct jit_table *t = NULL;
	struct jitdump state = {0};
	struct dump d = {0};

	dump_header(&d, 0);
	dump_record(&d, 0, 56 + 3);
	dump_u64(&d, 0);
	dump_u64(&d, 0x1000);
	dump_u64(&d, 0x1000);
	dump_u64(&d, 0x10);
	dump_u64(&d, 1);
	cr_assert_eq(buf_append(&d.b, "abc", 3), 0);
	dump_load(&d, 0x2000, 0x10, "next");
	cr_assert_eq(parse(&d, 5000, &state, &t), 0);
	cr_expect_str_eq(name_at(t, 0x1000), "abc");
	cr_expect_str_eq(name_at(t, 0x2000), "next");
	buf_fini(&d.b);
}
