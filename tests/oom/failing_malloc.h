// SPDX-License-Identifier: Apache-2.0
/*
 * malloc and its relatives for the whole process, libraries included, of which a chosen one fails, in the
 * thread that starts the counting and in those created later. Memory comes from AddressSanitizer where it is
 * there, else from libc, and is freed by that.
 */
#ifndef TEST_FAILING_MALLOC_H
#define TEST_FAILING_MALLOC_H

/* Counts from here, over all threads; the allocations [first, first + n) fail. 0: none fails. */
void failing_malloc_start(unsigned long first, unsigned long n);
/* The same, of the calling thread's allocations only. */
void failing_malloc_start_in_thread(unsigned long first, unsigned long n);
/* Ends the counting. Returns how many there were; *ret_failed of them failed. */
unsigned long failing_malloc_stop(unsigned long *ret_failed);

#endif
