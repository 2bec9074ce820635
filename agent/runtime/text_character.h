// SPDX-License-Identifier: Apache-2.0
/* Characters of names that a tenant has chosen, in the form in which they are shown. Pure. Rank 3. */
#ifndef PROFLET_RUNTIME_TEXT_CHARACTER_H
#define PROFLET_RUNTIME_TEXT_CHARACTER_H

#include <stdint.h>

#define TEXT_REPLACEMENT 0xfffdu
#define TEXT_UTF8_MAX 4u /* bytes of a character */

/*
 * Writes the character as UTF-8, in at most TEXT_UTF8_MAX bytes; returns their end. Control characters (C0,
 * DEL, C1) and those that reorder text (U+202A to U+202E, U+2066 to U+2069) become '?', surrogates and what
 * is no character U+FFFD.
 */
uint8_t *text_character_put(uint8_t *to, uint32_t c);

#endif
