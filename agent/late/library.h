// SPDX-License-Identifier: Apache-2.0
/* A shared library that is loaded at the first use of one of its functions. */
#ifndef PROFLET_LATE_LIBRARY_H
#define PROFLET_LATE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct late_library {
	const char *name; /* its soname; static */
	void *handle;	  /* never closed */
	bool failed;	  /* the log says why; it is tried again at every use */
};

#define LATE_LIBRARY(soname) {.name = (soname)}

/* The function of that name; loads the library if need be. NULL: it cannot be loaded or has none. */
void *late_function(struct late_library *l, const char *name);

/* late_function, but a function that was found is kept in *found and not looked for again. */
static inline void *late_found(struct late_library *l, void **found, const char *name)
{
	void *f = __atomic_load_n(found, __ATOMIC_ACQUIRE);

	if (!f) {
		f = late_function(l, name);
		__atomic_store_n(found, f, __ATOMIC_RELEASE);
	}
	return f;
}

/* Defines the library's function `name`, which returns `failure` if the library cannot be loaded. */
#define LATE_FUNCTION(library, type, name, parameters, arguments, failure) \
	type name parameters                                               \
	{                                                                  \
		static void *found;                                        \
		void *f = late_found(&(library), &found, #name);           \
                                                                           \
		return f ? ((type(*) parameters)f)arguments : (failure);   \
	}

/* The same for a function without a result. */
#define LATE_PROCEDURE(library, name, parameters, arguments)     \
	void name parameters                                     \
	{                                                        \
		static void *found;                              \
		void *f = late_found(&(library), &found, #name); \
                                                                 \
		if (f)                                           \
			((void(*) parameters)f) arguments;       \
	}

/* The same for one that takes an object only, which exists only if the library was loaded. */
#define LATE_VOID(library, name, type)                                      \
	void name(type *object)                                             \
	{                                                                   \
		void *f = object ? late_function(&(library), #name) : NULL; \
                                                                            \
		if (f)                                                      \
			((void (*)(type *))f)(object);                      \
	}

#endif
