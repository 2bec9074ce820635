// SPDX-License-Identifier: Apache-2.0
/* The options that a command declares beside the keys. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/parse.h"
#include "agent/config/config.h"

struct values {
	uint64_t duration_ns;
	uint32_t number;
	bool flag;
	char *text;
	struct config_list pids, formats;
};

static const char *check_pid(const char *text)
{
	uint32_t pid;

	return parse_u32(text, &pid) < 0 || pid == 0 ? "is no process id" : NULL;
}

#define N_EXTRA 7

static void declare(struct values *v, struct config_extra_option extra[N_EXTRA])
{
	const struct config_extra_option table[N_EXTRA] = {
		{'d', "duration", CONFIG_SECONDS, &v->duration_ns, .min = 1000000, .max = 3600000000000ull,
		 .help = "how long [10s]"},
		{'F', "frequency", CONFIG_ALIAS, .alias = "sampling.frequency", .value_name = "HZ",
		 .help = "rate"},
		{'p', "pid", CONFIG_LIST, &v->pids, .check = check_pid, .form = "a process id",
		 .value_name = "PID"},
		{'o', NULL, CONFIG_STRING, &v->text, .value_name = "PATH"},
		{0, "format", CONFIG_LIST, &v->formats, .accepted = "html,folded,pprof,otlp"},
		{.short_name = 'n', .type = CONFIG_U32, .target = &v->number},
		{.short_name = 'j', .name = "json", .type = CONFIG_FLAG, .target = &v->flag},
	};

	*v = (struct values){.duration_ns = 10000000000ull};
	memcpy(extra, table, sizeof table);
}

static void values_fini(struct values *v)
{
	free(v->text);
	config_list_free(&v->pids);
	config_list_free(&v->formats);
}

static int parse(const char *options, struct values *v, struct config **c, int *first, char **error)
{
	struct config_extra_option extra[N_EXTRA];
	char *argv[24] = {(char *)"record"};
	static char text[256];
	int argc = 1;

	declare(v, extra);
	snprintf(text, sizeof text, "%s", options);
	for (char *rest = text, *word; (word = strsep(&rest, " "));)
		if (*word)
			argv[argc++] = word;
	return config_load(c, argc, argv, extra, N_EXTRA, first, error);
}

Test(config_options, a_command_declares_its_own)
{
	_cleanup_config_ struct config *c = NULL;
	_cleanup_free_ char *error = NULL;
	struct values v;
	int first = 0;

	cr_assert_eq(
		parse("-d 3s -F99 -p 1 -p 2,3 -o out --format html,folded --json -n 7 --window 1s cmd -x", &v,
		      &c, &first, &error),
		0, "%s", error);
	cr_assert_eq(v.duration_ns, 3000000000ull);
	cr_assert_eq(c->sampling.frequency, 99u);
	cr_assert_str_eq(config_origin(c, "sampling.frequency")->name, "-F");
	cr_assert_eq(v.pids.n, 3u);
	cr_assert_str_eq(v.pids.items[2], "3");
	cr_assert_str_eq(v.text, "out");
	cr_assert_eq(v.formats.n, 2u);
	cr_assert(v.flag);
	cr_assert_eq(v.number, 7u);
	cr_assert_eq(c->window_ns, 1000000000ull);
	cr_assert_eq(first, 17);
	values_fini(&v);
}

Test(config_options, seconds_need_no_unit)
{
	static const struct {
		const char *options;
		uint64_t ns;
	} cases[] = {{"-d 5", 5000000000ull},
		     {"-d 0.5", 500000000ull},
		     {"-d 250ms", 250000000ull},
		     {"-d 1m", 60000000000ull}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *c = NULL;
		_cleanup_free_ char *error = NULL;
		struct values v;
		int first = 0;

		cr_assert_eq(parse(cases[i].options, &v, &c, &first, &error), 0, "%s", error);
		cr_expect_eq(v.duration_ns, cases[i].ns, "%s", cases[i].options);
		values_fini(&v);
	}
}

static const struct {
	const char *options;
	int r, first;
	const char *error;
} cases[] = {
	{"", 0, 1, NULL},
	{"--", 0, 2, NULL},
	{"-- --json", 0, 2, NULL},
	{"-j -- -d", 0, 3, NULL},
	{"a -d", 0, 1, NULL},
	{"- x", 0, 1, NULL},
	{"--duration=1m", 0, 2, NULL},
	{"-h", CONFIG_HELP_ASKED, -1, NULL},
	{"--window 1s --help --nonsense", CONFIG_HELP_ASKED, -1, NULL},
	{"-d", -EINVAL, -1,
	 "proflet: option -d: has no value; accepted is a number of seconds or a duration from 1ms to 1h, "
	 "such as 10s"},
	{"-d abc", -EINVAL, -1,
	 "proflet: option -d: \"abc\" is not a number of seconds or a duration from 1ms to 1h, such as 10s"},
	{"-d .", -EINVAL, -1,
	 "proflet: option -d: \".\" is not a number of seconds or a duration from 1ms to 1h, such as 10s"},
	{"--duration 2h", -EINVAL, -1,
	 "proflet: option --duration: \"2h\" is not a number of seconds or a duration from 1ms to 1h, such "
	 "as 10s"},
	{"-F 0", -EINVAL, -1, "proflet: option -F: \"0\" is not a whole number from 1 to 10000"},
	{"-F", -EINVAL, -1, "proflet: option -F: has no value; accepted is a whole number from 1 to 10000"},
	{"-p 1 -p x", -EINVAL, -1, "proflet: option -p: \"x\" is no process id; accepted is a process id"},
	{"--format svg", -EINVAL, -1,
	 "proflet: option --format: \"svg\" is not one of html, folded, pprof, otlp"},
	{"--json=1", -EINVAL, -1, "proflet: option --json: takes no value"},
	{"-jd", -EINVAL, -1, "proflet: option -j: takes no value"},
	{"-n -1", -EINVAL, -1, "proflet: option -n: \"-1\" is not a whole number"},
	{"--formt html", -EINVAL, -1, "proflet: option --formt: unknown option; did you mean --format?"},
	{"-z", -EINVAL, -1, "proflet: option -z: unknown option; \"proflet help record\" lists the options"},
};

Test(config_options, ends_and_errors)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *c = NULL;
		_cleanup_free_ char *error = NULL;
		struct values v;
		int first = -1;

		cr_expect_eq(parse(cases[i].options, &v, &c, &first, &error), cases[i].r, "row %zu: %s", i,
			     error);
		cr_expect_eq(first, cases[i].first, "row %zu: %d", i, first);
		cr_expect_eq(!error, !cases[i].error, "row %zu", i);
		if (error && cases[i].error)
			cr_expect_str_eq(error, cases[i].error);
		values_fini(&v);
	}
}
