// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/php_text.h"

#include <errno.h>
#include <string.h>

#include "agent/elf/runtime/php.h"
#include "agent/runtime/utf8_text.h"

int php_text_append(struct buf *out, const uint8_t *object, size_t len)
{
	const uint8_t *at = object + PHP_TEXT, *nul;
	uint64_t length;
	bool cut;
	int r;

	if (len < PHP_TEXT)
		return -EBADMSG;
	memcpy(&length, object + PHP_TEXT_LENGTH, sizeof length);
	cut = length > len - PHP_TEXT;
	len = cut ? len - PHP_TEXT : length;
	nul = memchr(at, 0, len);
	if (nul) {
		len = (size_t)(nul - at);
		cut = false;
	}
	r = utf8_text_append(out, at, len, cut);
	return r < 0 ? r : cut;
}
