// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/config/config_keys.h"

#define WIDTH 100

/* The help as it is printed; owned. */
static char *help(const struct config_extra_option *extra, size_t n)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(out);
	config_help(out, extra, n);
	fclose(out);
	return text;
}

/* The text with every run of blanks and newlines as one blank, in place. */
static char *joined(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		bool blank = *from == ' ' || *from == '\n';

		if (!blank)
			*to++ = *from;
		else if (to > text && to[-1] != ' ')
			*to++ = ' ';
	}
	*to = '\0';
	return text;
}

Test(config_help, every_key_is_an_option_and_in_the_help)
{
	_cleanup_free_ char *text = help(NULL, 0);

	for (size_t i = 0; i < config_n_keys; i++) {
		char needle[80];

		snprintf(needle, sizeof needle, "  --%s ", config_keys[i].name);
		cr_assert(strstr(text, needle), "%s", needle);
		cr_assert_eq(config_key_find(config_keys[i].name), (int)i);
	}
}

Test(config_help, each_text_stands_alone)
{
	static const char *const fragments[] = {"of ", "for ", "the same", "as above", "more "};

	for (size_t i = 0; i < config_n_keys; i++) {
		const char *text = config_keys[i].help;
		size_t blanks = 0;

		cr_assert(text && *text, "%s", config_keys[i].name);
		for (const char *p = text; *p; p++)
			blanks += *p == ' ';
		cr_expect_geq(blanks, 3u, "%s: \"%s\" is too short", config_keys[i].name, text);
		for (size_t j = 0; j < ARRAY_SIZE(fragments); j++)
			cr_expect_neq(strncmp(text, fragments[j], strlen(fragments[j])), 0,
				      "%s: \"%s\" needs its context", config_keys[i].name, text);
	}
}

Test(config_help, is_wrapped_between_words)
{
	_cleanup_free_ char *text = help(NULL, 0), *whole = joined(help(NULL, 0));
	char *next = text;

	for (char *line; (line = strsep(&next, "\n"));)
		cr_expect_leq(strlen(line), WIDTH, "%s", line);
	for (size_t i = 0; i < config_n_keys; i++)
		cr_expect(strstr(whole, config_keys[i].help), "a part of \"%s\" is missing",
			  config_keys[i].help);
	cr_expect(strstr(whole, " compression of export requests: gzip|zstd|none [gzip] "));
}

Test(config_help, options_of_a_command_come_first)
{
	bool flag = false;
	char *target = NULL;
	const struct config_extra_option extra[] = {
		{.short_name = 'x', .name = "extra", .type = CONFIG_FLAG, .target = &flag, .help = "does it"},
		{.name = "path",
		 .type = CONFIG_STRING,
		 .target = &target,
		 .value_name = "PATH",
		 .help = "a word of more than a line: "
			 "0123456789012345678901234567890123456789012345678901234567890123456789012345 end"},
	};
	_cleanup_free_ char *text = help(extra, ARRAY_SIZE(extra));
	const char *first = strstr(text, "\n  -x, --extra                     does it\n"),
		   *second =
			   strstr(text, "\n  --path PATH                     a word of more than a line:\n");

	cr_assert(first && second && first < second, "%s", text);
	cr_expect_lt(second, strstr(text, "--config FILE"));
	cr_expect(strstr(text, "9012345\n                                  end\n"), "%s", text);
}
