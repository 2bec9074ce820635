// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/maps.h"

/* An accepted field must be inside the line, and its path must decode to at most its own length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	_cleanup_free_ char *path = NULL;
	struct proc_maps_line line;

	if (proc_maps_parse_line(text, size, &line) < 0)
		return 0;
	if (line.start >= line.end || (line.path == NULL) != (line.path_len == 0))
		abort();
	if (!line.path)
		return 0;
	if (line.path < text || line.path + line.path_len > text + size)
		abort();
	if (proc_maps_path(&line, &path) == 0 &&
	    (strlen(path) > line.path_len || line.escaped != (strlen(path) < line.path_len)))
		abort();
	return 0;
}
