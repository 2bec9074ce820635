// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/tick.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/*
 * Since 6.9 the tick's timer function has the name of the one that previously served clocks without high
 * resolution; its former name no longer exists.
 */
enum { OLD_FUNCTION, FUNCTION, ENTRY_TEXT, ENTRY_END, SYMBOLS };

static const char *const names[SYMBOLS] = {
	[OLD_FUNCTION] = "tick_sched_timer",
	[FUNCTION] = "tick_nohz_handler",
	[ENTRY_TEXT] = "__entry_text_start",
	[ENTRY_END] = "__entry_text_end",
};

int tick_symbols_read(FILE *kallsyms, struct tick_symbols *ret)
{
	uint64_t found[SYMBOLS] = {0};
	bool any = false;
	char line[512];

	while (fgets(line, sizeof line, kallsyms)) {
		unsigned long long address;
		char name[256], type;

		if (strchr(line, '[')) /* symbols of modules come last */
			break;
		if (sscanf(line, "%llx %c %255s", &address, &type, name) != 3)
			continue;
		any = any || address;
		for (size_t i = 0; i < SYMBOLS; i++)
			if (strcmp(name, names[i]) == 0)
				found[i] = address;
	}
	if (!any)
		return -EPERM;
	if (!(found[OLD_FUNCTION] || found[FUNCTION]) || !found[ENTRY_TEXT] ||
	    found[ENTRY_END] <= found[ENTRY_TEXT])
		return -ENOENT;
	*ret = (struct tick_symbols){
		.function = found[OLD_FUNCTION] ? found[OLD_FUNCTION] : found[FUNCTION],
		.entry_text = found[ENTRY_TEXT],
		.entry_end = found[ENTRY_END],
	};
	return 0;
}
