// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the symbols of any bytes as those of a program, and writes samples at some of its addresses. Each
 * sample is written or counted as left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/compiler/bolt.h"
#include "agent/compiler/samples.h"
#include "agent/elf/file/elf_image.h"
#include "agent/output/profile.h"

DEFINE_CLEANUP(struct compiler_samples *, compiler_samples_free)

static void add_samples(struct compiler_samples *s, const char *name)
{
	size_t n;
	const struct elf_segment *segments = elf_image_segments(compiler_samples_image(s), &n);

	for (size_t i = 0; i < n && i < 4; i++) {
		const struct frame_module m = {.path = name,
					       .name = name,
					       .start = segments[i].va,
					       .file_offset = segments[i].offset};

		for (uint64_t at = 0; at < 64; at += 3) {
			const struct frame frame = {.module = &m, .address = m.start + at};

			(void)compiler_samples_add(
				s, &(struct output_stack){.frames = &frame, .n_frames = 1, .count = 1});
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(compiler_samples_free_p) struct compiler_samples *s = NULL;
	_cleanup_close_ int fd = memfd_create("program", MFD_CLOEXEC);
	_cleanup_fclose_ FILE *null = fopen("/dev/null", "we");
	char name[16], path[64];
	uint64_t left = 0;

	snprintf(name, sizeof name, "%d", fd);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (!null || fd < 0 || write(fd, data, size) != (ssize_t)size || compiler_samples_new(&s, path) < 0)
		return 0;
	add_samples(s, name);
	if (compiler_bolt_write(s, &left, null) == 0 && left > compiler_samples_own(s))
		abort();
	return 0;
}
