// SPDX-License-Identifier: Apache-2.0
/* Values and what is accepted for them, as text for error lines, the help and the dump. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/config/config_value.h"

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
