// SPDX-License-Identifier: Apache-2.0
/*
 * Perl's frames among native ones. Digits are Perl's; of the letters, L is the loop, C calls functions, S
 * evaluates texts, R runs the program, P reads it; others are others. A letter behind which stands "'" has a
 * place to jump to.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/splice.h"

#define JUMP RUNTIME_SEGMENT_JUMP
#define EVAL RUNTIME_SEGMENT_EVAL
#define CALL RUNTIME_SEGMENT_CALL
#define LAST RUNTIME_SEGMENT_LAST
#define CATCH RUNTIME_SEGMENT_CATCH
#define MANY RUNTIME_SEGMENT_MANY
#define STRING RUNTIME_SEGMENT_STRING
#define MAIN RUNTIME_SEGMENT_MAIN
#define OPEN RUNTIME_SEGMENT_OPEN

struct pairing_case {
	const char *name, *native;
	struct {
		const char *frames;
		unsigned kind;
	} segments[6];
	const char *want;
	unsigned uncertain;
	unsigned cut; /* the native stack is not whole */
};

struct stack {
	uint64_t frames[64], words[64];
	struct runtime_part part;
	struct runtime_segment segments[16];
	struct sample_view view;
};

static enum pairing_role role_of(uint64_t word, void *data)
{
	(void)data;
	switch (frame_va(word)) {
	case 'L':
		return PAIRING_LOOP;
	case 'C':
		return PAIRING_CALL;
	case 'S':
		return PAIRING_STRING;
	case 'R':
		return PAIRING_RUN;
	case 'P':
		return PAIRING_PARSE;
	default:
		return PAIRING_OTHER;
	}
}

static void native_make(struct stack *s, const char *native)
{
	for (; *native; native++) {
		if (*native != '\'') {
			s->frames[s->view.n_user++] =
				*native == '*' ? frame_omitted(5) : frame_native(3, (uint64_t)*native);
			continue;
		}
		s->segments[s->part.n_segments++] = (struct runtime_segment){
			.marker = s->part.n_segments, .native = s->view.n_user - 1u, .kind = JUMP};
	}
}

static void stack_make(struct stack *s, const struct pairing_case *c)
{
	*s = (struct stack){.part = {.runtime = RUNTIME_PERL, .whole = 1}};
	native_make(s, c->native);
	for (size_t k = 0; k < ARRAY_SIZE(c->segments) && c->segments[k].frames; k++) {
		for (const char *f = c->segments[k].frames; *f; f++) {
			s->words[s->part.n_words++] = frame_runtime_head(RUNTIME_PERL, 1, (uint64_t)*f);
			s->words[s->part.n_words++] = 8;
		}
		s->segments[s->part.n_segments++] =
			(struct runtime_segment){.native = RUNTIME_NOT_TIED,
						 .end = s->part.n_words,
						 .kind = (uint16_t)c->segments[k].kind};
		s->part.whole &= c->segments[k].kind != OPEN;
	}
	s->view.frames = s->frames;
	s->view.runtime = &s->part;
	s->view.segments = s->segments;
	s->view.runtime_words = s->words;
	s->view.ending = c->cut ? ENDING_NO_ROW : ENDING_ROOT;
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

static void without_loops(const char *native, char *ret)
{
	for (; *native; native++)
		if (*native != 'L' && *native != '\'')
			*ret++ = *native;
	*ret = '\0';
}

static void check(const struct pairing_case *c, bool loops)
{
	static struct splice s;
	struct sample_view view;
	struct stack stack;
	char got[64], want[64];

	s = (struct splice){.options = {.loop_frames = loops, .role = role_of}};
	stack_make(&stack, c);
	sample_splice(&s, &stack.view, &view);
	text_of(&view, got);
	if (loops) {
		char *end = want;

		for (const char *g = got; *g; g++)
			if (!isdigit((unsigned char)*g) && *g != 'L')
				*end++ = *g;
		*end = '\0';
		without_loops(c->native, got);
		cr_expect_str_eq(want, got, "%s: native frames stay", c->name);
		return;
	}
	cr_expect_str_eq(got, c->want, "%s: got %s", c->name, got);
	cr_expect_eq(s.stats.uncertain, c->uncertain, "%s: %lu", c->name, (unsigned long)s.stats.uncertain);
	cr_expect_eq(view.n_kernel, 0);
}

static const struct pairing_case cases[] = {
	{"the program", "abLR'm", {{"21", MAIN}}, "ab21Rm", 0, 0},
	{"a call", "aLCbLR'm", {{"32", CALL}, {"1", MAIN}}, "a32Cb1Rm", 0, 0},
	{"a sort", "aLbLR'm", {{"3", MANY}, {"1", MAIN}}, "a3b1Rm", 0, 0},
	{"a call that catches", "aLC'bLR'm", {{"32", CATCH}, {"1", MAIN}}, "a32Cb1Rm", 0, 0},
	{"a text", "aLS'bLR'm", {{"32", STRING}, {"1", MAIN}}, "a32Sb1Rm", 0, 0},
	{"an eval in a call", "aLd'LCbLR'm", {{"43", EVAL}, {"2", CALL}, {"1", MAIN}}, "a43d2Cb1Rm", 0, 0},
	{"an eval in a call, which is over", "aLd'LCbLR'm", {{"32", CALL}, {"1", MAIN}}, "a32dCb1Rm", 0, 0},
	{"an eval where all catch", "aLC'bLR'm", {{"432", CATCH}, {"1", MAIN}}, "a432Cb1Rm", 0, 0},
	{"evals in two calls",
	 "aLd'LCbLd'LCcLR'm",
	 {{"5", EVAL}, {"4", CALL}, {"3", EVAL}, {"2", CALL}, {"1", MAIN}},
	 "a5d4Cb3d2Cc1Rm",
	 0,
	 0},
	{"the last operation of a sort's block",
	 "aLbLR'm",
	 {{"3", LAST}, {"2", MANY}, {"1", MAIN}},
	 "a32b1Rm",
	 0,
	 0},
	{"a call in a sort's block",
	 "aLCcLbLR'm",
	 {{"3", LAST}, {"2", MANY}, {"1", MAIN}},
	 "a3Cc2b1Rm",
	 0,
	 0},
	{"a sort's function without a call", "abLR'm", {{"3", MANY}, {"1", MAIN}}, "ab1Rm", 0, 0},
	{"a call from native code between two of a sort's function",
	 "aLCbLR'm",
	 {{"4", CALL}, {"3", MANY}, {"1", MAIN}},
	 "a4Cb1Rm",
	 0,
	 0},
	{"a function about to be called", "aCbLR'm", {{"3", CALL}, {"1", MAIN}}, "aCb1Rm", 0, 0},
	{"a call that has just ended", "aLCbLR'm", {{"1", MAIN}}, "aCb1Rm", 0, 0},
	{"the program has not begun or is over", "aLR'm", {{"1", MAIN}}, "a1Rm", 0, 0},
	{"a native function that was called by native code", "aLCbLR'm", {{"21", MAIN}}, "aCb21Rm", 0, 0},
	{"what a call catches, of a native function",
	 "aC'bLR'm",
	 {{"2", CATCH}, {"1", MAIN}},
	 "aCb21Rm",
	 0,
	 0},
	{"a thread", "aLC't's", {{"32", CATCH}, {"1", MAIN}}, "a32Cts", 0, 0},
	{"what is run while the program is read",
	 "aLC'b'P'm",
	 {{"32", CATCH}, {"1", MAIN}},
	 "a32Cb1Pm",
	 0,
	 0},
	{"a list that was cut", "aLCbLR'm", {{"32", CALL}, {"1", OPEN}}, "a32Cb1Rm", 0, 0},
	{"a native stack that was cut", "aLCb", {{"32", CALL}, {"1", MAIN}}, "a32Cb1", 1, 1},
	{"omitted frames", "aLC*LR'm", {{"3", CALL}, {"1", MAIN}}, "a3C*1Rm", 0, 0},
	{"no loop", "ab", {{"3", CALL}, {"1", MAIN}}, "ab31", 1, 1},
};

Test(pairing, cases)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		check(&cases[i], false);
		check(&cases[i], true);
	}
}

/* More loops than are looked at, and all segments that a record can have. */
Test(pairing, many)
{
	static uint64_t frames[USER_FRAMES_MAX], words[2 * RUNTIME_FRAMES_MAX];
	static struct runtime_segment segments[RUNTIME_SEGMENTS_MAX];
	static struct splice s;
	struct runtime_part part = {.runtime = RUNTIME_PERL,
				    .whole = 1,
				    .n_segments = RUNTIME_SEGMENTS_MAX,
				    .n_words = 2 * RUNTIME_FRAMES_MAX};
	struct sample_view v = {.frames = frames,
				.n_user = USER_FRAMES_MAX,
				.runtime = &part,
				.segments = segments,
				.runtime_words = words,
				.ending = ENDING_ROOT},
			   ret;

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		frames[i] = frame_native(3, i % 2 ? 'C' : 'L');
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = i % 2 ? 1 : frame_runtime_head(RUNTIME_PERL, 1, i);
	for (unsigned i = 0; i < RUNTIME_SEGMENTS_MAX; i++)
		segments[i] = (struct runtime_segment){
			.native = RUNTIME_NOT_TIED, .end = (uint16_t)(16 * (i + 1)), .kind = CALL};
	s.options.role = role_of;
	sample_splice(&s, &v, &ret);
	cr_expect_eq(ret.n_user, USER_FRAMES_MAX - PAIRING_LOOPS_MAX + 2 * RUNTIME_FRAMES_MAX);
}
