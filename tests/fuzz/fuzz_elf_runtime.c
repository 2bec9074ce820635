// SPDX-License-Identifier: Apache-2.0
/*
 * Reads any bytes as an ELF file that may have a language runtime. Whatever is found is such that the agent
 * takes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/facts.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img = NULL;
	struct runtime_facts f;
	char version[RUNTIME_VERSION_TEXT];
	uint8_t *bytes = malloc(size + 1);
	int r;

	require(bytes != NULL);
	if (size)
		memcpy(bytes, data, size);
	if (elf_image_open_bytes(&img, bytes, size) < 0) {
		free(bytes);
		return 0;
	}
	r = runtime_facts_read(&f, img);
	require(r == 0 || r == -ENOENT);
	require(runtime_facts_valid(&f) && (f.kind == RUNTIME_FILE_NONE) == (r < 0));
	if (r == 0)
		require(strlen(runtime_facts_version(&f, version)) > strlen("PHP 1.1"));
	elf_image_free(img);
	return 0;
}
