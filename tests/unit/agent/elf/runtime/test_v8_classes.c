// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/v8_classes.h"

#include <criterion/criterion.h>
#include <string.h>

/* The class of the function whose parameters are at the end of `until` in the text; "": none. */
static const char *class_at(const char *text, const char *until, const char *name)
{
	static struct v8_classes c;
	static struct v8_member m;
	const char *at = strstr(text, until);
	size_t n = at ? (size_t)(at - text) + strlen(until) - 1 : 0;

	cr_assert_not_null(at, "%s", until);
	v8_classes_init(&c);
	for (size_t i = 0; i < n; i++)
		v8_classes_put(&c, (uint8_t)text[i]);
	v8_classes_member(&c, (uint8_t)text[n], &m);
	cr_expect(v8_member_valid(&m));
	if (m.class_name[0])
		cr_expect_eq(m.hash, v8_member_hash(name, strlen(name)), "%s", until);
	return m.class_name;
}

static void expect(const char *text, const char *until, const char *name, const char *class_name)
{
	cr_expect_str_eq(class_at(text, until, name), class_name, "%s in %s", until, text);
}

Test(v8_classes, members)
{
	static const char text[] =
		"#!/usr/bin/node {\n"
		"class A { constructor(n) { this.n = n } x = 1; run (n) { return { inner(n) {} } }\n"
		"  static make() {} get value() {} set value(v) {} static get other() {}\n"
		"  async wait() {} *all() {} static async *every() {} #own() {} get() {}\n"
		"  static() {} static { function f() {} } last() {} }\n"
		"function outside() {}";

	expect(text, "run (", "run", "A");
	expect(text, "make(", "make", "A");
	expect(text, "get value(", "get value", "A");
	expect(text, "set value(", "set value", "A");
	expect(text, "get other(", "get other", "A");
	expect(text, "wait(", "wait", "A");
	expect(text, "all(", "all", "A");
	expect(text, "every(", "every", "A");
	expect(text, "#own(", "#own", "A");
	expect(text, "get(", "get", "A");
	expect(text, "static(", "static", "A");
	expect(text, "last(", "last", "A");
	expect(text, "inner(", "", "");
	expect(text, " f(", "", "");
	expect(text, "outside(", "", "");
	expect(text, "constructor", "", ""); /* no parenthesis */
}

Test(v8_classes, heads)
{
	expect("class B extends mixin({ a() {} }, [1]).C { run() {} }", "run(", "run", "B");
	expect("class B extends mixin({ a() {} }, [1]).C { run() {} }", " a(", "", "");
	expect("const B = class { run() {} }", "run(", "run", "B");
	expect("const B = class C { run() {} }", "run(", "run", "C");
	expect("const B = class extends A { run() {} }", "run(", "run", "B");
	expect("exports.B = class { run() {} }", "run(", "", "");
	expect("f(class { run() {} })", "run(", "", "");
	expect("class A extends {} { run() {} }", "run(", "", "");
	expect("class A extends { run() {} } {}", "run(", "", "");
	expect("class A extends function () { x; } { run() {} }", "run(", "", "");
	expect("class A { m() {} static B = class { run() {} }; n() {} }", "run(", "run", "B");
	expect("class A { m() {} static B = class { run() {} }; n() {} }", "n() {} }", "", "");
	expect("a.class; { run() {} }", "run(", "", "");
	expect("x = { class: 1, run() {} }", "run(", "", "");
	expect("x = { class() { run() } }", "run(", "", "");
}

/* What is no method whose name is there. */
Test(v8_classes, other_members)
{
	expect("class A { f = (n) => n; g = function (n) {} }", "= (", "", "");
	expect("class A { f = (n) => n; g = function (n) {} }", "function (", "", "");
	expect("class A { [x](n) {} 'y'(n) {} 1(n) {} }", "](", "", "");
	expect("class A { [x](n) {} 'y'(n) {} 1(n) {} }", "'(", "", "");
	expect("class A { [x](n) {} 'y'(n) {} 1(n) {} }", "1(", "", "");
	expect("class A { a = 1\n run() {} }", "run(", "", "");
	expect("class A { a\n run() {} }", "run(", "", "");
	expect("class A { a = 1\n run() {} next() {} }", "next(", "next", "A");
	expect("class A { @x run() {} }", "run(", "", "");
	expect("class A { r\\u0075n() {} }", "n(", "", "");
	expect("class A { \xc3\xa4() {} }", "(", "", "");
	expect("class A { a23456789012345678901234567890123456789012() {} }", "(", "", "");
}

/* Braces in what is no code. */
Test(v8_classes, literals)
{
	expect("class A { a() { return '}\\'' + \"}\" } run() {} }", "run(", "run", "A");
	expect("class A { a() { return `}${ {b: `}`}.b }}` } run() {} }", "run(", "run", "A");
	expect("class A { a() { /* } */ // }\n } run() {} }", "run(", "run", "A");
	expect("class A { a() { /**/ return /[/}]\\/}/g.test(x) } run() {} }", "run(", "run", "A");
	expect("class A { a() { if (x) /}/.test(y); return (a) / 2 / b[0] / 1. } run() {} }", "run(", "run",
	       "A");
	expect("class A { a() { x = y.return / 2 + '/' } run() {} }", "run(", "run", "A");
	expect("class A { a() { while (x --> 0) !--n } run() {} }", "run(", "run", "A");
	expect("class A { a() { for await (x of y) /}/.exec(x) } run() {} }", "run(", "run", "A");
	expect("class A { a() { return 'a\\\r\nb' } run() {} }", "run(", "run", "A");
}

/* It says nothing where the text may be read in two ways. */
Test(v8_classes, doubts)
{
	expect("class A { a() { {} /}/.test(x) } run() {} }", "run(", "", "");
	expect("class A { a() { x++ /2 } run() {} }", "run(", "", "");
	expect("class A { a() { yield /2 } run() {} }", "run(", "", "");
	expect("<!-- class B {\nclass A { run() {} }", "run(", "", "");
	expect("a\n--> class B {\nclass A { run() {} }", "run(", "", "");
	expect("class A { a(] } run() {} }", "run(", "", "");
	expect("class A { a() { return 'a\n' } run() {} }", "run(", "", "");
	expect("} class A { run() {} }", "run(", "", "");
}

Test(v8_classes, deep)
{
	static struct v8_classes c;
	struct v8_member m;

	v8_classes_init(&c);
	for (unsigned i = 0; i < 2 * V8_CLASS_LEVELS; i++)
		v8_classes_put(&c, '(');
	cr_expect(c.lost);
	v8_classes_member(&c, '(', &m);
	cr_expect_str_empty(m.class_name);
}
