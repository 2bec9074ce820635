// SPDX-License-Identifier: Apache-2.0
#include "otlp/mask.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static void mask(char *text, const char *secret, size_t len)
{
	if (len < OTLP_MASK_LEAST)
		return;
	while (*text) {
		size_t n = 0;

		while (n < len && text[n] && text[n] == secret[n])
			n++;
		if (n < OTLP_MASK_LEAST) {
			text++;
			continue;
		}
		n += strcspn(text + n,
			     " \"',;"); /* tokens of one kind begin alike, so mask to the end of the word */
		memset(text, '*', n);
		text += n;
	}
}

void otlp_mask(char *text, const char *secret)
{
	mask(text, secret, strlen(secret));
}

/* Whether the word is a scheme such as "Bearer" or "Basic": only letters, followed by more text. */
static bool is_scheme(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalpha((unsigned char)word[i]))
			return false;
	return word[len] != '\0';
}

void otlp_mask_headers(char *text, const struct otlp_headers *headers)
{
	for (size_t i = 0; i < headers->n; i++) {
		const char *value = headers->items[i].value, *word = value;

		while (*word) {
			size_t len = strcspn(word, " ");

			if (word != value || !is_scheme(word, len))
				mask(text, word, len);
			word += len;
			word += strspn(word, " ");
		}
	}
}
