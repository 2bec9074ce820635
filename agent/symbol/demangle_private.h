// SPDX-License-Identifier: Apache-2.0
/* What demangle.c and its parts share. Within this folder only. */
#ifndef PROFLET_SYMBOL_DEMANGLE_PRIVATE_H
#define PROFLET_SYMBOL_DEMANGLE_PRIVATE_H

/* The readable form of a D name ("_D…"), owned by the caller, cut with "..." like others. NULL: it is
 * none, it is one that could take for ever, or memory is short. */
char *demangle_d(const char *name);

#endif
