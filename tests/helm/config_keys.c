// SPDX-License-Identifier: Apache-2.0
/*
 * Prints the agent's table of configuration keys for scripts. Without arguments: as JSON, one object per key,
 * from which helm/generate makes the chart's schema and deploy/generate the manual. With --load FILE...: one
 * line for each file, "ok" or the agent's error; exit 1 if it refuses one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config.h"
#include "agent/config/config_check.h"
#include "agent/config/config_keys.h"

static const char *const types[] = {
	[CONFIG_BOOL] = "bool",	    [CONFIG_U32] = "integer",	   [CONFIG_DURATION] = "duration",
	[CONFIG_SIZE] = "size",	    [CONFIG_FRACTION] = "percent", [CONFIG_ENUM] = "enum",
	[CONFIG_STRING] = "string", [CONFIG_LIST] = "list",	   [CONFIG_PAIRS] = "pairs"};

static void print_string(const char *name, const char *value)
{
	printf(", \"%s\": \"", name);
	for (; *value; value++)
		printf(*value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	putchar('"');
}

static const char *form_of(const struct config_spec *spec)
{
	static const struct {
		config_check_fn check;
		const char *form;
	} forms[] = {{config_check_endpoint, "endpoint"},  {config_check_url, "url"},
		     {config_check_listen, "listen"},	   {config_check_selector, "selector"},
		     {config_check_pem_file, "file"},	   {config_check_headers_file, "file"},
		     {config_check_directory, "directory"}};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (spec->check == forms[i].check)
			return forms[i].form;
	return spec->check ? "unknown" : NULL;
}

static int print_key(const struct config_key *key)
{
	const struct config_spec *s = &key->spec;
	const char *form = form_of(s);
	_cleanup_buf_ struct buf accepted = {0};
	int r = config_value_describe(s, &accepted);

	if (r < 0)
		return r;
	printf("{\"name\": \"%s\", \"type\": \"%s\"", key->name, types[s->type]);
	if (s->min || s->max)
		printf(", \"min\": %" PRIu64 ", \"max\": %" PRIu64, s->min, s->max);
	if (s->accepted)
		print_string("names", s->accepted);
	if (form)
		print_string("form", form);
	if (key->default_text)
		print_string("default", key->default_text);
	printf(", \"off\": %s, \"headers\": %s, \"required\": %s",
	       s->flags & CONFIG_OFF_IS_NULL ? "true" : "false", s->flags & CONFIG_HEADERS ? "true" : "false",
	       s->flags & CONFIG_REQUIRED ? "true" : "false");
	if (key->group)
		print_string("group", key->group);
	if (key->otel)
		print_string("otel", key->otel);
	if (key->value_name)
		print_string("value", key->value_name);
	print_string("accepted", buf_str(&accepted));
	print_string("help", key->help);
	putchar('}');
	return 0;
}

static int load(const char *path)
{
	char *argv[] = {(char *)"run", (char *)"--config", (char *)path, NULL};
	_cleanup_free_ char *error = NULL;
	struct config *config = NULL;
	int r = config_load(&config, 3, argv, NULL, 0, NULL, &error);

	puts(r < 0 ? error ? error : strerror(-r) : "ok");
	config_free(config);
	return r;
}

int main(int argc, char **argv)
{
	int r = 0;

	if (argc > 1 && strcmp(argv[1], "--load") == 0) {
		for (int i = 2; i < argc; i++)
			r |= load(argv[i]) < 0;
		return r;
	}
	for (size_t i = 0; i < config_n_keys && r == 0; i++) {
		fputs(i ? ",\n " : "[", stdout);
		r = print_key(&config_keys[i]);
	}
	puts("]");
	return r < 0;
}
