// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/parse.h"

#define MAX_SHOWN 80 /* bytes of a wrong value that an error message repeats */

/* --- what is accepted, as text */

/* The largest unit that gives a whole number. */
static int format_duration(struct buf *b, uint64_t ns)
{
	static const struct {
		uint64_t factor;
		const char *suffix;
	} units[] = {{3600 * NS_PER_SEC, "h"}, {60 * NS_PER_SEC, "m"}, {NS_PER_SEC, "s"},
		     {NS_PER_MS, "ms"},	       {1000, "us"},	       {1, "ns"}};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && (ns == 0 || ns % units[i].factor))
		i++;
	return buf_printf(b, "%" PRIu64 "%s", ns / units[i].factor, units[i].suffix);
}

static int format_size(struct buf *b, uint64_t bytes)
{
	static const char *const suffixes[] = {"B", "KiB", "MiB", "GiB"};
	size_t i = 0;

	while (bytes && i + 1 < ARRAY_SIZE(suffixes) && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	return buf_printf(b, "%" PRIu64 "%s", bytes, suffixes[i]);
}

static int format_amount(enum config_type type, uint64_t v, struct buf *b)
{
	switch (type) {
	case CONFIG_DURATION:
	case CONFIG_SECONDS:
		return format_duration(b, v);
	case CONFIG_SIZE:
		return format_size(b, v);
	case CONFIG_FRACTION:
		return buf_printf(b, "%g%%", (double)v / 1e4);
	default:
		return buf_printf(b, "%" PRIu64, v);
	}
}

static int describe_range(const struct config_spec *s, struct buf *b, const char *what, const char *example)
{
	int r = buf_puts(b, what);

	if (r == 0 && (s->min || s->max)) {
		r = buf_puts(b, " from ");
		if (r == 0)
			r = format_amount(s->type, s->min, b);
		if (r == 0)
			r = buf_puts(b, " to ");
		if (r == 0)
			r = format_amount(s->type, s->max, b);
	}
	return r < 0 || !example ? r : buf_printf(b, ", such as %s", example);
}

static int describe_names(struct buf *b, const char *intro, const char *names)
{
	int r = buf_puts(b, intro);

	for (; *names && r == 0; names++)
		r = *names == ',' ? buf_puts(b, ", ") : buf_putc(b, *names);
	return r;
}

int config_value_describe(const struct config_spec *s, struct buf *b)
{
	switch (s->type) {
	case CONFIG_BOOL:
	case CONFIG_FLAG:
		return buf_puts(b, "on or off");
	case CONFIG_U32:
		return describe_range(s, b, "a whole number", NULL);
	case CONFIG_DURATION:
		return describe_range(s, b, "a duration", "10s");
	case CONFIG_SECONDS:
		return describe_range(s, b, "a number of seconds or a duration", "10s");
	case CONFIG_SIZE:
		return describe_range(s, b, "a size", "64MiB");
	case CONFIG_FRACTION:
		return describe_range(s, b, "a percentage", "5%");
	case CONFIG_ENUM:
		return describe_names(b, "one of ", s->accepted);
	case CONFIG_LIST:
		if (s->form)
			return buf_puts(b, s->form);
		return s->accepted ? describe_names(b, "one of ", s->accepted) : buf_puts(b, "a list: A,B");
	case CONFIG_PAIRS:
		return buf_puts(b, "NAME=VALUE,NAME=VALUE");
	case CONFIG_STRING:
	case CONFIG_ALIAS:
		break;
	}
	return buf_puts(b, s->form ? s->form : "text");
}

/* --- text to storage */

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

/* Writes "VALUE REASON; accepted is DESCRIPTION", or "VALUE is not DESCRIPTION" when `reason` is NULL. A
 * reason that contains "accepted" stands alone. Returns -EINVAL or -ENOMEM. */
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

	for (size_t i = 0; i < list->n && !reason; i++)
		if (strcmp(list->items[i], text) == 0)
			reason = "is given twice";
	if (list->n == CONFIG_MAX_ITEMS)
		reason = "is one item too many";
	if (reason || !*text || (s->accepted && index_of(s->accepted, text) < 0))
		return refuse(s, text, reason, problem);
	return config_list_append(list, text);
}

static int list_append_text(const struct config_spec *s, struct config_list *list, const char *text,
			    struct buf *problem)
{
	_cleanup_free_ char *copy = strdup(text);
	char *next = copy, *item;

	if (!copy)
		return -ENOMEM;
	while (*text && (item = strsep(&next, ","))) {
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

/* A field name by RFC 9110 section 5.6.2, in lower case as gRPC metadata and HTTP/2 require. */
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

/* Names the entry by its position only: in a mistyped entry, the secret may stand where the name belongs. */
static int refuse_entry(const struct config_pairs *pairs, const char *reason, struct buf *problem)
{
	int r = buf_printf(problem, "entry %zu %s; accepted is NAME=VALUE,NAME=VALUE", pairs->n + 1, reason);

	return r < 0 ? r : -EINVAL;
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
		return refuse_entry(pairs, "has no name", problem);
	if ((s->flags & CONFIG_HEADERS) && !is_field_name(name))
		return refuse_entry(pairs, "has a name that is no HTTP field name", problem);
	if ((s->flags & CONFIG_HEADERS) && !is_field_value(value))
		return refuse_entry(pairs, "has a control character in its value", problem);
	if (pairs->n == CONFIG_MAX_ITEMS && !config_pairs_find(pairs, name))
		return refuse_entry(pairs, "is one too many", problem);
	return config_pairs_put(pairs, name, value);
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
	char *next = copy, *item;

	if (!copy)
		return -ENOMEM;
	while ((item = strsep(&next, ","))) {
		char *value = strchr(item, '=');
		int r;

		if (!*config_trim(item)) /* "a=1,,b=2" and a comma at the end are common and harmless */
			continue;
		if (!value)
			return refuse_entry(ret, "has no \"=\"", problem);
		*value++ = '\0';
		item = config_trim(item);
		value = config_trim(value);
		if (parse_percent_decode(item) < 0 || parse_percent_decode(value) < 0)
			return refuse_entry(ret, "has a bad %XX sequence", problem);
		r = config_pairs_add(s, ret, item, value, problem);
		if (r < 0)
			return r;
	}
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

/* --- storage to text */

/* A YAML double-quoted scalar. */
static int format_string(struct buf *b, const char *text)
{
	int r = buf_putc(b, '"');

	for (; *text && r == 0; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			r = buf_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			r = buf_printf(b, "\\x%02x", c);
		else
			r = buf_putc(b, (char)c);
	}
	return r < 0 ? r : buf_putc(b, '"');
}

static int format_list(struct buf *b, const struct config_list *list)
{
	int r = buf_putc(b, '[');

	for (size_t i = 0; i < list->n && r == 0; i++) {
		r = i ? buf_puts(b, ", ") : 0;
		if (r == 0)
			r = format_string(b, list->items[i]);
	}
	return r < 0 ? r : buf_putc(b, ']');
}

static int format_pairs(struct buf *b, const struct config_pairs *pairs, bool secret)
{
	int r = buf_putc(b, '{');

	for (size_t i = 0; i < pairs->n && r == 0; i++) {
		r = i ? buf_puts(b, ", ") : 0;
		if (r == 0)
			r = format_string(b, pairs->items[i].key);
		if (r == 0)
			r = buf_puts(b, ": ");
		if (r == 0)
			r = format_string(b, secret ? "***" : pairs->items[i].value);
	}
	return r < 0 ? r : buf_putc(b, '}');
}

static int format_enum(struct buf *b, const char *accepted, unsigned value)
{
	for (; value && *accepted; value--)
		accepted += strcspn(accepted, ",") + 1;
	return buf_append(b, accepted, strcspn(accepted, ","));
}

int config_value_format(const struct config_spec *s, const void *value, struct buf *b)
{
	switch (s->type) {
	case CONFIG_BOOL:
	case CONFIG_FLAG:
		return buf_puts(b, *(const bool *)value ? "on" : "off");
	case CONFIG_U32:
		return buf_printf(b, "%" PRIu32, *(const uint32_t *)value);
	case CONFIG_DURATION:
	case CONFIG_SECONDS:
	case CONFIG_SIZE:
		return format_amount(s->type, *(const uint64_t *)value, b);
	case CONFIG_FRACTION:
		return buf_printf(b, "%g%%", *(const double *)value * 100);
	case CONFIG_ENUM:
		return format_enum(b, s->accepted, *(const unsigned *)value);
	case CONFIG_STRING:
		if (!*(char *const *)value)
			return buf_puts(b, s->flags & CONFIG_OFF_IS_NULL ? "off" : "\"\"");
		return format_string(b, s->flags & CONFIG_SECRET ? "***" : *(char *const *)value);
	case CONFIG_LIST:
		return format_list(b, value);
	case CONFIG_PAIRS:
		return format_pairs(b, value, s->flags & CONFIG_SECRET);
	case CONFIG_ALIAS:
		break;
	}
	return 0;
}
