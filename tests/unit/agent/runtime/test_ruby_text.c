// SPDX-License-Identifier: Apache-2.0
/* Names of Ruby's code. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/runtime/ruby_text.h"
#include "bpf/abi.h"

enum { TOP, METHOD, BLOCK, CLASS, RESCUE, ENSURE, EVAL };

#define IN RUNTIME_FORM_METHOD
#define SINGLE RUNTIME_FORM_SINGLE
#define NATIVE RUNTIME_FORM_NATIVE

/* A string as it is reported, in `bytes`; `length` may be more than is there. */
static struct ruby_string string(uint8_t *bytes, const char *text, uint64_t length)
{
	if (!text)
		return (struct ruby_string){0};
	memcpy(bytes, &length, sizeof length);
	memcpy(bytes + sizeof length, text, strlen(text));
	return (struct ruby_string){bytes, sizeof length + strlen(text)};
}

static void check(const char *label, const char *class, uint32_t form, const char *want)
{
	_cleanup_buf_ struct buf b = {0};
	uint8_t x[128], y[128];
	int r = ruby_name_append(&b, string(x, label, strlen(label)),
				 string(y, class, class ? strlen(class) : 0), form);

	cr_expect_eq(r, 0, "%s: %d", label, r);
	cr_expect_str_eq(buf_str(&b), want);
}

Test(ruby_text, names)
{
	check("<main>", NULL, TOP, "<main>");
	check("run", "Foo::Bar", METHOD | IN, "Foo::Bar#run");
	check("run", "Foo", METHOD | IN | SINGLE, "Foo.run");
	check("run", NULL, METHOD | IN, "run");
	check("run", "#<Class:0x1234>::Foo", METHOD | IN, "run");
	check("block in run", "Foo", BLOCK | IN, "block in Foo#run");
	check("block (12 levels) in run", "Foo", BLOCK | IN, "block (12 levels) in Foo#run");
	check("rescue in block in run", "Foo", RESCUE | IN, "rescue in block in Foo#run");
	check("ensure in rescue in run", "Foo", ENSURE | IN, "ensure in rescue in Foo#run");
	check("block in <class:Foo>", "Foo", BLOCK, "block in <class:Foo>");
	check("block in <main>", "Object", BLOCK, "block in <main>");
	check("block in run", "Foo", METHOD | IN, "Foo#block in run");
	check("block (x levels) in run", "Foo", BLOCK | IN, "Foo#block (x levels) in run");
	check("block (", "Foo", BLOCK | IN, "Foo#block (");
	check("each", "Array", NATIVE | IN, "Array#each");
	check("block in x", "Process", NATIVE | IN | SINGLE, "Process.block in x");
	check("each", NULL, NATIVE | IN, "each");
	check("", "Foo", METHOD | IN, "Foo#");
	check("a\x01\xff", "F\xe2\x80\xae", METHOD | IN, "F?#a?\xef\xbf\xbd");
}

Test(ruby_text, names_that_are_cut)
{
	_cleanup_buf_ struct buf b = {0};
	uint8_t x[64], y[64];

	cr_expect_eq(ruby_name_append(&b, string(x, "ab\xc3", 99), string(y, "Foo", 3), METHOD | IN), 1);
	cr_expect_str_eq(buf_str(&b), "Foo#ab\xe2\x80\xa6");
	buf_clear(&b);
	cr_expect_eq(ruby_name_append(&b, string(x, "ab", 2), string(y, "Foo", ~0ull), METHOD | IN), 1);
	cr_expect_str_eq(buf_str(&b), "Foo\xe2\x80\xa6#ab");
	buf_clear(&b);
	cr_expect_eq(ruby_name_append(&b, string(x, "ab", 2), string(y, "#<", 4), METHOD | IN), 0);
	cr_expect_str_eq(buf_str(&b), "ab");
	buf_clear(&b);
	cr_expect_eq(ruby_text_append(&b, string(x, "/srv/\xc3\xa4.rb", 10)), 0);
	cr_expect_str_eq(buf_str(&b), "/srv/\xc3\xa4.rb");
}

Test(ruby_text, no_strings)
{
	_cleanup_buf_ struct buf b = {0};
	static const uint8_t few[7];
	uint8_t x[64];

	cr_expect_eq(ruby_text_append(&b, (struct ruby_string){few, sizeof few}), -EBADMSG);
	cr_expect_eq(ruby_name_append(&b, (struct ruby_string){0}, (struct ruby_string){0}, METHOD),
		     -EBADMSG);
	cr_expect_eq(ruby_name_append(&b, string(x, "a", 1), (struct ruby_string){few, sizeof few}, METHOD),
		     -EBADMSG);
	cr_expect_eq(b.len, 0);
}
