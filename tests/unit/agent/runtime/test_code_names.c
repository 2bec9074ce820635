// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/elf/runtime/ruby.h"
#include "agent/elf/runtime/v8_classes.h"
#include "agent/runtime/code_names.h"
#include "bpf/abi.h"

#define CODE_TYPE 0x1000u
#define TEXT_TYPE 0x2000u
#define TEXT_AT 40u /* in a string object */
#define LENGTH_AT 16u
#define STATE_AT 32u
#define COMPACT_ASCII 0x64u
#define CODE_START 208

DEFINE_CLEANUP(struct code_names *, code_names_free)

static const struct cpython_layout by_address = {.text_length = LENGTH_AT,
						 .text_state = STATE_AT,
						 .kind_shift = 2,
						 .compact_bit = 5,
						 .ascii_bit = 6,
						 .ascii_text = TEXT_AT,
						 .wide_text = 56,
						 .lines_format = CPYTHON_LINES_LOCATIONS,
						 .code_start = CODE_START,
						 .instruction_bytes = 1};

/* Four code units in line 10, then two in line 12. */
static const uint8_t locations[] = {0xd3, 0x00, 0x00, 0xe1, 0x00, 0x00};

struct report {
	struct runtime_code head;
	uint8_t bytes[2 * RUNTIME_TEXT_MAX + RUNTIME_LINES_MAX + 8];
	size_t len; /* of `bytes` */
};

static uint16_t put_text(struct report *r, const char *text, size_t length)
{
	const size_t bytes = TEXT_AT + strlen(text);
	uint8_t *to = r->bytes + r->len;

	if (!*text)
		return 0;
	memset(to, 0, TEXT_AT);
	memcpy(to + LENGTH_AT, &length, sizeof length);
	to[STATE_AT] = COMPACT_ASCII;
	memcpy(to + TEXT_AT, text, strlen(text));
	r->len += (bytes + 7) & ~7ul;
	return (uint16_t)bytes;
}

/* "": not read. A NULL table: not read. */
static void make(struct report *r, uint64_t number, const char *name, const char *file, const uint8_t *lines,
		 uint32_t n_lines)
{
	memset(r, 0, sizeof *r);
	r->head = (struct runtime_code){
		.kind = RUNTIME_REPORT_CODE,
		.number = number,
		.type = CODE_TYPE,
		.name_type = TEXT_TYPE,
		.file_type = TEXT_TYPE,
		.first_line = 10,
		.runtime = RUNTIME_CPYTHON,
		.lines_bytes = lines ? n_lines : 0,
		.lines_length = n_lines,
	};
	r->head.name_bytes = put_text(r, name, strlen(name));
	r->head.file_bytes = put_text(r, file, strlen(file));
	if (lines)
		memcpy(r->bytes + r->len, lines, n_lines);
	r->len += (r->head.lines_bytes + 7) & ~7ul;
}

static int add(struct code_names *n, const struct report *r)
{
	return code_names_add(n, 1, &r->head, sizeof r->head + r->len, &by_address, CODE_TYPE, TEXT_TYPE);
}

static struct code_names *names_new(size_t max_bytes)
{
	struct code_names *n = NULL;

	cr_assert_eq(code_names_new(&n, max_bytes), 0);
	return n;
}

Test(code_names, places)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p, q;
	struct report r;

	make(&r, 0xabcd000000000001, "Klass.method", "/srv/app.py", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p), "only 48 bits of a number are in a frame");
	cr_expect_str_eq(p.name, "Klass.method");
	cr_expect_str_eq(p.file, "/srv/app.py");
	cr_expect_eq(p.first_line, 10);
	cr_expect_eq(p.line, 10);
	cr_assert(code_names_find(n, 1, CODE_START + 8, &q));
	cr_expect_eq(q.line, 12);
	cr_expect_eq(p.function, q.function);
	cr_expect_not(code_names_find(n, 2, CODE_START, &p));
}

Test(code_names, offsets)
{
	/* one code unit in each of the lines 10, 12, 14 */
	static const uint8_t lines[] = {0xd0, 0, 0, 0xe0, 0, 0, 0xe0, 0, 0};
	/* the same by bytes, for an index */
	static const uint8_t pairs[] = {2, 0, 2, 2, 2, 2};
	struct cpython_layout by_index = by_address;
	static const struct {
		int64_t offset;
		uint32_t line;
	} rows[] = {{0, 10},  {1, 12},	       {2, 14},		{3, 0},
		    {-1, 10}, {1ll << 33, 10}, {INT64_MIN, 10}, {INT64_MAX, 10}};
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	by_index.flags = RUNTIME_WALK_INDEX;
	by_index.code_start = 0;
	by_index.instruction_bytes = 2;
	by_index.lines_format = CPYTHON_LINES_LINETABLE;
	make(&r, 1, "f", "a.py", lines, sizeof lines);
	cr_assert_eq(add(n, &r), 0);
	make(&r, 2, "f", "a.py", pairs, sizeof pairs);
	cr_assert_eq(code_names_add(n, 1, &r.head, sizeof r.head + r.len, &by_index, 0, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t offset = rows[i].offset;

		cr_assert(code_names_find(n, 2, offset, &p));
		cr_expect_eq(p.line, rows[i].line, "index %ld: %u", (long)offset, p.line);
		if (offset > -100 && offset < 100)
			offset = offset * 2 + CODE_START;
		cr_assert(code_names_find(n, 1, offset, &p));
		cr_expect_eq(p.line, rows[i].line, "offset %ld: %u", (long)offset, p.line);
	}
}

Test(code_names, refused)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_names_stats s;
	struct report good, r;
	size_t len;

	make(&good, 1, "f", "a.py", locations, sizeof locations);
	len = sizeof good.head + good.len;
	for (size_t i = 0; i < len; i++)
		cr_expect_eq(code_names_add(n, 1, &good.head, i, &by_address, CODE_TYPE, TEXT_TYPE),
			     -EBADMSG);
	cr_expect_eq(code_names_add(n, 1, &good.head, len + 8, &by_address, CODE_TYPE, TEXT_TYPE), -EBADMSG);
	r = good;
	r.head.kind = RUNTIME_REPORT_SLOT;
	cr_expect_eq(add(n, &r), -EBADMSG);
	r = good;
	r.head.runtime = RUNTIME_RUBY;
	cr_expect_eq(add(n, &r), -EBADMSG);
	r = good;
	r.head.name_bytes = RUNTIME_TEXT_MAX + 8;
	cr_expect_eq(add(n, &r), -EBADMSG);
	r = good;
	r.head.lines_bytes = UINT32_MAX;
	cr_expect_eq(add(n, &r), -EBADMSG);
	r = good;
	r.head.lines_length = r.head.lines_bytes - 1;
	cr_expect_eq(add(n, &r), -EBADMSG);
	code_names_stats(n, &s);
	cr_expect_eq(s.bad, len + 6);
	cr_expect_eq(s.added + s.functions + s.bytes, 0);
}

Test(code_names, other_types)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct report good, r;

	make(&good, 1, "f", "a.py", locations, sizeof locations);
	r = good;
	r.head.type++;
	cr_expect_eq(add(n, &r), -ENOTSUP);
	r = good;
	r.head.name_type++;
	cr_expect_eq(add(n, &r), -ENOTSUP);
	r = good;
	r.head.file_type++;
	cr_expect_eq(add(n, &r), -ENOTSUP);
	r = good;
	r.bytes[STATE_AT] = 0;
	cr_expect_eq(add(n, &r), -ENOTSUP, "no compact string");
	r = good;
	r.head.type = r.head.name_type = r.head.file_type = 99;
	cr_expect_eq(code_names_add(n, 1, &r.head, sizeof r.head + r.len, &by_address, 0, 0), 0);
	/* what could not be read has no type */
	make(&r, 2, "", "", NULL, 0);
	r.head.name_type = r.head.file_type = 0;
	cr_expect_eq(add(n, &r), 0);
}

Test(code_names, unreadable_parts_come_later)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_names_stats s, t;
	struct code_place p;
	struct report r;

	make(&r, 1, "", "", NULL, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_expect_str_eq(p.name, CODE_NAME_UNKNOWN);
	cr_expect_str_eq(p.file, "");
	cr_expect_eq(p.first_line, 10);
	cr_expect_eq(p.line, 0, "the table is not there");
	make(&r, 1, "f", "", NULL, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	make(&r, 1, "", "a.py", NULL, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	make(&r, 1, "", "", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	code_names_stats(n, &s);
	make(&r, 1, "other", "other.py", locations, 3);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_expect_str_eq(p.name, "f");
	cr_expect_str_eq(p.file, "a.py");
	cr_expect_eq(p.line, 10);
	code_names_stats(n, &t);
	cr_expect_eq(s.bytes, t.bytes);
	cr_expect_eq(t.functions, 1);
	cr_expect_eq(t.added, 5);
}

Test(code_names, cut_text_is_completed)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;
	size_t length = 1000;

	make(&r, 1, "function", "a.py", locations, sizeof locations);
	memcpy(r.bytes + LENGTH_AT, &length, sizeof length);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_expect_str_eq(p.name, "function…");
	make(&r, 1, "function_whole", "", NULL, 0);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_expect_str_eq(p.name, "function_whole");
	cr_expect_str_eq(p.file, "a.py");
	cr_expect_eq(p.line, 10);
}

Test(code_names, cut_table_is_completed)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	make(&r, 1, "f", "a.py", locations, 3);
	r.head.lines_length = sizeof locations;
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_expect_eq(p.line, 10);
	cr_assert(code_names_find(n, 1, CODE_START + 8, &p));
	cr_expect_eq(p.line, 0);
	make(&r, 1, "f", "a.py", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	cr_assert(code_names_find(n, 1, CODE_START + 8, &p));
	cr_expect_eq(p.line, 12);
}

Test(code_names, least_recently_used_goes_first)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(4096);
	struct code_names_stats s;
	struct code_place p;
	struct report r;
	char name[32];

	for (uint64_t i = 1; i <= 1000; i++) {
		snprintf(name, sizeof name, "f%u", (unsigned)i);
		make(&r, i, name, "a.py", locations, sizeof locations);
		cr_assert_eq(add(n, &r), 0);
		cr_expect(code_names_find(n, 1, CODE_START, &p), "it is in use");
		cr_expect_str_eq(p.name, "f1");
		code_names_stats(n, &s);
		cr_expect_leq(s.bytes, 4096);
	}
	cr_expect_eq(s.functions + s.evicted, 1000);
	cr_expect_gt(s.functions, 10);
	cr_expect_not(code_names_find(n, 2, CODE_START, &p));
	cr_expect(code_names_find(n, 1000, CODE_START, &p));
	code_names_stats(n, &s);
	cr_expect_eq(s.missed, 1);
}

Test(code_names, files_are_shared)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_names_stats s;
	struct code_place p, q;
	struct report r;
	size_t one, two, three;

	make(&r, 1, "f", "a.py", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	code_names_stats(n, &s);
	one = s.bytes;
	r.head.number = 2;
	cr_assert_eq(add(n, &r), 0);
	code_names_stats(n, &s);
	two = s.bytes;
	make(&r, 3, "f", "b.py", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	code_names_stats(n, &s);
	three = s.bytes;
	cr_expect_gt(one, two - one);
	cr_expect_eq(three - two, one);
	cr_assert(code_names_find(n, 1, CODE_START, &p));
	cr_assert(code_names_find(n, 2, CODE_START, &q));
	cr_expect_eq(p.file, q.file);
	cr_expect_neq(p.function, q.function);
}

Test(code_names, no_room_at_all)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(0);
	struct code_names_stats s;
	struct code_place p;
	struct report r;

	make(&r, 1, "f", "a.py", locations, sizeof locations);
	cr_assert_eq(add(n, &r), 0);
	cr_assert_eq(add(n, &r), 0);
	cr_expect_not(code_names_find(n, 1, CODE_START, &p));
	code_names_stats(n, &s);
	cr_expect_eq(s.bytes + s.functions, 0);
	cr_expect_eq(s.evicted, 2);
	code_names_free(NULL);
}

/* A tenant that has ever more functions takes the room of its own, not that of others. */
Test(code_names, shares)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 16);
	struct code_names_stats s;
	struct code_place p;
	struct report r;

	for (uint64_t i = 1; i <= 50; i++) {
		make(&r, i, "f", "a.py", locations, sizeof locations);
		cr_assert_eq(code_names_add(n, 7, &r.head, sizeof r.head + r.len, &by_address, 0, 0), 0);
	}
	for (uint64_t i = 1000; i < 5000; i++) {
		make(&r, i, "g", "b.py", locations, sizeof locations);
		cr_assert_eq(code_names_add(n, 8, &r.head, sizeof r.head + r.len, &by_address, 0, 0), 0);
	}
	code_names_stats(n, &s);
	cr_expect_leq(s.bytes, 1u << 16);
	cr_expect_gt(s.evicted, 1000);
	for (uint64_t i = 1; i <= 50; i++)
		cr_expect(code_names_find(n, i, CODE_START, &p), "function %lu", (unsigned long)i);
	cr_expect(code_names_find(n, 4999, CODE_START, &p), "the last one");
	cr_expect_not(code_names_find(n, 1000, CODE_START, &p));
}

/* ---- PHP */

/* A zend_string; `length` may be more than is there. Returns its bytes. */
static uint16_t put_php(struct report *r, const char *text, size_t bytes, size_t length)
{
	uint8_t *to = r->bytes + r->len;

	memset(to, 0, 24);
	memcpy(to + 16, &length, sizeof length);
	memcpy(to + 24, text, bytes);
	r->len += (24 + bytes + 7) & ~7ul;
	return (uint16_t)(24 + bytes);
}

static void make_php(struct report *r, uint64_t number, const char *class, const char *name, const char *file)
{
	memset(r, 0, sizeof *r);
	r->head = (struct runtime_code){
		.kind = RUNTIME_REPORT_CODE, .number = number, .runtime = RUNTIME_PHP, .first_line = 3};
	if (name)
		r->head.name_bytes = put_php(r, name, strlen(name), strlen(name));
	if (file)
		r->head.file_bytes = put_php(r, file, strlen(file), strlen(file));
	if (class)
		r->head.class_bytes = put_php(r, class, strlen(class), strlen(class));
}

static int add_php(struct code_names *n, const struct report *r)
{
	return code_names_add_php(n, 1, &r->head, sizeof r->head + r->len);
}

Test(code_names, php)
{
	static const struct {
		const char *class, *name, *file, *want;
	} cases[] = {
		{NULL, "f", "/srv/a.php", "f"},
		{"App\\Kernel", "boot", "/srv/a.php", "App\\Kernel::boot"},
		{NULL, NULL, "/srv/a.php", CODE_NAME_MAIN},
		{NULL, "array_map", NULL, "array_map"},
		{"K", "{closure}", "/srv/\xc3\xa4.php", "K::{closure}"},
		{NULL, "a\x01\xffz\xe2\x80\xae", NULL, "a?\xef\xbf\xbdz?"},
		{NULL, "\xed\xa0\x80", NULL, "\xef\xbf\xbd"},
		{NULL, "\xc0\xaf", NULL, "\xef\xbf\xbd\xef\xbf\xbd"},
	};
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_php(&r, i + 1, cases[i].class, cases[i].name, cases[i].file);
		cr_assert_eq(add_php(n, &r), 0, "%zu", i);
		cr_assert(code_names_find(n, i + 1, 17, &p));
		cr_expect_str_eq(p.name, cases[i].want);
		cr_expect_str_eq(p.file, cases[i].file ?: "");
		cr_expect_eq(p.first_line, 3);
		cr_expect_eq(p.line, 17);
		cr_assert(code_names_find(n, i + 1, 0, &p));
		cr_expect_eq(p.line, 3, "an unknown line");
		cr_assert(code_names_find(n, i + 1, -1, &p));
		cr_expect_eq(p.line, 3);
	}
}

Test(code_names, php_texts_that_are_cut)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	make_php(&r, 1, NULL, NULL, NULL);
	r.head.name_bytes = put_php(&r, "abc\xc3", 4, 5);
	cr_assert_eq(add_php(n, &r), 0);
	cr_assert(code_names_find(n, 1, 1, &p));
	cr_expect_str_eq(p.name, "abc\xe2\x80\xa6");

	make_php(&r, 2, NULL, "m", NULL);
	r.head.class_bytes = put_php(&r, "class@anonymous\0/srv/a.php:3$0", 20, 40);
	cr_assert_eq(add_php(n, &r), 0);
	cr_assert(code_names_find(n, 2, 1, &p));
	cr_expect_str_eq(p.name, "class@anonymous::m");
}

Test(code_names, php_reports_that_are_none)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct report good, r;

	make_php(&good, 1, "K", "m", "/a.php");
	for (size_t i = 0; i < sizeof good.head + good.len; i++)
		cr_expect_eq(code_names_add_php(n, 1, &good.head, i), -EBADMSG);
	r = good;
	r.head.runtime = RUNTIME_CPYTHON;
	cr_expect_eq(add_php(n, &r), -EBADMSG);
	cr_expect_eq(add(n, &r), -EBADMSG, "a class is PHP's");
	r = good;
	r.head.name_bytes = 20;
	cr_expect_eq(add_php(n, &r), -EBADMSG, "less than the header of a string");
	r = good;
	r.head.class_bytes = RUNTIME_TEXT_MAX + 1;
	cr_expect_eq(add_php(n, &r), -EBADMSG);
	cr_expect_eq(add_php(n, &good), 0);
}

/* ---- Ruby */

/* A string: its length, and what there is of it. Returns its bytes. */
static uint16_t put_ruby(struct report *r, const char *text)
{
	const uint64_t length = text ? strlen(text) : 0;

	if (!text)
		return 0;
	memcpy(r->bytes + r->len, &length, sizeof length);
	memcpy(r->bytes + r->len + sizeof length, text, length);
	r->len += (sizeof length + length + 7) & ~7ul;
	return (uint16_t)(sizeof length + length);
}

static void make_ruby(struct report *r, uint64_t number, const char *label, const char *file, uint16_t form)
{
	memset(r, 0, sizeof *r);
	r->head = (struct runtime_code){.kind = RUNTIME_REPORT_CODE,
					.number = number,
					.runtime = RUNTIME_RUBY,
					.first_line = 7,
					.form = form};
	r->head.name_bytes = put_ruby(r, label);
	r->head.file_bytes = put_ruby(r, file);
	r->head.class_bytes = put_ruby(r, "Foo");
}

static int add_ruby(struct code_names *n, const struct report *r, uint32_t version)
{
	return code_names_add_ruby(n, 1, &r->head, sizeof r->head + r->len, version);
}

Test(code_names, ruby)
{
	const uint16_t method = 1 | RUNTIME_FORM_METHOD;
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	make_ruby(&r, 1, "bar", "/srv/a.rb", method);
	cr_assert_eq(add_ruby(n, &r, RUBY_VERSION(3, 4) | 11 << 8), 0);
	cr_assert(code_names_find(n, 1, 17, &p));
	cr_expect_str_eq(p.name, "Foo#bar");
	cr_expect_str_eq(p.file, "/srv/a.rb");
	cr_expect_eq(p.first_line, 7);
	cr_expect_eq(p.line, 17);
	make_ruby(&r, 2, "bar", "/srv/a.rb", method);
	cr_assert_eq(add_ruby(n, &r, RUBY_VERSION(3, 1)), 0);
	cr_assert(code_names_find(n, 2, 0, &p));
	cr_expect_eq(p.line, 3, "a number as Ruby code has it");
	make_ruby(&r, 3, "each", NULL, RUNTIME_FORM_NATIVE | RUNTIME_FORM_METHOD);
	cr_assert_eq(add_ruby(n, &r, RUBY_VERSION(3, 4)), 0);
	cr_assert(code_names_find(n, 3, 0, &p));
	cr_expect_str_eq(p.name, "Foo#each");
	cr_expect_str_eq(p.file, "");
	cr_expect_eq(p.line, 0);
	make_ruby(&r, 4, NULL, "/srv/a.rb", method);
	cr_expect_eq(add_ruby(n, &r, RUBY_VERSION(3, 4)), -EBADMSG, "no label");
	make_ruby(&r, 4, "bar", "/srv/a.rb", method);
	r.head.runtime = RUNTIME_PHP;
	cr_expect_eq(add_ruby(n, &r, RUBY_VERSION(3, 4)), -EBADMSG);
}

/* ---- Perl */

/* A HEK; `length` may be more than is there. Returns its bytes. */
static uint16_t put_perl(struct report *r, const char *text, size_t bytes, int32_t length)
{
	uint8_t *to = r->bytes + r->len;

	memset(to, 0, 8);
	memcpy(to + 4, &length, sizeof length);
	memcpy(to + 8, text, bytes);
	r->len += (8 + bytes + 7) & ~7ul;
	return (uint16_t)(8 + bytes);
}

static void make_perl(struct report *r, uint64_t number, unsigned type, const char *package, const char *name,
		      const char *file)
{
	memset(r, 0, sizeof *r);
	r->head = (struct runtime_code){
		.kind = RUNTIME_REPORT_CODE, .number = number, .runtime = RUNTIME_PERL, .type = type};
	if (name)
		r->head.name_bytes = put_perl(r, name, strlen(name), (int32_t)strlen(name));
	if (file) {
		r->head.file_bytes = (uint16_t)(strlen(file) + 1);
		memcpy(r->bytes + r->len, file, r->head.file_bytes);
		r->len += (r->head.file_bytes + 7u) & ~7ul;
	}
	if (package)
		r->head.class_bytes = put_perl(r, package, strlen(package), (int32_t)strlen(package));
}

static int add_perl(struct code_names *n, const struct report *r)
{
	return code_names_add_perl(n, 1, &r->head, sizeof r->head + r->len);
}

Test(code_names, perl)
{
	static const struct {
		unsigned type;
		const char *package, *name, *file, *want;
	} cases[] = {
		{RUNTIME_PERL_FUNCTION, "main", "f", "/srv/a.pl", "main::f"},
		{RUNTIME_PERL_FUNCTION, "My::Module", "__ANON__", "/srv/My/Module.pm",
		 "My::Module::__ANON__"},
		{RUNTIME_PERL_FUNCTION, NULL, "f", "/srv/a.pl", "__ANON__::f"},
		{RUNTIME_PERL_FUNCTION, "main", NULL, "/srv/a.pl", CODE_NAME_PERL_UNKNOWN},
		{RUNTIME_PERL_LEXICAL, NULL, "f", "/srv/a.pl", "f"},
		{RUNTIME_PERL_MAIN, NULL, NULL, "/srv/a.pl", CODE_NAME_PERL_MAIN},
		{RUNTIME_PERL_EVAL, NULL, NULL, "(eval 3)", CODE_NAME_PERL_EVAL},
		{RUNTIME_PERL_EVAL, NULL, NULL, NULL, CODE_NAME_PERL_EVAL},
		{RUNTIME_PERL_FUNCTION, "main",
		 "gr\xc3\xb6\xc3\x9f"
		 "e",
		 "/srv/\xc3\xa4.pl",
		 "main::gr\xc3\xb6\xc3\x9f"
		 "e"},
		{RUNTIME_PERL_FUNCTION, "main",
		 "gr\xf6\xdf"
		 "e",
		 NULL,
		 "main::gr\xc3\xb6\xc3\x9f"
		 "e"},
		{RUNTIME_PERL_FUNCTION, "main", "a\x01z\xe2\x80\xae", NULL, "main::a?z?"},
	};
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_perl(&r, i + 1, cases[i].type, cases[i].package, cases[i].name, cases[i].file);
		cr_assert_eq(add_perl(n, &r), 0, "%zu", i);
		cr_assert(code_names_find(n, i + 1, 17, &p));
		cr_expect_str_eq(p.name, cases[i].want);
		cr_expect_str_eq(p.file, cases[i].file ?: "");
		cr_expect_eq(p.first_line, 0);
		cr_expect_eq(p.line, 17);
		cr_assert(code_names_find(n, i + 1, 0, &p));
		cr_expect_eq(p.line, 0, "an unknown line");
	}
}

Test(code_names, perl_texts_that_are_cut)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct code_place p;
	struct report r;
	char file[RUNTIME_TEXT_MAX];

	make_perl(&r, 1, RUNTIME_PERL_LEXICAL, NULL, NULL, NULL);
	r.head.name_bytes = put_perl(&r, "abc\xc3", 4, 5);
	cr_assert_eq(add_perl(n, &r), 0);
	cr_assert(code_names_find(n, 1, 1, &p));
	cr_expect_str_eq(p.name, "abc\xe2\x80\xa6");

	memset(file, 'f', sizeof file);
	file[sizeof file - 1] = '\0';
	make_perl(&r, 2, RUNTIME_PERL_MAIN, NULL, NULL, file);
	cr_assert_eq(add_perl(n, &r), 0);
	cr_assert(code_names_find(n, 2, 1, &p));
	cr_expect_eq(strlen(p.file), sizeof file - 1 + strlen("\xe2\x80\xa6"));
}

Test(code_names, perl_reports_that_are_none)
{
	_cleanup_(code_names_free_p) struct code_names *n = names_new(1 << 20);
	struct report r;

	make_perl(&r, 1, RUNTIME_PERL_CODES, "main", "f", "a.pl");
	cr_expect_eq(add_perl(n, &r), -EBADMSG, "what is that");
	make_perl(&r, 1, RUNTIME_PERL_FUNCTION, "main", NULL, "a.pl");
	r.head.name_bytes = 7;
	r.len += 8;
	cr_expect_eq(add_perl(n, &r), -EBADMSG, "too short");
	make_perl(&r, 1, RUNTIME_PERL_LEXICAL, NULL, NULL, NULL);
	r.head.name_bytes = put_perl(&r, "f", 1, -2);
	cr_expect_eq(add_perl(n, &r), -EBADMSG, "a special key");
	make_perl(&r, 1, RUNTIME_PERL_FUNCTION, "main", "f", "a.pl");
	r.len += 8;
	cr_expect_eq(add_perl(n, &r), -EBADMSG, "too long");
	r.len -= 8;
	r.head.runtime = RUNTIME_PHP;
	cr_expect_eq(add_perl(n, &r), -EBADMSG, "another language's");
}

/* ---- Lua: a report has the source of a function, and its first line */

static int add_lua(struct code_names *n, uint64_t number, const char *source, size_t bytes, uint32_t line)
{
	struct report r = {.head = {.kind = RUNTIME_REPORT_CODE,
				    .number = number,
				    .runtime = RUNTIME_LUA,
				    .first_line = line,
				    .file_bytes = (uint16_t)bytes}};

	if (bytes)
		memcpy(r.bytes, source, bytes);
	r.len = (bytes + 7) & ~(size_t)7;
	return code_names_add_lua(n, 1, &r.head, sizeof r.head + r.len, RUNTIME_LUA);
}

Test(code_names, lua)
{
	static const struct {
		const char *source, *file, *name;
		uint32_t line;
	} cases[] = {
		{"@a/b.lua", "a/b.lua", "main chunk", 0},
		{"@a/b.lua", "a/b.lua", "function <a/b.lua:12>", 12},
		{"=stdin", "stdin", "function <stdin:1>", 1},
		{"=?", "?", "function <?:3>", 3},
		{"return 1", "[string \"return 1\"]", "main chunk", 0},
		{"x = 1\ny = 2", "[string \"x = 1...\"]", "function <[string \"x = 1...\"]:2>", 2},
		{"", "[string \"\"]", "main chunk", 0},
		{"12345678901234567890123456789012345678901234",
		 "[string \"12345678901234567890123456789012345678901234\"]", "main chunk", 0},
		{"1234567890123456789012345678901234567890123456",
		 "[string \"123456789012345678901234567890123456789012345...\"]", "main chunk", 0},
		{"@\x01\xff.lua", "?\xef\xbf\xbd.lua", "main chunk", 0},
	};
	struct code_names *n;
	struct code_place p;

	cr_assert_eq(code_names_new(&n, 1 << 20), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const size_t bytes = strlen(cases[i].source) + 1;

		cr_assert_eq(add_lua(n, i + 1, cases[i].source, bytes, cases[i].line), 0, "%zu", i);
		cr_assert(code_names_find(n, i + 1, 20, &p));
		cr_expect_str_eq(p.file, cases[i].file, "%zu: %s", i, p.file);
		cr_expect_str_eq(p.name, cases[i].name, "%zu: %s", i, p.name);
		cr_expect_eq(p.first_line, cases[i].line);
		cr_expect_eq(p.line, 20);
		cr_assert(code_names_find(n, i + 1, 0, &p));
		cr_expect_eq(p.line, cases[i].line, "an unknown line");
	}
	cr_assert_eq(add_lua(n, 99, NULL, 0, 7), 0);
	cr_assert(code_names_find(n, 99, 8, &p));
	cr_expect_str_eq(p.name, "function <?:7>");
	cr_expect_eq(add_lua(n, 100, "@a", 2, 0), -EBADMSG, "not terminated");
	code_names_free(n);
}

Test(code_names, lua_names_that_are_cut)
{
	char source[RUNTIME_TEXT_MAX] = "@";
	struct code_names *n;
	struct code_place p;

	cr_assert_eq(code_names_new(&n, 1 << 20), 0);
	memset(source + 1, 'x', sizeof source - 2);
	cr_assert_eq(add_lua(n, 1, source, sizeof source, 5), 0);
	cr_assert(code_names_find(n, 1, 6, &p));
	cr_expect_str_eq(p.file + RUNTIME_TEXT_MAX - 2, "\xe2\x80\xa6");
	code_names_free(n);
}

/* A function of V8 gets its first line later than its name; its frames have none. */
Test(code_names, first_line_of_v8)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	static const struct {
		struct runtime_code head;
		uint32_t length, width;
		char name[8];
	} report = {{.kind = RUNTIME_REPORT_CODE, .number = 5, .runtime = RUNTIME_V8, .name_bytes = 12},
		    4,
		    1,
		    "leaf"};
	struct code_place place;

	cr_assert_eq(code_names_new(&n, 1 << 20), 0);
	code_names_set_line(n, 5, 7);
	cr_expect_not(code_names_lacks_line(n, 5), "no function");
	cr_assert_eq(code_names_add_v8(n, 1, &report.head, sizeof report.head + 16), 0);
	cr_expect(code_names_lacks_line(n, 5));
	cr_assert(code_names_find(n, 5, 33, &place));
	cr_expect_eq(place.first_line, 0);
	cr_expect_eq(place.line, 0, "an address is no line");
	code_names_set_line(n, 5, 0);
	cr_expect(code_names_lacks_line(n, 5));
	code_names_set_line(n, 5, 7);
	cr_expect_not(code_names_lacks_line(n, 5));
	code_names_set_line(n, 5, 8);
	cr_assert_eq(code_names_add_v8(n, 1, &report.head, sizeof report.head + 16), 0);
	cr_assert(code_names_find(n, 5, 33, &place));
	cr_expect_str_eq(place.name, "leaf");
	cr_expect_eq(place.first_line, 7);
	cr_expect_eq(place.line, 0);
}

/* The text of the script says whose method it is, if it is the same one. */
Test(code_names, class_of_v8)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	static const struct {
		struct runtime_code head;
		uint32_t length, width;
		char name[8];
	} report = {{.kind = RUNTIME_REPORT_CODE, .number = 5, .runtime = RUNTIME_V8, .name_bytes = 12},
		    4,
		    1,
		    "leaf"};
	struct v8_member member = {.hash = v8_member_hash("other", 5), .class_name = "Tree"};
	struct code_place place;

	cr_assert_eq(code_names_new(&n, 1 << 20), 0);
	cr_expect_eq(code_names_set_class(n, 5, &member), 0, "no function");
	cr_assert_eq(code_names_add_v8(n, 1, &report.head, sizeof report.head + 16), 0);
	code_names_set_line(n, 5, 7);
	cr_expect_eq(code_names_set_class(n, 5, &member), 0);
	cr_assert(code_names_find(n, 5, 0, &place));
	cr_expect_str_eq(place.name, "leaf", "another function is there");
	member.hash = v8_member_hash("leaf", 4);
	cr_expect_eq(code_names_set_class(n, 5, &member), 0);
	cr_expect_eq(code_names_set_class(n, 5, &member), 0);
	cr_assert_eq(code_names_add_v8(n, 1, &report.head, sizeof report.head + 16), 0);
	cr_assert(code_names_find(n, 5, 0, &place));
	cr_expect_str_eq(place.name, "Tree.leaf");
	cr_expect_eq(place.first_line, 7);
}
