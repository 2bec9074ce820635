// SPDX-License-Identifier: Apache-2.0
/* The page that `proflet diff` writes: the stacks of two recordings in one profile. */
#ifndef PROFLET_DIFF_PAGE_H
#define PROFLET_DIFF_PAGE_H

#include "agent/recording/comparison.h"
#include "agent/recording/recording_types.h"

struct diff_page;

/* `comparison` is borrowed until diff_page_free; `names_only` as of comparison_new. 0 or -ENOMEM. */
int diff_page_new(struct diff_page **ret, const struct comparison *comparison, bool names_only);
void diff_page_free(struct diff_page *page); /* NULL is fine */
/* Adds a stack, as comparison_add does. 0 or -ENOMEM; stacks that there is no room for count as [other]. */
int diff_page_add(struct diff_page *page, enum comparison_side side, const struct recording_stack *s);
/*
 * Writes the file, whole or not at all, when both recordings have been added. 0; -EEXIST: it exists and is
 * not to be overwritten; -errno of writing it; -ENOMEM.
 */
int diff_page_write(const struct diff_page *page, const char *path, bool overwrite,
		    const char *const files[COMPARISON_SIDES],
		    const struct recording_info infos[COMPARISON_SIDES]);

#endif
