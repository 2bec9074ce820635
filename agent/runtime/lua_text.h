// SPDX-License-Identifier: Apache-2.0
/*
 * What Lua's functions are called, by their source (the text that was given to load: "@FILE", "=NAME", or the
 * code itself), as bytes that were read in a process: → UTF-8. Pure. Rank 3.
 */
#ifndef PROFLET_RUNTIME_LUA_TEXT_H
#define PROFLET_RUNTIME_LUA_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;

#define LUA_MAIN "main chunk" /* the code of a source outside of functions, as in Lua's tracebacks */

/*
 * Appends FILE, NAME, or the code as "[string "FIRST LINE..."]", which is what Lua's messages have, but for
 * long names of files, which they shorten. `len`: up to and with the first NUL; 0 bytes: no source, "?". 1: a
 * name goes on behind the bytes, "…" follows; 0: it is whole; -EBADMSG: there is no NUL; -ENOMEM, -EOVERFLOW.
 * On error, nothing is appended.
 */
int lua_source_append(struct buf *out, const uint8_t *source, size_t len);
/*
 * Appends the name of the function that begins at that line of a file; 0: the file's main chunk. 0, -ENOMEM.
 */
int lua_name_append(struct buf *out, const char *file, size_t len, uint32_t line);

#endif
