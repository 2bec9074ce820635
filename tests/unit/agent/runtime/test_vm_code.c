// SPDX-License-Identifier: Apache-2.0
/* Which methods are at an address of a Java virtual machine's code. */
#include "agent/runtime/vm_code.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/elf/runtime/vm_answer.h"
#include "agent/runtime/code_names.h"
#include "bpf/abi.h"

#define MACHINE 5u
#define START 0x7f0000001000ull
#define OUTER 0x7e0000000100ull
#define INNER 0x7e0000000200ull

DEFINE_CLEANUP(struct code_names *, code_names_free)
DEFINE_CLEANUP(struct vm_code *, vm_code_free)

static uint64_t now_ns = 1000000000;

static uint64_t mono_ns(void)
{
	return now_ns;
}

struct piece {
	enum vm_answer answer;
	uint64_t start, end;
	uint64_t method, inlined; /* 0: none */
	const char *name;
	struct hotspot_scope scopes[3];
	uint32_t n_scopes;
	struct hotspot_place places[3];
	uint32_t n_places;
	bool freed;
};

static void put_record(struct buf *b, const struct piece *p)
{
	_cleanup_buf_ struct buf names = {0};
	struct vm_found f;

	memset(&f, 0, sizeof f);
	flat_put_u64(&names, p->inlined ? 2 : 1);
	flat_put_u64(&names, p->n_scopes);
	flat_put_u64(&names, p->n_places);
	flat_put_u64(&names, p->method);
	flat_put_string(&names, p->name);
	flat_put_string(&names, "Outer.java");
	if (p->inlined) {
		flat_put_u64(&names, p->inlined);
		flat_put_string(&names, "a.Inner.add");
		flat_put_string(&names, "Inner.java");
	}
	buf_append(&names, p->scopes, p->n_scopes * sizeof p->scopes[0]);
	buf_append(&names, p->places, p->n_places * sizeof p->places[0]);
	f.answer = p->answer;
	f.start = p->start;
	f.end = p->end;
	f.freed = p->freed;
	f.name_bytes = names.len;
	buf_append(b, &f, sizeof f);
	buf_append(b, names.data, names.len);
}

static int add_bytes(struct vm_code *j, const void *bytes, size_t len)
{
	return vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							.runtime = RUNTIME_JVM,
							.tenant = 1,
							.began_ns = now_ns,
							.bytes = bytes,
							.len = len});
}

static size_t frames_of(struct vm_code *j, uint32_t machine, uint64_t address, uint64_t *words, size_t max)
{
	return vm_code_frames(j, &(struct vm_code_frame){.machine = machine, .address = address}, words, max);
}

static bool interpreted(struct vm_code *j, uint32_t machine, uint64_t method, uint64_t bytecode,
			uint64_t words[2])
{
	return vm_code_interpreted(j, &(struct vm_code_method){machine, 1, method, now_ns, 0}, bytecode,
				   words);
}

static int add(struct vm_code *j, const struct piece *p)
{
	_cleanup_buf_ struct buf b = {0};

	put_record(&b, p);
	return add_bytes(j, b.data, b.len);
}

/* Up to byte 8 the inlined method is at line 7 of its own, in line 30; up to byte 16 line 31. */
static const struct piece compiled = {
	.answer = VM_CODE,
	.start = START,
	.end = START + 0x40,
	.method = OUTER,
	.inlined = INNER,
	.name = "a.Outer.run",
	.scopes = {{HOTSPOT_NO_SCOPE, 0, 30}, {0, 1, 7}, {HOTSPOT_NO_SCOPE, 0, 31}},
	.n_scopes = 3,
	.places = {{8, 1}, {16, 2}},
	.n_places = 2,
};

static void expect(struct code_names *n, const uint64_t *words, const char *name, const char *file,
		   uint32_t line)
{
	struct code_place place;

	cr_expect_eq(frame_runtime_of(words[0]), RUNTIME_JVM);
	cr_expect_eq(frame_following(words[0]), 1);
	cr_assert(code_names_find(n, frame_va(words[0]), (int64_t)words[1], &place), "%s", name);
	cr_expect_str_eq(place.name, name);
	cr_expect_str_eq(place.file, file);
	cr_expect_eq(place.line, line);
}

static void make(struct code_names **n, struct vm_code **j, size_t max_bytes)
{
	cr_assert_eq(code_names_new(n, 1 << 20), 0);
	cr_assert_eq(vm_code_new(j, *n, max_bytes, mono_ns), 0);
}

/* Whether the code at an address is the same, by a look that began then. */
static int look(struct vm_code *j, enum vm_answer answer, uint64_t began_ns)
{
	const struct vm_found f = {.address = START, .answer = answer};

	return vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							.runtime = RUNTIME_JVM,
							.tenant = 1,
							.began_ns = began_ns,
							.bytes = &f,
							.len = sizeof f});
}

/* The frame of a sample of that time in code that may be freed; whether it is to be looked at again. */
static bool frame_at(struct vm_code *j, uint64_t time_ns, uint64_t words[2])
{
	struct vm_code_frame f = {.machine = MACHINE, .address = START + 7, .time_ns = time_ns};

	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2);
	cr_expect(f.look == 0 || f.look == START);
	return f.look != 0;
}

Test(vm_code, code_that_may_be_freed_has_names_between_two_looks_only)
{
	static const struct piece may_go = {
		.answer = VM_CODE, .start = START, .end = START + 0x40, .name = "a.Outer.run", .freed = true};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t before[2], words[2], later[2];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &may_go), 0);
	cr_expect_not(frame_at(j, now_ns - 1, before), "it may have been another one");
	cr_expect(frame_at(j, now_ns + 1, words));
	now_ns += 10;
	cr_expect_eq(look(j, VM_SAME, now_ns - 10), 0);
	cr_expect_not(code_names_has(n, frame_va(words[0])), "the look may have been before the sample");
	cr_expect_eq(look(j, VM_SAME, now_ns), 0);
	expect(n, words, "a.Outer.run", "Outer.java", 0);
	cr_expect_not(code_names_has(n, frame_va(before[0])));
	cr_expect(frame_at(j, now_ns + 1, later));
	cr_expect_neq(later[0], words[0]);
	cr_expect_eq(look(j, VM_NOTHING, now_ns + 10), 0);
	cr_expect_not(code_names_has(n, frame_va(later[0])), "it was another one by then");
	cr_expect_eq(frames_of(j, MACHINE, START + 7, words, 2), 0);
}

Test(vm_code, compiled)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t words[8];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &compiled), 0);
	cr_assert_eq(frames_of(j, MACHINE, START + 7, words, 8), 4);
	expect(n, words, "a.Inner.add", "Inner.java", 7);
	expect(n, words + 2, "a.Outer.run", "Outer.java", 30);
	cr_expect_eq(frames_of(j, MACHINE, START + 8, words, 8), 4);
	cr_assert_eq(frames_of(j, MACHINE, START + 9, words, 8), 2);
	expect(n, words, "a.Outer.run", "Outer.java", 31);
	/* behind the last place the line is not known */
	cr_assert_eq(frames_of(j, MACHINE, START + 17, words, 8), 2);
	expect(n, words, "a.Outer.run", "Outer.java", 0);
	/* no room for the inlined one */
	cr_assert_eq(frames_of(j, MACHINE, START, words, 3), 2);
	expect(n, words, "a.Outer.run", "Outer.java", 30);
	cr_expect_eq(frames_of(j, MACHINE, START, words, 1), 0);
	cr_expect_eq(frames_of(j, MACHINE, START - 1, words, 8), 0);
	cr_expect_eq(frames_of(j, MACHINE, START + 0x40, words, 8), 0);
	cr_expect_eq(frames_of(j, MACHINE + 1, START, words, 8), 0);
}

Test(vm_code, memory_that_is_used_again)
{
	const struct piece stub = {
		.answer = VM_CODE, .start = START + 0x20, .end = START + 0x80, .name = "StubRoutines (1)"};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct vm_code_stats s;
	uint64_t words[8];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &compiled), 0);
	cr_assert_eq(add(j, &stub), 0);
	cr_expect_eq(frames_of(j, MACHINE, START, words, 8), 0);
	cr_assert_eq(frames_of(j, MACHINE, START + 0x7f, words, 8), 2);
	expect(n, words, "StubRoutines (1)", "Outer.java", 0);
	vm_code_stats(j, &s);
	cr_expect_eq(s.pieces, 1);
	cr_expect_eq(s.methods, 3);
	vm_code_forget(j, MACHINE);
	vm_code_stats(j, &s);
	cr_expect_eq(s.bytes, 0);
	cr_expect_eq(s.machines, 0);
	cr_expect_eq(s.methods, 0);
}

Test(vm_code, interpreted)
{
	const struct piece method = {.answer = VM_METHOD, .method = OUTER, .name = "a.Outer.run"};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t before[2], after[2], other[2];
	struct code_place place;

	make(&n, &j, 1 << 20);
	cr_expect_not(interpreted(j, MACHINE, OUTER, 0, before));
	cr_assert_eq(add(j, &method), 0);
	cr_expect_not(code_names_find(n, frame_va(before[0]), 0, &place), "sent before it was settled");
	cr_expect(interpreted(j, MACHINE, OUTER, 0, after));
	expect(n, after, "a.Outer.run", "Outer.java", 0);
	cr_expect_not(interpreted(j, MACHINE + 1, OUTER, 0, other));
	cr_expect_neq(other[0], before[0], "another machine");
	/* and compiled, it is the same function */
	cr_assert_eq(add(j, &compiled), 0);
	cr_assert_eq(frames_of(j, MACHINE, START + 9, other, 2), 2);
	cr_expect_eq(other[0], after[0]);
}

/* A look that began at `began_ns` has found a method of that name; so many classes were unloaded. */
static void look_at(struct vm_code *j, const char *name, uint64_t began_ns, uint64_t unloaded)
{
	const struct piece method = {.answer = VM_METHOD, .method = OUTER, .name = name};
	_cleanup_buf_ struct buf b = {0};

	put_record(&b, &method);
	now_ns = began_ns + 1;
	cr_assert_eq(vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							      .runtime = RUNTIME_JVM,
							      .tenant = 1,
							      .began_ns = began_ns,
							      .unloaded_before = unloaded + 1,
							      .unloaded_after = unloaded + 1,
							      .bytes = b.data,
							      .len = b.len}),
		     0);
}

static struct vm_code_method sampled(uint64_t time_ns, uint32_t unloaded)
{
	return (struct vm_code_method){MACHINE, 1, OUTER, time_ns, unloaded};
}

static bool settled_with(struct vm_code *j, uint64_t time_ns, uint32_t unloaded)
{
	const struct vm_code_method m = sampled(time_ns, unloaded);

	return vm_code_settled(j, &m);
}

static void expect_with(struct code_names *n, struct vm_code *j, uint64_t time_ns, uint32_t unloaded,
			const char *name)
{
	const struct vm_code_method m = sampled(time_ns, unloaded);
	struct code_place place;
	uint64_t words[2];

	(void)vm_code_interpreted(j, &m, 0, words);
	if (name)
		expect(n, words, name, "Outer.java", 0);
	else
		cr_expect_not(code_names_find(n, frame_va(words[0]), 0, &place), "%s", place.name);
}

/* Of samples that do not say it. */
static bool settled(struct vm_code *j, uint64_t time_ns)
{
	return settled_with(j, time_ns, 0);
}

static void expect_at(struct code_names *n, struct vm_code *j, uint64_t time_ns, const char *name)
{
	expect_with(n, j, time_ns, 0, name);
}

Test(vm_code, looks_before_and_after_a_sample)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;

	make(&n, &j, 1 << 20);
	cr_expect_not(settled(j, 1000), "nothing is known");
	look_at(j, "a.Outer.run", 2000, 0);
	cr_expect(settled(j, 1000), "no class was ever unloaded");
	expect_at(n, j, 1000, "a.Outer.run");
	cr_expect_not(settled(j, 3000), "nobody has looked since");
	look_at(j, "a.Outer.run", 4000, 0);
	cr_expect(settled(j, 3000));
	expect_at(n, j, 3000, "a.Outer.run");
}

Test(vm_code, while_no_class_is_unloaded_methods_stay)
{
	const struct piece other = {.answer = VM_METHOD, .method = INNER, .name = "a.Inner.add"};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	_cleanup_buf_ struct buf b = {0};

	make(&n, &j, 1 << 20);
	look_at(j, "a.Outer.run", 2000, 0);
	cr_expect(settled(j, 1000));
	put_record(&b, &other);
	cr_assert_eq(vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							      .runtime = RUNTIME_JVM,
							      .tenant = 1,
							      .began_ns = 4000,
							      .unloaded_before = 1,
							      .unloaded_after = 1,
							      .bytes = b.data,
							      .len = b.len}),
		     0);
	cr_expect(settled(j, 3000), "by a look at another one");
	expect_at(n, j, 3000, "a.Outer.run");
	cr_expect_not(settled(j, 5000));
}

/* Between two looks that have found different methods, it may have been either. */
Test(vm_code, objects_that_become_other_methods)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t words[2];
	struct code_place place;
	struct vm_code_stats s;

	make(&n, &j, 1 << 20);
	look_at(j, "a.Outer.run", 2000, 0);
	cr_assert_eq(add(j, &compiled), 0);
	look_at(j, "a.Outer.run", 4000, 0);
	look_at(j, "b.Other.go", 6000, 1);
	cr_expect(settled(j, 5000), "it will never be known");
	expect_at(n, j, 5000, NULL);
	cr_expect(settled(j, 3000));
	expect_at(n, j, 3000, "a.Outer.run");
	cr_expect_not(settled(j, 6500));
	look_at(j, "b.Other.go", 7000, 1);
	cr_expect(settled(j, 6500));
	expect_at(n, j, 6500, "b.Other.go");
	vm_code_stats(j, &s);
	cr_expect_eq(s.replaced, 1);
	/* code of the method that is gone has its name: while its code is there, so is it */
	cr_assert_eq(frames_of(j, MACHINE, START + 9, words, 2), 2);
	cr_expect(code_names_find(n, frame_va(words[0]), 0, &place));
	cr_expect_str_eq(place.name, "a.Outer.run");
	/* and it may come back */
	look_at(j, "a.Outer.run", 9000, 2);
	look_at(j, "a.Outer.run", 11000, 2);
	expect_at(n, j, 10000, "a.Outer.run");
	expect_at(n, j, 8000, NULL);
}

/* What is found first, after classes were unloaded since the sample, may be what has come in its place. */
Test(vm_code, unloaded_before_it_was_looked_at)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;

	make(&n, &j, 1 << 20);
	look_at(j, "b.Other.go", 3000, 5);
	cr_expect(settled(j, 1000));
	expect_at(n, j, 1000, NULL);
	/* found in memory that was free, it is looked at again, though no class was unloaded since */
	look_at(j, "b.Other.go", 5000, 5);
	expect_at(n, j, 4000, "b.Other.go");
	cr_expect_not(settled(j, 6000));
	look_at(j, "c.New.go", 7000, 5);
	cr_expect(settled(j, 6000));
	expect_at(n, j, 6000, "c.New.go");
}

/* Without the count, names are taken as they are until one was found in the place of another one. */
Test(vm_code, unloads_are_not_known)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	const uint64_t unknown = UINT64_MAX;

	make(&n, &j, 1 << 20);
	look_at(j, "a.Outer.run", 2000, unknown);
	expect_at(n, j, 1000, "a.Outer.run");
	look_at(j, "b.Other.go", 4000, unknown);
	cr_expect(settled(j, 3000));
	expect_at(n, j, 3000, NULL);
	look_at(j, "b.Other.go", 6000, unknown);
	cr_expect(settled(j, 5000));
	expect_at(n, j, 5000, "b.Other.go");
}

/*
 * Code that was found after classes were unloaded since the sample may have come in the place of other
 * code.
 */
Test(vm_code, compiled_code_that_may_have_been_other_code)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct vm_code_frame f = {.machine = MACHINE, .address = START + 9, .time_ns = 1000};
	struct code_place place;
	_cleanup_buf_ struct buf b = {0};
	uint64_t words[2];

	make(&n, &j, 1 << 20);
	put_record(&b, &compiled);
	now_ns = 3001;
	cr_assert_eq(vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							      .runtime = RUNTIME_JVM,
							      .tenant = 1,
							      .began_ns = 3000,
							      .unloaded_before = 6,
							      .unloaded_after = 6,
							      .bytes = b.data,
							      .len = b.len}),
		     0);
	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2);
	cr_expect_not(code_names_find(n, frame_va(words[0]), 0, &place));
	f.time_ns = 4000;
	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2);
	cr_assert(code_names_find(n, frame_va(words[0]), 0, &place));
	cr_expect_str_eq(place.name, "a.Outer.run");
}

/* A sample may say which compilation it was. */
Test(vm_code, compiled_code_of_a_number)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct vm_code_frame f = {.machine = MACHINE, .address = START + 9, .time_ns = 1};
	struct code_place place;
	uint64_t words[2];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &compiled), 0);
	f.code = 1 | FRAME_CODE_BY_SIZE; /* it has number 0 */
	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2);
	cr_expect_not(code_names_find(n, frame_va(words[0]), 0, &place), "it was another one");
	f.address = START + 0x10000;
	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2, "a method all the same");
	cr_expect_not(code_names_find(n, frame_va(words[0]), 0, &place));
	f.address = START + 9;
	f.code = FRAME_CODE_BY_SIZE;
	cr_assert_eq(vm_code_frames(j, &f, words, 2), 2);
	cr_assert(code_names_find(n, frame_va(words[0]), 0, &place), "whenever it was found");
	cr_expect_str_eq(place.name, "a.Outer.run");
}

/* A sample says how many classes were unloaded by then, and one more; so does a look, of 5 here. */
Test(vm_code, samples_that_say_what_was_unloaded)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;

	make(&n, &j, 1 << 20);
	look_at(j, "a.Outer.run", 3000, 5);
	cr_expect_not(settled_with(j, 4000, 6), "it may have been found in memory that was free");
	look_at(j, "a.Outer.run", 5000, 5);
	cr_expect(settled_with(j, 4000, 6));
	expect_with(n, j, 4000, 6, "a.Outer.run");
	cr_expect(settled_with(j, 9000, 6), "no look is needed: none was unloaded");
	expect_with(n, j, 9000, 6, "a.Outer.run");
	cr_expect_not(settled_with(j, 9500, 7), "one was");
	look_at(j, "b.Other.go", 10000, 6);
	cr_expect(settled_with(j, 9500, 7));
	expect_with(n, j, 9500, 7, "b.Other.go");
	expect_with(n, j, 9000, 6, NULL);
}

/* Whoever is sent before it was looked at has no name, once methods are known to lose their objects. */
Test(vm_code, unsettled_at_the_end)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;

	make(&n, &j, 1 << 20);
	look_at(j, "a.Outer.run", 2000, 0);
	expect_at(n, j, 3000, "a.Outer.run");
	look_at(j, "a.Outer.run", 4000, 3);
	cr_expect_not(settled(j, 5000));
	expect_at(n, j, 5000, NULL);
}

/* A stack may have anything where the address of a method should be. */
Test(vm_code, no_address)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t words[2];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &compiled), 0);
	cr_expect(vm_code_settled(j, &(struct vm_code_method){MACHINE, 1, 0, now_ns, 0}));
	cr_expect_not(interpreted(j, MACHINE, 0, 0, words));
}

Test(vm_code, no_method)
{
	const struct vm_found f = {.address = OUTER, .answer = VM_NO_METHOD};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;

	make(&n, &j, 1 << 20);
	now_ns = 2000;
	cr_assert_eq(add_bytes(j, &f, sizeof f), 0);
	cr_expect(settled(j, 1000), "it never will be one");
	cr_expect_not(settled(j, 3000));
	expect_at(n, j, 1000, NULL);
}

Test(vm_code, lines_of_interpreted_methods)
{
	const uint64_t bytecode = 0x7d0000000000;
	struct piece method = {.answer = VM_METHOD,
			       .start = bytecode,
			       .end = bytecode + 20,
			       .method = OUTER,
			       .name = "a.Outer.run",
			       .scopes = {{HOTSPOT_NO_SCOPE, 0, 30}, {HOTSPOT_NO_SCOPE, 0, 31}},
			       .n_scopes = 2,
			       .places = {{4, 0}, {20, 1}},
			       .n_places = 2};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint64_t words[2];

	make(&n, &j, 1 << 20);
	cr_assert_eq(add(j, &compiled), 0);
	/* its name is known, its bytecode is not */
	cr_expect_not(interpreted(j, MACHINE, OUTER, bytecode + 4, words));
	expect(n, words, "a.Outer.run", "Outer.java", 0);
	cr_assert_eq(add(j, &method), 0);
	cr_expect(interpreted(j, MACHINE, OUTER, bytecode + 4, words));
	expect(n, words, "a.Outer.run", "Outer.java", 30);
	cr_expect(interpreted(j, MACHINE, OUTER, bytecode + 5, words));
	expect(n, words, "a.Outer.run", "Outer.java", 31);
	/* what is not the method's own says nothing */
	cr_expect_not(interpreted(j, MACHINE, OUTER, bytecode + 20, words));
	expect(n, words, "a.Outer.run", "Outer.java", 0);
	cr_expect_not(interpreted(j, MACHINE, INNER, 0, words) && words[1]);
	cr_expect(interpreted(j, MACHINE, INNER, bytecode + 4, words));
	cr_expect_eq(words[1], 0);
}

static bool never(uint32_t machine, void *data)
{
	*(uint32_t *)data = machine;
	return false;
}

static bool always(uint32_t machine, void *data)
{
	(void)never(machine, data);
	return true;
}

Test(vm_code, expects_names)
{
	const struct piece method = {.answer = VM_METHOD, .method = OUTER, .name = "a.Outer.run"};
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	uint32_t machine = 0;
	uint64_t words[2];

	make(&n, &j, 1 << 20);
	cr_expect_not(vm_code_expects(j, always, &machine));
	(void)interpreted(j, MACHINE, OUTER, 0, words);
	cr_expect_not(vm_code_expects(j, never, &machine));
	cr_expect_eq(machine, MACHINE);
	cr_expect(vm_code_expects(j, always, &machine));
	cr_assert_eq(add(j, &method), 0);
	cr_expect_not(vm_code_expects(j, always, &machine));
}

Test(vm_code, records_that_are_none)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct piece bad[] = {compiled, compiled, compiled, compiled, compiled};
	_cleanup_buf_ struct buf b = {0};
	struct vm_code_stats s;
	uint64_t words[8];

	make(&n, &j, 1 << 20);
	bad[0].scopes[1].outer = 1; /* into itself */
	bad[1].scopes[1].method = 2;
	bad[2].places[1].scope = 3;
	bad[3].places[1].end = 7; /* not in order */
	bad[4].end = bad[4].start;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(add(j, &bad[i]), -EBADMSG, "%zu", i);
	put_record(&b, &compiled);
	for (size_t len = 1; len < b.len; len++)
		cr_expect_eq(add_bytes(j, b.data, len), -EBADMSG, "%zu", len);
	cr_expect_eq(frames_of(j, MACHINE, START, words, 8), 0);
	vm_code_stats(j, &s);
	cr_expect_eq(s.bad, ARRAY_SIZE(bad) + b.len - 1);
	cr_expect_eq(s.pieces, 0);
}

Test(vm_code, is_bounded)
{
	_cleanup_(code_names_free_p) struct code_names *n = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct vm_code_stats s;
	struct piece p = compiled;

	make(&n, &j, 4096);
	for (int i = 0; i < 100; i++) {
		p.start += 0x100;
		p.end += 0x100;
		(void)add(j, &p);
	}
	vm_code_stats(j, &s);
	cr_expect_leq(s.bytes, 4096);
	cr_expect_gt(s.pieces, 1);
	cr_expect_gt(s.full, 0);
}

/* --- V8, whose functions have the numbers that their frames have */

#define OWN 0x1234567890abull
#define INLINED 0x2234567890abull

static int add_v8(struct vm_code *j, const struct piece *p, uint32_t id)
{
	_cleanup_buf_ struct buf b = {0};

	put_record(&b, p);
	memcpy(b.data + offsetof(struct vm_found, compile_id), &id, sizeof id);
	memcpy(b.data + offsetof(struct vm_found, address), &p->start, sizeof p->start);
	return vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							.runtime = RUNTIME_V8,
							.tenant = 1,
							.began_ns = now_ns,
							.bytes = b.data,
							.len = b.len});
}

static struct vm_code_frame v8_frame_of(struct vm_code *j, uint64_t address, uint64_t number, size_t expected,
					uint64_t *words)
{
	struct vm_code_frame f = {.machine = MACHINE, .address = address, .number = number};

	cr_expect_eq(vm_code_frames(j, &f, words, 8), expected);
	return f;
}

Test(vm_code, functions_of_v8_that_are_inlined)
{
	_cleanup_(code_names_free_p) struct code_names *names = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct piece p = compiled;
	struct vm_code_frame f;
	uint64_t words[8];

	code_names_new(&names, 1 << 20);
	vm_code_new(&j, names, 1 << 20, mono_ns);
	f = v8_frame_of(j, START + 4, OWN, 0, words);
	cr_expect_not(f.known);
	p.method = OWN;
	p.inlined = INLINED;
	cr_assert_eq(add_v8(j, &p, 77), 0);
	f = v8_frame_of(j, START + 4, OWN, 4, words);
	cr_expect(f.known);
	cr_expect_eq(f.look, 0);
	cr_expect_eq(words[0], frame_runtime_head(RUNTIME_V8, 1, INLINED));
	cr_expect_eq(words[2], frame_runtime_head(RUNTIME_V8, 1, OWN));
	(void)v8_frame_of(j, START + 12, OWN, 2, words);
	cr_expect_eq(words[0], frame_runtime_head(RUNTIME_V8, 1, OWN));
	cr_expect_not(code_names_has(names, INLINED), "names are reported apart");
}

Test(vm_code, code_of_v8_is_looked_at_again)
{
	_cleanup_(code_names_free_p) struct code_names *names = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct piece p = compiled, look = {.start = START, .name = ""};
	struct vm_code_frame f;
	uint64_t words[8];

	code_names_new(&names, 1 << 20);
	vm_code_new(&j, names, 1 << 20, mono_ns);
	now_ns = 10000000000;
	p.method = OWN;
	p.inlined = INLINED;
	cr_assert_eq(add_v8(j, &p, 77), 0);
	now_ns += 300000000;
	f = v8_frame_of(j, START + 4, OWN + 1, 0, words);
	cr_expect(f.known, "code that is another function's");
	cr_expect_eq(f.look, START);
	cr_expect_eq(f.look_end, START + 0x40);
	cr_expect_eq(f.look_id, 77);
	f = v8_frame_of(j, START + 4, OWN, 4, words);
	cr_expect_eq(f.look, 0);
	now_ns += 2000000000;
	f = v8_frame_of(j, START + 4, OWN, 4, words);
	cr_expect_eq(f.look, START);
	look.answer = VM_SAME;
	cr_assert_eq(add_v8(j, &look, 77), 0);
	f = v8_frame_of(j, START + 4, OWN, 4, words);
	cr_expect_eq(f.look, 0);
	look.answer = VM_NOTHING;
	cr_assert_eq(add_v8(j, &look, 77), 0);
	f = v8_frame_of(j, START + 4, OWN, 0, words);
	cr_expect_not(f.known);
}

Test(vm_code, no_room_for_code_of_v8)
{
	_cleanup_(code_names_free_p) struct code_names *names = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct piece p = compiled;
	uint64_t words[8];

	code_names_new(&names, 1 << 20);
	vm_code_new(&j, names, 64, mono_ns);
	p.method = OWN;
	p.inlined = INLINED;
	cr_assert_eq(add_v8(j, &p, 77), -ENOMEM);
	cr_expect(v8_frame_of(j, START + 4, OWN, 0, words).full);
	now_ns += 11000000000;
	cr_expect_not(v8_frame_of(j, START + 4, OWN, 0, words).full);
}

/* Functions get other numbers when their objects move. */
Test(vm_code, code_of_v8_begins_anew_where_there_is_no_room)
{
	_cleanup_(code_names_free_p) struct code_names *names = NULL;
	_cleanup_(vm_code_free_p) struct vm_code *j = NULL;
	struct piece p = compiled;
	struct vm_code_stats stats;
	uint64_t words[8];
	int r = 0;

	code_names_new(&names, 1 << 20);
	vm_code_new(&j, names, 8192, mono_ns);
	for (uint64_t i = 0; i < 1000 && r == 0; i++) {
		p.method = OWN + i;
		p.inlined = INLINED + i;
		r = add_v8(j, &p, 77);
	}
	cr_assert_eq(r, -ENOMEM);
	vm_code_stats(j, &stats);
	cr_expect_eq(stats.bytes, 0);
	cr_expect_eq(stats.methods, 0);
	cr_expect(v8_frame_of(j, START + 4, OWN, 0, words).full);
	cr_assert_eq(add_v8(j, &p, 77), 0);
	(void)v8_frame_of(j, START + 4, p.method, 4, words);
}
