// SPDX-License-Identifier: Apache-2.0
/*
 * What is known of numbers: u64 → i32, for answers that may as well be found again. Open addressing; it stops
 * learning at its maximum or when memory is short, and never fails. Rank 0.
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

void memo_fini(struct memo *m);	 /* usable again */
void memo_clear(struct memo *m); /* keeps the memory */
/* True and the value if the key is known. */
bool memo_get(const struct memo *m, uint64_t key, int32_t *ret);
/* The key must not be known. */
void memo_put(struct memo *m, uint64_t key, int32_t value);

#endif
