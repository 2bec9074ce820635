// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/parse.h"

#define MAX_SHOWN 80 /* bytes of a wrong value that an error line repeats */

int config_quote(struct buf *b, const char *text)
{
	size_t len = strlen(text);

	if (len <= MAX_SHOWN)
		return buf_printf(b, "\"%s\"", text);
	len = MAX_SHOWN;
	while (len && ((unsigned char)text[len] & 0xc0) == 0x80) /* not inside a UTF-8 sequence */
		len--;
	return buf_printf(b, "\"%.*s...\"", (int)len, text);
}

static bool hidden(const struct config_spec *s, const char *text)
{
	return (s->flags & (CONFIG_SECRET | CONFIG_FILE)) || ((s->flags & CONFIG_URL) && strpbrk(text, "@?"));
}

/* `reason` NULL: "is not" the description; else the reason, then the description. Returns -EINVAL or -ENOMEM.
 */
static int refuse(const struct config_spec *s, const char *text, const char *reason, struct buf *problem)
{
	int r = hidden(s, text) ? buf_puts(problem, "the value (not shown)") : config_quote(problem, text);

	if (r == 0)
		r = reason ? buf_printf(problem, " %s", reason) : buf_puts(problem, " is not ");
	if (r == 0 && reason && !strstr(reason, "accepted"))
		r = buf_puts(problem, "; accepted is ");
	if (r == 0 && (!reason || !strstr(reason, "accepted")))
		r = config_value_describe(s, problem);
	return r < 0 ? r : -EINVAL;
}

/* Position of `text` among the names of `accepted`, or -1. */
static int index_of(const char *accepted, const char *text)
{
	size_t len = strlen(text);

	for (int i = 0; *accepted; i++) {
		size_t n = strcspn(accepted, ",");

		if (n == len && memcmp(accepted, text, n) == 0)
			return i;
		accepted += n + (accepted[n] == ',');
	}
	return -1;
}

static bool out_of_range(const struct config_spec *s, uint64_t v)
{
	return (s->min || s->max) && (v < s->min || v > s->max);
}

static int set_duration(const struct config_spec *s, const char *text, uint64_t *ret)
{
	char seconds[32];

	if (s->type == CONFIG_DURATION || !*text || text[strspn(text, "0123456789.")])
		return parse_duration_ns(text, ret);
	return (size_t)snprintf(seconds, sizeof seconds, "%ss", text) < sizeof seconds
		       ? parse_duration_ns(seconds, ret)
		       : -EINVAL;
}

static int set_number(const struct config_spec *s, void *target, const char *text)
{
	uint64_t v = 0;
	double fraction;
	int r;

	if (s->type == CONFIG_U32) {
		r = parse_u64(text, 10, &v);
		if (r < 0 || v > UINT32_MAX || out_of_range(s, v))
			return -EINVAL;
		*(uint32_t *)target = (uint32_t)v;
	} else if (s->type == CONFIG_FRACTION) {
		r = parse_percent(text, &fraction);
		if (r < 0 || fraction > 1e6 || out_of_range(s, (uint64_t)(fraction * 1e6 + 0.5)))
			return -EINVAL;
		*(double *)target = fraction;
	} else {
		r = s->type == CONFIG_SIZE ? parse_size_bytes(text, &v) : set_duration(s, text, &v);
		if (r < 0 || out_of_range(s, v))
			return -EINVAL;
		*(uint64_t *)target = v;
	}
	return 0;
}

static int set_string(const struct config_spec *s, char **target, const char *text, struct buf *problem)
{
	bool none = (!*text && !(s->flags & CONFIG_REQUIRED)) ||
		    ((s->flags & CONFIG_OFF_IS_NULL) && strcmp(text, "off") == 0);
	const char *reason = !none && s->check ? s->check(text) : NULL;
	char *copy;

	if (reason)
		return refuse(s, text, reason, problem);
	copy = none ? NULL : strdup(text);
	if (!copy && !none)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 0;
}

int config_list_add(const struct config_spec *s, struct config_list *list, const char *text,
		    struct buf *problem)
{
	const char *reason = s->check ? s->check(text) : NULL;
	char **items, *copy;

	for (size_t i = 0; i < list->n && !reason; i++)
		if (strcmp(list->items[i], text) == 0)
			reason = "is given twice";
	if (list->n == CONFIG_MAX_ITEMS)
		reason = "is one item too many";
	if (reason || !*text || (s->accepted && index_of(s->accepted, text) < 0))
		return refuse(s, text, reason, problem);
	items = realloc(list->items, (list->n + 1) * sizeof *items);
	if (!items)
		return -ENOMEM;
	list->items = items;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	items[list->n++] = copy;
	return 0;
}

static int list_append_text(const struct config_spec *s, struct config_list *list, const char *text,
			    struct buf *problem)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *item;

	if (!copy)
		return -ENOMEM;
	while (*text && (item = strsep(&rest, ","))) {
		int r;

		item += strspn(item, " \t");
		item[strcspn(item, " \t")] = '\0';
		r = config_list_add(s, list, item, problem);
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_list(const struct config_spec *s, struct config_list *target, const char *text, bool append,
		    struct buf *problem)
{
	_cleanup_list_ struct config_list list = {0};
	struct config_list old;
	int r = 0;

	for (size_t i = 0; append && i < target->n && r == 0; i++)
		r = config_list_add(s, &list, target->items[i], problem);
	if (r == 0)
		r = list_append_text(s, &list, text, problem);
	if (r < 0)
		return r;
	old = *target;
	*target = list;
	list = old;
	return 0;
}

static int set_pairs(const struct config_spec *s, struct config_pairs *target, const char *text, bool append,
		     struct buf *problem)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	struct config_pairs old;
	int r = 0;

	for (size_t i = 0; append && i < target->n && r == 0; i++)
		r = config_pairs_add(s, &pairs, target->items[i].key, target->items[i].value, problem);
	if (r == 0)
		r = config_pairs_parse(s, &pairs, text, problem);
	if (r < 0)
		return r;
	old = *target;
	*target = pairs;
	pairs = old;
	return 0;
}

int config_value_set(const struct config_spec *s, void *target, const char *text, bool append,
		     struct buf *problem)
{
	int i;

	switch (s->type) {
	case CONFIG_BOOL:
		return parse_bool(text, target) < 0 ? refuse(s, text, NULL, problem) : 0;
	case CONFIG_U32:
	case CONFIG_DURATION:
	case CONFIG_SECONDS:
	case CONFIG_SIZE:
	case CONFIG_FRACTION:
		return set_number(s, target, text) < 0 ? refuse(s, text, NULL, problem) : 0;
	case CONFIG_ENUM:
		i = index_of(s->accepted, text);
		if (i < 0)
			return refuse(s, text, NULL, problem);
		*(unsigned *)target = (unsigned)i;
		return 0;
	case CONFIG_STRING:
		return set_string(s, target, text, problem);
	case CONFIG_LIST:
		return set_list(s, target, text, append, problem);
	case CONFIG_PAIRS:
		return set_pairs(s, target, text, append, problem);
	case CONFIG_FLAG:
		*(bool *)target = true;
		return 0;
	case CONFIG_ALIAS:
		break;
	}
	return -EINVAL;
}

void config_value_free(enum config_type type, void *target)
{
	if (type == CONFIG_STRING) {
		free(*(char **)target);
		*(char **)target = NULL;
	} else if (type == CONFIG_LIST) {
		config_list_free(target);
	} else if (type == CONFIG_PAIRS) {
		config_pairs_free(target);
	}
}

void config_list_free(struct config_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->items[i]);
	free(l->items);
	*l = (struct config_list){0};
}
