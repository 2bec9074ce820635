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
	const struct sample_rest *rest = NULL;
	const uint64_t *frames;
	struct sample_record r;

	if (len < sizeof r)
		return -EBADMSG;
	memcpy(&r, bytes, sizeof r);
	if (r.ending >= ENDINGS || r.n_kernel > KERNEL_FRAMES_MAX || r.n_user > USER_FRAMES_MAX ||
	    len != sizeof r + (r.n_kernel + r.n_user) * 8u + r.rest_bytes)
		return -EBADMSG;
	frames = (const uint64_t *)((const uint8_t *)bytes + sizeof r);
	if (r.rest_bytes) {
		rest = (const struct sample_rest *)(frames + r.n_kernel + r.n_user);
		if (r.rest_bytes < sizeof *rest || rest->stack_bytes > REST_STACK_MAX ||
		    r.rest_bytes != sizeof *rest + rest->stack_bytes)
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
		.rest = rest,
		.stack = rest ? (const uint8_t *)(rest + 1) : NULL,
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
