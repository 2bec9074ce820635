// SPDX-License-Identifier: Apache-2.0
/* Parses any bytes as /proc/<pid>/status. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_status s;
	char *exact = malloc(size); /* without a byte behind the end, so that a read there is detected */

	if (!exact)
		return 0;
	memcpy(exact, data, size);
	(void)proc_status_parse(exact, size, &s);
	free(exact);
	return 0;
}
