// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/check/check.h"
#include "agent/check/check_view.h"
#include "agent/command/cmd.h"
#include "agent/config/config.h"
#include "agent/config/secrets.h"

static int print_report(const struct check_report *report, bool json)
{
	_cleanup_buf_ struct buf text = {0};
	int r = json ? check_format_json(report, &text) : check_format_text(report, &text);

	if (r == 0 && (fputs(buf_str(&text), stdout) == EOF || fflush(stdout) == EOF))
		r = -errno;
	return r;
}

static void print_help(const struct config_extra_option *options, size_t n)
{
	puts("Usage: proflet check [OPTION]...\n\n"
	     "Says for each thing that the agent needs whether it is there (ok), partly there (degraded: it "
	     "works with less)\n"
	     "or missing (fails), why, and what to change. Exit code 0: run would work; 3: it lacks "
	     "permissions; 1: else.\n");
	config_help(stdout, options, n);
}

int cmd_check(int argc, char **argv)
{
	bool json = false;
	const struct config_extra_option options[] = {
		{.name = "json", .type = CONFIG_FLAG, .target = &json, .help = "print a JSON array"},
	};
	_cleanup_config_ struct config *config = NULL;
	_cleanup_free_ char *error = NULL;
	struct check_report report;
	int r = config_load(&config, argc, argv, options, ARRAY_SIZE(options), NULL, &error);

	if (r == CONFIG_HELP_ASKED) {
		print_help(options, ARRAY_SIZE(options));
		return EXIT_DONE;
	}
	if (r < 0) {
		fprintf(stderr, "%s\n", error ? error : "proflet: out of memory");
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	(void)secrets_settle(config);
	check_run(&check_view_real, config, &report);
	r = print_report(&report, json);
	if (r < 0) {
		fprintf(stderr, "proflet: the report cannot be printed: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	return check_exit_code(&report);
}
