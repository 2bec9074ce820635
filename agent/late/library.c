// SPDX-License-Identifier: Apache-2.0
#include "agent/late/library.h"

#include <dlfcn.h>

#include "agent/base/log.h"

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

	pthread_mutex_lock(&l->lock);
	if (!l->handle)
		load(l);
	f = l->handle ? dlsym(l->handle, name) : NULL;
	if (l->handle && !f)
		log_error("%s has no function %s", l->name, name);
	pthread_mutex_unlock(&l->lock);
	return f;
}

bool late_is_loaded(struct late_library *l)
{
	bool loaded;

	pthread_mutex_lock(&l->lock);
	loaded = l->handle;
	pthread_mutex_unlock(&l->lock);
	return loaded;
}
