// SPDX-License-Identifier: Apache-2.0
#include "agent/late/library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "agent/base/log.h"
#include "agent/base/thread.h"

/* Of all libraries: the loader has one lock, too. */
static pthread_mutex_t mutex;

static void init(void)
{
	thread_mutex_init(&mutex);
}

/* The main loop may wait for a thread that loads a library and has a small share of the CPUs. */
static void lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init);
	pthread_mutex_lock(&mutex);
}

static void load(struct late_library *l)
{
	l->handle = dlopen(l->name, RTLD_NOW | RTLD_LOCAL);
	if (!l->handle && !l->failed)
		log_error("a library is missing: %s", dlerror());
	l->failed = !l->handle;
}

void *late_function(struct late_library *l, const char *name)
{
	void *f;

	lock();
	if (!l->handle)
		load(l);
	f = l->handle ? dlsym(l->handle, name) : NULL;
	if (l->handle && !f)
		log_error("%s has no function %s", l->name, name);
	pthread_mutex_unlock(&mutex);
	return f;
}
