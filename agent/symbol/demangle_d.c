// SPDX-License-Identifier: Apache-2.0
/*
 * D names (dlang.org, "Application Binary Interface", name mangling), by libiberty, whose D side returns a
 * whole string: what could make that too long is not handed to it. A back reference to a type repeats what
 * may have back references itself: with n of them in a name, output grows by at most 3^(n/3). In an old form
 * of template arguments no mark stands between a length and a name that begins with digits: each split is
 * tried, at every level. Real names have few of either; the others stay as they are.
 */
#include <ctype.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#undef ARRAY_SIZE /* libiberty has its own */
#include "agent/base/cleanup.h"
#include "agent/symbol/demangle.h"
#include "agent/symbol/demangle_private.h"

#define MANGLED_MAX 2048u /* bytes */
#define BACK_REFERENCES_MAX 24u
#define SPLITS_MAX 100000u
#define NAME_MAX_HERE (SYMBOL_NAME_MAX - 256u) /* bytes; room for suffixes */

/* What the back reference at `q` ("Q", a number in base 26 whose last digit is in lower case) refers to;
 * NULL: it is none. */
static const char *target_of(const char *name, const char *q)
{
	size_t back = 0;
	const char *p = q + 1;

	for (; isupper((unsigned char)*p) && back <= MANGLED_MAX; p++)
		back = back * 26 + (size_t)(*p - 'A');
	if (!islower((unsigned char)*p))
		return NULL;
	back = back * 26 + (size_t)(*p - 'a');
	return back && back <= (size_t)(q - name) ? q - back : NULL;
}

/* One to an identifier, or to a type of one letter, repeats nothing that repeats. */
static bool repeats(const char *name, const char *q)
{
	const char *target = target_of(name, q);

	return target && !isdigit((unsigned char)*target) &&
	       !(islower((unsigned char)*target) && *target != 'x' && *target != 'y');
}

static bool takes_forever(const char *name)
{
	size_t references = 0, splits = 1;

	if (strnlen(name, MANGLED_MAX + 1) > MANGLED_MAX)
		return true;
	for (const char *p = name; *p && splits <= SPLITS_MAX; p++) {
		references += *p == 'Q' && repeats(name, p);
		if (*p == 'S' && isdigit((unsigned char)p[1]))
			splits *= 1 + strspn(p + 1, "0123456789");
	}
	return references > BACK_REFERENCES_MAX || splits > SPLITS_MAX;
}

char *demangle_d(const char *name)
{
	_cleanup_free_ char *whole = takes_forever(name) ? NULL : dlang_demangle(name, DMGL_DLANG);

	if (!whole || strcmp(whole, name) == 0)
		return NULL;
	if (strlen(whole) <= NAME_MAX_HERE)
		return TAKE_PTR(whole);
	strcpy(whole + NAME_MAX_HERE - 3, "...");
	return TAKE_PTR(whole);
}
