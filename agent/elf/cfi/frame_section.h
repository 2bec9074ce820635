// SPDX-License-Identifier: Apache-2.0
/* Locates the call-frame sections of an image, so that their entries can be read. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_FRAME_SECTION_H
#define PROFLET_ELF_FRAME_SECTION_H

#include "agent/elf/cfi/cfi_entry.h"

struct elf_image;

/*
 * .eh_frame and .debug_frame; the bytes are borrowed from the image. 0, -ENOENT, and the errors of
 * elf_image_section.
 */
int frame_section_eh(struct elf_image *img, struct cfi_section *ret);
int frame_section_debug(struct elf_image *img, struct cfi_section *ret);

#endif
