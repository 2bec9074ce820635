// SPDX-License-Identifier: Apache-2.0
/*
 * A cache u64 → i32 for answers that can be computed again. Open addressing. At its maximum, or when out of
 * memory, it stops storing new keys; it never fails.
 */
#ifndef PROFLET_BASE_MEMO_H
#define PROFLET_BASE_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memo_slot {
	uint64_t key;
	int32_t value;
	bool used;
};

/* Zeroed is fine. */
struct memo {
	struct memo_slot *slots; /* owned; a power of two of them */
	size_t n_slots, len;
};

#define MEMO_MAX (1u << 16) /* keys */

void memo_fini(struct memo *m);	 /* the memo can be used again */
void memo_clear(struct memo *m); /* does not free the memory */
/* Returns whether the key is stored, with its value. */
bool memo_get(const struct memo *m, uint64_t key, int32_t *ret);
/* Stores a key that is not stored yet. */
void memo_put(struct memo *m, uint64_t key, int32_t value);

#endif
