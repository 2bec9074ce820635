// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/lua_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/runtime/utf8_text.h"
#include "bpf/abi.h"

#define CODE_BYTES_MAX 45u /* of the code itself; Lua 5.4.4, lobject.c, luaO_chunkid */

/* [string "code"], with the beginning of the first line. */
static int code_append(struct buf *out, const char *code, size_t len)
{
	const char *end = memchr(code, '\n', len);
	bool cut = end || len >= CODE_BYTES_MAX;
	const size_t before = out->len;
	int r = buf_puts(out, "[string \"");

	if (end)
		len = (size_t)(end - code);
	if (len > CODE_BYTES_MAX)
		len = CODE_BYTES_MAX;
	if (r == 0)
		r = utf8_text_append(out, (const uint8_t *)code, len, false);
	if (r == 0)
		r = buf_puts(out, cut ? "...\"]" : "\"]");
	if (r < 0)
		out->len = before;
	return r;
}

int lua_source_append(struct buf *out, const uint8_t *source, size_t len)
{
	const char *text = (const char *)source;
	const size_t whole = strnlen(text, len);
	bool cut = whole + 1 >= RUNTIME_TEXT_MAX;
	int r;

	if (!len)
		return buf_puts(out, "?");
	if (whole == len)
		return -EBADMSG;
	if (!whole || (text[0] != '@' && text[0] != '='))
		return code_append(out, text, whole);
	r = utf8_text_append(out, source + 1, whole - 1, cut);
	return r < 0 ? r : cut;
}

int lua_name_append(struct buf *out, const char *file, size_t len, uint32_t line)
{
	if (!line)
		return buf_puts(out, LUA_MAIN);
	return buf_printf(out, "function <%.*s:%" PRIu32 ">", (int)len, file, line);
}
