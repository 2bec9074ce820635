// SPDX-License-Identifier: Apache-2.0
/*
 * Scope-bound ownership: an owning local has a cleanup attribute and is initialised where it is declared; a
 * transfer of ownership is spelled TAKE_PTR or TAKE_FD. A reader can then prove that a function does not leak
 * without reading its callees. Includes nothing of ours.
 */
#ifndef PROFLET_BASE_CLEANUP_H
#define PROFLET_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Defines `fn##_p(T **)` for use in _cleanup_(): calls fn unless the pointer is NULL. */
#define DEFINE_CLEANUP(type, fn)           \
	static inline void fn##_p(type *p) \
	{                                  \
		if (*p)                    \
			fn(*p);            \
	}

static inline void cleanup_free_p(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

DEFINE_CLEANUP(FILE *, fclose)
DEFINE_CLEANUP(DIR *, closedir)

#define _cleanup_free_ _cleanup_(cleanup_free_p)
#define _cleanup_close_ _cleanup_(cleanup_close_p)
#define _cleanup_fclose_ _cleanup_(fclose_p)
#define _cleanup_closedir_ _cleanup_(closedir_p)

/* Moves a pointer out of an owning variable; the variable is NULL afterwards. */
#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) _taken = (p); \
		(p) = NULL;                 \
		_taken;                     \
	})

/* Moves a file descriptor out of an owning variable; the variable is -1 afterwards. */
#define TAKE_FD(fd)                \
	({                         \
		int _taken = (fd); \
		(fd) = -1;         \
		_taken;            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#endif

#endif
