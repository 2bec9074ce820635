// SPDX-License-Identifier: Apache-2.0
/* Selects what is damaged, and how, by a seed and the number of the mutation. */
#ifndef PROFLET_MUTATIONS_DAMAGE_H
#define PROFLET_MUTATIONS_DAMAGE_H

#include "tests/oracle/mutations/fdes.h"

struct subject {
	struct target target;
	struct fde_places fdes;
	struct elf_rows *rows; /* table of the undamaged file */
	bool indexed;	       /* has .eh_frame_hdr, with which the reader recovers from a damaged length */
};

enum damage_kind { HEADERS, SECTION, CUT, ONE_FDE, INDEX, ANYWHERE, KINDS };

const char *damage_kind_name(enum damage_kind kind);
/*
 * Selects a file and records its damage in the target. *ret_fde says where the table may differ from the
 * undamaged one: in the function of one FDE, nowhere (the number of FDEs), or anywhere (SIZE_MAX).
 */
enum damage_kind damage_make(struct subject *subjects, int n, uint64_t seed, uint64_t number,
			     struct subject **ret, size_t *ret_fde);

#endif
