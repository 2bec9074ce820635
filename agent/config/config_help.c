// SPDX-License-Identifier: Apache-2.0
/* The table of keys as text: options for --help, the effective values as YAML. */
#include <string.h>

#include "agent/config/config.h"
#include "agent/config/config_keys.h"

#define HELP_COLUMN 34
#define HELP_WIDTH 100

static const char *value_name(const char *given, enum config_type type)
{
	if (given)
		return given;
	switch (type) {
	case CONFIG_BOOL:
		return "on|off";
	case CONFIG_U32:
		return "N";
	case CONFIG_DURATION:
	case CONFIG_SECONDS:
		return "DURATION";
	case CONFIG_SIZE:
		return "SIZE";
	case CONFIG_FRACTION:
		return "PERCENT";
	case CONFIG_LIST:
		return "A,B";
	default:
		return "VALUE";
	}
}

/* Prints the text from HELP_COLUMN on, broken between words. */
static void print_wrapped(FILE *out, const char *text)
{
	size_t room = HELP_WIDTH - HELP_COLUMN;

	while (strlen(text) > room) {
		size_t n = room;

		while (n && text[n] != ' ')
			n--;
		if (!n) /* a single long word */
			n = strcspn(text, " ");
		if (!text[n])
			break;
		fprintf(out, "%.*s\n%*s", (int)n, text, HELP_COLUMN, "");
		text += n + 1;
	}
	fprintf(out, "%s\n", text);
}

/* The help text, then the accepted names and the default, where there are any. */
static void print_line(FILE *out, const char *left, const char *help, const char *names, const char *value)
{
	_cleanup_buf_ struct buf text = {0};
	int width = (int)strlen(left), r = buf_puts(&text, help);

	if (r == 0 && names)
		r = buf_puts(&text, ": ");
	for (; r == 0 && names && *names; names++)
		r = buf_putc(&text, *names == ',' ? '|' : *names);
	if (r == 0 && value)
		r = buf_printf(&text, " [%s]", value);
	if (r < 0)
		return;
	fputs(left, out);
	if (width > HELP_COLUMN - 2) {
		fputc('\n', out);
		width = 0;
	}
	fprintf(out, "%*s", HELP_COLUMN - width, "");
	print_wrapped(out, buf_str(&text));
}

static void print_key(FILE *out, const struct config_key *key)
{
	const char *name =
		key->spec.type == CONFIG_ENUM ? "VALUE" : value_name(key->value_name, key->spec.type);
	_cleanup_buf_ struct buf left = {0};

	if (key->group)
		fprintf(out, "\n%s:\n", key->group);
	if (buf_printf(&left, "  --%s %s", key->name, name) == 0)
		print_line(out, buf_str(&left), key->help,
			   key->spec.type == CONFIG_ENUM ? key->spec.accepted : NULL, key->default_text);
}

static void print_extra(FILE *out, const struct config_extra_option *e)
{
	_cleanup_buf_ struct buf left = {0};
	const char *name = value_name(e->value_name, e->type);
	int r = buf_puts(&left, "  ");

	if (r == 0 && e->short_name)
		r = buf_printf(&left, "-%c%s", e->short_name, e->name ? ", " : "");
	if (r == 0 && e->name)
		r = buf_printf(&left, "--%s", e->name);
	if (r == 0 && e->type != CONFIG_FLAG)
		r = buf_printf(&left, " %s", name);
	if (r == 0)
		print_line(out, buf_str(&left), e->help ? e->help : "", NULL, NULL);
}

void config_help(FILE *out, const struct config_extra_option *extra, size_t n_extra)
{
	fputs("Options:\n", out);
	for (size_t i = 0; i < n_extra; i++)
		print_extra(out, &extra[i]);
	print_line(out, "  --config FILE", "read a YAML file with the keys below", NULL, "$PROFLET_CONFIG");
	print_line(out, "  -h, --help", "print this text", NULL, NULL);
	for (size_t i = 0; i < config_n_keys; i++)
		print_key(out, &config_keys[i]);
	fputs("\nA configuration file can set each of these keys, too (also nested: \"sampling: {frequency: "
	      "97}\"),\n"
	      "and so can an environment variable (PROFLET_SAMPLING_FREQUENCY). The OTEL_EXPORTER_OTLP_* "
	      "variables\n"
	      "and OTEL_RESOURCE_ATTRIBUTES work as well. Options override the environment, which overrides "
	      "the\n"
	      "file.\n",
	      out);
}

static int dump_origin(const struct config *c, const struct config_origin *origin, struct buf *b)
{
	switch (origin->source) {
	case CONFIG_FROM_FILE:
		return buf_printf(b, " # %s:%u\n", c->file ? c->file : "file", origin->line);
	case CONFIG_FROM_ENVIRONMENT:
	case CONFIG_FROM_OPTION:
		return buf_printf(b, " # %s\n", origin->name);
	case CONFIG_FROM_DEFAULT:
		break;
	}
	return buf_puts(b, " # default\n");
}

int config_dump(const struct config *c, struct buf *b)
{
	int r = 0;

	for (size_t i = 0; i < config_n_keys && r == 0; i++) {
		r = buf_printf(b, "%s: ", config_keys[i].name);
		if (r == 0)
			r = config_value_format(&config_keys[i].spec, (const char *)c + config_keys[i].offset,
						b);
		if (r == 0)
			r = dump_origin(c, &c->origins[i], b);
	}
	return r;
}
