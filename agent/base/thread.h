// SPDX-License-Identifier: Apache-2.0
/*
 * Every thread of ours first raises its priority and gives up the capabilities that its work does not need.
 * Capabilities belong to threads, and a new thread inherits those of its creator.
 */
#ifndef PROFLET_BASE_THREAD_H
#define PROFLET_BASE_THREAD_H

#include <pthread.h>

enum thread_kind {
	THREAD_READER,	/* reads binaries and /proc of other processes */
	THREAD_NETWORK, /* of the delivery process: talks to a server, reads only files of the agent itself */
};

/* Sets the function that thread_begin calls; before the first thread is created. NULL: none. */
void thread_set_begin(void (*begin)(enum thread_kind kind));
/* Call first on a new thread. */
void thread_begin(enum thread_kind kind);
/*
 * A mutex whose holder has the priority of whoever waits for it: an urgent thread (urgency.h) would otherwise
 * wait for as long as an ordinary one waits for a CPU.
 */
void thread_mutex_init(pthread_mutex_t *m);

#endif
