// SPDX-License-Identifier: Apache-2.0
/* Demangles any bytes: no crash, no leak, bounded output, bounded time (-timeout=2). */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbol/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1), *readable;

	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	readable = symbol_demangle(name);
	if (readable && strlen(readable) > SYMBOL_NAME_MAX)
		abort();
	free(readable);
	free(name);
	return 0;
}
