// SPDX-License-Identifier: Apache-2.0
/* Kinds of code that HotSpot has generated. Rank 1. */
#ifndef PROFLET_ELF_HOTSPOT_KIND_H
#define PROFLET_ELF_HOTSPOT_KIND_H

#include <stdbool.h>

/* Append-only: a parser process sends them. */
enum hotspot_code_kind {
	HOTSPOT_CODE_METHOD,	  /* a compiled method: a frame of known size, without frame pointer */
	HOTSPOT_CODE_NATIVE,	  /* what calls a native method: the same, and there may be a frame pointer */
	HOTSPOT_CODE_STUB,	  /* a stub of the virtual machine with a frame of known size */
	HOTSPOT_CODE_STUBS,	  /* any number of functions */
	HOTSPOT_CODE_FRAMELESS,	  /* everywhere as at a function's entry */
	HOTSPOT_CODE_CALLS,	  /* where its frame is of known size, it calls; else nothing is known */
	HOTSPOT_CODE_INTERPRETER, /* frames of interpreted methods (CFA_INTERPRETED) */
	/*
	 * Entries that rearrange arguments: as STUBS, but the interpreter's calls of them leave return
	 * addresses that are behind no call.
	 */
	HOTSPOT_CODE_ADAPTERS,
	/* As STUB. Methods push nothing for it: their frames have the size in their headers. */
	HOTSPOT_CODE_PLAIN_STUB,
	HOTSPOT_CODE_KINDS,
};

/* Whether such code is freed at some time, and its memory given to other code: methods, unlike stubs. */
static inline bool hotspot_is_freed(enum hotspot_code_kind kind)
{
	return kind == HOTSPOT_CODE_METHOD || kind == HOTSPOT_CODE_NATIVE;
}

#endif
