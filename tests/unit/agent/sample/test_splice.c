// SPDX-License-Identifier: Apache-2.0
/*
 * Frames of a runtime among native ones: digits among letters; 'L' is the loop, 'I' a part of it; what 'D', a
 * loop, calls is one, too.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/splice.h"

#define NO RUNTIME_NOT_TIED

#define OF_RUBY 2u /* its segments are not each a frame */

struct splice_case {
	const char *name, *native;
	struct {
		uint32_t native;
		const char *frames;
		uint64_t marker;
	} segments[4];
	const char *want;
	unsigned uncertain, each; /* each: 1, or OF_RUBY */
};

static uint64_t native_word(char c)
{
	return c == '*' ? frame_omitted(5) : frame_native(3, (uint64_t)c);
}

static uint64_t runtime_word(char c)
{
	return frame_runtime_head(RUNTIME_CPYTHON, 1, (uint64_t)c);
}

static bool is_loop(uint64_t word, void *data)
{
	(void)data;
	return frame_va(word) == 'L';
}

static bool is_inner_loop(uint64_t word, void *data)
{
	(void)data;
	return frame_va(word) == 'I';
}

static bool calls_inner_loop(uint64_t word, void *data)
{
	(void)data;
	return frame_va(word) == 'D';
}

struct stack {
	uint64_t frames[32], words[32];
	struct runtime_part part;
	struct runtime_segment segments[4];
	struct sample_view view;
};

static void stack_make(struct stack *s, const struct splice_case *c)
{
	size_t n = strlen(c->native);

	*s = (struct stack){
		.part = {.runtime = c->each == OF_RUBY ? RUNTIME_RUBY : RUNTIME_CPYTHON, .whole = 1}};
	s->frames[0] = 0xffffffff81000000;
	for (size_t i = 0; i < n; i++)
		s->frames[1 + i] = native_word(c->native[i]);
	for (size_t k = 0; k < 4 && c->segments[k].frames; k++) {
		for (const char *f = c->segments[k].frames; *f; f++) {
			s->words[s->part.n_words++] = runtime_word(*f);
			s->words[s->part.n_words++] = 8;
		}
		s->segments[s->part.n_segments++] = (struct runtime_segment){
			c->segments[k].marker, c->segments[k].native, s->part.n_words, 0};
	}
	s->view = (struct sample_view){.frames = s->frames,
				       .n_kernel = 1,
				       .n_user = (uint16_t)n,
				       .runtime = &s->part,
				       .segments = s->segments,
				       .runtime_words = s->words,
				       .ending = ENDING_ROOT};
	s->view.omitted = sample_find_omitted(&s->view);
}

static void text_of(const struct sample_view *v, char *ret)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (stack_frames_next(&frames, &f))
		*ret++ = f.kind == STACK_FRAME_OMITTED ? '*' : (char)frame_va(f.word);
	*ret = '\0';
}

Test(splice, order)
{
	static const struct splice_case cases[] = {
		{"one segment", "abLz", {{2, "123", 9}}, "ab123z", 0, 0},
		{"native frames between two", "aLbcLz", {{1, "12", 9}, {4, "3", 9}}, "a12bc3z", 0, 0},
		{"the leaf is the loop", "Lz", {{0, "1", 9}}, "1z", 0, 0},
		{"two of one frame", "aLz", {{1, "1", 9}, {1, "2", 9}}, "a12z", 0, 0},
		{"the first is not tied", "aLbLz", {{NO, "1", 9}, {3, "2", 9}}, "aLb12z", 1, 0},
		{"none is tied", "aLbLz", {{NO, "1", 9}, {NO, "2", 9}}, "a12LbLz", 1, 0},
		{"no markers, by loops", "aLbLz", {{NO, "1", 0}, {NO, "2", 0}}, "a1b2z", 0, 0},
		{"no markers, the last loop on another stack",
		 "aLbz",
		 {{NO, "1", 0}, {NO, "2", 0}},
		 "a1bz2",
		 1,
		 0},
		{"no markers, a loop too few", "aLbz", {{NO, "1", 0}, {NO, "2", 0}}, "1a2bz", 0, OF_RUBY},
		{"no markers, two loops too few",
		 "aLbz",
		 {{NO, "1", 0}, {NO, "2", 0}, {NO, "3", 0}},
		 "12a3bz",
		 1,
		 OF_RUBY},
		{"a part of the loop", "aILbILz", {{NO, "1", 0}, {NO, "2", 0}}, "a1b2z", 0, OF_RUBY},
		{"the last has no marker", "aLbLz", {{1, "1", 9}, {NO, "2", 0}}, "a1b2z", 0, 0},
		{"no loop at all", "az", {{NO, "1", 9}}, "az1", 1, 0},
		{"tied behind the end", "ab", {{7, "1", 9}}, "ab1", 1, 0},
		{"among omitted frames", "ab*Lz", {{4, "1", 9}, {7, "2", 9}}, "ab1*2z", 0, 0},
		{"each frame, more than segments", "aLbLcLz", {{1, "1", 9}, {3, "23", 9}}, "a1b2c3z", 0, 1},
		{"each frame, without markers", "aLbLcLz", {{NO, "123", 0}}, "a1b2c3z", 0, 1},
		{"no markers, a loop that runs nothing", "aLbLz", {{NO, "1", 0}}, "aLb1z", 0, 0},
		{"no markers, among omitted frames", "aL*Lz", {{NO, "1", 0}}, "a1*Lz", 0, 0},
		{"each frame, a loop without one", "aLbLz", {{NO, "1", 0}}, "a1bLz", 0, 1},
		{"no segments", "aLz", {{0, NULL, 0}}, "aLz", 0, 0},
		{"a callee that is a part of the loop", "abDcdDz", {{2, "1", 9}, {5, "2", 9}}, "a1c2z", 0, 0},
		{"at the leaf", "bDz", {{1, "1", 9}}, "1z", 0, 0},
		{"without a callee", "Dz", {{0, "1", 9}}, "1z", 0, 0},
		{"the callee is a loop", "aLDz", {{1, "1", 9}, {2, "2", 9}}, "a12z", 0, 0},
		{"the callee has been omitted", "a*Dz", {{6, "1", 9}}, "a*1z", 0, 0},
		{"a loop that is not tied keeps it", "abDz", {{NO, "1", 9}}, "abDz1", 1, 0},
	};
	static struct splice s;

	s.options = (struct splice_options){
		.is_loop = is_loop, .is_inner_loop = is_inner_loop, .calls_inner_loop = calls_inner_loop};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stack stack;
		struct sample_view v;
		char text[64];

		s.stats = (struct splice_stats){0};
		stack_make(&stack, &cases[i]);
		stack.part.each = cases[i].each == 1;
		sample_splice(&s, &stack.view, &v);
		text_of(&v, text);
		cr_expect_str_eq(text, cases[i].want, "%s: %s", cases[i].name, text);
		cr_expect_eq(s.stats.uncertain, cases[i].uncertain, "%s", cases[i].name);
		cr_expect_eq(v.frames[0], stack.frames[0], "%s: the kernel's part", cases[i].name);
		cr_expect_eq(v.omitted != 0, strchr(cases[i].want, '*') != NULL, "%s", cases[i].name);
	}
}

Test(splice, loops_are_shown_on_request)
{
	static const struct splice_case c = {"", "aLbDz", {{1, "1", 9}, {3, "2", 9}}, "", 0, 0};
	static struct splice s = {
		.options = {.loop_frames = true, .is_loop = is_loop, .calls_inner_loop = calls_inner_loop}};
	struct stack stack;
	struct sample_view v;
	char text[64];

	stack_make(&stack, &c);
	sample_splice(&s, &stack.view, &v);
	text_of(&v, text);
	cr_expect_str_eq(text, "a1Lb2Dz");
}

/* A list that was not followed to its end is reported, but not instead of why the native stack ended. */
Test(splice, ending)
{
	static const struct splice_case c = {"", "aLz", {{1, "1", 9}}, "", 0, 0};
	static struct splice s;
	struct stack stack;
	struct sample_view v;

	stack_make(&stack, &c);
	stack.part.whole = 0;
	stack.part.reason = RUNTIME_REASON_DEPTH_LIMIT;
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending, ENDING_RUNTIME);
	cr_expect_eq(v.ending_detail, ending_detail(RUNTIME_CPYTHON, RUNTIME_REASON_DEPTH_LIMIT));
	stack.view.ending = ENDING_NO_ROW;
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending, ENDING_NO_ROW);
}

static uint32_t missing(const struct sample_view *v, uint64_t word, void *data)
{
	(void)data;
	return frame_va(word) == 'L'
		       ? ending_detail(RUNTIME_CPYTHON,
				       v->generation ? RUNTIME_REASON_NO_THREAD : RUNTIME_REASON_NOT_KNOWN)
		       : 0;
}

/* A loop of which no function is known is not a whole stack. */
Test(splice, missing)
{
	static const struct splice_case loop = {"", "aLz", {{0, NULL, 0}}, "", 0, 0},
					other = {"", "a*z", {{0, NULL, 0}}, "", 0, 0};
	static struct splice s = {.options = {.is_loop = is_loop, .missing = missing}};
	struct stack stack;
	struct sample_view v;

	stack_make(&stack, &loop);
	stack.view.runtime = NULL;
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending, ENDING_RUNTIME);
	cr_expect_eq(v.ending_detail, ending_detail(RUNTIME_CPYTHON, RUNTIME_REASON_NOT_KNOWN));
	cr_expect_eq(v.n_user, stack.view.n_user);
	stack.view.runtime = &stack.part; /* the program found none */
	stack.view.generation = 1;
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending_detail, ending_detail(RUNTIME_CPYTHON, RUNTIME_REASON_NO_THREAD));
	stack.view.ending = ENDING_NO_ROW;
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending, ENDING_NO_ROW);
	stack_make(&stack, &other);
	sample_splice(&s, &stack.view, &v);
	cr_expect_eq(v.ending, ENDING_ROOT);
	cr_expect_eq(s.stats.missing[RUNTIME_REASON_NOT_KNOWN], 1);
	cr_expect_eq(s.stats.missing[RUNTIME_REASON_NO_THREAD], 1);
	cr_expect_eq(s.stats.samples, 0);
}

Test(splice, longest)
{
	static uint64_t frames[KERNEL_FRAMES_MAX + USER_FRAMES_MAX], words[2 * RUNTIME_FRAMES_MAX];
	static struct splice s;
	static const struct runtime_segment segment = {9, USER_FRAMES_MAX - 1, 2 * RUNTIME_FRAMES_MAX, 0};
	static const struct runtime_part part = {
		.runtime = RUNTIME_CPYTHON, .n_segments = 1, .n_words = 2 * RUNTIME_FRAMES_MAX, .whole = 1};
	struct sample_view v = {.frames = frames,
				.n_kernel = KERNEL_FRAMES_MAX,
				.n_user = USER_FRAMES_MAX,
				.runtime = &part,
				.segments = &segment,
				.runtime_words = words},
			   ret;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = i % 2 ? i : runtime_word('1');
	s.options.loop_frames = true;
	sample_splice(&s, &v, &ret);
	cr_expect_eq(ret.n_user, USER_FRAMES_MAX + 2 * RUNTIME_FRAMES_MAX);
}
