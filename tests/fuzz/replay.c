// SPDX-License-Identifier: Apache-2.0
/*
 * In place of libFuzzer, where there is none: runs a fuzz target once on each file named, whose name is
 * printed before. Exit 0: all were read.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0; -errno; -E2BIG: it is too large. */
static int replay(const char *path)
{
	static uint8_t bytes[INPUT_MAX];
	FILE *f = fopen(path, "re");
	uint8_t *input;
	size_t n;
	int r;

	if (!f)
		return -errno;
	n = fread(bytes, 1, sizeof bytes, f);
	r = ferror(f) ? -EIO : n == sizeof bytes ? -E2BIG : 0;
	fclose(f);
	input = r == 0 ? malloc(n) : NULL; /* exactly as long as it is */
	if (r == 0 && n && !input)
		r = -ENOMEM;
	if (r == 0) {
		memcpy(input, bytes, n);
		(void)LLVMFuzzerTestOneInput(input, n);
	}
	free(input);
	return r;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		int r;

		printf("%s\n", argv[i]);
		fflush(stdout);
		r = replay(argv[i]);
		if (r < 0)
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
		failed |= r < 0;
	}
	return failed;
}
