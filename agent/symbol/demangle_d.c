// SPDX-License-Identifier: Apache-2.0
/*
 * D names (dlang.org, "Application Binary Interface", name mangling), by libiberty, whose D side returns a
 * whole string: what could make that too long is not handed to it. A back reference ("Q") repeats what may
 * have back references itself: of n in a name, output grows by at most 3^(n/3). An old form of template
 * arguments has no mark between a length and a name that begins with digits: each split is tried, at every
 * level. Real names have a handful of each; the others stay as they are.
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
#define BACK_REFERENCES_MAX 20u
#define TEMPLATES_MAX 12u
#define DIGITS_MAX 4u /* of a number in a name with templates */

static bool takes_forever(const char *name)
{
	unsigned references = 0, templates = 0, digits = 0, longest = 0;

	if (strnlen(name, MANGLED_MAX + 1) > MANGLED_MAX)
		return true;
	for (const char *p = name; *p; p++) {
		references += *p == 'Q';
		templates += p[0] == '_' && p[1] == '_' && (p[2] == 'T' || p[2] == 'U');
		digits = isdigit((unsigned char)*p) ? digits + 1 : 0;
		longest = digits > longest ? digits : longest;
	}
	return references > BACK_REFERENCES_MAX || templates > TEMPLATES_MAX ||
	       (templates > 2 && longest > DIGITS_MAX);
}

char *demangle_d(const char *name)
{
	_cleanup_free_ char *whole = takes_forever(name) ? NULL : dlang_demangle(name, DMGL_DLANG);

	if (!whole || strcmp(whole, name) == 0)
		return NULL;
	if (strlen(whole) <= SYMBOL_NAME_MAX)
		return TAKE_PTR(whole);
	whole[SYMBOL_NAME_MAX] = '\0';
	memcpy(whole + SYMBOL_NAME_MAX - 3, "...", 3);
	return TAKE_PTR(whole);
}
