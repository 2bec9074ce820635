// SPDX-License-Identifier: Apache-2.0
/*
 * What every thread of ours does first: give up the rights that its work does not take. Capabilities belong
 * to threads, and a new one has those of the thread that made it. Rank 0.
 */
#ifndef PROFLET_BASE_THREAD_H
#define PROFLET_BASE_THREAD_H

enum thread_kind {
	THREAD_READER,	/* reads binaries and /proc of other processes */
	THREAD_NETWORK, /* talks to a server; its own files only */
};

/* Sets what thread_begin calls; before the first thread is made. NULL: nothing. */
void thread_set_begin(void (*begin)(enum thread_kind kind));
/* First thing on a new thread. */
void thread_begin(enum thread_kind kind);

#endif
