// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/texts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define TEXTS_MAX (1u << 24)
#define TEXT_BYTES 512 /* of one that is printed */

struct text {
	struct map_node node;
	uint32_t index;
	size_t len;
	char s[];
};

struct key {
	const char *s;
	size_t len;
};

int texts_grow(void *array, size_t *cap, size_t size)
{
	size_t more = *cap * 2 + 64;
	void *p = reallocarray(*(void **)array, more, size);

	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	*cap = more;
	return 0;
}

void texts_init(struct texts *t)
{
	*t = (struct texts){0};
	map_init(&t->map, TEXTS_MAX);
}

void texts_fini(struct texts *t)
{
	struct map_node *n;

	map_for_each (&t->map, n, at)
		free(container_of(n, struct text, node));
	map_fini(&t->map);
	free(t->list);
	*t = (struct texts){0};
}

static bool text_is(const struct map_node *node, const void *key)
{
	const struct text *t = container_of((struct map_node *)node, struct text, node);
	const struct key *k = key;

	return t->len == k->len && memcmp(t->s, k->s, k->len) == 0;
}

int64_t texts_index(struct texts *t, const char *s, size_t len)
{
	const struct key key = {s, len};
	uint64_t hash = hash_bytes(s, len);
	struct map_node *found = map_find(&t->map, hash, text_is, &key);
	_cleanup_free_ struct text *new = NULL;

	if (found)
		return container_of(found, struct text, node)->index;
	if (t->n == t->cap && texts_grow(&t->list, &t->cap, sizeof *t->list) < 0)
		return -ENOMEM;
	new = malloc(sizeof *new + len + 1);
	if (!new)
		return -ENOMEM;
	*new = (struct text){.index = (uint32_t)t->n, .len = len};
	memcpy(new->s, s, len);
	new->s[len] = '\0';
	if (map_insert(&t->map, &new->node, hash) < 0)
		return -ENOMEM;
	t->list[t->n++] = new->s;
	return TAKE_PTR(new)->index;
}

const char *texts_get(struct texts *t, const char *s)
{
	int64_t index = texts_index(t, s, strlen(s));

	return index < 0 ? NULL : t->list[index];
}

const char *texts_printf(struct texts *t, const char *format, ...)
{
	char s[TEXT_BYTES];
	va_list ap;

	va_start(ap, format);
	vsnprintf(s, sizeof s, format, ap);
	va_end(ap);
	return texts_get(t, s);
}
