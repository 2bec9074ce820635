// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/stat.h"

/* Parses any bytes as a stat file, and as an environment. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	_cleanup_free_ char *whole = NULL, *cut = NULL;
	struct proc_stat stat;
	int r;

	if (proc_stat_parse(text, size, &stat) == 0) {
		if (strlen(stat.comm) >= sizeof stat.comm ||
		    stat.kernel_thread != !!(stat.flags & 0x00200000))
			abort();
		proc_start_mono_ns(stat.start_time_ticks, 1000000000);
	}
	r = proc_environ_parse(text, size, true, "NAME", &whole);
	if ((r == 0) != (whole != NULL) || (whole && strlen(whole) + 5 > size))
		abort();
	/* a variable found in a truncated environment must be found in the whole one */
	r = proc_environ_parse(text, size, false, "NAME", &cut);
	if (r == 0 && (!whole || strcmp(whole, cut) != 0))
		abort();
	return 0;
}
