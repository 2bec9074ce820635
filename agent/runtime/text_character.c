// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/text_character.h"

static uint32_t harmless(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
	    (c >= 0x2066 && c <= 0x2069))
		return '?';
	return (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? TEXT_REPLACEMENT : c;
}

uint8_t *text_character_put(uint8_t *to, uint32_t c)
{
	c = harmless(c);
	if (c < 0x80) {
		*to++ = (uint8_t)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (uint8_t)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		*to++ = (uint8_t)(0xe0 | c >> 12);
		*to++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	} else {
		*to++ = (uint8_t)(0xf0 | c >> 18);
		*to++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
		*to++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (uint8_t)(0x80 | (c & 0x3f));
	return to;
}
