// SPDX-License-Identifier: Apache-2.0
#include "agent/base/thread.h"

#include <stddef.h>

#include "agent/base/priority.h"

static void (*on_begin)(enum thread_kind kind);

void thread_set_begin(void (*begin)(enum thread_kind kind))
{
	on_begin = begin;
}

void thread_begin(enum thread_kind kind)
{
	priority_raise();
	if (on_begin)
		on_begin(kind);
}

void thread_mutex_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	(void)pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(m, &attr);
	pthread_mutexattr_destroy(&attr);
}
