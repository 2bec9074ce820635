// SPDX-License-Identifier: Apache-2.0
/* Sets of name and value: headers and resource attributes, in the format of W3C baggage without properties.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "agent/base/parse.h"
#include "agent/config/config_value.h"

/* RFC 9110 section 5.6.2, without upper case, which gRPC metadata and HTTP/2 refuse. */
static bool is_field_name(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) &&
		    !strchr("!#$%&'*+-.^_`|~", *p))
			return false;
	return *name != '\0';
}

static bool is_field_value(const char *value)
{
	for (const unsigned char *p = (const unsigned char *)value; *p; p++)
		if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
			return false;
	return true;
}

/* Names the entry by its position: a mistyped entry may hold the secret where the name should be. */
static int refuse(const struct config_pairs *pairs, const char *reason, struct buf *problem)
{
	int r = buf_printf(problem, "entry %zu %s; accepted is NAME=VALUE,NAME=VALUE", pairs->n + 1, reason);

	return r < 0 ? r : -EINVAL;
}

static struct config_pair *find(const struct config_pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (strcmp(pairs->items[i].key, key) == 0)
			return &pairs->items[i];
	return NULL;
}

/* Takes nothing over; a name that is there already gets the new value. */
static int store(struct config_pairs *pairs, const char *key, const char *value)
{
	_cleanup_free_ char *k = strdup(key), *v = strdup(value);
	struct config_pair *items, *old = find(pairs, key);

	if (!k || !v)
		return -ENOMEM;
	if (old) {
		free(old->value);
		old->value = TAKE_PTR(v);
		return 0;
	}
	items = realloc(pairs->items, (pairs->n + 1) * sizeof *items);
	if (!items)
		return -ENOMEM;
	pairs->items = items;
	items[pairs->n++] = (struct config_pair){TAKE_PTR(k), TAKE_PTR(v)};
	return 0;
}

int config_pairs_add(const struct config_spec *s, struct config_pairs *pairs, const char *key,
		     const char *value, struct buf *problem)
{
	_cleanup_free_ char *name = strdup(key);

	if (!name)
		return -ENOMEM;
	for (char *p = name; *p && (s->flags & CONFIG_HEADERS); p++)
		*p = (char)tolower((unsigned char)*p);
	if (!*name)
		return refuse(pairs, "has no name", problem);
	if ((s->flags & CONFIG_HEADERS) && !is_field_name(name))
		return refuse(pairs, "has a name that is no HTTP field name", problem);
	if ((s->flags & CONFIG_HEADERS) && !is_field_value(value))
		return refuse(pairs, "has a control character in its value", problem);
	if (pairs->n == CONFIG_MAX_ITEMS && !find(pairs, name))
		return refuse(pairs, "is one too many", problem);
	return store(pairs, name, value);
}

char *config_trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return s;
}

int config_pairs_parse(const struct config_spec *s, struct config_pairs *ret, const char *text,
		       struct buf *problem)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;

	if (!copy)
		return -ENOMEM;
	while ((item = strsep(&rest, ","))) {
		char *value = strchr(item, '=');
		int r;

		if (!*config_trim(item)) /* "a=1,,b=2" and a comma at the end are common and harmless */
			continue;
		if (!value)
			return refuse(ret, "has no \"=\"", problem);
		*value++ = '\0';
		item = config_trim(item);
		value = config_trim(value);
		if (parse_percent_decode(item) < 0 || parse_percent_decode(value) < 0)
			return refuse(ret, "has a bad %XX sequence", problem);
		r = config_pairs_add(s, ret, item, value, problem);
		if (r < 0)
			return r;
	}
	return 0;
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
