// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/exclude.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

static const struct {
	const char *name; /* as it begins */
	const char *reason;
} excluded[] = {
	{"gogo", "loads the stack pointer of the goroutine that goes on: its caller never does"},
	{"runtime.gogo", "the same"},
	{"runtime.mcall", "goes to the scheduler's stack, and does not come back by a return"},
	{"runtime.morestack", "the same, to get a larger stack"},
	{"runtime.mstart", "outermost by Go's own mark; the main thread's was called by rt0_go, once"},
};

bool exclude_root(const struct tables *t, uint64_t frame)
{
	struct elf_symbol s = {0};
	bool found = false;

	if (tables_symbol(t, frame, &s) < 0 || !s.name)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(excluded); i++)
		found = found || strncmp(s.name, excluded[i].name, strlen(excluded[i].name)) == 0;
	free(s.name);
	return found;
}
