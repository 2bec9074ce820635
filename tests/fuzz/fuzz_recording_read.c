// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a recording. Each stack that is read must fit a profile, and counts must add up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/recording/recording.h"
#include "agent/recording/selection.h"

struct state {
	struct stack_selection *selection;
	struct output_profile *profile;
	uint64_t n;
};

static int add(const struct recording_stack *s, void *data)
{
	struct state *state = data;
	struct output_stack shown;
	int r = stack_selection_apply(state->selection, &s->stack, &shown);

	if (r < 0)
		return r;
	if (!s->stack.count || !s->stack.process || (s->n_times && s->n_times != s->stack.count))
		abort();
	state->n += s->stack.count;
	(void)output_profile_add(state->profile, &shown);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct recording_options options = {.value = size && data[0] & 1 ? "cpu" : NULL};
	const struct stack_selection_options wanted = {.lines = true};
	struct recording_info info = {0};
	struct state state = {0};
	char *why = NULL;
	int r;

	if (size > 1 << 20 ||
	    output_profile_new(&state.profile, &(struct output_info){.max_nodes = 4096}) < 0)
		return 0;
	if (stack_selection_new(&state.selection, &wanted, &why) == 0) {
		r = recording_read_bytes(data, size, "fuzz", &options, add, &state, &info, &why);
		if (r == 0 && (state.n != info.n_samples || output_profile_samples(state.profile) != state.n))
			abort();
		if (r < 0 && !why)
			abort();
	}
	recording_info_fini(&info);
	stack_selection_free(state.selection);
	output_profile_free(state.profile);
	free(why);
	return 0;
}
