// SPDX-License-Identifier: Apache-2.0
#include "agent/output/keyboard.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define ESC '\033'

static bool done(struct output_keys *k, enum output_key_code code, struct output_key *ret)
{
	*ret = (struct output_key){.code = code};
	*k = (struct output_keys){0};
	return true;
}

static bool drop(struct output_keys *k)
{
	*k = (struct output_keys){0};
	return false;
}

static bool control(struct output_keys *k, char byte, struct output_key *ret)
{
	static const struct {
		char byte;
		enum output_key_code code;
	} keys[] = {
		{'\t', OUTPUT_KEY_TAB},	      {'\r', OUTPUT_KEY_ENTER},	    {'\n', OUTPUT_KEY_ENTER},
		{'\b', OUTPUT_KEY_BACKSPACE}, {0x7f, OUTPUT_KEY_BACKSPACE}, {0x03, OUTPUT_KEY_INTERRUPT},
		{0x0c, OUTPUT_KEY_REDRAW},    {0x15, OUTPUT_KEY_CLEAR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].byte == byte)
			return done(k, keys[i].code, ret);
	return drop(k);
}

/* Looks up a complete sequence: ESC [ … X, ESC O X. */
static bool sequence(struct output_keys *k, struct output_key *ret)
{
	static const struct {
		char last;
		int number; /* the first parameter, with '~' */
		enum output_key_code code;
	} keys[] = {
		{'A', 0, OUTPUT_KEY_UP},       {'B', 0, OUTPUT_KEY_DOWN},      {'C', 0, OUTPUT_KEY_RIGHT},
		{'D', 0, OUTPUT_KEY_LEFT},     {'H', 0, OUTPUT_KEY_HOME},      {'F', 0, OUTPUT_KEY_END},
		{'Z', 0, OUTPUT_KEY_BACK_TAB}, {'M', 0, OUTPUT_KEY_ENTER},     {'~', 1, OUTPUT_KEY_HOME},
		{'~', 7, OUTPUT_KEY_HOME},     {'~', 4, OUTPUT_KEY_END},       {'~', 8, OUTPUT_KEY_END},
		{'~', 5, OUTPUT_KEY_PAGE_UP},  {'~', 6, OUTPUT_KEY_PAGE_DOWN},
	};
	char last = k->bytes[k->n - 1];
	int number = last == '~' ? (int)strtol(k->bytes + 2, NULL, 10) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && !k->overlong; i++)
		if (keys[i].last == last && keys[i].number == number)
			return done(k, keys[i].code, ret);
	return drop(k);
}

static void keep(struct output_keys *k, char byte)
{
	if (k->n < sizeof k->bytes - 1)
		k->bytes[k->n++] = byte;
	else
		k->overlong = true;
}

/* The byte after ESC, and those that follow. */
static bool escaped(struct output_keys *k, char byte, struct output_key *ret)
{
	if (byte == ESC) { /* the sequence is incomplete, and a new one may begin */
		bool alone = k->n == 1;

		*k = (struct output_keys){.bytes = {ESC}, .n = 1};
		*ret = (struct output_key){.code = OUTPUT_KEY_ESCAPE};
		return alone;
	}
	keep(k, byte);
	if (k->n == 2 && !k->overlong)
		return byte == '[' || byte == 'O' ? false : drop(k); /* Alt and a key: not used */
	if (byte >= 0x40 && byte <= 0x7e) {
		k->bytes[k->n - (k->n == sizeof k->bytes)] = '\0';
		return sequence(k, ret);
	}
	return byte < 0x20 || byte == 0x7f ? drop(k) : false;
}

/* Length of a UTF-8 character by its first byte; 0: invalid. */
static size_t char_len(unsigned char first)
{
	return first < 0x80   ? 1
	       : first < 0xc2 ? 0
	       : first < 0xe0 ? 2
	       : first < 0xf0 ? 3
	       : first < 0xf5 ? 4
			      : 0;
}

static bool character(struct output_keys *k, char byte, struct output_key *ret)
{
	if (k->n && ((unsigned char)byte & 0xc0) != 0x80) /* the previous character is incomplete */
		(void)drop(k);
	if (!char_len((unsigned char)(k->n ? k->bytes[0] : byte)))
		return drop(k);
	keep(k, byte);
	if (k->n < char_len((unsigned char)k->bytes[0]))
		return false;
	*ret = (struct output_key){.code = OUTPUT_KEY_TEXT};
	memcpy(ret->text, k->bytes, k->n);
	(void)drop(k);
	return true;
}

bool output_keys_byte(struct output_keys *k, char byte, struct output_key *ret)
{
	if (k->n && k->bytes[0] == ESC)
		return escaped(k, byte, ret);
	if (byte == ESC) {
		*k = (struct output_keys){.bytes = {ESC}, .n = 1};
		return false;
	}
	if ((unsigned char)byte < 0x20 || byte == 0x7f)
		return control(k, byte, ret);
	return character(k, byte, ret);
}

bool output_keys_timeout(struct output_keys *k, struct output_key *ret)
{
	if (k->n == 1 && k->bytes[0] == ESC)
		return done(k, OUTPUT_KEY_ESCAPE, ret);
	return drop(k);
}
