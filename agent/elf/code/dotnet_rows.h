// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of a function that .NET has compiled, from its unwind information, which says what its prologue does,
 * and from its instructions, which say where epilogues are. The information has the form of Windows for
 * x86-64 (struct UNWIND_INFO), with the additions of dotnet/runtime, src/coreclr/inc/win64unwind.h. x86-64
 * only. Pure.
 */
#ifndef PROFLET_ELF_DOTNET_ROWS_H
#define PROFLET_ELF_DOTNET_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/code/memory_code.h"

/*
 * Rows of the code, which is one function; `unwind` are n bytes, of which the information has as many as it
 * says. 0; -ENOTSUP: the information is of another form, or this is another architecture; -EFBIG; -ENOMEM.
 */
int dotnet_rows_make(struct memory_rows *ret, const struct memory_code *code, const uint8_t *unwind,
		     size_t n);
/* One row for code that has no frame. */
int dotnet_rows_make_stub(struct memory_rows *ret);

#endif
