// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/decode.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *text;
	bool complete;
} endings[ENDINGS] = {
#define X(name, text, complete) [ENDING_##name] = {text, complete},
	UNWIND_ENDINGS(X)
#undef X
};

int sample_decode(const void *bytes, size_t len, struct sample_view *ret)
{
	const struct saved_stack *saved = NULL;
	const uint64_t *frames;
	struct sample_record r;

	if (len < sizeof r)
		return -EBADMSG;
	memcpy(&r, bytes, sizeof r);
	if (r.ending >= ENDINGS || r.n_kernel > KERNEL_FRAMES_MAX || r.n_user > USER_FRAMES_MAX ||
	    len != sizeof r + (r.n_kernel + r.n_user) * 8u + r.saved_stack_bytes)
		return -EBADMSG;
	frames = (const uint64_t *)((const uint8_t *)bytes + sizeof r);
	if (r.saved_stack_bytes) {
		saved = (const struct saved_stack *)(frames + r.n_kernel + r.n_user);
		if (r.saved_stack_bytes < sizeof *saved || saved->stack_bytes > SAVED_STACK_MAX ||
		    r.saved_stack_bytes != sizeof *saved + saved->stack_bytes)
			return -EBADMSG;
	}
	*ret = (struct sample_view){
		.time_ns = r.time_ns,
		.pid = r.pid,
		.tid = r.tid,
		.generation = r.generation,
		.cpu = r.cpu,
		.ending = (enum unwind_ending)r.ending,
		.kernel_mode = r.flags & SAMPLE_KERNEL_MODE,
		.from_start = r.flags & SAMPLE_FROM_START,
		.n_kernel = r.n_kernel,
		.n_user = r.n_user,
		.frames = frames,
		.saved = saved,
		.stack = saved ? (const uint8_t *)(saved + 1) : NULL,
	};
	return 0;
}

const char *unwind_ending_text(enum unwind_ending ending)
{
	return endings[ending].text;
}

bool unwind_ending_complete(enum unwind_ending ending)
{
	return endings[ending].complete;
}
