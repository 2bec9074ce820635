// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/text.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/entry.h"

#define SAMPLES 64u
#define SAMPLE_BYTES 64u

/* Padding, or memory that is not written yet: equal bytes prove nothing. */
static bool is_uniform(const uint8_t *bytes)
{
	return memcmp(bytes, bytes + 1, SAMPLE_BYTES - 1) == 0;
}

enum proc_text proc_text_compare(int proc_fd, uint32_t pid, uint64_t start, uint64_t len, int fd,
				 uint64_t offset)
{
	_cleanup_close_ int mem = proc_entry_open(proc_fd, pid, "mem", O_RDONLY);
	uint8_t have[SAMPLE_BYTES], want[SAMPLE_BYTES];
	unsigned n = 0, n_same = 0;

	if (mem < 0 || len < SAMPLE_BYTES)
		return PROC_TEXT_UNKNOWN;
	for (unsigned i = 0; i < SAMPLES; i++) {
		uint64_t at = (len - SAMPLE_BYTES) / (SAMPLES - 1) * i;

		if (pread(fd, want, sizeof want, (off_t)(offset + at)) != (ssize_t)sizeof want ||
		    pread(mem, have, sizeof have, (off_t)(start + at)) != (ssize_t)sizeof have)
			return PROC_TEXT_UNKNOWN;
		if (is_uniform(want))
			continue;
		n++;
		n_same += memcmp(want, have, sizeof want) == 0;
	}
	if (n == 0)
		return PROC_TEXT_UNKNOWN;
	return n_same * 4 >= n * 3 ? PROC_TEXT_SAME : PROC_TEXT_OTHER;
}
