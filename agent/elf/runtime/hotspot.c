// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/hotspot.h"

#include <errno.h>
#include <string.h>

#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

int hotspot_facts_read(struct hotspot_facts *ret, struct elf_image *img)
{
	struct elf_definition d[] = {{.name = "gHotSpotVMStructs"}, {.name = "gHotSpotVMTypes"}};
	int r = elf_definitions_find_dynamic(img, d, 2);

	memset(ret, 0, sizeof *ret);
	if (r < 0)
		return r;
	if (!d[0].found || !d[1].found)
		return -ENOENT;
	*ret = (struct hotspot_facts){d[0].va, d[1].va};
	if (hotspot_facts_valid(ret))
		return 0;
	memset(ret, 0, sizeof *ret);
	return -ENOENT;
}

bool hotspot_facts_valid(const struct hotspot_facts *f)
{
	return f->structs && f->types && f->structs != f->types && !(f->structs & 7) && !(f->types & 7);
}
