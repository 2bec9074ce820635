// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/relocations.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"

#define RELOCATIONS_MAX (4u << 20)
#define RELOCATIONS_PER_READ 2048

int elf_relocations_each(const struct elf_image *img, bool (*fn)(const Elf64_Rela *rela, void *data),
			 void *data)
{
	static const char *const names[] = {".rela.dyn", ".rela"};
	_cleanup_free_ Elf64_Rela *relas = calloc(RELOCATIONS_PER_READ, sizeof *relas);
	const struct elf_arch *arch = elf_arch(elf_image_machine(img));
	struct elf_section section;

	if (!relas)
		return -ENOMEM;
	for (size_t k = 0; arch && k < ARRAY_SIZE(names); k++) {
		if (elf_image_find_section(img, names[k], &section) < 0)
			continue;
		uint64_t n = section.bytes / sizeof *relas;
		n = n < RELOCATIONS_MAX ? n : RELOCATIONS_MAX;
		for (uint64_t first = 0; first < n; first += RELOCATIONS_PER_READ) {
			uint64_t left = n - first;
			uint64_t here = left < RELOCATIONS_PER_READ ? left : RELOCATIONS_PER_READ;

			if (elf_image_pread(img, section.offset + first * sizeof *relas, relas,
					    here * sizeof *relas) < 0)
				return 0;
			for (uint64_t i = 0; i < here; i++)
				if (ELF64_R_TYPE(relas[i].r_info) == arch->relative && !fn(&relas[i], data))
					return 0;
		}
	}
	return 0;
}
