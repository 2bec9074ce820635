// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

int config_list_append(struct config_list *l, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	if (!copy || array_reserve(&l->items, &l->cap, l->n + 1, sizeof *l->items) < 0)
		return -ENOMEM;
	l->items[l->n++] = TAKE_PTR(copy);
	return 0;
}

struct config_pair *config_pairs_find(const struct config_pairs *p, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->items[i].key, key) == 0)
			return &p->items[i];
	return NULL;
}

int config_pairs_put(struct config_pairs *p, const char *key, const char *value)
{
	_cleanup_free_ char *k = strdup(key), *v = strdup(value);
	struct config_pair *old = config_pairs_find(p, key);

	if (!k || !v)
		return -ENOMEM;
	if (old) {
		free(old->value);
		old->value = TAKE_PTR(v);
		return 0;
	}
	if (array_reserve(&p->items, &p->cap, p->n + 1, sizeof *p->items) < 0)
		return -ENOMEM;
	p->items[p->n++] = (struct config_pair){TAKE_PTR(k), TAKE_PTR(v)};
	return 0;
}

void config_list_free(struct config_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->items[i]);
	free(l->items);
	*l = (struct config_list){0};
}

void config_pairs_free(struct config_pairs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->items[i].key);
		free(p->items[i].value);
	}
	free(p->items);
	*p = (struct config_pairs){0};
}
