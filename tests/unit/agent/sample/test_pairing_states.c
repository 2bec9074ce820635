// SPDX-License-Identifier: Apache-2.0
/* Lua's frames among native ones: digits are Lua's, L is the loop, other letters are other native frames. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/splice.h"

#define CALLED RUNTIME_SEGMENT_CALLED
#define RESUMED RUNTIME_SEGMENT_RESUMED
#define FREE RUNTIME_NOT_TIED

struct states_case {
	const char *name, *native;
	struct {
		unsigned state; /* 0: the end of the segments, or not known */
		uint32_t native;
		const char *frames;
		unsigned kind;
	} segments[6];
	const char *want;
	unsigned uncertain;
	unsigned cut; /* the native stack is not whole */
};

static const struct states_case cases[] = {
	{"a program", "aLm", {{1, 1, "21", CALLED}}, "a21m", 0, 0},
	{"native code calls a function",
	 "aLbLm",
	 {{1, 1, "32", CALLED}, {1, 3, "1", CALLED}},
	 "a32b1m",
	 0,
	 0},
	{"coroutines",
	 "aLbLcLm",
	 {{2, 1, "32", CALLED}, {1, 3, "1", CALLED}, {1, 5, "0", CALLED}},
	 "a32b1c0m",
	 0,
	 0},
	{"a coroutine that was suspended in a call by native code",
	 "aLbLm",
	 {{2, 1, "4", RESUMED}, {2, FREE, "3", CALLED}, {2, FREE, "2", CALLED}, {1, 3, "1", CALLED}},
	 "a432b1m",
	 0,
	 0},
	{"and calls by native code after that",
	 "aLbLcLm",
	 {{2, 1, "5", CALLED}, {2, 3, "4", RESUMED}, {2, FREE, "3", CALLED}, {1, 5, "1", CALLED}},
	 "a5b43c1m",
	 0,
	 0},
	{"a function whose loop has not begun",
	 "abLm",
	 {{1, 2, "2", CALLED}, {1, FREE, "1", CALLED}},
	 "ab1m",
	 0,
	 0},
	{"a loop that has run its functions", "LbLm", {{1, 0, "1", CALLED}, {1, 2, "", CALLED}}, "b1m", 0, 0},
	{"the program's loop is over", "Lm", {{1, 0, "", CALLED}}, "m", 0, 0},
	{"more functions than loops",
	 "abLm",
	 {{1, 2, "3", CALLED}, {1, FREE, "2", CALLED}, {1, FREE, "1", CALLED}},
	 "ab321m",
	 1,
	 0},
	{"more loops than functions, of a coroutine that waits",
	 "aLbLcLm",
	 {{2, 1, "3", CALLED}, {1, 3, "1", CALLED}, {1, 5, "", CALLED}},
	 "a3b1cm",
	 1,
	 0},
	{"a native stack that was cut", "aLb", {{1, 1, "32", CALLED}, {1, FREE, "1", CALLED}}, "a32b1", 1, 1},
	{"native code calls into a coroutine that waits",
	 "aLbLcLm",
	 {{1, 1, "4", CALLED},
	  {1, FREE, "1", CALLED},
	  {2, 3, "3", CALLED},
	  {1, 5, "4", CALLED},
	  {1, FREE, "1", CALLED}},
	 "a4b3c1m",
	 0,
	 0},
	{"a loop of an unknown coroutine", "aLbLm", {{0, 1, "", CALLED}, {1, 3, "1", CALLED}}, "ab1m", 0, 0},
};

struct stack {
	uint64_t frames[64], words[64];
	struct runtime_part part;
	struct runtime_segment segments[16];
	struct sample_view view;
};

static void stack_make(struct stack *s, const struct states_case *c)
{
	*s = (struct stack){.part = {.runtime = RUNTIME_LUA, .whole = 1}};
	for (const char *n = c->native; *n; n++)
		s->frames[s->view.n_user++] = frame_native(3, (uint64_t)*n);
	for (size_t k = 0; k < ARRAY_SIZE(c->segments) && c->segments[k].frames; k++) {
		for (const char *f = c->segments[k].frames; *f; f++) {
			s->words[s->part.n_words++] = frame_runtime_head(RUNTIME_LUA, 1, (uint64_t)*f);
			s->words[s->part.n_words++] = 8;
		}
		s->segments[s->part.n_segments++] =
			(struct runtime_segment){.marker = c->segments[k].state,
						 .native = c->segments[k].native,
						 .end = s->part.n_words,
						 .kind = (uint16_t)c->segments[k].kind};
	}
	s->view.frames = s->frames;
	s->view.runtime = &s->part;
	s->view.segments = s->segments;
	s->view.runtime_words = s->words;
	s->view.ending = c->cut ? ENDING_NO_ROW : ENDING_ROOT;
}

static void text_of(const struct sample_view *v, char *ret)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (stack_frames_next(&frames, &f))
		*ret++ = (char)frame_va(f.word);
	*ret = '\0';
}

Test(pairing_states, cases)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct splice s;
		struct sample_view view;
		struct stack stack;
		char got[64];

		s = (struct splice){0};
		stack_make(&stack, &cases[i]);
		sample_splice(&s, &stack.view, &view);
		text_of(&view, got);
		cr_expect_str_eq(got, cases[i].want, "%s: got %s", cases[i].name, got);
		cr_expect_eq(s.stats.uncertain, cases[i].uncertain, "%s: %lu", cases[i].name,
			     (unsigned long)s.stats.uncertain);
		s = (struct splice){.options.loop_frames = true};
		sample_splice(&s, &stack.view, &view);
		text_of(&view, got);
		for (size_t k = 0; cases[i].native[k]; k++)
			cr_expect_not_null(strchr(got, cases[i].native[k]), "%s: native frames stay",
					   cases[i].name);
	}
}

/*
 * All segments that a record can have, each a loop's or none's, all of them one coroutine's or each
 * another's.
 */
Test(pairing_states, many)
{
	static uint64_t frames[USER_FRAMES_MAX], words[2 * RUNTIME_FRAMES_MAX];
	static struct runtime_segment segments[RUNTIME_SEGMENTS_MAX];
	static struct splice s;
	struct runtime_part part = {.runtime = RUNTIME_LUA,
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
		frames[i] = frame_native(3, i);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = i % 2 ? 1 : frame_runtime_head(RUNTIME_LUA, 1, i);
	for (unsigned k = 0; k < 4; k++) {
		for (unsigned i = 0; i < RUNTIME_SEGMENTS_MAX; i++)
			segments[i] = (struct runtime_segment){.marker = k & 1 ? 1 : i + 1,
							       .native = k & 2 && i % 2 ? FREE : i,
							       .end = (uint16_t)(16 * (i + 1)),
							       .kind = CALLED};
		sample_splice(&s, &v, &ret);
		cr_expect_eq(ret.n_user, USER_FRAMES_MAX + 2 * RUNTIME_FRAMES_MAX -
						 (k & 2 ? RUNTIME_SEGMENTS_MAX / 2 : RUNTIME_SEGMENTS_MAX));
	}
}
