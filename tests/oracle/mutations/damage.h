// SPDX-License-Identifier: Apache-2.0
/* What is damaged, and how: decided by a seed and the mutation's number. */
#ifndef PROFLET_MUTATIONS_DAMAGE_H
#define PROFLET_MUTATIONS_DAMAGE_H

#include "tests/oracle/mutations/fdes.h"

struct subject {
	struct target target;
	struct fde_places fdes;
	struct elf_rows *rows; /* undamaged */
	bool indexed;	       /* has .eh_frame_hdr, so that a damaged length is overcome */
};

enum damage_kind { HEADERS, SECTION, CUT, ONE_FDE, INDEX, ANYWHERE, KINDS };

const char *damage_kind_name(enum damage_kind kind);
/* Chooses a file and notes its damage in the target. *ret_fde is what may differ from the undamaged table:
 * the function of one FDE, none (their number), or everything (SIZE_MAX). */
enum damage_kind damage_make(struct subject *subjects, int n, uint64_t seed, uint64_t number,
			     struct subject **ret, size_t *ret_fde);

#endif
