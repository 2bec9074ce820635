// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": the known name with the fewest edits from the one that was given. */
#include <string.h>

#include "agent/config/config_keys.h"

#define MAX_NAME 64

/* Edits (insert, delete, replace, swap of neighbours) from a to b. Both at most MAX_NAME bytes. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][MAX_NAME + 1], *two = rows[0], *one = rows[1], *now = rows[2];
	size_t n = strlen(b), m = strlen(a);

	for (size_t j = 0; j <= n; j++)
		one[j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *spare = two;

		now[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);

			best = one[j] + 1 < best ? one[j] + 1 : best;
			best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < best)
				best = two[j - 2] + 1;
			now[j] = best;
		}
		two = one;
		one = now;
		now = spare;
	}
	return one[n];
}

static bool is_last_part(const char *name, const char *known)
{
	const char *dot = strrchr(known, '.');

	return dot && strcmp(dot + 1, name) == 0;
}

struct candidate {
	const char *name;
	size_t edits;
};

static void consider(struct candidate *best, const char *name, const char *known)
{
	size_t edits;

	if (!known || strlen(known) > MAX_NAME)
		return;
	edits = is_last_part(name, known) ? 1 : distance(name, known);
	if (edits < best->edits)
		*best = (struct candidate){known, edits};
}

const char *config_key_suggest(const char *name, const struct config_extra_option *extra, size_t n_extra)
{
	size_t len = strlen(name);
	struct candidate best = {NULL, len < 8 ? 3 : 4}; /* fewer edits than this */

	if (len < 2 || len > MAX_NAME)
		return NULL;
	for (size_t i = 0; i < config_n_keys; i++)
		consider(&best, name, config_keys[i].name);
	for (size_t i = 0; i < n_extra; i++)
		consider(&best, name, extra[i].name);
	return best.name;
}
