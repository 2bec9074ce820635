// SPDX-License-Identifier: Apache-2.0
/*
 * Replaces malloc and related functions for the whole process, libraries included. Chosen allocations fail,
 * in the thread that starts the counting and in threads created later. Memory comes from AddressSanitizer, or
 * from libc if there is no sanitizer, and is freed by the same.
 */
#ifndef TEST_FAILING_MALLOC_H
#define TEST_FAILING_MALLOC_H

/* Starts counting over all threads; the allocations [first, first + n) fail. 0: none fails. */
void failing_malloc_start(unsigned long first, unsigned long n);
/* The same, but counts the allocations of the calling thread only. */
void failing_malloc_start_in_thread(unsigned long first, unsigned long n);
/* Stops counting. Returns how many allocations there were; *ret_failed of them failed. */
unsigned long failing_malloc_stop(unsigned long *ret_failed);

#endif
