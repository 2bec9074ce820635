// SPDX-License-Identifier: Apache-2.0
/* Makes a table of a builder's entries, by way of the bytes that a parser process answers. */
#ifndef PROFLET_TESTS_JIT_TABLE_H
#define PROFLET_TESTS_JIT_TABLE_H

#include "agent/base/cleanup.h"
#include "agent/symbol/jittable.h"

/* 0 or -errno. `old` is borrowed; NULL: none. */
static inline int jit_table_new(struct jit_table **ret, const struct jit_table *old, struct jit_builder *b,
				uint64_t *n_cut)
{
	_cleanup_buf_ struct buf bytes = {0};
	int r;

	buf_init(&bytes, JIT_CHANGES_MAX);
	r = jit_builder_write(b, &bytes, n_cut);
	return r < 0 ? r : jit_table_read(ret, old, bytes.data, bytes.len, n_cut);
}

#endif
