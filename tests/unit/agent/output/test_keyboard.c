// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/keyboard.h"

static const struct {
	const char *bytes;
	const char *keys; /* one letter for each key, see letters; text in braces */
} rows[] = {
	{"q", "{q}"},
	{"ab", "{a}{b}"},
	{"\033[A\033[B\033[C\033[D", "udrl"},
	{"\033OA\033OB\033OH\033OF", "udHE"},
	{"\033[5~\033[6~", "UD"},
	{"\033[1~\033[4~\033[7~\033[8~\033[H\033[F", "HEHEHE"},
	{"\033[1;5A\033[6;2~", "uD"},
	{"\t\033[Z", "tT"},
	{"\r\n\177\b", "nnbb"},
	{"\003\014\025", "iRc"},
	{"\303\244\342\202\254\360\237\224\245x", "{\303\244}{\342\202\254}{\360\237\224\245}{x}"},
	{"\303x\200\377q", "{x}{q}"},	/* malformed characters */
	{"\033[99~\033[?1;2cq", "{q}"}, /* unknown sequences */
	{"\033[1;2;3;4;5;6;7;8;9;10;11;12Aq", "{q}"},
	{"\033xq", "{q}"}, /* Alt */
	{"\033\033[A", "eu"},
	{"\033[\033[A", "u"},
	{"\033[\003q", "{q}"},
};

static void add(char *out, const struct output_key *key)
{
	static const char letters[] = {
		[OUTPUT_KEY_UP] = 'u',	     [OUTPUT_KEY_DOWN] = 'd',	   [OUTPUT_KEY_LEFT] = 'l',
		[OUTPUT_KEY_RIGHT] = 'r',    [OUTPUT_KEY_PAGE_UP] = 'U',   [OUTPUT_KEY_PAGE_DOWN] = 'D',
		[OUTPUT_KEY_HOME] = 'H',     [OUTPUT_KEY_END] = 'E',	   [OUTPUT_KEY_TAB] = 't',
		[OUTPUT_KEY_BACK_TAB] = 'T', [OUTPUT_KEY_ENTER] = 'n',	   [OUTPUT_KEY_BACKSPACE] = 'b',
		[OUTPUT_KEY_ESCAPE] = 'e',   [OUTPUT_KEY_INTERRUPT] = 'i', [OUTPUT_KEY_REDRAW] = 'R',
		[OUTPUT_KEY_CLEAR] = 'c',
	};
	size_t n = strlen(out);

	if (key->code == OUTPUT_KEY_TEXT)
		sprintf(out + n, "{%s}", key->text);
	else
		sprintf(out + n, "%c", letters[key->code]);
}

/* Bytes come one by one, since a sequence may be split anywhere. */
Test(output_keys, bytes_are_keys)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct output_keys k = {0};
		struct output_key key;
		char got[256] = "";

		for (const char *b = rows[i].bytes; *b; b++)
			if (output_keys_byte(&k, *b, &key))
				add(got, &key);
		cr_expect_str_eq(got, rows[i].keys, "row %zu: %s, wanted %s", i, got, rows[i].keys);
		cr_expect_not(output_keys_pending(&k), "row %zu", i);
	}
}

Test(output_keys, escape_is_known_when_nothing_follows)
{
	struct output_keys k = {0};
	struct output_key key;

	cr_expect_not(output_keys_byte(&k, '\033', &key));
	cr_expect(output_keys_pending(&k));
	cr_expect(output_keys_timeout(&k, &key));
	cr_expect_eq(key.code, OUTPUT_KEY_ESCAPE);
	cr_expect_not(output_keys_pending(&k));
	/* an incomplete sequence is not a key, and does not swallow the next one */
	cr_expect_not(output_keys_byte(&k, '\033', &key));
	cr_expect_not(output_keys_byte(&k, '[', &key));
	cr_expect_not(output_keys_timeout(&k, &key));
	cr_expect(output_keys_byte(&k, 'q', &key));
	cr_expect_str_eq(key.text, "q");
}
