// SPDX-License-Identifier: Apache-2.0
/* Growing arrays: a pointer to the items, their number, and the number there is room for. */
#ifndef PROFLET_BASE_ARRAY_H
#define PROFLET_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Makes room for `n` items of `size` bytes each. `items` is the address of the pointer to the items (a T **);
 * the pointer may be NULL, with *cap 0. *cap at least doubles when it grows, so appending one item at a time
 * costs constant time on average. 0, or -ENOMEM: items and *cap are unchanged.
 *
 *	if (array_reserve(&list->items, &list->cap, list->n + 1, sizeof *list->items) < 0)
 *		return -ENOMEM;
 *	list->items[list->n++] = item;
 */
int array_reserve(void *items, size_t *cap, size_t n, size_t size);
/*
 * Reallocates the array to exactly `n` items (not 0). For an array that changes its size once: to the number
 * of items that will follow, or down to the number in use. 0, or -ENOMEM: items is unchanged.
 */
int array_resize(void *items, size_t n, size_t size);
/*
 * Allocates `n` items (not 0) of zeros, for an array that is going to be written all over: all pages of a
 * large one are taken at once, huge ones where the system has them, which costs less than a page fault or two
 * for each. NULL: no memory. Release it with free().
 */
void *array_zeroed(size_t n, size_t size);

/*
 * Index of the first of n items for which `condition`, an expression of the index `i`, is true; n: it is for
 * none. The items are sorted: the condition is false up to some item, and true from there on.
 *
 *	size_t at = array_first(list->n, i, list->items[i].start >= start);
 */
#define array_first(n, i, condition)                     \
	({                                               \
		size_t first_ = 0, left_ = (n);          \
		while (left_ > 0) {                      \
			size_t half_ = left_ / 2;        \
			const size_t i = first_ + half_; \
			if (condition) {                 \
				left_ = half_;           \
			} else {                         \
				first_ = i + 1;          \
				left_ -= half_ + 1;      \
			}                                \
		}                                        \
		first_;                                  \
	})

/* Index of the first of n ascending values that is not below `value`; n when all are. */
size_t array_first_from(const uint64_t *values, size_t n, uint64_t value);

#endif
