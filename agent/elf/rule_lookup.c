// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/rule_lookup.h"

#include <elf.h>
#include <errno.h>

#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/code/leaf_rule.h"
#include "agent/elf/code/override.h"
#include "agent/elf/code/preserved.h"
#include "agent/elf/file/elf_image.h"

static bool is_go(const struct elf_image *img)
{
	struct elf_section section;

	return elf_image_find_section(img, ".gopclntab", &section) == 0 ||
	       elf_image_find_section(img, ".note.go.buildid", &section) == 0;
}

static int find_all(struct elf_image *img, bool go, struct frame_query *query, size_t n)
{
	struct cfi_section s;
	int r = frame_section_eh(img, &s);
	if (r == 0)
		r = frame_rules_in_section(&s, query, n);
	if ((r < 0 && r != -ENOENT) || go)
		return r == -ENOENT ? 0 : r;
	r = frame_section_debug(img, &s);
	if (r == 0)
		r = frame_rules_in_section(&s, query, n);
	return r == -ENOENT ? 0 : r;
}

int frame_rules_find(struct elf_image *img, struct frame_query *query, size_t n)
{
	bool go;
	int r;

	if (!elf_arch(elf_image_machine(img)))
		return -ENOTSUP;
	go = is_go(img);
	for (size_t i = 0; i < n; i++)
		query[i].error = -ENOENT;
	r = find_all(img, go, query, n);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (query[i].error == -ENOENT && !go)
			(void)leaf_rule_find(img, &query[i]); /* else it stays -ENOENT */
		if (query[i].error == 0) {
			query[i].rule.preserved |=
				preserved_registers(img, query[i].fde_start, query[i].fde_end);
			override_complete(img, &query[i], override_list, override_list_n);
		}
	}
	return r;
}
