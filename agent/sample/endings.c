// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/endings.h"

#include <stddef.h>

#include "agent/sample/frames.h"

struct text {
	const char *reason, *frame;
	bool complete;
};

#define TEXT(text) .reason = text, .frame = "[truncated: " text "]"

static const struct text endings[ENDINGS] = {
#define X(name, text, is_complete) [ENDING_##name] = {TEXT(text), .complete = is_complete},
	UNWIND_ENDINGS(X)
#undef X
};

/* Texts for ENDING_RUNTIME, by runtime and reason. */
static const struct text runtimes[RUNTIMES][RUNTIME_REASONS_N] = {
#define REASON(runtime, name, text) [RUNTIME_REASON_##name] = {TEXT(runtime ": " text)},
#define X(name, text) [RUNTIME_##name] = {RUNTIME_REASONS(REASON, text)},
	FRAME_RUNTIMES(X)
#undef X
#undef REASON
};

/* For a runtime or reason that this version does not know, the text is that of the ending alone. */
static const struct text *find(enum unwind_ending ending, uint32_t detail)
{
	uint32_t runtime = detail >> 8, reason = detail & 255;

	if (ending == ENDING_RUNTIME && runtime < RUNTIMES && reason < RUNTIME_REASONS_N &&
	    runtimes[runtime][reason].reason)
		return &runtimes[runtime][reason];
	return &endings[ending];
}

const char *unwind_ending_text(enum unwind_ending ending)
{
	return endings[ending].reason;
}

bool unwind_ending_complete(enum unwind_ending ending)
{
	return endings[ending].complete;
}

const char *unwind_ending_reason(enum unwind_ending ending, uint32_t detail)
{
	return find(ending, detail)->reason;
}

uint64_t ending_frame(enum unwind_ending ending, uint32_t detail)
{
	return (uint64_t)FRAME_TAG_ENDING << FRAME_VA_BITS | (uint64_t)detail << 8 | (uint64_t)ending;
}

const char *ending_frame_text(uint64_t number)
{
	uint64_t detail = frame_va(number) >> 8;

	if (frame_tag(number) != FRAME_TAG_ENDING || (number & 255) >= ENDINGS || detail > UINT32_MAX)
		return NULL;
	return find((enum unwind_ending)(number & 255), (uint32_t)detail)->frame;
}
