// SPDX-License-Identifier: Apache-2.0
/* The rows of procedure linkage tables that no call-frame information describes. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_PLTROWS_H
#define PROFLET_ELF_PLTROWS_H

#include "agent/elf/fdes.h"

/* Adds the image's .plt, .plt.sec and .plt.got (x86-64) as spans of ELF_PLT. 0 or -ENOMEM. */
int pltrows_read(struct fdes *f, const struct elf_image *img);

#endif
