// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/dotnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

#define VARIABLES_MAX (4ull << 20) /* bytes of a segment with variables, in which the version is looked for */
#define PATCH_UNIT 100u		   /* "9.0.725.31616" is 9.0.7: the two last digits are a year */

enum { DAC_TABLE, DEFINITIONS };

/* The next number of "10.0.926", and the dot behind it. False: there is none. */
static bool read_number(const char **at, const char *end, uint32_t *ret)
{
	const char *p = *at;
	uint32_t value = 0;

	while (p < end && *p >= '0' && *p <= '9' && value < 100000)
		value = value * 10 + (uint32_t)(*p++ - '0');
	if (p == *at || p == end || *p != '.')
		return false;
	*at = p + 1;
	*ret = value;
	return true;
}

/* The version in a text for the tool `what`, which the runtime's variables begin with. 0: none. */
static uint32_t version_in(const uint8_t *bytes, size_t n)
{
	static const char mark[] = "@(#)Version ";
	const uint8_t *found = memmem(bytes, n, mark, sizeof mark - 1);
	const char *at = found ? (const char *)found + sizeof mark - 1 : NULL, *end = (const char *)bytes + n;
	uint32_t major, minor, patch;

	if (!at || !read_number(&at, end, &major) || !read_number(&at, end, &minor) ||
	    !read_number(&at, end, &patch))
		return 0;
	patch /= PATCH_UNIT;
	return major && major <= 0xff && minor <= 0xff && patch <= 0xff
		       ? major << 24 | minor << 16 | patch << 8
		       : 0;
}

static int find_version(uint32_t *ret, const struct elf_image *img)
{
	size_t n;
	const struct elf_segment *s = elf_image_segments(img, &n);

	for (size_t i = 0; i < n && !*ret; i++) {
		_cleanup_free_ uint8_t *bytes = NULL;
		int r;

		if (!s[i].writable || !s[i].file_bytes || s[i].file_bytes > VARIABLES_MAX)
			continue;
		r = elf_image_pread_new(img, s[i].offset, s[i].file_bytes, &bytes);
		if (r == -ENOMEM)
			return r;
		if (r == 0)
			*ret = version_in(bytes, s[i].file_bytes);
	}
	return 0;
}

static bool is_known(const struct dotnet_facts *f)
{
	const uint32_t major = f->version >> 24;

	return major >= DOTNET_MAJOR_MIN && major <= DOTNET_MAJOR_MAX && f->dac_table && !(f->dac_table & 7);
}

int dotnet_facts_read(struct dotnet_facts *ret, struct elf_image *img)
{
	struct elf_definition d[DEFINITIONS] = {[DAC_TABLE] = {.name = "g_dacTable"}};
	int r = elf_definitions_find_dynamic(img, d, DEFINITIONS);

	memset(ret, 0, sizeof *ret);
	if (r < 0)
		return r;
	if (!d[DAC_TABLE].found)
		return -ENOENT;
	r = find_version(&ret->version, img);
	if (r < 0)
		return r;
	if (!ret->version)
		return -ENOENT;
	ret->dac_table = d[DAC_TABLE].va;
	ret->known = is_known(ret);
	return 0;
}

bool dotnet_facts_valid(const struct dotnet_facts *f)
{
	return f->version && f->known == is_known(f);
}
